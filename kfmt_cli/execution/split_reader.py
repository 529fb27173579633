"""Reads the batches and records of a split of a file, reporting damage as findings.

Memory is limited to a block and its columns, whatever the file: blocks are divided if their records
decompress to more than a few megabytes (`log/records.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from kfmt_cli.checks.base import BoundaryState, LogCheck, Scope
from kfmt_cli.checks.registry import create_log_checks
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.source import Source, TruncatedSource
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import InputError, KfmtError
from kfmt_cli.execution.bounds import compute_split_bounds
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding, Severity, sort_findings
from kfmt_cli.log.block import Block, split_runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.decompression import decompress_ahead
from kfmt_cli.log.reader import LogReader
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.log.selection.selection import Selection

UNREADABLE_INPUT_CODES = (codes.FILE_VANISHED, codes.FILE_UNREADABLE, codes.DIRECTORY_UNREADABLE)
_CHANGED_FILE_CODES = (
    codes.FILE_VANISHED,
    codes.FILE_UNREADABLE,
    codes.FILE_GREW,
    codes.FILE_SHRANK,
)


class DamagedError(KfmtError):
    """Damage that stops reading, with fail_fast."""


class UnreadableInputError(InputError):
    """An input that could not be read, with raises_if_unreadable."""


def format_unreadable_input(path: str, reason: str) -> str:
    """The message about an input that could not be read, and how to continue without it."""
    reason_text = reason.removeprefix(f"{path}: ")
    return f"{path}: {reason_text}; with the option ignoreUnreadable, the other inputs are read"


@dataclass(slots=True)
class SplitBoundary:
    """Facts about a split that are needed to merge it with its neighbours."""

    begin: int
    """Byte where its first batch begins."""
    end: int
    """Exclusive end of its last batch, as read."""
    batches: int = 0
    """Number of batches."""
    checks: dict[str, BoundaryState] = field(default_factory=dict)
    """Facts from each check, by its `facts_key`."""


@dataclass(slots=True)
class SplitReader:
    """Reads splits."""

    selection: Selection = field(default_factory=Selection)
    decompression_limit: DecompressionLimit = field(default_factory=DecompressionLimit)
    fail_fast: bool = False
    """Stop reading at damage."""
    raises_if_unreadable: bool = False
    """Stop reading at an input that cannot be read, which is not damage."""
    searches_without_index: bool = False
    """See `compute_split_bounds`."""
    findings: list[Finding] = field(default_factory=list)
    """Findings in the split read last."""
    boundary: SplitBoundary | None = None
    """Facts about the split read last; None if no batch begins in it."""

    def iter_blocks(self, split: FileSplit) -> Iterator[Block]:
        """The batches that begin in a split; raises DamagedError for damage with fail_fast,
        UnreadableInputError for an input that cannot be read with raises_if_unreadable."""
        self.findings = []
        self.boundary = None
        if self.report_planning_error(split):
            return
        try:
            source = open_source(split.path)
        except InputError as error:
            self.add_finding(Finding(split.path, codes.FILE_VANISHED, None, str(error)))
            return
        try:
            yield from self._iter_source_blocks(source, split)
        except InputError as error:
            self.add_finding(Finding(split.path, codes.FILE_UNREADABLE, None, str(error)))
        finally:
            source.close()

    def _iter_source_blocks(self, source: Source, split: FileSplit) -> Iterator[Block]:
        current_size = source.size or 0
        has_grown = split.is_last_in_file and current_size > split.file_size
        if split.is_last_in_file and current_size != split.file_size:
            finding_code = codes.FILE_GREW if has_grown else codes.FILE_SHRANK
            message = f"{split.file_size} bytes at planning time, {current_size} now"
            self.add_finding(
                Finding(
                    split.path,
                    finding_code,
                    None,
                    message,
                    expected=split.file_size,
                    found=current_size,
                )
            )
        start_byte, end_byte = compute_split_bounds(source, split, self.searches_without_index)
        # A boundary is not the end of the file: bytes before it are checked with those after it.
        readable_end = min(split.file_size, current_size)
        end_byte = min(end_byte, readable_end)
        if start_byte >= end_byte:
            return
        self.boundary = boundary = SplitBoundary(start_byte, readable_end)
        base_offset = split.base_offset if split.kind is LOG_KIND else None
        checks = create_log_checks(Scope.HEADERS, base_offset)
        for block in LogReader(TruncatedSource(source, readable_end), base_offset).iter_blocks(
            start_byte
        ):
            block_in_split = _select_batches_before(block, end_byte)
            if block_in_split is None:
                boundary.end = _block_position(block)
                return
            if len(block_in_split.batches):
                boundary.batches = int(block_in_split.batches.number[-1]) + 1
            check_findings = [
                finding for check in checks for finding in check.check_block(block_in_split, None)
            ]
            boundary.checks = collect_facts(checks)
            for finding in sort_findings([*block_in_split.findings, *check_findings]):
                # A batch that was being appended during planning continues past the planned end.
                if not (has_grown and finding.code is codes.BATCH_TRUNCATED):
                    self.add_finding(finding)
            yield block_in_split
            if block_in_split is not block:
                boundary.end = int(block.batches.position[len(block_in_split.batches)])
                return

    def iter_record_runs(
        self,
        split: FileSplit,
        decode_records: Callable[[Block, DecompressionLimit], RecordColumns] = read_records,
    ) -> Iterator[tuple[Block, RecordColumns]]:
        """The records of a split, by runs of batches of the same kind."""
        for block in self.iter_blocks(split):
            selected_block = self.selection.select_batches(block) if self.selection else block
            # The findings of the block are already recorded.
            for decompressed_block in decompress_ahead(
                replace(selected_block, findings=[]), self.decompression_limit
            ):
                for finding in decompressed_block.findings:
                    self.add_finding(finding)
                for run in split_runs(decompressed_block):
                    records = decode_records(run, self.decompression_limit)
                    for finding in records.findings:
                        self.add_finding(finding)
                    yield run, records

    @property
    def has_file_changed(self) -> bool:
        """Whether the file is missing, unreadable or of a different size than planned."""
        return any(finding.code in _CHANGED_FILE_CODES for finding in self.findings)

    def report_planning_error(self, split: FileSplit) -> bool:
        """Record a finding if a split could not be read during planning; returns whether that is
        so."""
        if split.read_error:
            self.add_finding(
                Finding(split.path, codes.DIRECTORY_UNREADABLE, None, split.read_error)
            )
        return split.read_error is not None

    def add_finding(self, finding: Finding) -> None:
        """Record a finding; raises DamagedError for damage with fail_fast, UnreadableInputError for
        an input that cannot be read with raises_if_unreadable."""
        if self.fail_fast and finding.code.severity is Severity.ERROR:
            location = "" if finding.position is None else f" byte {finding.position}"
            raise DamagedError(f"{finding.file}{location}: {finding.code.name}: {finding.message}")
        if self.raises_if_unreadable and finding.code in UNREADABLE_INPUT_CODES:
            raise UnreadableInputError(format_unreadable_input(finding.file, finding.message))
        self.findings.append(finding)


def collect_facts(checks: list[LogCheck]) -> dict[str, BoundaryState]:
    """The facts from each check, by its `facts_key`."""
    return {check.facts_key: check.facts for check in checks}


def _block_position(block: Block) -> int:
    """Position of a block in its file."""
    return int(block.batches.position[0]) if len(block.batches) else block.data_position


def _select_batches_before(block: Block, end_byte: int) -> Block | None:
    """The batches of a block that begin before a byte; None if none does."""
    if _block_position(block) >= end_byte:
        return None
    is_before_end = block.batches.position < end_byte
    if is_before_end.all():
        return block
    findings = [
        finding
        for finding in block.findings
        if finding.position is None or finding.position < end_byte
    ]
    return replace(block, batches=block.batches.select_rows(is_before_end), findings=findings)
