"""Copies the undamaged batches of a log, byte for byte, and reports the holes between them.

A batch is kept if its header, its checksum and each of its records are undamaged, and if its
offsets are below the next segment's. Logs whose undamaged batches are not in order are rearranged
instead (`batch_arrangement.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.checks.log.checker import LogRangeCheck, open_checked_log
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.filled_source import UnreadableRanges
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.findings import log as codes
from kfmt_cli.findings.damage import BATCH_TRUNCATED, GARBAGE
from kfmt_cli.findings.finding import Finding, is_error
from kfmt_cli.findings.partition import SEGMENTS_OVERLAP
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.log.block import BATCH_HEADER_BYTES, Block, split_runs
from kfmt_cli.log.decoding import split_resolved_runs
from kfmt_cli.log.decompression import decompress_ahead, must_decode_separately
from kfmt_cli.log.log_opening import OpenLog
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.writers.convert.reencoded_batch import (
    ProducerIdAndEpoch,
    ReencodedBatch,
    reencode_batch,
)
from kfmt_cli.writers.salvage.batch_arrangement import UndamagedBatches
from kfmt_cli.writers.salvage.holes import NO_END, HoleTracker, LogHole, SalvageCounts, WriteBytes
from kfmt_cli.writers.salvage.unreadable_parts import UnreadableParts

# Codes for a batch that may be undamaged, but misplaced.
_MISPLACED_CODES = (codes.OFFSETS_BACKWARDS, codes.OFFSET_OUT_OF_SEGMENT)
# Codes for bytes that are not a complete batch. Their findings contain the number of bytes.
_SIZED_CODES = (GARBAGE, BATCH_TRUNCATED)
MAX_TRUNCATED_BATCH_BYTES = 64 << 20  # bytes of a batch that the end of the file truncates
_SCANNED_COLUMNS = (
    *("position", "size", "base_offset", "last_offset", "crc"),
    "partition_leader_epoch",
)


@dataclass(frozen=True, slots=True)
class _CheckedBatchRun:
    """A checked run of batches."""

    run: Block
    range_check: LogRangeCheck
    is_undamaged: BoolArray
    """The mask of undamaged batches, whatever their order."""
    remains: list[ReencodedBatch]
    """The remains of the damaged batches."""


@dataclass(slots=True)
class ScannedLog:
    """The result of scanning a log."""

    log: InputFile
    undamaged_batches: UndamagedBatches
    n_bytes: int
    header_positions: IntArray
    """The position of every batch with a header."""
    damage_codes: list[tuple[int, str]]
    """Position and finding code of each error."""
    remains: list[ReencodedBatch]
    producers: set[ProducerIdAndEpoch]
    """The producers of transactions in the undamaged batches."""


@dataclass(slots=True)
class Salvager:
    """Salvages the logs of one partition, in order."""

    limit: DecompressionLimit
    jobs: int
    keeps_remains: bool = False
    """Whether to keep the readable records of damaged batches."""
    unreadable_parts: UnreadableParts = field(default_factory=UnreadableParts)
    """The unreadable bytes of the logs."""
    last_offset: int = -1
    """The last offset of the batches kept."""
    producers: set[ProducerIdAndEpoch] = field(default_factory=set)
    """The producers of transactions in the batches kept, by id and epoch."""

    def scan(
        self,
        log: InputFile,
        base_offset: int,
        is_replacement: bool,
        on_findings: Callable[[list[Finding]], None],
        on_progress: Callable[[int], None],
    ) -> ScannedLog:
        """Scan a log without writing; raises InputError. base_offset: the segment's base offset."""
        tables: list[IntArray] = []
        position_arrays: list[IntArray] = []
        damage_codes: list[tuple[int, str]] = []
        remains: list[ReencodedBatch] = []
        producers: set[ProducerIdAndEpoch] = set()
        with open_checked_log(
            log, read_ahead=False, wrap_source=self.unreadable_parts.fill_source
        ) as opened_log:
            log_check = LogRangeCheck(True, self.limit, base_offset)
            for checked_run in self._iter_checked_runs(log, opened_log, base_offset, on_progress):
                findings = self._omit_filler_findings(
                    log, checked_run.run, log_check.merge_later(checked_run.range_check)
                )
                on_findings(findings)
                errors = filter(is_error, findings)
                damage_codes += ((error.position or 0, error.code.name) for error in errors)
                remains += checked_run.remains
                batches = checked_run.run.batches
                rows = np.flatnonzero(checked_run.is_undamaged)
                tables.append(np.array([batches[column][rows] for column in _SCANNED_COLUMNS]))
                position_arrays.append(batches.position.copy())
                producers |= _transactional_producers(batches, rows)
            size = opened_log.reader.bytes_read
        columns = np.concatenate([np.empty((len(_SCANNED_COLUMNS), 0), np.int64), *tables], axis=1)
        order = np.argsort(columns[0], kind="stable")
        position, batch_size, first, last, crc, epoch = columns[:, order]
        undamaged_batches = UndamagedBatches(
            base_offset, position, batch_size, first, last, crc, epoch, is_replacement
        )
        header_positions = np.concatenate([np.empty(0, np.int64), *position_arrays])
        return ScannedLog(
            log, undamaged_batches, size, header_positions, damage_codes, remains, producers
        )

    def _iter_checked_runs(
        self,
        log: InputFile,
        opened_log: OpenLog,
        base_offset: int,
        on_progress: Callable[[int], None],
    ) -> Iterator[_CheckedBatchRun]:
        """Check the runs of a log's batches, on several threads."""

        def check_run(run: Block) -> _CheckedBatchRun:
            range_check = LogRangeCheck(True, self.limit, base_offset)
            range_check.check_block(run)
            is_undamaged = _undamaged_mask(
                run, range_check.findings, self.unreadable_parts.file_ranges(log)
            )
            remains: list[ReencodedBatch] = []
            if self.keeps_remains:
                reencoded_batches = self._reencode_damaged(
                    log, opened_log, run, is_undamaged, range_check.findings
                )
                remains = [
                    batch
                    for batch in reencoded_batches
                    if batch is not None and _fits_in_segment(batch, base_offset)
                ]
            return _CheckedBatchRun(run, range_check, is_undamaged, remains)

        workers = self.jobs if opened_log.is_large else 0
        yield from map_ordered(
            check_run,
            self._decompress_runs(opened_log.blocks, on_progress),
            workers,
            must_decode_separately,
        )

    def salvage(
        self,
        log: InputFile,
        next_base_offset: int,
        write: WriteBytes,
        on_hole: Callable[[LogHole], None],
        on_findings: Callable[[list[Finding]], None] = lambda _: None,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> SalvageCounts:
        """Salvage the next log, in which the offsets of undamaged batches increase; raises
        InputError.

        next_base_offset: the base offset of the next segment that is not empty, or `NO_END`.
        write: receives the bytes of the batches kept. on_hole: receives each hole. on_findings:
        receives the findings.
        """
        base_offset = log.base_offset
        assert base_offset is not None
        result = SalvageCounts(max(self.last_offset, base_offset - 1))
        hole_tracker = HoleTracker(result, on_hole, write, next_base_offset, self.producers)
        with open_checked_log(
            log, read_ahead=False, wrap_source=self.unreadable_parts.fill_source
        ) as opened_log:
            log_check = LogRangeCheck(True, self.limit, base_offset)
            for checked_run in self._iter_checked_runs(log, opened_log, base_offset, on_progress):
                findings = self._omit_filler_findings(
                    log, checked_run.run, log_check.merge_later(checked_run.range_check)
                )
                on_findings(findings)
                self._copy_run(checked_run, hole_tracker, findings)
            result.bytes = opened_log.reader.bytes_read
            hole_tracker.close(
                result.bytes, None if next_base_offset == NO_END else next_base_offset
            )
        self.last_offset = result.last_offset
        return result

    def _omit_filler_findings(
        self, log: InputFile, run: Block, findings: list[Finding]
    ) -> list[Finding]:
        """Omit findings about bytes of filler."""
        unreadable_ranges = self.unreadable_parts.file_ranges(log)
        if not unreadable_ranges.ranges:
            return findings
        batches = run.batches
        reported_findings = []
        for finding in findings:
            position = finding.position or 0
            i = int(np.searchsorted(batches.position, position, side="right")) - 1
            first, size = position, BATCH_HEADER_BYTES
            if finding.code in _SIZED_CODES and isinstance(finding.found, int):
                size = finding.found
            elif i >= 0 and position < batches.position[i] + batches.size[i]:
                first, size = int(batches.position[i]), int(batches.size[i])
            if unreadable_ranges.first_unreadable_position(first, size) is None:
                reported_findings.append(finding)
        return reported_findings

    def _reencode_damaged(
        self,
        log: InputFile,
        opened_log: OpenLog,
        run: Block,
        is_undamaged: BoolArray,
        findings: list[Finding],
    ) -> Iterator[ReencodedBatch | None]:
        """Re-encode the damaged batches of a run, and a batch that the end of the file truncates.

        Of a batch with unreadable bytes, only the records before these bytes are re-encoded. Yields
        None for a batch without readable records.
        """
        batches, unreadable_ranges = run.batches, self.unreadable_parts.file_ranges(log)
        for i in np.flatnonzero(~is_undamaged).tolist():
            position_in_log, size = int(batches.position[i]), int(batches.size[i])
            end = unreadable_ranges.first_unreadable_position(position_in_log, size)
            if end is None:
                yield reencode_batch(run, i, self.limit, findings)
            else:
                yield self._reencode_start(
                    opened_log, position_in_log, end - position_in_log, findings
                )
        if opened_log.size is None:
            return
        truncation_findings = [
            finding for finding in run.findings if finding.code is BATCH_TRUNCATED
        ]
        for finding in truncation_findings:
            position, n_remaining = finding.position, finding.found
            if position is not None and isinstance(n_remaining, int):
                end = unreadable_ranges.first_unreadable_position(position, n_remaining)
                size = n_remaining if end is None else end - position
                yield self._reencode_start(opened_log, position, size, truncation_findings)

    def _reencode_start(
        self, opened_log: OpenLog, position: int, size: int, findings: list[Finding]
    ) -> ReencodedBatch | None:
        """Re-encode the records in the first `size` bytes of a batch."""
        block = opened_log.reader.read_truncated_batch(
            position, min(size, MAX_TRUNCATED_BATCH_BYTES)
        )
        return None if block is None else reencode_batch(block, 0, self.limit, findings)

    def _decompress_runs(
        self, blocks: Iterator[Block], on_progress: Callable[[int], None]
    ) -> Iterator[Block]:
        for block in blocks:
            on_progress(len(block.data))
            for decompressed_block in decompress_ahead(block, self.limit):
                yield from split_runs(decompressed_block)

    def _copy_run(
        self, checked_run: _CheckedBatchRun, hole_tracker: HoleTracker, findings: list[Finding]
    ) -> None:
        """Copy the undamaged batches whose offsets are free. Remains of damaged batches, written
        before, may already have used them."""
        batches, result = checked_run.run.batches, hole_tracker.result
        is_beyond = batches.last_offset >= hole_tracker.end_offset
        overlaps_previous = ~is_beyond & (batches.base_offset <= result.last_offset)
        omitted_batches = [
            (batch_position, code.name)
            for rows, code in (
                (is_beyond, SEGMENTS_OVERLAP),
                (overlaps_previous, codes.OFFSETS_BACKWARDS),
            )
            for batch_position in batches.position[checked_run.is_undamaged & rows].tolist()
        ]
        hole_tracker.add_run(findings, omitted_batches, checked_run.remains)
        rows = np.flatnonzero(checked_run.is_undamaged & ~is_beyond & ~overlaps_previous)
        position, size = batches.position[rows], batches.size[rows]
        # Copy contiguous batches together.
        run_starts = np.flatnonzero(np.diff(position) != size[:-1]) + 1
        next_row = 0
        for run_rows in np.split(rows, run_starts) if len(rows) else ():
            first_row, last_row = int(run_rows[0]), int(run_rows[-1])
            start, end = int(batches.start[first_row]), int(batches.end[last_row])
            start_position = int(batches.position[first_row])
            hole_tracker.n_batches += first_row - next_row
            hole_tracker.close(start_position, int(batches.base_offset[first_row]))
            hole_tracker.write(memoryview(checked_run.run.data)[start:end])
            result.batches_after += len(run_rows)
            result.bytes_after += end - start
            result.last_offset = int(batches.last_offset[last_row])
            self.producers |= _transactional_producers(batches, run_rows)
            hole_tracker.position = start_position + end - start
            hole_tracker.n_batches = 0
            next_row = last_row + 1
            hole_tracker.previous_offset = result.last_offset
        hole_tracker.n_batches += len(batches) - next_row
        result.batches += len(batches)


def _fits_in_segment(batch: ReencodedBatch, base_offset: int) -> bool:
    """Whether the index of a segment can represent a batch's offsets."""
    return batch.last_offset - base_offset <= MAX_RELATIVE_OFFSET


def _transactional_producers(batches: BatchTable, rows: IntArray) -> set[ProducerIdAndEpoch]:
    """The producers of transactions among some batches."""
    rows = rows[(batches.transactional[rows] == 1) & (batches.is_v2[rows] == 1)]
    id_epoch_pairs = np.unique(
        np.array([batches[name][rows] for name in ("producer_id", "producer_epoch")]), axis=1
    )
    return {(int(id_), int(epoch)) for id_, epoch in id_epoch_pairs.T}


def _undamaged_mask(
    run: Block, findings: list[Finding], unreadable_ranges: UnreadableRanges
) -> BoolArray:
    """The mask of batches without errors and without unreadable bytes.

    Errors in the order of batches do not count: the checksum does not cover the base offset.
    """
    batches = run.batches
    is_undamaged: BoolArray = batches.crc_valid == 1
    if not len(batches):
        return is_undamaged
    is_undamaged &= batches.last_offset >= batches.base_offset
    end_positions = batches.position + batches.size
    error_positions = [
        error.position or 0
        for error in filter(is_error, findings)
        if error.code not in _MISPLACED_CODES
    ]
    if error_positions:
        positions = np.array(error_positions)
        batch_index = np.searchsorted(batches.position, positions, side="right") - 1
        in_batch_mask = (batch_index >= 0) & (positions < end_positions[batch_index])
        is_undamaged[batch_index[in_batch_mask]] = False
    for unreadable_range in unreadable_ranges.ranges_ending_after(int(batches.position[0])):
        if unreadable_range.start >= end_positions[-1]:
            break
        is_undamaged[
            (batches.position < unreadable_range.end) & (end_positions > unreadable_range.start)
        ] = False
    return is_undamaged


@dataclass(frozen=True, slots=True)
class LogOffsetRange:
    """The offset range of the undamaged batches of a log."""

    first: int
    last: int
    is_ordered: bool
    """Whether the offsets increase from batch to batch."""


def find_offset_range(
    log: InputFile, limit: DecompressionLimit, unreadable_parts: UnreadableParts
) -> LogOffsetRange | None:
    """The offset range of the undamaged batches of a log, None without any; raises InputError."""
    first, last, previous_offset, is_ordered = NO_END, -1, -NO_END, True
    with open_checked_log(
        log, read_ahead=True, wrap_source=unreadable_parts.fill_source
    ) as opened_log:
        for run in (
            run for block in opened_log.blocks for run in split_resolved_runs(block, limit)
        ):
            rows = np.flatnonzero(
                _undamaged_mask(run, run.findings, unreadable_parts.file_ranges(log))
            )
            if len(rows):
                base_offsets, last_offsets = (
                    run.batches[name][rows] for name in ("base_offset", "last_offset")
                )
                is_ordered &= bool(
                    (base_offsets > np.append(previous_offset, last_offsets[:-1])).all()
                )
                first = min(first, int(base_offsets.min()))
                last = max(last, int(last_offsets.max()))
                previous_offset = int(last_offsets[-1])
    return None if first == NO_END else LogOffsetRange(first, last, is_ordered)
