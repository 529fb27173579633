"""Check a directory: its names, and its segments relative to each other."""

from __future__ import annotations

from collections.abc import Collection

from kfmt_cli.checks.base import Scope
from kfmt_cli.checks.log.checker import LogCheckResult
from kfmt_cli.checks.partition.base import SegmentFacts
from kfmt_cli.checks.registry import load_check_classes
from kfmt_cli.disk.directory_listing import DirectoryListing, is_segment_log
from kfmt_cli.disk.file_names import path_identity
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.findings.codes import LOG_NOT_CHECKED
from kfmt_cli.findings.finding import Finding


class DirectoryChecks:
    """The checks of one directory, whose logs come in order."""

    def __init__(self) -> None:
        self._partition_checks = [
            check_class() for check_class in load_check_classes(Scope.PARTITION)
        ]

    def add_log(self, log: InputFile, log_result: LogCheckResult | None) -> None:
        """Add the next log. log_result: None if it could not be read."""
        if not is_segment_log(log):
            return
        for check in self._partition_checks:
            if log_result is None:
                check.skip_segment()
                continue
            check.add_segment(
                SegmentFacts(
                    log.name, log.base_offset_or_zero, log_result.bytes, log_result.offset_range
                )
            )

    def final_findings(
        self, listing: DirectoryListing, checked_identity_paths: Collection[str] = ()
    ) -> list[Finding]:
        """The findings, after the last log. checked_identity_paths: resolved paths of files that
        are checked as well."""
        directory_checks = [check_class() for check_class in load_check_classes(Scope.DIRECTORY)]
        findings = [finding for check in directory_checks for finding in check.check_names(listing)]
        findings += (finding for check in self._partition_checks for finding in check.finish())
        return [
            finding
            for finding in findings
            if finding.code is not LOG_NOT_CHECKED
            or path_identity(finding.file) not in checked_identity_paths
        ]
