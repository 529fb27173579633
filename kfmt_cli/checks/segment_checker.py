"""Check a segment in one pass: its log's batches and records, its indexes, and the log's history of
producers and leaders."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

from kfmt_cli.checks.history.log_history import LogHistory, small_log_histories
from kfmt_cli.checks.index.checker import IndexChecker, IndexCheckState
from kfmt_cli.checks.index.small_segments import find_healthy_index_sizes
from kfmt_cli.checks.log.checker import LogChecker, LogCheckResult, ReturnCapture
from kfmt_cli.checks.log.small_logs import check_small_logs, read_checked_logs
from kfmt_cli.checks.second_look import places_in_doubt
from kfmt_cli.disk.changes import SeenAt
from kfmt_cli.disk.directory_listing import is_segment_log
from kfmt_cli.disk.segment import Segment
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding, FindingCollector
from kfmt_cli.log.block import Block
from kfmt_cli.log.summary.log_summary import LogShapeFactory, LogSummary, summarize_small_logs


@dataclass(slots=True)
class SegmentCheckResult:
    """The result for one segment."""

    log_result: LogCheckResult
    index_findings: list[FindingCollector] = field(default_factory=list)
    """Findings about each of its indexes."""
    index_error: InputError | None = None
    """Why an index could not be read."""
    history: LogHistory | None = None
    """None if the log is not named like a segment."""
    numbers: LogSummary | None = None
    """None if not requested, or if the log has findings, which other readers may classify
    differently."""


@dataclass(frozen=True, slots=True)
class SegmentChecker:
    """Checks segments with some settings."""

    log_checker: LogChecker
    index_checker: IndexChecker
    with_fingerprints: bool = False
    """Whether histories have fingerprints."""
    create_log_shape: LogShapeFactory | None = None
    """Creates the shapes for the numbers of healthy logs; None if numbers are not requested."""

    def iter_findings(
        self,
        segment: Segment,
        on_progress: Callable[[int], None] = lambda _: None,
        on_checked_block: Callable[[Block], None] = lambda _: None,
    ) -> Generator[Finding, None, SegmentCheckResult]:
        """Check a segment that has a log; yields findings about the log as they are made.

        on_progress: called with the number of bytes of each block. on_checked_block: called with
        each block. Raises InputError if the file is not a log.
        """
        log = segment.required_log
        index_state, index_error = self._start_index_check(segment)
        history = LogHistory(log.name, log.base_offset_or_zero) if is_segment_log(log) else None
        if history is not None and self.with_fingerprints:
            history.fingerprint = 0

        log_summary = (
            None if self.create_log_shape is None else LogSummary(self.create_log_shape(log))
        )
        is_log_healthy = True

        def on_block(block: Block) -> None:
            nonlocal is_log_healthy
            is_log_healthy &= not block.findings
            if log_summary is not None and is_log_healthy:
                log_summary.add_block(block)
            # The index check and the history fill columns of control batches and wrappers: they
            # get a copy, because others read the table, too.
            copied_batches = block.batches.copy()
            copied_block = Block(
                block.file_name, block.data, block.data_position, copied_batches, block.findings
            )
            if index_state is not None:
                index_state.add_block(copied_block)
            if history is not None:
                history.add_block(copied_block)
            on_checked_block(copied_block)

        log_result = yield from self.log_checker.iter_findings(log, on_progress, on_block)
        result = SegmentCheckResult(log_result, index_error=index_error, history=history)
        if log_summary is not None and is_log_healthy:
            log_summary.statistics.set_size_and_span(log_result.bytes)
            result.numbers = log_summary
        if index_state is not None:
            result.index_findings += self._iter_index_collectors(index_state, log_result.bytes)
        return result

    def check_segment_group(self, segments: Sequence[Segment]) -> list[SegmentCheckResult | None]:
        """Check small segments together; None for one that must be checked by itself."""
        seen_at = SeenAt()
        small_logs = read_checked_logs(
            [segment.log for segment in segments if segment.log is not None]
        )
        log_histories = small_log_histories(small_logs, with_fingerprints=self.with_fingerprints)
        healthy_index_sizes = find_healthy_index_sizes(
            segments, small_logs, self.index_checker.index_interval_bytes
        )
        log_summaries = (
            None
            if self.create_log_shape is None
            else summarize_small_logs(small_logs, self.create_log_shape)
        )
        results: list[SegmentCheckResult | None] = []
        for segment_index, log_result in enumerate(
            check_small_logs(small_logs, self.log_checker.deep, self.log_checker.limit)
        ):
            if log_result is None:
                results.append(None)
                continue
            result = SegmentCheckResult(log_result, history=log_histories[segment_index])
            if log_summaries is not None:
                result.numbers = log_summaries[segment_index]
            if healthy_index_sizes[segment_index] is None:
                self._check_doubtful_indexes(
                    segments[segment_index], small_logs.file_block(segment_index), result
                )
            # The log was read before its indexes, to which a broker may have added entries since.
            is_doubtful = result.index_error is not None or places_in_doubt(
                finding for findings in result.index_findings for finding in findings
            )
            if is_doubtful and seen_at.has_segment_changed(segments[segment_index]):
                results.append(self._check_healthy_log(segments[segment_index]))
            else:
                results.append(result)
        return results

    def _check_healthy_log(self, segment: Segment) -> SegmentCheckResult | None:
        """Check a segment by itself; None if its log has findings or cannot be read."""
        finding_capture = ReturnCapture(self.iter_findings(segment))
        has_findings = any(True for _ in finding_capture)
        if has_findings or isinstance(finding_capture.value, InputError):
            return None
        return finding_capture.value

    def _check_doubtful_indexes(
        self, segment: Segment, block: Block, result: SegmentCheckResult
    ) -> None:
        """Check the indexes of a healthy log that is a single block."""
        index_state, result.index_error = self._start_index_check(segment)
        if index_state is not None:
            index_state.add_block(block)
            result.index_findings += self._iter_index_collectors(
                index_state, result.log_result.bytes
            )

    def _start_index_check(
        self, segment: Segment
    ) -> tuple[IndexCheckState | None, InputError | None]:
        """Start checking the requested indexes, or return why one of them cannot be read."""
        try:
            return (
                self.index_checker.read_indexes(segment) if segment.requested_index_kinds else None
            ), None
        except InputError as error:
            return None, error

    def _iter_index_collectors(
        self, index_state: IndexCheckState, log_size: int
    ) -> Iterator[FindingCollector]:
        return (
            index_result.findings
            for index_result in self.index_checker.index_results(index_state, log_size)
        )
