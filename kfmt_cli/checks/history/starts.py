"""Partitions set aside and failing starts that no other finding explains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kfmt_cli.broker.start.outcome import STRAY, UNSERVED, PredictedStart
from kfmt_cli.checks.history.history_check import StartCheck
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding, Severity, has_errors


class UnservedPartitionCheck(StartCheck):
    """A broker serves the partition."""

    def check_start(self, start: PredictedStart, findings: Iterable[Finding]) -> Iterator[Finding]:
        is_reported = any(
            finding.code.name == codes.PARTITION_SET_ASIDE.name for finding in findings
        )
        if start.becomes in (STRAY, UNSERVED) and start.loses_data and not is_reported:
            code = codes.PARTITION_SET_ASIDE
            if start.is_consequence:
                code = replace(code, severity=Severity.NOTE, advice=None)
            yield Finding(start.file, code, None, start.reason_without_file)


class FailingStartsCheck(StartCheck):
    """A broker starts with these files, unless a finding of severity error explains why not."""

    def check_start(self, start: PredictedStart, findings: Iterable[Finding]) -> Iterator[Finding]:
        if start.starts or has_errors(findings):
            return
        code = codes.PARTITION_TWICE if start.is_duplicate else codes.START_FAILS
        if start.failing_offset is not None:
            code = codes.METADATA_LOAD_FAILS
        yield Finding(
            start.file, code, None, start.reason_without_file, offset=start.failing_offset
        )
