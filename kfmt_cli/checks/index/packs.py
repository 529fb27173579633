"""Check the indexes of many small segments at once, with the rules of `entry_rules.py`.

Only fully healthy segments pass. `checker.py` checks every other segment by itself and reports what
is wrong. So this code may doubt too much, but never too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kfmt_cli.checks.index.entry_rules import (
    ORDER,
    RULES,
    AtBatch,
    Holder,
    IndexEntries,
    ends_early,
    is_further_on,
    is_sparse,
)
from kfmt_cli.checks.log.packs import checked_pack
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX
from kfmt_cli.disk.kinds.kind import Kind
from kfmt_cli.disk.segment import Segment
from kfmt_cli.log.block import max_timestamps
from kfmt_cli.log.pack import Pack, read_small
from kfmt_cli.rows.log_tables import EntryTable

# Offsets relative to the segment's base take 31 bits; the segment's number is above them.
SHIFT = 32

Sizes = list[tuple[Kind, int, int]]


@dataclass(frozen=True, slots=True)
class _PackEntries:
    """The entries of one kind of index, of all segments."""

    kind: Kind
    owner: IntArray
    """Each entry's segment."""
    sizes: IntArray
    """Bytes of each file."""
    counts: IntArray
    """Entries of each file."""
    table: EntryTable
    """The rows, like those of a single file's reader."""


def check_pack(segments: Sequence[Segment], interval: int) -> list[Sizes | None]:
    """Kind, bytes and entries of each index of a healthy segment; None for any other segment."""
    logs = [segment.log for segment in segments if segment.log is not None]
    return sizes_of_indexes(segments, checked_pack(logs), interval)


def sizes_of_indexes(segments: Sequence[Segment], logs: Pack, interval: int) -> list[Sizes | None]:
    """`check_pack` for segments whose logs have been read."""
    pack = replace(logs, good=logs.good.copy())
    pack.good &= np.array([_is_plain(segment) for segment in segments])
    batches, owner = pack.batches, pack.owner
    pack.good[owner[(batches.transactional == 1) | (batches.is_v2 == 0)]] = False
    counts = np.bincount(owner, minlength=len(segments))
    pack.good &= counts > 0
    if not pack.good.any():
        return [None] * len(segments)
    facts = _PackFacts(pack, segments)
    kinds = (OFFSET_INDEX, TIME_INDEX)
    found = {kind: _entries(segments, kind, pack.good, facts.bases) for kind in kinds}
    facts.check_offsets(found[OFFSET_INDEX], interval)
    facts.check_times(found[TIME_INDEX])
    good = pack.good.tolist()
    return [_sizes(found, i) if good[i] else None for i in range(len(segments))]


def _is_plain(segment: Segment) -> bool:
    """Whether a segment has an offset index, a time index and no other, and a base offset."""
    both = len(segment.indexes) == 2 and OFFSET_INDEX in segment.indexes
    return both and TIME_INDEX in segment.indexes and segment.own_log.base_offset is not None


def _sizes(found: dict[Kind, _PackEntries], i: int) -> Sizes:
    return [
        (kind, int(entries.sizes[i]), int(entries.counts[i])) for kind, entries in found.items()
    ]


def _entries(
    segments: Sequence[Segment], kind: Kind, good: BoolArray, bases: IntArray
) -> _PackEntries:
    """The entries of one kind of index of all segments; odd files have none."""
    layout = kind.layouts[0]
    width = layout.dtype.itemsize
    pieces: list[bytes] = []
    for i, segment in enumerate(segments):
        file = segment.indexes.get(kind)
        data = read_small(file) if file is not None and good[i] else None
        if data is None or len(data) % width:
            good[i] = False
            data = b""
        pieces.append(data)
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    stored = np.frombuffer(b"".join(pieces), layout.dtype)
    counts = sizes // width
    owner = np.repeat(np.arange(len(segments)), counts)
    names = [field.name for field in layout.fields]
    table = EntryTable.empty([*names, "offset"], len(stored))
    for name in names:
        table[name] = stored[name]
    table.offset = table.relative_offset + bases[owner]
    return _PackEntries(kind, owner, sizes, counts, table)


class _PackFacts:
    """Facts from the logs about the entries of all segments."""

    def __init__(self, pack: Pack, segments: Sequence[Segment]) -> None:
        self._pack = pack
        self.bases = np.array([segment.any_file.base for segment in segments], np.int64)
        """The base offset of each segment."""
        batches, owner = pack.batches, pack.owner
        self._batches, self._owner = batches, owner
        self._times = max_timestamps(batches)
        self._earlier = self._earlier_times()
        # In a segment that is not good, offsets may be anything; its entries are not checked.
        last = batches.last_offset - self.bases[owner]
        rank = (owner << SHIFT) + last.clip(0, (1 << SHIFT) - 1)
        self._by_offset = np.maximum.accumulate(rank)
        self._by_position = (owner << SHIFT) + batches.position
        n = len(segments)
        self._is_last = np.array([segment.is_last for segment in segments])
        final = (np.searchsorted(owner, np.arange(n), side="right") - 1).clip(0)
        self._ends = batches.position[final] + batches.size[final]
        self._last = batches.last_offset[final]
        self._largest_batch = np.zeros(n, np.int64)
        np.maximum.at(self._largest_batch, owner, batches.size)
        self._largest_time = np.full(n, -1)
        np.maximum.at(self._largest_time, owner, self._times)

    def _doubt(self, owner: IntArray, wrong: BoolArray) -> None:
        self._pack.good[owner[wrong]] = False

    def _apply(self, entries: _PackEntries, at: AtBatch, holder: Holder) -> IndexEntries:
        """Apply the rules, and doubt the segments of entries that break one."""
        owner = entries.owner
        same = np.diff(owner) == 0
        self._doubt(owner[1:], same & ORDER[entries.kind].is_broken(entries.table))
        known = IndexEntries(
            *(entries.table, at, holder, np.zeros(0, np.bool_)),
            *(self._pack.sizes[owner], self.bases[owner], self._last[owner]),
        )
        for rule in RULES[entries.kind]:
            self._doubt(owner, rule.is_broken(known))
        return known

    def _pointed_at(self, entries: _PackEntries) -> AtBatch:
        """The batches that the entries of offset indexes point to."""
        batches, owner = self._batches, entries.owner
        position = entries.table.log_position
        found = np.searchsorted(self._by_position, (owner << SHIFT) + position.clip(0))
        found = found.clip(0, len(self._owner) - 1)
        at = AtBatch.zeros(len(owner))
        at.starts = (self._owner[found] == owner) & (batches.position[found] == position)
        at.base_offset = batches.base_offset[found]
        at.last_offset = batches.last_offset[found]
        return at

    def _holders(self, entries: _PackEntries) -> Holder:
        """The batches that contain the entries' offsets, without timestamps of records."""
        batches, owner = self._batches, entries.owner
        offset = entries.table.offset
        wanted = (owner << SHIFT) + entries.table.relative_offset.clip(0)
        found = np.searchsorted(self._by_offset, wanted).clip(0, len(self._owner) - 1)
        held = (self._owner[found] == owner) & (batches.base_offset[found] <= offset)
        holder = Holder.zeros(len(owner))
        holder.held = held & (batches.last_offset[found] >= offset)
        holder.position = batches.position[found]
        holder.max_timestamp = self._times[found]
        holder.earlier_max = self._earlier[found]
        return holder

    def check_offsets(self, entries: _PackEntries, interval: int) -> None:
        """Apply the rules for offset indexes, also those for long gaps between entries."""
        known = self._apply(entries, self._pointed_at(entries), self._holders(entries))
        self._doubt(entries.owner, is_further_on(known))
        n, owner, ends = len(self._pack.good), entries.owner, self._ends
        places = np.append(entries.table.log_position, 0)
        first = np.searchsorted(owner, np.arange(n))
        after = np.searchsorted(owner, np.arange(n), side="right")
        has = after > first
        # A segment without entries has no gaps to check.
        for lengths in (places[first.clip(0, len(places) - 1)], ends - places[(after - 1).clip(0)]):
            self._pack.good &= ~(has & is_sparse(lengths, interval, self._largest_batch))
        apart, here = np.diff(places[:-1]), owner[1:]
        wide = is_sparse(apart, interval, self._largest_batch[here])
        self._doubt(here, (np.diff(owner) == 0) & wide)

    def check_times(self, entries: _PackEntries) -> None:
        """Apply the rules for time indexes. Doubt also closed segments whose last entry is below
        their largest timestamp, and segments whose last entry is zero."""
        self._apply(entries, AtBatch.zeros(0), self._holders(entries))
        after = np.searchsorted(entries.owner, np.arange(len(self._pack.good)), side="right")
        times = np.append(entries.table.timestamp, -1)
        has = entries.counts > 0
        last = np.where(has, times[(after - 1).clip(0)], -1)
        self._pack.good &= ~(~self._is_last & ends_early(last, self._largest_time))
        self._pack.good &= ~(has & (last == 0))

    def _earlier_times(self) -> IntArray:
        """The largest timestamp before each batch in its segment."""
        earlier = np.full(len(self._owner), -1)
        for first, end in self._pack.bounds():
            earlier[first + 1 : end] = np.maximum.accumulate(self._times[first:end])[:-1]
        return earlier
