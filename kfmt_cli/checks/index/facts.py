"""Facts from a log about the entries of its indexes, gathered in one pass over its batches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kfmt_cli.checks.index.entry_rules import AtBatch, Holder
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX
from kfmt_cli.disk.kinds.kind import Kind
from kfmt_cli.formats.control import ABORT
from kfmt_cli.log.block import NO_TIMESTAMP, Block, max_timestamps, part_of
from kfmt_cli.log.control import name_control_batches
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.records import Records
from kfmt_cli.rows.log_tables import BatchTable, EntryTable

KEY = ("offset", "timestamp")


class IndexFacts:
    """Looks up, block by block, the batches that entries point to and that contain their offsets.

    tables: the entries of each index. After the last block, `at` has the facts about the positions
    of the offset index, `holders` those about the offsets of both indexes with offsets,
    `not_markers` those about the transaction index. `aborted`: the aborted transactions (producer,
    first offset, marker) that are completely in the segment. `stable`: for each ABORT marker, by
    producer and offset, the highest possible last stable offset. `begun_before`: the ABORT markers
    of transactions that began in an earlier segment.
    """

    def __init__(
        self, tables: Mapping[Kind, EntryTable], limit: Limit, base_offset: int | None
    ) -> None:
        self._base_offset = base_offset
        none = EntryTable.zeros(0)
        positions = tables.get(OFFSET_INDEX, none).log_position
        self.at = AtBatch.zeros(len(positions))
        self._by_position = np.argsort(positions, kind="stable")
        self._wanted = positions[self._by_position]
        # Gaps between the sorted positions, before the first and after the last.
        self.stretch_in_damage = np.zeros(len(positions) + 1, np.bool_)
        self._tables = tables
        self._by_offset = {
            kind: np.argsort(tables[kind].offset, kind="stable")
            for kind in (OFFSET_INDEX, TIME_INDEX)
            if kind in tables
        }
        self.holders = {kind: Holder.zeros(len(order)) for kind, order in self._by_offset.items()}
        self._marker_entries = tables.get(TRANSACTION_INDEX, none)
        self.not_markers = np.zeros(len(self._marker_entries), np.bool_)
        self._by_marker = np.argsort(self._marker_entries.last_offset, kind="stable")
        self._limit = limit
        self._open: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []
        self.stable: dict[tuple[int, int], int] = {}
        self.begun_before: set[tuple[int, int]] = set()
        self.has_holes = False
        """Whether a batch may have been removed or emptied by compaction; known where a
        transaction index has entries."""
        self.end = 0
        self.last_offset = -1
        self.max_timestamp = NO_TIMESTAMP
        self.largest_batch = 0
        self.has_v2 = False

    def take(self, block: Block) -> None:
        """Add the batches of the next block."""
        batches = block.batches
        if not len(batches):
            return
        last = np.maximum.accumulate(batches.last_offset).clip(self.last_offset)
        times = max_timestamps(batches)
        earlier = np.concatenate([[self.max_timestamp], times])
        np.maximum.accumulate(earlier, out=earlier)
        self._take_positions(block)
        for kind, order in self._by_offset.items():
            offsets = self._tables[kind].offset[order]
            first, after = np.searchsorted(offsets, [self.last_offset, last[-1]], side="right")
            chosen = order[first:after]
            if len(chosen):
                self._take_holders(block, kind, chosen, (last, times, earlier))
        self._take_markers(block)
        if len(self.not_markers):
            self._find_holes(batches)
        self.last_offset = int(last[-1])
        self.max_timestamp = int(earlier[-1])
        self.largest_batch = max(self.largest_batch, int(batches.size.max()))
        self.has_v2 |= bool(batches.is_v2.any())
        self.end = int(batches.position[-1] + batches.size[-1])

    def finish(self, log_size: int) -> None:
        """Mark the entries that point into the rest of the log after the last batch."""
        self._mark_damage(self.end, log_size)

    def _mark_damage(self, start: int, end: int) -> None:
        if start < end:
            first, after = np.searchsorted(self._wanted, [start, end])
            self.at.in_damage[self._by_position[first:after]] = 1

    def _mark_stretches(self, start: int, end: int) -> None:
        """Mark the gaps that contain some of these damaged bytes."""
        first = np.searchsorted(self._wanted, start, side="right")
        self.stretch_in_damage[first : np.searchsorted(self._wanted, end) + 1] = True

    def stretches(self) -> IntArray:
        """The gaps in bytes between the batches that entries point to, without damaged gaps.

        The first begins at the start of the log, the last ends with its last batch.
        """
        inside = self._wanted.clip(0, self.end)
        lengths = np.diff(inside, prepend=0, append=self.end)
        whole: IntArray = lengths[~self.stretch_in_damage]
        return whole

    def _take_positions(self, block: Block) -> None:
        """Look up the batches that entries point to, and mark damage."""
        batches = block.batches
        starts = batches.position
        ends = starts + batches.size
        before = np.concatenate([[self.end], ends[:-1]])
        for i in np.flatnonzero(before < starts).tolist():
            self._mark_damage(int(before[i]), int(starts[i]))
            self._mark_stretches(int(before[i]), int(starts[i]))
        for i in np.flatnonzero(batches.crc_valid == 0).tolist():
            self._mark_stretches(int(starts[i]), int(ends[i]))
        if not len(self._wanted):
            return
        wanted = self._wanted
        first, after = np.searchsorted(wanted, [starts[0], ends[-1]])
        chosen = self._by_position[first:after]
        batch = np.searchsorted(starts, wanted[first:after], side="right") - 1
        exact = starts[batch] == wanted[first:after]
        chosen, batch = chosen[exact], batch[exact]
        self.at.starts[chosen] = 1
        self.at.number[chosen] = batches.number[batch]
        each, which = np.unique(batch, return_inverse=True)
        bases = np.array([self._base(block, i) for i in each.tolist()], np.int64)
        self.at.base_offset[chosen] = bases[which]
        self.at.last_offset[chosen] = batches.last_offset[batch]

    def _take_holders(
        self, block: Block, kind: Kind, chosen: IntArray, columns: tuple[IntArray, ...]
    ) -> None:
        """Look up the batches that contain the entries' offsets, or are the first after them."""
        batches, entries, holders = block.batches, self._tables[kind], self.holders[kind]
        last, times, earlier = columns
        offsets = entries.offset[chosen]
        batch = np.searchsorted(last, offsets)
        held = batches.base_offset[batch] <= offsets
        # Before decompression, only a wrapper's last offset is known.
        inside = batches.has_base_offset[batch] == 0
        for i in np.unique(batch[inside]).tolist():
            self._base(block, i)
        held[inside] = batches.base_offset[batch[inside]] <= offsets[inside]
        holders.held[chosen] = held
        holders.position[chosen] = batches.position[batch]
        holders.number[chosen] = batches.number[batch]
        holders.max_timestamp[chosen] = times[batch]
        holders.earlier_max[chosen] = earlier[batch]
        if kind is not TIME_INDEX:
            return
        # Brokers before 3.7 wrote the record that had the timestamp, in the middle of its batch.
        doubtful = np.flatnonzero(held & (entries.timestamp[chosen] != times[batch]))
        each, starts = np.unique(batch[doubtful], return_index=True)
        for i, here in zip(each.tolist(), np.split(doubtful, starts[1:]), strict=False):
            rows = self._records(block, i).rows
            known = set(zip(rows.offset.tolist(), rows.timestamp.tolist(), strict=True))
            wanted = zip(*(entries[column][chosen[here]].tolist() for column in KEY), strict=True)
            found = np.fromiter((pair in known for pair in wanted), np.bool_, len(here))
            holders.of_record[chosen[here]] = found

    def _take_markers(self, block: Block) -> None:
        """Mark entries for aborted transactions whose last offset is not their ABORT marker."""
        batches = block.batches
        if not batches.transactional.any():
            return
        name_control_batches(block)
        self._follow_transactions(batches)
        if not len(self.not_markers):
            return
        wanted = self._marker_entries.last_offset[self._by_marker]
        first = np.searchsorted(wanted, self.last_offset, side="right")
        after = np.searchsorted(wanted, batches.last_offset.max(), side="right")
        chosen = self._by_marker[first:after]
        offsets = wanted[first:after]
        batch = np.searchsorted(np.maximum.accumulate(batches.last_offset), offsets)
        there = batches.base_offset[batch] <= offsets
        # Compaction empties or removes markers, and leaves the index unchanged.
        emptied = (batches.control[batch] == 1) & (batches.records_count[batch] == 0)
        fits = batches.control_type[batch] == ABORT
        fits &= batches.producer_id[batch] == self._marker_entries.producer_id[chosen]
        self.not_markers[chosen] = there & ~fits & ~emptied

    def _find_holes(self, batches: BatchTable) -> None:
        expected = np.concatenate([[self.last_offset], batches.last_offset[:-1]]) + 1
        is_there = (batches.base_offset == expected) & (batches.records_count > 0)
        if self.last_offset < 0:
            is_there[0] = batches.base_offset[0] == self._base_offset
        self.has_holes |= not is_there.all()

    def _follow_transactions(self, batches: BatchTable) -> None:
        """Note the transactions that begin and are aborted in this segment."""
        # A batch that compaction emptied has no aborted records to read.
        holding = (batches.control == 1) | (batches.records_count != 0)
        chosen = batches.select((batches.transactional == 1) & holding)
        names = ("producer_id", "control", "control_type", "base_offset")
        for producer, control, kind, offset in zip(
            *(chosen[name].tolist() for name in names), strict=True
        ):
            if not control:
                self._open.setdefault(producer, offset)
                continue
            first = self._open.pop(producer, None)
            if kind != ABORT:
                continue
            self.stable[producer, offset] = min(self._open.values(), default=offset + 1)
            if first is None:
                self.begun_before.add((producer, offset))
            else:
                self.aborted.append((producer, first, offset))

    def _base(self, block: Block, i: int) -> int:
        """The first offset of a batch; for a wrapper, its first message's."""
        batches = block.batches
        if not batches.has_base_offset[i]:
            rows = self._records(block, i).rows
            batches.has_base_offset[i] = 1
            first = rows.offset[0] if len(rows) else batches.last_offset[i]
            batches.base_offset[i] = first
        return int(batches.base_offset[i])

    def _records(self, block: Block, i: int) -> Records:
        return read_records(part_of(block, i, i + 1), self._limit)
