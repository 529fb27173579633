"""Check a directory: its names, and its segments relative to each other."""

from __future__ import annotations

from collections.abc import Collection

from kfmt_cli.checks.base import Scope
from kfmt_cli.checks.log.verifier import Verified
from kfmt_cli.checks.partition.base import SegmentFacts
from kfmt_cli.checks.registry import checks_of
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.names import identity
from kfmt_cli.disk.tree import Folder, is_segment
from kfmt_cli.findings.finding import Finding
from kfmt_cli.findings.partition import LOG_NOT_CHECKED


class FolderChecks:
    """The checks of one directory, whose logs come in order."""

    def __init__(self) -> None:
        self._of_partition = [check_type() for check_type in checks_of(Scope.PARTITION)]

    def take(self, file: Input, verified: Verified | None) -> None:
        """Add the next log. verified: None if it could not be read."""
        if not is_segment(file):
            return
        for check in self._of_partition:
            if verified is None:
                check.pass_over()
                continue
            check.take(SegmentFacts(file.name, file.base, verified.bytes, verified.extent))

    def finish(self, folder: Folder, given: Collection[str] = ()) -> list[Finding]:
        """The findings, after the last log. given: real paths of files that are checked as well."""
        of_directory = [check_type() for check_type in checks_of(Scope.DIRECTORY)]
        found = [finding for check in of_directory for finding in check.look(folder)]
        found += (finding for check in self._of_partition for finding in check.finish())
        return [
            finding
            for finding in found
            if finding.code is not LOG_NOT_CHECKED or identity(finding.file) not in given
        ]
