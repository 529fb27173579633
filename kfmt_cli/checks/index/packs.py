"""The indexes of many small segments at once: the rules of `rules.py` over columns of all of them.

Only segments in which nothing at all is odd come out of it. Every other one is left to
`check.py`, which looks at it by itself and says what and where; so this may doubt too much and must
never doubt too little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from kfmt_cli.checks.log.packs import Pack, read_pack, read_small
from kfmt_cli.core.layout.layout import IntArray, Layout
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX
from kfmt_cli.disk.kinds.kind import Kind
from kfmt_cli.disk.segment import Segment
from kfmt_cli.formats.index import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kfmt_cli.log.block import max_timestamps

LAYOUTS = {OFFSET_INDEX: OFFSET_INDEX_ENTRY, TIME_INDEX: TIME_INDEX_ENTRY}
# Offsets are counted from the segment's base in 31 bits; above them is the segment's number.
SHIFT = 32

Sizes = list[tuple[Kind, int, int]]


@dataclass(frozen=True, slots=True)
class _PackEntries:
    """The entries of one kind of index of all segments."""

    owner: IntArray
    """Each entry's segment."""
    sizes: IntArray
    """Bytes of each file."""
    counts: IntArray
    offset: IntArray
    """Counted from the base."""
    value: IntArray


def check_pack(segments: Sequence[Segment], interval: int) -> list[Sizes | None]:
    """Kind, bytes and entries of each index of a healthy segment; None for any other segment."""
    logs = [segment.log for segment in segments if segment.log is not None]
    return sizes_of_indexes(segments, read_pack(logs), interval)


def sizes_of_indexes(segments: Sequence[Segment], logs: Pack, interval: int) -> list[Sizes | None]:
    """The same for segments whose logs have been read."""
    pack = replace(logs, good=logs.good.copy())
    pack.good &= np.array([_is_plain(segment) for segment in segments])
    batches, owner = pack.batches, pack.owner
    pack.good[owner[(batches.transactional == 1) | (batches.is_v2 == 0)]] = False
    counts = np.bincount(owner, minlength=len(segments))
    pack.good &= counts > 0
    if not pack.good.any():
        return [None] * len(segments)
    found = {kind: _entries(segments, kind, pack.good) for kind in LAYOUTS}
    facts = _PackFacts(pack, segments)
    facts.check_offsets(found[OFFSET_INDEX], interval)
    facts.check_times(found[TIME_INDEX])
    good = pack.good.tolist()
    return [_sizes(found, i) if good[i] else None for i in range(len(segments))]


def _is_plain(segment: Segment) -> bool:
    """Whether a segment has both indexes, and nothing else is asked of it."""
    assert segment.log is not None
    both = len(segment.indexes) == 2 and OFFSET_INDEX in segment.indexes
    return both and TIME_INDEX in segment.indexes and segment.log.base_offset is not None


def _sizes(found: dict[Kind, _PackEntries], i: int) -> Sizes:
    return [(kind, int(it.sizes[i]), int(it.counts[i])) for kind, it in found.items()]


def _entries(segments: Sequence[Segment], kind: Kind, good: BoolArray) -> _PackEntries:
    """The entries of an index of all segments; those of odd files are none."""
    layout: Layout = LAYOUTS[kind]
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
    rows = np.frombuffer(b"".join(pieces), layout.dtype)
    counts = sizes // width
    owner = np.repeat(np.arange(len(segments)), counts)
    value = "log_position" if kind is OFFSET_INDEX else "timestamp"
    offset = rows["relative_offset"].astype(np.int64)
    return _PackEntries(owner, sizes, counts, offset, rows[value].astype(np.int64))


class _PackFacts:
    """What the logs say, for the entries of all segments."""

    def __init__(self, pack: Pack, segments: Sequence[Segment]) -> None:
        self._pack = pack
        batches, owner = pack.batches, pack.owner
        self._owner = owner
        bases = np.array([segment.any_file.base_offset or 0 for segment in segments], np.int64)
        self._is_last = np.array([segment.is_last for segment in segments])
        self._base = batches.base_offset - bases[owner]
        self._last = batches.last_offset - bases[owner]
        self._position = batches.position
        self._size = batches.size
        self._times = max_timestamps(batches)
        # In a segment that is not good, offsets may be anything; its entries are not looked at.
        rank = (owner << SHIFT) + self._last.clip(0, (1 << SHIFT) - 1)
        self._by_offset = np.maximum.accumulate(rank)
        self._by_position = (owner << SHIFT) + self._position
        n = len(segments)
        ends = np.searchsorted(owner, np.arange(n), side="right")
        self._final = (ends - 1).clip(0)
        self._largest_batch = np.zeros(n, np.int64)
        np.maximum.at(self._largest_batch, owner, self._size)
        self._largest_time = np.full(n, -1)
        np.maximum.at(self._largest_time, owner, self._times)

    def _doubt(self, owner: IntArray, wrong: BoolArray) -> None:
        self._pack.good[owner[wrong]] = False

    def _in_order(self, entries: _PackEntries, least_step: int) -> None:
        """Values increase from entry to entry, offsets by so much at least."""
        same = np.diff(entries.owner) == 0
        steps = np.diff(entries.offset) < least_step
        self._doubt(entries.owner[1:], same & ((np.diff(entries.value) <= 0) | steps))

    def _holders(self, entries: _PackEntries) -> IntArray:
        """The batch that holds each entry's offset; doubts what none holds."""
        owner = entries.owner
        wanted = (owner << SHIFT) + entries.offset.clip(0)
        found: IntArray = np.searchsorted(self._by_offset, wanted).clip(0, len(self._owner) - 1)
        wrong = (entries.offset < 0) | (self._owner[found] != owner)
        wrong |= (self._base[found] > entries.offset) | (self._last[found] < entries.offset)
        self._doubt(owner, wrong)
        return found

    def check_offsets(self, entries: _PackEntries, interval: int) -> None:
        """The rules of an offset index."""
        owner, position = entries.owner, entries.value
        self._in_order(entries, 1)
        held = self._holders(entries)
        at = np.searchsorted(self._by_position, (owner << SHIFT) + position.clip(0))
        at = at.clip(0, len(self._owner) - 1)
        wrong = (position <= 0) | (self._owner[at] != owner) | (self._position[at] != position)
        wrong |= (self._base[at] > entries.offset) | (self._last[at] < entries.offset)
        wrong |= self._position[held] < position
        self._doubt(owner, wrong)
        self._doubt_sparse(entries, interval)

    def _doubt_sparse(self, entries: _PackEntries, interval: int) -> None:
        """Stretches without an entry that are longer than the interval and the largest batch."""
        n = len(self._pack.good)
        most = interval + self._largest_batch
        ends = self._position[self._final] + self._size[self._final]
        first = np.searchsorted(entries.owner, np.arange(n))
        after = np.searchsorted(entries.owner, np.arange(n), side="right")
        has = after > first
        places = np.append(entries.value, 0)
        front = np.where(has, places[first.clip(0, len(places) - 1)], ends)
        back = np.where(has, ends - places[(after - 1).clip(0)], 0)
        # Without an entry nothing is said of how far apart they are.
        self._pack.good &= ~(has & ((front > most) | (back > most)))
        same = np.diff(entries.owner) == 0
        apart = np.diff(entries.value)
        self._doubt(entries.owner[1:], same & (apart > most[entries.owner[1:]]))

    def check_times(self, entries: _PackEntries) -> None:
        """The rules of a time index."""
        owner, time = entries.owner, entries.value
        self._in_order(entries, 0)
        held = self._holders(entries)
        wrong = self._times[held] != time
        self._doubt(owner, wrong | (self._earlier()[held] >= time))
        self._doubt_ends(entries)

    def _earlier(self) -> IntArray:
        """The largest timestamp in the segment before each batch."""
        earlier = np.full(len(self._owner), -1)
        for first, end in self._runs():
            running = np.maximum.accumulate(self._times[first:end])
            earlier[first + 1 : end] = running[:-1]
        return earlier

    def _runs(self) -> Iterator[tuple[int, int]]:
        edges = np.flatnonzero(np.diff(self._owner, prepend=-1, append=-1)).tolist()
        return pairwise(edges)

    def _doubt_ends(self, entries: _PackEntries) -> None:
        """A closed segment's last entry is its largest timestamp; zeros are no entries."""
        n = len(self._pack.good)
        after = np.searchsorted(entries.owner, np.arange(n), side="right")
        times = np.append(entries.value, -1)
        last = np.where(entries.counts > 0, times[(after - 1).clip(0)], -1)
        closed = ~self._is_last
        self._pack.good &= ~(closed & (last < self._largest_time))
        self._pack.good &= ~((entries.counts > 0) & (last == 0))
