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
from kfmt_cli.disk.kinds.kind import FileKind
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
    positions in the offset index, `offset_batches_by_kind` about the offsets in the offset and time
    indexes, `is_not_marker` about the entries of the transaction index. `aborted_transactions`:
    producer, first offset and marker offset of the aborted transactions that are completely in the
    segment. `max_stable_offset_by_marker`: for each ABORT marker, by producer and offset, the
    highest possible last stable offset. `earlier_transaction_markers`: the ABORT markers, by
    producer and offset, of transactions that began in an earlier segment.
    """

    def __init__(
        self,
        table_by_kind: Mapping[FileKind, EntryTable],
        limit: DecompressionLimit,
        base_offset: int | None,
    ) -> None:
        self._base_offset = base_offset
        no_entries = EntryTable.zeros(0)
        positions = table_by_kind.get(OFFSET_INDEX_KIND, no_entries).log_position
        self.targets = EntryTargets.zeros(len(positions))
        self._position_order = np.argsort(positions, kind="stable")
        self._sorted_positions = positions[self._position_order]
        # Gaps between the sorted positions, before the first and after the last.
        self.is_gap_damaged = np.zeros(len(positions) + 1, np.bool_)
        self._table_by_kind = table_by_kind
        self._offset_order_by_kind = {
            kind: np.argsort(table_by_kind[kind].offset, kind="stable")
            for kind in (OFFSET_INDEX_KIND, TIME_INDEX_KIND)
            if kind in table_by_kind
        }
        self.offset_batches_by_kind = {
            kind: OffsetBatches.zeros(len(offset_order))
            for kind, offset_order in self._offset_order_by_kind.items()
        }
        self._marker_entries = table_by_kind.get(TRANSACTION_INDEX_KIND, no_entries)
        self.is_not_marker = np.zeros(len(self._marker_entries), np.bool_)
        self._marker_order = np.argsort(self._marker_entries.last_offset, kind="stable")
        self._limit = limit
        self._open_offset_by_producer: dict[int, int] = {}
        self.aborted_transactions: list[tuple[int, int, int]] = []
        self.max_stable_offset_by_marker: dict[tuple[int, int], int] = {}
        self.earlier_transaction_markers: set[tuple[int, int]] = set()
        self.has_holes = False
        """Whether a batch may have been removed or emptied by compaction; computed only if
        the transaction index has entries."""
        self.batches_end_position = 0
        self.last_offset = -1
        self.max_timestamp = NO_TIMESTAMP
        self.max_batch_bytes = 0
        self.has_v2_batches = False

    def add_block(self, block: Block) -> None:
        """Add the batches of the next block."""
        batches = block.batches
        if not len(batches):
            return
        running_last_offsets = np.maximum.accumulate(batches.last_offset).clip(self.last_offset)
        batch_timestamps = max_timestamps(batches)
        previous_max_timestamps = np.concatenate([[self.max_timestamp], batch_timestamps])
        np.maximum.accumulate(previous_max_timestamps, out=previous_max_timestamps)
        self._find_targets(block)
        for kind, offset_order in self._offset_order_by_kind.items():
            entry_offsets = self._table_by_kind[kind].offset[offset_order]
            order_start, order_end = np.searchsorted(
                entry_offsets, [self.last_offset, running_last_offsets[-1]], side="right"
            )
            entry_rows = offset_order[order_start:order_end]
            if len(entry_rows):
                self._find_offset_batches(
                    block,
                    kind,
                    entry_rows,
                    (running_last_offsets, batch_timestamps, previous_max_timestamps),
                )
        self._check_markers(block)
        if len(self.is_not_marker):
            self._check_for_holes(batches)
        self.last_offset = int(running_last_offsets[-1])
        self.max_timestamp = int(previous_max_timestamps[-1])
        self.max_batch_bytes = max(self.max_batch_bytes, int(batches.size.max()))
        self.has_v2_batches |= bool(batches.is_v2.any())
        self.batches_end_position = int(batches.position[-1] + batches.size[-1])

    def mark_trailing_damage(self, log_size: int) -> None:
        """Mark the entries that point into the bytes after the last batch of the log."""
        self._mark_damaged_targets(self.batches_end_position, log_size)

    def _mark_damaged_targets(self, start_position: int, end_position: int) -> None:
        if start_position < end_position:
            order_start, order_end = np.searchsorted(
                self._sorted_positions, [start_position, end_position]
            )
            self.targets.in_damage[self._position_order[order_start:order_end]] = 1

    def _mark_damaged_gaps(self, start_position: int, end_position: int) -> None:
        """Mark the gaps that contain some of the damaged bytes in [start, end)."""
        first_gap = np.searchsorted(self._sorted_positions, start_position, side="right")
        self.is_gap_damaged[
            first_gap : np.searchsorted(self._sorted_positions, end_position) + 1
        ] = True

    def undamaged_gap_bytes(self) -> IntArray:
        """The gaps in bytes between the batches that entries point to, without damaged gaps.

        The first begins at the start of the log, the last ends with its last batch.
        """
        clipped_positions = self._sorted_positions.clip(0, self.batches_end_position)
        gap_bytes = np.diff(clipped_positions, prepend=0, append=self.batches_end_position)
        undamaged_bytes: IntArray = gap_bytes[~self.is_gap_damaged]
        return undamaged_bytes

    def _find_targets(self, block: Block) -> None:
        """Look up the batches that entries point to, and mark damage."""
        batches = block.batches
        batch_starts = batches.position
        batch_ends = batch_starts + batches.size
        previous_batch_ends = np.concatenate([[self.batches_end_position], batch_ends[:-1]])
        for i in np.flatnonzero(previous_batch_ends < batch_starts).tolist():
            self._mark_damaged_targets(int(previous_batch_ends[i]), int(batch_starts[i]))
            self._mark_damaged_gaps(int(previous_batch_ends[i]), int(batch_starts[i]))
        for i in np.flatnonzero(batches.crc_valid == 0).tolist():
            self._mark_damaged_gaps(int(batch_starts[i]), int(batch_ends[i]))
        if not len(self._sorted_positions):
            return
        sorted_positions = self._sorted_positions
        order_start, order_end = np.searchsorted(
            sorted_positions, [batch_starts[0], batch_ends[-1]]
        )
        entry_rows = self._position_order[order_start:order_end]
        batch_of_entry = (
            np.searchsorted(batch_starts, sorted_positions[order_start:order_end], side="right") - 1
        )
        is_at_batch_start = batch_starts[batch_of_entry] == sorted_positions[order_start:order_end]
        entry_rows, batch_of_entry = (
            entry_rows[is_at_batch_start],
            batch_of_entry[is_at_batch_start],
        )
        self.targets.is_batch_start[entry_rows] = 1
        self.targets.batch_number[entry_rows] = batches.number[batch_of_entry]
        distinct_batches, distinct_of_entry = np.unique(batch_of_entry, return_inverse=True)
        first_offsets = np.array(
            [self._read_first_offset(block, i) for i in distinct_batches.tolist()], np.int64
        )
        self.targets.base_offset[entry_rows] = first_offsets[distinct_of_entry]
        self.targets.last_offset[entry_rows] = batches.last_offset[batch_of_entry]

    def _find_offset_batches(
        self,
        block: Block,
        kind: FileKind,
        entry_rows: IntArray,
        batch_columns: tuple[IntArray, ...],
    ) -> None:
        """Look up the batches that contain the entries' offsets, or are the first after them."""
        batches = block.batches
        entries = self._table_by_kind[kind]
        offset_batches = self.offset_batches_by_kind[kind]
        running_last_offsets, batch_timestamps, previous_max_timestamps = batch_columns
        entry_offsets = entries.offset[entry_rows]
        batch_of_entry = np.searchsorted(running_last_offsets, entry_offsets)
        contains_offset = batches.base_offset[batch_of_entry] <= entry_offsets
        # Before decompression, only a wrapper's last offset is known.
        is_wrapper = batches.has_base_offset[batch_of_entry] == 0
        for i in np.unique(batch_of_entry[is_wrapper]).tolist():
            self._read_first_offset(block, i)
        contains_offset[is_wrapper] = (
            batches.base_offset[batch_of_entry[is_wrapper]] <= entry_offsets[is_wrapper]
        )
        offset_batches.contains_offset[entry_rows] = contains_offset
        offset_batches.position[entry_rows] = batches.position[batch_of_entry]
        offset_batches.batch_number[entry_rows] = batches.number[batch_of_entry]
        offset_batches.max_timestamp[entry_rows] = batch_timestamps[batch_of_entry]
        offset_batches.previous_max_timestamp[entry_rows] = previous_max_timestamps[batch_of_entry]
        if kind is not TIME_INDEX_KIND:
            return
        # Brokers before 3.7 wrote the record that had the timestamp, in the middle of its batch.
        mismatch_rows = np.flatnonzero(
            contains_offset & (entries.timestamp[entry_rows] != batch_timestamps[batch_of_entry])
        )
        distinct_batches, group_starts = np.unique(batch_of_entry[mismatch_rows], return_index=True)
        for i, mismatch_group in zip(
            distinct_batches.tolist(), np.split(mismatch_rows, group_starts[1:]), strict=False
        ):
            record_rows = self._read_records(block, i).rows
            record_pairs = set(
                zip(record_rows.offset.tolist(), record_rows.timestamp.tolist(), strict=True)
            )
            entry_pairs = zip(
                *(
                    entries[column][entry_rows[mismatch_group]].tolist()
                    for column in TIME_ENTRY_COLUMNS
                ),
                strict=True,
            )
            is_record = np.fromiter(
                (entry_pair in record_pairs for entry_pair in entry_pairs),
                np.bool_,
                len(mismatch_group),
            )
            offset_batches.has_record[entry_rows[mismatch_group]] = is_record

    def _check_markers(self, block: Block) -> None:
        """Mark entries for aborted transactions whose last offset is not their ABORT marker."""
        batches = block.batches
        if not batches.transactional.any():
            return
        fill_control_types(block)
        self._track_transactions(batches)
        if not len(self.is_not_marker):
            return
        marker_offsets = self._marker_entries.last_offset[self._marker_order]
        order_start = np.searchsorted(marker_offsets, self.last_offset, side="right")
        order_end = np.searchsorted(marker_offsets, batches.last_offset.max(), side="right")
        entry_rows = self._marker_order[order_start:order_end]
        block_marker_offsets = marker_offsets[order_start:order_end]
        batch_of_entry = np.searchsorted(
            np.maximum.accumulate(batches.last_offset), block_marker_offsets
        )
        is_present = batches.base_offset[batch_of_entry] <= block_marker_offsets
        # Compaction empties or removes markers, and leaves the index unchanged.
        is_emptied = (batches.control[batch_of_entry] == 1) & (
            batches.records_count[batch_of_entry] == 0
        )
        is_marker = batches.control_type[batch_of_entry] == ABORT
        is_marker &= (
            batches.producer_id[batch_of_entry] == self._marker_entries.producer_id[entry_rows]
        )
        self.is_not_marker[entry_rows] = is_present & ~is_marker & ~is_emptied

    def _check_for_holes(self, batches: BatchTable) -> None:
        expected_base_offsets = np.concatenate([[self.last_offset], batches.last_offset[:-1]]) + 1
        is_without_hole = (batches.base_offset == expected_base_offsets) & (
            batches.records_count > 0
        )
        if self.last_offset < 0:
            is_without_hole[0] = batches.base_offset[0] == self._base_offset
        self.has_holes |= not is_without_hole.all()

    def _track_transactions(self, batches: BatchTable) -> None:
        """Update the open and the aborted transactions of this segment."""
        # A batch that compaction emptied has no aborted records to read.
        has_records = (batches.control == 1) | (batches.records_count != 0)
        transactional_batches = batches.select_rows((batches.transactional == 1) & has_records)
        column_names = ("producer_id", "control", "control_type", "base_offset")
        for producer_id, is_control, control_type, base_offset in zip(
            *(transactional_batches[name].tolist() for name in column_names), strict=True
        ):
            if not is_control:
                self._open_offset_by_producer.setdefault(producer_id, base_offset)
                continue
            first_offset = self._open_offset_by_producer.pop(producer_id, None)
            if control_type != ABORT:
                continue
            self.max_stable_offset_by_marker[producer_id, base_offset] = min(
                self._open_offset_by_producer.values(), default=base_offset + 1
            )
            if first_offset is None:
                self.earlier_transaction_markers.add((producer_id, base_offset))
            else:
                self.aborted_transactions.append((producer_id, first_offset, base_offset))

    def _read_first_offset(self, block: Block, batch_index: int) -> int:
        """The first offset of a batch; for a wrapper, its first message's."""
        batches = block.batches
        if not batches.has_base_offset[batch_index]:
            record_rows = self._read_records(block, batch_index).rows
            batches.has_base_offset[batch_index] = 1
            first_offset = (
                record_rows.offset[0] if len(record_rows) else batches.last_offset[batch_index]
            )
            batches.base_offset[batch_index] = first_offset
        return int(batches.base_offset[batch_index])

    def _read_records(self, block: Block, batch_index: int) -> RecordColumns:
        return read_records(slice_block(block, batch_index, batch_index + 1), self._limit)
