"""Check a log: its blocks in reading order, each with all checks, on several threads.

A `LogRangeCheck` has the results for a range of a log. Consecutive ranges are merged, whichever
thread, process or machine checked them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Generic, TypeAlias, TypeVar

from kfmt_cli.checks.base import LogCheck, Scope
from kfmt_cli.checks.log.offset_range import OffsetRange
from kfmt_cli.checks.registry import create_log_checks
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding, sort_findings
from kfmt_cli.log.block import Block, is_legacy, split_runs
from kfmt_cli.log.decoding import read_lazy_records
from kfmt_cli.log.decompression import decompress_ahead, needs_separate_decoding
from kfmt_cli.log.log_opening import OpenLog, SourceWrapper, open_log, unwrapped_source
from kfmt_cli.log.records import RecordColumns

# A process returns at most this many findings; the main process rereads a file with more.
MAX_COLLECTED_FINDINGS = 10_000


def iter_header_checked_blocks(blocks: Iterable[Block], checks: list[LogCheck]) -> Iterator[Block]:
    """Blocks in reading order, each with the findings of the header checks added."""
    for block in blocks:
        header_findings = [
            finding for check in checks for finding in check.check_block(block, None)
        ]
        yield (
            replace(block, findings=sort_findings([*block.findings, *header_findings]))
            if header_findings
            else block
        )


@contextmanager
def open_checked_log(
    file: InputFile, read_ahead: bool, wrap_source: SourceWrapper = unwrapped_source
) -> Iterator[OpenLog]:
    """Open a log whose blocks include findings about their headers, see `open_log`; raises
    InputError."""
    with open_log(file, read_ahead, wrap_source) as log:
        checks = create_log_checks(Scope.HEADERS, log.base_offset)
        yield replace(log, blocks=iter_header_checked_blocks(log.blocks, checks))


def iter_checked_blocks(
    file: InputFile, wrap_source: SourceWrapper = unwrapped_source
) -> Iterator[Block]:
    """The blocks of a log with findings about their headers, see `open_log`; raises InputError."""
    with open_checked_log(file, read_ahead=True, wrap_source=wrap_source) as log:
        yield from log.blocks


@dataclass(slots=True)
class LogRangeCheck:
    """The results for a range of a log whose headers have been checked."""

    deep: bool
    """Whether every record is decoded."""
    limit: DecompressionLimit
    base_offset: int | None = None
    n_records: int = 0
    """The number of decoded records, or else of records that headers declare."""
    offset_range: OffsetRange = field(default_factory=OffsetRange)
    checks: list[LogCheck] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    """The findings about the last block, in file order."""

    def __post_init__(self) -> None:
        if self.deep and not self.checks:
            self.checks = create_log_checks(Scope.RECORDS, self.base_offset)

    def check_block(self, block: Block) -> None:
        """Check the next block; `findings` are then the ones about it."""
        findings = list(block.findings)
        boundary_findings: list[Finding] = []
        for run in split_runs(block):
            if self.deep or is_legacy(run):
                # Checking messages inside wrappers needs decompression in any case.
                records = read_lazy_records(run, self.limit)
                findings += records.findings
                for check, finding in self.check_records(run, records):
                    (boundary_findings if check.needs_previous_batch else findings).append(finding)
            else:
                self.n_records += count_declared_records(run)
                self.offset_range.add_batches(run, None)
        # Findings about a batch and the previous one come first, as they do between blocks.
        self.findings = sort_findings([*boundary_findings, *findings])

    def check_records(self, run: Block, records: RecordColumns) -> list[tuple[LogCheck, Finding]]:
        """Add the records of the next run of batches; returns each check's findings."""
        self.n_records += len(records)
        check_findings = [
            (check, finding) for check in self.checks for finding in check.check_block(run, records)
        ]
        self.offset_range.add_batches(run, records)
        return check_findings

    def merge_later_range(self, later_range: LogRangeCheck) -> list[Finding]:
        """Add the following range; returns its findings and the ones about the boundary."""
        check_pairs = zip(self.checks, later_range.checks, strict=True)
        boundary_findings = [
            finding
            for check, later_check in check_pairs
            for finding in check.merge_later_range(later_check)
        ]
        self.n_records += later_range.n_records
        self.offset_range.merge_later_range(later_range.offset_range)
        return sort_findings([*boundary_findings, *later_range.findings])


def count_declared_records(run: Block) -> int:
    """The number of records that headers declare, without impossible counts."""
    record_counts = run.batches.records_count
    max_record_counts = run.batches.last_offset_delta + 1
    return int(record_counts[(record_counts >= 0) & (record_counts <= max_record_counts)].sum())


ResultT = TypeVar("ResultT")


CheckOutcome: TypeAlias = tuple[ResultT | InputError, list[Finding]]
"""The result of a check, or why it ended early, and its findings up to there."""


class ReturnCapture(Generic[ResultT]):
    """Iterates over the findings of a check and stores its return value."""

    value: ResultT | InputError
    """Set after the last finding; an error if the input cannot be read to its end."""

    def __init__(self, finding_generator: Generator[Finding, None, ResultT]) -> None:
        self._finding_generator = finding_generator

    def __iter__(self) -> Iterator[Finding]:
        try:
            self.value = yield from self._finding_generator
        except InputError as error:
            self.value = error


def collect_check_outcome(
    finding_generator: Generator[Finding, None, ResultT],
) -> CheckOutcome[ResultT] | None:
    """The result of a check; None if it has more findings than `MAX_COLLECTED_FINDINGS`."""
    return_capture = ReturnCapture(finding_generator)
    collected_findings = list(islice(return_capture, MAX_COLLECTED_FINDINGS + 1))
    return (
        (return_capture.value, collected_findings)
        if len(collected_findings) <= MAX_COLLECTED_FINDINGS
        else None
    )


@dataclass(frozen=True, slots=True)
class LogCheckResult:
    """The result for a log: bytes, batches and records read, and its offsets."""

    bytes: int
    batches: int
    records: int
    offset_range: OffsetRange


@dataclass(frozen=True, slots=True)
class LogChecker:
    """Checks logs with some settings."""

    deep: bool
    """Decompress and decode every record."""
    limit: DecompressionLimit
    n_threads: int
    """Threads per file."""

    def iter_findings(
        self,
        file: InputFile,
        on_progress: Callable[[int], None] = lambda _: None,
        on_block: Callable[[Block], None] | None = None,
    ) -> Generator[Finding, None, LogCheckResult]:
        """The findings about one file, in file order; raises InputError.

        on_progress: called with the number of bytes of each block. on_block: called with each
        block, in order, including the findings about its headers.
        """
        with open_checked_log(file, read_ahead=not self.deep) as log:
            merged_check = LogRangeCheck(self.deep, self.limit, log.base_offset)

            def check_single_block(block: Block) -> LogRangeCheck:
                range_check = LogRangeCheck(self.deep, self.limit, log.base_offset)
                range_check.check_block(block)
                return range_check

            n_threads = self.n_threads if self.deep and log.is_large else 0
            blocks = self._iter_prepared_blocks(log.blocks, on_progress, on_block)
            for range_check in map_ordered(
                check_single_block, blocks, n_threads, needs_separate_decoding
            ):
                yield from merged_check.merge_later_range(range_check)
            reader = log.reader
            return LogCheckResult(
                reader.bytes_read,
                reader.n_batches,
                merged_check.n_records,
                merged_check.offset_range,
            )

    def _iter_prepared_blocks(
        self,
        blocks: Iterable[Block],
        on_progress: Callable[[int], None],
        on_block: Callable[[Block], None] | None,
    ) -> Iterator[Block]:
        for block in blocks:
            on_progress(len(block.data))
            if on_block is not None:
                on_block(block)
            if self.deep:
                yield from decompress_ahead(block, self.limit)
            else:
                yield block
