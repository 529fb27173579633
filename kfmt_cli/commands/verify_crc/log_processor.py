"""Checks logs in processes: small ones in groups, large ones in splits.

A large log is split at proven batch starts (`execution/bounds.py`), as on Spark. Findings are the
same as from one process, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kfmt_cli.checks.log.checker import (
    MAX_COLLECTED_FINDINGS,
    CheckOutcome,
    LogChecker,
    LogCheckResult,
    LogRangeCheck,
    collect_check_outcome,
)
from kfmt_cli.checks.log.offset_range import OffsetRange
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.execution.file_split import FileSplit, split_files
from kfmt_cli.execution.item_processor import ItemProcessor
from kfmt_cli.findings.finding import Finding, sort_findings
from kfmt_cli.log.decoding import read_lazy_records
from kfmt_cli.log.small_logs import can_read_in_group

if TYPE_CHECKING:
    from kfmt_cli.execution.split_reader import SplitBoundary

MIN_SPLIT_BYTES, MAX_SPLIT_BYTES = 16 << 20, 256 << 20


@dataclass(frozen=True, slots=True)
class LogSplitResult:
    """The result for a split of a log."""

    split: FileSplit
    n_records: int
    offset_range: OffsetRange
    boundary: SplitBoundary | None
    findings: list[Finding]


@dataclass(frozen=True, slots=True)
class LogCheckProcessor(ItemProcessor[InputFile, CheckOutcome[LogCheckResult], LogSplitResult]):
    """Checks logs."""

    log_checker: LogChecker

    def can_group(self, item: InputFile) -> bool:
        return can_read_in_group(item)

    def process_group(
        self, items: Sequence[InputFile]
    ) -> list[CheckOutcome[LogCheckResult] | None]:
        from kfmt_cli.checks.log.small_logs import check_small_logs, read_checked_logs

        results = check_small_logs(
            read_checked_logs(items), self.log_checker.deep, self.log_checker.limit
        )
        return [None if result is None else (result, []) for result in results]

    def process_item(self, item: InputFile) -> CheckOutcome[LogCheckResult] | None:
        return collect_check_outcome(replace(self.log_checker, n_threads=0).iter_findings(item))

    def divide_item(self, item: InputFile, size: int, jobs: int) -> list[FileSplit]:
        if item.kind is not LOG_KIND or not self.log_checker.deep:
            return []
        split_bytes = min(max(-(-size // jobs), MIN_SPLIT_BYTES), MAX_SPLIT_BYTES)
        return list(
            split_files(
                [FileSplit(item.path, item.kind, item.base_offset, size, 0, 0, size)], split_bytes
            )
        )

    def process_split(self, split: FileSplit) -> LogSplitResult | None:
        """Check a split; None if it has too many findings or the file has changed."""
        from kfmt_cli.execution.split_reader import SplitReader, collect_facts

        limit = self.log_checker.limit
        reader = SplitReader(decompression_limit=limit, searches_without_index=True)
        range_check = LogRangeCheck(True, limit, split.base_offset)
        leading_findings: list[Finding] = []
        for batch_run, records in reader.iter_record_runs(split, read_lazy_records):
            for check, finding in range_check.check_records(batch_run, records):
                (leading_findings if check.needs_previous_batch else reader.findings).append(
                    finding
                )
            if len(reader.findings) > MAX_COLLECTED_FINDINGS:
                return None
        if reader.has_file_changed:
            return None
        if reader.boundary is not None:
            reader.boundary.checks |= collect_facts(range_check.checks)
        findings = sort_findings([*leading_findings, *reader.findings])
        return LogSplitResult(
            split, range_check.n_records, range_check.offset_range, reader.boundary, findings
        )

    def merge_results(
        self, split_results: list[LogSplitResult]
    ) -> CheckOutcome[LogCheckResult] | None:
        from kfmt_cli.execution.split_merger import SplitMerger, needs_whole_read

        if needs_whole_read(result.boundary for result in split_results):
            return None
        merger = SplitMerger(split_results[0].split.path)
        findings: list[Finding] = []
        offset_range, n_records = OffsetRange(), 0
        for split_result in split_results:
            split_findings = [
                merger.with_file_batch_index(finding) for finding in split_result.findings
            ]
            boundary_findings = (
                list(merger.merge_boundary(split_result.boundary))
                if split_result.boundary is not None
                else []
            )
            findings += sort_findings([*boundary_findings, *split_findings])
            offset_range.merge_later_range(split_result.offset_range)
            n_records += split_result.n_records
        size = split_results[0].split.file_size
        return LogCheckResult(size, merger.n_batches, n_records, offset_range), findings
