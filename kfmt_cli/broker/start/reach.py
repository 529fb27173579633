"""Which offsets of a log no consumer can reach, although the broker keeps their bytes.

A consumer is given what a broker reads from the batch that it finds for the offset, a fetch at a
time. So an offset is out of reach where the search for it fails or finds another batch, where its
own batch cannot be read, and where any fetch that has it is one that fails as a whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from kfmt_cli.broker.start.ranges import LogRanges, Ranges, merged
from kfmt_cli.broker.start.segment import OpenSegment
from kfmt_cli.broker.start.stored import CorruptError, StartFailed, Stored

FETCH_BYTES = 1 << 20  # max.partition.fetch.bytes
_HUGE = (1 << 31) - (1 << 20)  # a length that no consumer can hold in memory


def unreachable(
    segment: OpenSegment,
    held: LogRanges,
    next_base: int | None,
    unreadable: Mapping[int, int],
    spoiling: frozenset[int],
) -> Ranges:
    """The ranges of a segment's offsets that are out of reach.

    unreadable: by the position of a batch, the first offset that cannot be read. spoiling: the
    positions of batches that make every fetch fail that has them.
    """
    walks: dict[int, _Walk] = {}
    # What a broker takes for a batch there, and kfmt does not, is none that can be read.
    sound = {at for at, _, _ in held.batches} - held.bad
    offsets, _ = segment.entries
    cuts = [int(it) for it in offsets]
    found: Ranges = []
    for first, last in held.held(next_base):
        low = first
        for at in [*(it for it in cuts if first < it <= last), last + 1]:
            found += _missed(segment, walks, low, at - 1, unreadable, spoiling, sound)
            low = at
    return merged(found)


class _Walk:
    """The batches from a byte on, as a fetch goes over them."""

    def __init__(self, segment: OpenSegment, start: int) -> None:
        self.batches: list[Stored] = []
        self.highest: list[int] = []
        self.huge: int | None = None
        try:
            for it in segment.batches(start):
                self.batches.append(it)
                before = self.highest[-1] if self.highest else it.last_offset
                self.highest.append(max(before, it.last_offset))
        except (CorruptError, StartFailed):
            pass
        end = self.batches[-1].end if self.batches else start
        size = int.from_bytes(segment.bytes.read(end + 8, 4), "big")
        if end < segment.size and _HUGE <= size < 1 << 31:
            self.huge = end


def _missed(
    segment: OpenSegment,
    walks: dict[int, _Walk],
    low: int,
    high: int,
    unreadable: Mapping[int, int],
    spoiling: frozenset[int],
    sound: set[int],
) -> Ranges:
    """Of offsets whose search begins at the same entry, those that are out of reach."""
    if low > high:
        return []
    start = segment.lookup(low)
    walk = walks.get(start)
    if walk is None:
        walk = walks[start] = _Walk(segment, start)
    spoilers = [*spoiling, *([] if walk.huge is None else [walk.huge])]
    missed: Ranges = []
    at = low
    while at <= high:
        row = bisect_left(walk.highest, at)
        if row == len(walk.batches):
            return [*missed, (at, high)]
        batch = walk.batches[row]
        # Of a message of magic 0 or 1 only the last offset is known.
        base = batch.base_offset if batch.magic >= 2 else at
        last = min(high, batch.last_offset)
        if base > at:
            missed.append((at, min(high, base - 1)))
            at = base
            continue
        spoiled = any(batch.position <= it < batch.position + FETCH_BYTES for it in spoilers)
        first = unreadable.get(batch.position)
        if spoiled or (first is None and batch.position not in sound):
            missed.append((at, last))
        elif first is not None and first <= last:
            missed.append((max(at, first), last))
        at = last + 1
    return missed
