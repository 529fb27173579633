"""Facts from a log about the entries of its indexes, gathered in one pass over its batches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kfmt_cli.checks.index.entry_rules import EntryTargets, OffsetBatches
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.disk.kinds.fixed_size_rows import (
    OFFSET_INDEX_KIND,
    TIME_INDEX_KIND,
    TRANSACTION_INDEX_KIND,
)
from kfmt_cli.disk.kinds.kind import Kind
from kfmt_cli.formats.control import ABORT
from kfmt_cli.log.block import NO_TIMESTAMP, Block, max_timestamps, slice_block
from kfmt_cli.log.control import fill_control_types
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.rows.log_tables import BatchTable, EntryTable

TIME_ENTRY_COLUMNS = ("offset", "timestamp")


class IndexFacts:
    """Looks up, block by block, the batches that entries point to and that contain their offsets.

    tables: the entries of each index. After the last block, `targets` has the facts about the
    positions in the offset index, `offset_batches` about the offsets in the offset and time
    indexes, `is_not_marker` about the entries of the transaction index. `aborted_transactions`:
    producer, first offset and marker offset of the aborted transactions that are completely in the
    segment. `max_stable_offsets`: for each ABORT marker, by producer and offset, the highest
    possible last stable offset. `markers_of_earlier_transactions`: the ABORT markers, by producer
    and offset, of transactions that began in an earlier segment.
    """

    def __init__(
        self, tables: Mapping[Kind, EntryTable], limit: DecompressionLimit, base_offset: int | None
    ) -> None:
        self._base_offset = base_offset
        no_entries = EntryTable.zeros(0)
        positions = tables.get(OFFSET_INDEX_KIND, no_entries).log_position
        self.targets = EntryTargets.zeros(len(positions))
        self._rows_by_position = np.argsort(positions, kind="stable")
        self._sorted_positions = positions[self._rows_by_position]
        # Gaps between the sorted positions, before the first and after the last.
        self.is_gap_damaged = np.zeros(len(positions) + 1, np.bool_)
        self._tables = tables
        self._rows_by_offset = {
            kind: np.argsort(tables[kind].offset, kind="stable")
            for kind in (OFFSET_INDEX_KIND, TIME_INDEX_KIND)
            if kind in tables
        }
        self.offset_batches = {
            kind: OffsetBatches.zeros(len(order)) for kind, order in self._rows_by_offset.items()
        }
        self._marker_entries = tables.get(TRANSACTION_INDEX_KIND, no_entries)
        self.is_not_marker = np.zeros(len(self._marker_entries), np.bool_)
        self._rows_by_marker = np.argsort(self._marker_entries.last_offset, kind="stable")
        self._limit = limit
        self._open_transactions: dict[int, int] = {}
        self.aborted_transactions: list[tuple[int, int, int]] = []
        self.max_stable_offsets: dict[tuple[int, int], int] = {}
        self.markers_of_earlier_transactions: set[tuple[int, int]] = set()
        self.has_holes = False
        """Whether a batch may have been removed or emptied by compaction; computed only if
        the transaction index has entries."""
        self.batches_end = 0
        self.last_offset = -1
        self.max_timestamp = NO_TIMESTAMP
        self.max_batch_bytes = 0
        self.has_v2 = False

    def add_block(self, block: Block) -> None:
        """Add the batches of the next block."""
        batches = block.batches
        if not len(batches):
            return
        running_last_offsets = np.maximum.accumulate(batches.last_offset).clip(self.last_offset)
        timestamps = max_timestamps(batches)
        previous_max_timestamps = np.concatenate([[self.max_timestamp], timestamps])
        np.maximum.accumulate(previous_max_timestamps, out=previous_max_timestamps)
        self._find_targets(block)
        for kind, rows_by_offset in self._rows_by_offset.items():
            offsets = self._tables[kind].offset[rows_by_offset]
            start, end = np.searchsorted(
                offsets, [self.last_offset, running_last_offsets[-1]], side="right"
            )
            rows = rows_by_offset[start:end]
            if len(rows):
                self._find_offset_batches(
                    block, kind, rows, (running_last_offsets, timestamps, previous_max_timestamps)
                )
        self._check_markers(block)
        if len(self.is_not_marker):
            self._find_holes(batches)
        self.last_offset = int(running_last_offsets[-1])
        self.max_timestamp = int(previous_max_timestamps[-1])
        self.max_batch_bytes = max(self.max_batch_bytes, int(batches.size.max()))
        self.has_v2 |= bool(batches.is_v2.any())
        self.batches_end = int(batches.position[-1] + batches.size[-1])

    def finish(self, log_size: int) -> None:
        """Mark the entries that point into the bytes after the last batch of the log."""
        self._mark_damage(self.batches_end, log_size)

    def _mark_damage(self, start: int, end: int) -> None:
        if start < end:
            start_index, end_index = np.searchsorted(self._sorted_positions, [start, end])
            self.targets.in_damage[self._rows_by_position[start_index:end_index]] = 1

    def _mark_gaps(self, start: int, end: int) -> None:
        """Mark the gaps that contain some of the damaged bytes in [start, end)."""
        start_index = np.searchsorted(self._sorted_positions, start, side="right")
        self.is_gap_damaged[start_index : np.searchsorted(self._sorted_positions, end) + 1] = True

    def undamaged_gap_bytes(self) -> IntArray:
        """The gaps in bytes between the batches that entries point to, without damaged gaps.

        The first begins at the start of the log, the last ends with its last batch.
        """
        clipped_positions = self._sorted_positions.clip(0, self.batches_end)
        lengths = np.diff(clipped_positions, prepend=0, append=self.batches_end)
        undamaged_lengths: IntArray = lengths[~self.is_gap_damaged]
        return undamaged_lengths

    def _find_targets(self, block: Block) -> None:
        """Look up the batches that entries point to, and mark damage."""
        batches = block.batches
        starts = batches.position
        ends = starts + batches.size
        previous_ends = np.concatenate([[self.batches_end], ends[:-1]])
        for i in np.flatnonzero(previous_ends < starts).tolist():
            self._mark_damage(int(previous_ends[i]), int(starts[i]))
            self._mark_gaps(int(previous_ends[i]), int(starts[i]))
        for i in np.flatnonzero(batches.crc_valid == 0).tolist():
            self._mark_gaps(int(starts[i]), int(ends[i]))
        if not len(self._sorted_positions):
            return
        positions = self._sorted_positions
        start, end = np.searchsorted(positions, [starts[0], ends[-1]])
        rows = self._rows_by_position[start:end]
        batch_of_row = np.searchsorted(starts, positions[start:end], side="right") - 1
        is_exact = starts[batch_of_row] == positions[start:end]
        rows, batch_of_row = rows[is_exact], batch_of_row[is_exact]
        self.targets.is_batch_start[rows] = 1
        self.targets.batch_number[rows] = batches.number[batch_of_row]
        distinct, distinct_index = np.unique(batch_of_row, return_inverse=True)
        first_offsets = np.array(
            [self._first_offset(block, i) for i in distinct.tolist()], np.int64
        )
        self.targets.base_offset[rows] = first_offsets[distinct_index]
        self.targets.last_offset[rows] = batches.last_offset[batch_of_row]

    def _find_offset_batches(
        self, block: Block, kind: Kind, entry_rows: IntArray, batch_columns: tuple[IntArray, ...]
    ) -> None:
        """Look up the batches that contain the entries' offsets, or are the first after them."""
        batches = block.batches
        entries = self._tables[kind]
        offset_batches = self.offset_batches[kind]
        running_last_offsets, timestamps, previous_max_timestamps = batch_columns
        offsets = entries.offset[entry_rows]
        batch_of_row = np.searchsorted(running_last_offsets, offsets)
        contains_offset = batches.base_offset[batch_of_row] <= offsets
        # Before decompression, only a wrapper's last offset is known.
        is_wrapper = batches.has_base_offset[batch_of_row] == 0
        for i in np.unique(batch_of_row[is_wrapper]).tolist():
            self._first_offset(block, i)
        contains_offset[is_wrapper] = (
            batches.base_offset[batch_of_row[is_wrapper]] <= offsets[is_wrapper]
        )
        offset_batches.contains_offset[entry_rows] = contains_offset
        offset_batches.position[entry_rows] = batches.position[batch_of_row]
        offset_batches.batch_number[entry_rows] = batches.number[batch_of_row]
        offset_batches.max_timestamp[entry_rows] = timestamps[batch_of_row]
        offset_batches.previous_max_timestamp[entry_rows] = previous_max_timestamps[batch_of_row]
        if kind is not TIME_INDEX_KIND:
            return
        # Brokers before 3.7 wrote the record that had the timestamp, in the middle of its batch.
        mismatching_indexes = np.flatnonzero(
            contains_offset & (entries.timestamp[entry_rows] != timestamps[batch_of_row])
        )
        distinct_batches, group_starts = np.unique(
            batch_of_row[mismatching_indexes], return_index=True
        )
        for i, row_group in zip(
            distinct_batches.tolist(), np.split(mismatching_indexes, group_starts[1:]), strict=False
        ):
            rows = self._read_records(block, i).rows
            record_pairs = set(zip(rows.offset.tolist(), rows.timestamp.tolist(), strict=True))
            entry_pairs = zip(
                *(entries[column][entry_rows[row_group]].tolist() for column in TIME_ENTRY_COLUMNS),
                strict=True,
            )
            is_record = np.fromiter(
                (pair in record_pairs for pair in entry_pairs), np.bool_, len(row_group)
            )
            offset_batches.has_record[entry_rows[row_group]] = is_record

    def _check_markers(self, block: Block) -> None:
        """Mark entries for aborted transactions whose last offset is not their ABORT marker."""
        batches = block.batches
        if not batches.transactional.any():
            return
        fill_control_types(block)
        self._track_transactions(batches)
        if not len(self.is_not_marker):
            return
        marker_offsets = self._marker_entries.last_offset[self._rows_by_marker]
        start = np.searchsorted(marker_offsets, self.last_offset, side="right")
        end = np.searchsorted(marker_offsets, batches.last_offset.max(), side="right")
        rows = self._rows_by_marker[start:end]
        offsets = marker_offsets[start:end]
        batch_of_row = np.searchsorted(np.maximum.accumulate(batches.last_offset), offsets)
        is_present = batches.base_offset[batch_of_row] <= offsets
        # Compaction empties or removes markers, and leaves the index unchanged.
        is_emptied = (batches.control[batch_of_row] == 1) & (
            batches.records_count[batch_of_row] == 0
        )
        is_marker = batches.control_type[batch_of_row] == ABORT
        is_marker &= batches.producer_id[batch_of_row] == self._marker_entries.producer_id[rows]
        self.is_not_marker[rows] = is_present & ~is_marker & ~is_emptied

    def _find_holes(self, batches: BatchTable) -> None:
        expected_base_offsets = np.concatenate([[self.last_offset], batches.last_offset[:-1]]) + 1
        is_complete = (batches.base_offset == expected_base_offsets) & (batches.records_count > 0)
        if self.last_offset < 0:
            is_complete[0] = batches.base_offset[0] == self._base_offset
        self.has_holes |= not is_complete.all()

    def _track_transactions(self, batches: BatchTable) -> None:
        """Update the open and the aborted transactions of this segment."""
        # A batch that compaction emptied has no aborted records to read.
        has_records = (batches.control == 1) | (batches.records_count != 0)
        transactional_batches = batches.select_rows((batches.transactional == 1) & has_records)
        names = ("producer_id", "control", "control_type", "base_offset")
        for producer_id, control, control_type, offset in zip(
            *(transactional_batches[name].tolist() for name in names), strict=True
        ):
            if not control:
                self._open_transactions.setdefault(producer_id, offset)
                continue
            first_offset = self._open_transactions.pop(producer_id, None)
            if control_type != ABORT:
                continue
            self.max_stable_offsets[producer_id, offset] = min(
                self._open_transactions.values(), default=offset + 1
            )
            if first_offset is None:
                self.markers_of_earlier_transactions.add((producer_id, offset))
            else:
                self.aborted_transactions.append((producer_id, first_offset, offset))

    def _first_offset(self, block: Block, batch_index: int) -> int:
        """The first offset of a batch; for a wrapper, its first message's."""
        batches = block.batches
        if not batches.has_base_offset[batch_index]:
            rows = self._read_records(block, batch_index).rows
            batches.has_base_offset[batch_index] = 1
            first_offset = rows.offset[0] if len(rows) else batches.last_offset[batch_index]
            batches.base_offset[batch_index] = first_offset
        return int(batches.base_offset[batch_index])

    def _read_records(self, block: Block, batch_index: int) -> RecordColumns:
        return read_records(slice_block(block, batch_index, batch_index + 1), self._limit)
