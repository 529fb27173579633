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
from kfmt_cli.findings import codes
from kfmt_cli.findings.codes import BATCH_TRUNCATED, GARBAGE, SEGMENTS_OVERLAP
from kfmt_cli.findings.finding import Finding, is_error
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.log.block import BATCH_HEADER_BYTES, Block, split_runs
from kfmt_cli.log.decoding import iter_runs_with_base_offsets
from kfmt_cli.log.decompression import decompress_ahead, needs_separate_decoding
from kfmt_cli.log.log_opening import OpenLog
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.writers.convert.reencoded_batch import (
    ProducerIdAndEpoch,
    ReencodedBatch,
    reencode_batch,
)
from kfmt_cli.writers.salvage.holes import (
    NO_NEXT_OFFSET,
    HoleTracker,
    LogHole,
    SalvageCounts,
    WriteBytes,
)
from kfmt_cli.writers.salvage.undamaged_batches import UndamagedBatches
from kfmt_cli.writers.salvage.unreadable_parts import UnreadableParts

# Codes for a batch that may be undamaged, but misplaced.
_MISPLACED_CODES = (codes.OFFSETS_BACKWARDS, codes.OFFSET_OUT_OF_SEGMENT, codes.OFFSET_OVERFLOW)
# Codes for bytes that are not a complete batch. Their findings contain the number of bytes.
_CODES_WITH_SIZE = (GARBAGE, BATCH_TRUNCATED)
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

    decompression_limit: DecompressionLimit
    n_threads: int
    recovers_remains: bool = False
    """Whether to keep the readable records of damaged batches."""
    unreadable_parts: UnreadableParts = field(default_factory=UnreadableParts)
    """The unreadable bytes of the logs."""
    last_offset: int = -1
    """The last offset of the batches kept."""
    producers: set[ProducerIdAndEpoch] = field(default_factory=set)
    """The producers of transactions in the batches kept, by id and epoch."""

    def scan_log(
        self,
        log: InputFile,
        base_offset: int,
        is_replacement: bool,
        on_findings: Callable[[list[Finding]], None],
        on_progress: Callable[[int], None],
    ) -> ScannedLog:
        """Scan a log without writing; raises InputError. base_offset: the segment's base offset."""
        column_arrays: list[IntArray] = []
        position_arrays: list[IntArray] = []
        damage_codes: list[tuple[int, str]] = []
        remains: list[ReencodedBatch] = []
        producers: set[ProducerIdAndEpoch] = set()
        with open_checked_log(
            log, read_ahead=False, wrap_source=self.unreadable_parts.filled_source
        ) as opened_log:
            log_check = LogRangeCheck(True, self.decompression_limit, base_offset)
            for checked_run in self._iter_checked_runs(log, opened_log, base_offset, on_progress):
                findings = self._omit_filler_findings(
                    log, checked_run.run, log_check.merge_later_range(checked_run.range_check)
                )
                on_findings(findings)
                errors = filter(is_error, findings)
                damage_codes += ((error.position or 0, error.code.name) for error in errors)
                remains += checked_run.remains
                batches = checked_run.run.batches
                undamaged_rows = np.flatnonzero(checked_run.is_undamaged)
                column_arrays.append(
                    np.array([batches[column][undamaged_rows] for column in _SCANNED_COLUMNS])
                )
                position_arrays.append(batches.position.copy())
                producers |= _transactional_producers(batches, undamaged_rows)
            log_bytes = opened_log.reader.bytes_read
        columns = np.concatenate(
            [np.empty((len(_SCANNED_COLUMNS), 0), np.int64), *column_arrays], axis=1
        )
        row_order = np.argsort(columns[0], kind="stable")
        positions, batch_sizes, first_offsets, last_offsets, crcs, leader_epochs = columns[
            :, row_order
        ]
        undamaged_batches = UndamagedBatches(
            base_offset,
            positions,
            batch_sizes,
            first_offsets,
            last_offsets,
            crcs,
            leader_epochs,
            is_replacement,
        )
        header_positions = np.concatenate([np.empty(0, np.int64), *position_arrays])
        return ScannedLog(
            log, undamaged_batches, log_bytes, header_positions, damage_codes, remains, producers
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
            range_check = LogRangeCheck(True, self.decompression_limit, base_offset)
            range_check.check_block(run)
            is_undamaged = _undamaged_mask(
                run, range_check.findings, self.unreadable_parts.unreadable_ranges(log)
            )
            remains: list[ReencodedBatch] = []
            if self.recovers_remains:
                reencoded_batches = self._iter_reencoded_batches(
                    log, opened_log, run, is_undamaged, range_check.findings
                )
                remains = [
                    reencoded_batch
                    for reencoded_batch in reencoded_batches
                    if reencoded_batch is not None
                    and _fits_in_segment(reencoded_batch, base_offset)
                ]
            return _CheckedBatchRun(run, range_check, is_undamaged, remains)

        n_workers = self.n_threads if opened_log.is_large else 0
        yield from map_ordered(
            check_run,
            self._iter_decompressed_runs(opened_log.blocks, on_progress),
            n_workers,
            needs_separate_decoding,
        )

    def salvage_log(
        self,
        log: InputFile,
        next_base_offset: int,
        write_bytes: WriteBytes,
        on_hole: Callable[[LogHole], None],
        on_findings: Callable[[list[Finding]], None] = lambda _: None,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> SalvageCounts:
        """Salvage the next log, in which the offsets of undamaged batches increase; raises
        InputError.

        next_base_offset: the base offset of the next segment that is not empty, or
        `NO_NEXT_OFFSET`. write_bytes: receives the bytes of the batches kept. on_hole: receives
        each hole. on_findings: receives the findings.
        """
        base_offset = log.base_offset
        assert base_offset is not None
        salvage_counts = SalvageCounts(max(self.last_offset, base_offset - 1))
        hole_tracker = HoleTracker(
            salvage_counts, on_hole, write_bytes, next_base_offset, self.producers
        )
        with open_checked_log(
            log, read_ahead=False, wrap_source=self.unreadable_parts.filled_source
        ) as opened_log:
            log_check = LogRangeCheck(True, self.decompression_limit, base_offset)
            for checked_run in self._iter_checked_runs(log, opened_log, base_offset, on_progress):
                findings = self._omit_filler_findings(
                    log, checked_run.run, log_check.merge_later_range(checked_run.range_check)
                )
                on_findings(findings)
                self._copy_undamaged_batches(checked_run, hole_tracker, findings)
            salvage_counts.bytes = opened_log.reader.bytes_read
            hole_tracker.close_hole(
                salvage_counts.bytes,
                None if next_base_offset == NO_NEXT_OFFSET else next_base_offset,
            )
        self.last_offset = salvage_counts.last_offset
        return salvage_counts

    def _omit_filler_findings(
        self, log: InputFile, run: Block, findings: list[Finding]
    ) -> list[Finding]:
        """Omit findings about bytes of filler."""
        unreadable_ranges = self.unreadable_parts.unreadable_ranges(log)
        if not unreadable_ranges.ranges:
            return findings
        batches = run.batches
        reported_findings = []
        for finding in findings:
            finding_position = finding.position or 0
            batch_index = int(np.searchsorted(batches.position, finding_position, side="right")) - 1
            range_start, range_bytes = finding_position, BATCH_HEADER_BYTES
            if finding.code in _CODES_WITH_SIZE and isinstance(finding.found, int):
                range_bytes = finding.found
            elif (
                batch_index >= 0
                and finding_position < batches.position[batch_index] + batches.size[batch_index]
            ):
                range_start, range_bytes = (
                    int(batches.position[batch_index]),
                    int(batches.size[batch_index]),
                )
            if unreadable_ranges.first_unreadable_position(range_start, range_bytes) is None:
                reported_findings.append(finding)
        return reported_findings

    def _iter_reencoded_batches(
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
        batches, unreadable_ranges = run.batches, self.unreadable_parts.unreadable_ranges(log)
        for batch_index in np.flatnonzero(~is_undamaged).tolist():
            batch_position, n_bytes = (
                int(batches.position[batch_index]),
                int(batches.size[batch_index]),
            )
            readable_end = unreadable_ranges.first_unreadable_position(batch_position, n_bytes)
            if readable_end is None:
                yield reencode_batch(run, batch_index, self.decompression_limit, findings)
            else:
                yield self._reencode_readable_start(
                    opened_log, batch_position, readable_end - batch_position, findings
                )
        if opened_log.size is None:
            return
        truncation_findings = [
            finding for finding in run.findings if finding.code is BATCH_TRUNCATED
        ]
        for finding in truncation_findings:
            truncated_position, n_remaining_bytes = finding.position, finding.found
            if truncated_position is not None and isinstance(n_remaining_bytes, int):
                readable_end = unreadable_ranges.first_unreadable_position(
                    truncated_position, n_remaining_bytes
                )
                n_bytes = (
                    n_remaining_bytes if readable_end is None else readable_end - truncated_position
                )
                yield self._reencode_readable_start(
                    opened_log, truncated_position, n_bytes, truncation_findings
                )

    def _reencode_readable_start(
        self, opened_log: OpenLog, position: int, n_readable_bytes: int, findings: list[Finding]
    ) -> ReencodedBatch | None:
        """Re-encode the records in the first `n_readable_bytes` bytes of a batch."""
        block = opened_log.reader.read_truncated_batch(
            position, min(n_readable_bytes, MAX_TRUNCATED_BATCH_BYTES)
        )
        return (
            None if block is None else reencode_batch(block, 0, self.decompression_limit, findings)
        )

    def _iter_decompressed_runs(
        self, blocks: Iterator[Block], on_progress: Callable[[int], None]
    ) -> Iterator[Block]:
        for block in blocks:
            on_progress(len(block.data))
            for decompressed_block in decompress_ahead(block, self.decompression_limit):
                yield from split_runs(decompressed_block)

    def _copy_undamaged_batches(
        self, checked_run: _CheckedBatchRun, hole_tracker: HoleTracker, findings: list[Finding]
    ) -> None:
        """Copy the undamaged batches whose offsets are free. Remains of damaged batches, written
        before, may already have used them."""
        batches, salvage_counts = checked_run.run.batches, hole_tracker.salvage_counts
        is_beyond_end_offset = batches.last_offset >= hole_tracker.end_offset
        overlaps_previous = ~is_beyond_end_offset & (
            batches.base_offset <= salvage_counts.last_offset
        )
        omitted_batches = [
            (batch_position, code.name)
            for rows, code in (
                (is_beyond_end_offset, SEGMENTS_OVERLAP),
                (overlaps_previous, codes.OFFSETS_BACKWARDS),
            )
            for batch_position in batches.position[checked_run.is_undamaged & rows].tolist()
        ]
        hole_tracker.add_run(findings, omitted_batches, checked_run.remains)
        rows = np.flatnonzero(checked_run.is_undamaged & ~is_beyond_end_offset & ~overlaps_previous)
        positions, sizes = batches.position[rows], batches.size[rows]
        # Copy contiguous batches together.
        split_indexes = np.flatnonzero(np.diff(positions) != sizes[:-1]) + 1
        next_row = 0
        for contiguous_rows in np.split(rows, split_indexes) if len(rows) else ():
            first_row, last_row = int(contiguous_rows[0]), int(contiguous_rows[-1])
            data_start, data_end = int(batches.start[first_row]), int(batches.end[last_row])
            start_position = int(batches.position[first_row])
            hole_tracker.n_dropped_batches += first_row - next_row
            hole_tracker.close_hole(start_position, int(batches.base_offset[first_row]))
            hole_tracker.write_bytes(memoryview(checked_run.run.data)[data_start:data_end])
            salvage_counts.batches_after += len(contiguous_rows)
            salvage_counts.bytes_after += data_end - data_start
            salvage_counts.last_offset = int(batches.last_offset[last_row])
            self.producers |= _transactional_producers(batches, contiguous_rows)
            hole_tracker.hole_position = start_position + data_end - data_start
            hole_tracker.n_dropped_batches = 0
            next_row = last_row + 1
            hole_tracker.previous_offset = salvage_counts.last_offset
        hole_tracker.n_dropped_batches += len(batches) - next_row
        salvage_counts.batches += len(batches)


def _fits_in_segment(batch: ReencodedBatch, base_offset: int) -> bool:
    """Whether the index of a segment can represent a batch's offsets."""
    return batch.last_offset - base_offset <= MAX_RELATIVE_OFFSET


def _transactional_producers(batches: BatchTable, rows: IntArray) -> set[ProducerIdAndEpoch]:
    """The producers of transactions among some batches."""
    rows = rows[(batches.transactional[rows] == 1) & (batches.is_v2[rows] == 1)]
    id_epoch_pairs = np.unique(
        np.array([batches[column][rows] for column in ("producer_id", "producer_epoch")]), axis=1
    )
    return {
        (int(producer_id), int(producer_epoch)) for producer_id, producer_epoch in id_epoch_pairs.T
    }


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
        error_position_array = np.array(error_positions)
        batch_of_error = np.searchsorted(batches.position, error_position_array, side="right") - 1
        is_in_batch = (batch_of_error >= 0) & (error_position_array < end_positions[batch_of_error])
        is_undamaged[batch_of_error[is_in_batch]] = False
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

    first_offset: int
    last_offset: int
    is_ordered: bool
    """Whether the offsets increase from batch to batch."""


def find_offset_range(
    log: InputFile, limit: DecompressionLimit, unreadable_parts: UnreadableParts
) -> LogOffsetRange | None:
    """The offset range of the undamaged batches of a log, None without any; raises InputError."""
    first_offset, last_offset, previous_offset, is_ordered = (
        NO_NEXT_OFFSET,
        -1,
        -NO_NEXT_OFFSET,
        True,
    )
    with open_checked_log(
        log, read_ahead=True, wrap_source=unreadable_parts.filled_source
    ) as opened_log:
        for run in (
            run for block in opened_log.blocks for run in iter_runs_with_base_offsets(block, limit)
        ):
            undamaged_rows = np.flatnonzero(
                _undamaged_mask(run, run.findings, unreadable_parts.unreadable_ranges(log))
            )
            if len(undamaged_rows):
                base_offsets, last_offsets = (
                    run.batches[name][undamaged_rows] for name in ("base_offset", "last_offset")
                )
                is_ordered &= bool(
                    (base_offsets > np.append(previous_offset, last_offsets[:-1])).all()
                )
                first_offset = min(first_offset, int(base_offsets.min()))
                last_offset = max(last_offset, int(last_offsets.max()))
                previous_offset = int(last_offsets[-1])
    return (
        None
        if first_offset == NO_NEXT_OFFSET
        else LogOffsetRange(first_offset, last_offset, is_ordered)
    )
