"""The offsets of a partition that consumers can reach: the answers to a seek to each of them.

A broker looks for an offset in the segment with the nearest name at or below it, starting at the
byte that its index returns. It sends up to 1 MiB from the batch that it finds. An offset is
therefore unreachable if another segment is searched than the one that contains it, if the index
points past its batch, if the consumer cannot read the batch, or if a batch shortly after it makes
the consumer's whole poll fail. Source: `LocalLog.read`, `LogSegment.translateOffset`,
`CompletedFetch`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from kfmt_cli.broker.start.consumer import Fault, Given, fault_of_header, given_of
from kfmt_cli.broker.start.ranges import LogRanges, Range, Ranges, merged
from kfmt_cli.broker.start.segment import OpenSegment
from kfmt_cli.broker.start.stored import StartFailed, StoredBatch
from kfmt_cli.broker.start.walk import Walk

FETCH_BYTES = 1 << 20  # max.partition.fetch.bytes
POLL_RECORDS = 500  # max.poll.records
_MOST_OFFSET = (1 << 63) - 1


@dataclass(slots=True)
class Reach:
    """The offsets that consumers receive from a partition's segments, in order."""

    segments: list[OpenSegment]
    end: int
    plain: Mapping[int, tuple[int, int]]
    """The offsets of each segment with a valid log and index; such a segment is not opened."""
    held: Mapping[int, LogRanges]
    """The batches that kfmt finds in each of the other logs, by base offset."""
    odd: Mapping[int, frozenset[int]]
    """Positions of batches, by log, with a known fault other than the checksum."""
    _searches: dict[int, _ReachSearch] = field(default_factory=dict)

    def of(self, log_start: int) -> Ranges:
        """The offsets that consumers receive."""
        found: Ranges = []
        for i, segment in enumerate(self.segments):
            following = self.segments[i + 1].base if i + 1 < len(self.segments) else self.end
            low, high = max(segment.base, log_start), min(following, self.end) - 1
            found += self._given(i, [(low, high)])
        return merged(found)

    def on_the_way(self, log_start: int) -> Ranges:
        """The offsets that consumers receive together with lower ones, wherever a seek to them
        leads: a segment that reaches into the next one is sent as a whole."""
        found: Ranges = []
        for segment, following in pairwise(self.segments):
            low, high = max(segment.base, log_start), following.base - 1
            if low <= high:
                found += self._beyond(segment, low, high)
        return merged(found)

    def _given(self, i: int, asked: Ranges) -> Iterator[Range]:
        """The offsets received by seeks that begin in a segment, from it or from later ones."""
        for segment in self.segments[i:]:
            asked = merged(asked)
            if not asked:
                return
            plain = self.plain.get(segment.base)
            if plain is not None:
                first, last = plain
                yield from ((max(first, a), min(last, b)) for a, b in asked)
                asked = [(max(a, last + 1), b) for a, b in asked]
                continue
            unanswered: Ranges = []
            for low, high in asked:
                try:
                    found, rest = self._search(segment).given(low, high)
                except StartFailed:  # it cannot be read
                    continue
                yield from found
                unanswered += rest
            asked = unanswered

    def _beyond(self, segment: OpenSegment, low: int, high: int) -> Ranges:
        """The offsets above high that are sent with those of low..high, by a segment that reaches
        into the next one."""
        plain = self.plain.get(segment.base)
        if plain is not None and plain[1] <= high:
            return []
        search = self._search(segment)
        try:
            return search.beyond(low, high) + search.beyond(high, high)
        except StartFailed:  # it cannot be read
            return []

    def _search(self, segment: OpenSegment) -> _ReachSearch:
        search = self._searches.get(segment.base)
        if search is None:
            held = self.held.get(segment.base) or LogRanges(segment.base)
            starts = sorted(batch.position for batch in held.batches)
            odd = self.odd.get(segment.base, frozenset()) | held.bad
            # A batch's fault may be reported at a byte inside it, or at its end.
            odd |= {starts[i - 1] for at in odd if (i := bisect_left(starts, at))}
            good = {
                batch.position: batch.first for batch in held.batches if batch.position not in odd
            }
            search = self._searches[segment.base] = _ReachSearch(segment, good, sorted(odd))
        return search


class _ReachSearch:
    """Seeks in one segment. good: the first offset of each batch that is delivered complete, by
    position. suspects: positions of faults."""

    def __init__(self, segment: OpenSegment, good: dict[int, int], suspects: list[int]) -> None:
        self._segment = segment
        self._good = good
        self._suspects = suspects
        self._walks: dict[int, Walk] = {}
        self._given: dict[int, Given | None] = {}

    def given(self, low: int, high: int) -> tuple[Ranges, Ranges]:
        """The offsets received by seeks to low..high, and those seeks that find nothing here."""
        found: Ranges = []
        unanswered: Ranges = []
        cuts = self._cuts(low, high)
        for first, last in zip([low, *cuts], [*(cut - 1 for cut in cuts), high], strict=True):
            at = first
            walk = self._walk(at)
            while at <= last:
                answer = walk.find(at)
                if answer is None:
                    if walk.error is None:  # a search that fails returns an error
                        unanswered.append((at, last))
                    break
                row, until = answer
                until = min(until, last)
                if walk.trouble(row) is None:
                    self._answer(walk, row, at, until, found)
                at = until + 1
        return found, unanswered

    def _walk(self, offset: int) -> Walk:
        start = self._segment.lookup(offset)
        return self._walks.setdefault(start, self._segment.walk(start))

    def beyond(self, at: int, high: int) -> Ranges:
        """The offsets above high that a seek receives with its first fetch."""
        walk = self._walk(at)
        row, error = walk.answer(at)
        if row is None or error is not None:
            return []
        found: Ranges = []
        low = max(at, high + 1)
        for batch, given in self._fetched(walk, row):
            if given is None:
                found.append((max(low, self._first(batch)), batch.last_offset))
            else:
                found += ((offset, offset) for offset in given.offsets if offset >= low)
            low = max(low, batch.last_offset + 1)
        return found

    def _fetched(self, walk: Walk, row: int) -> Iterator[tuple[StoredBatch, Given | None]]:
        """The batches sent with one, each with what a consumer receives of it, up to a fault."""
        end = self._end_of_fetch(walk.batches[row])
        while (batch := walk.at(row)) is not None and batch.end <= end:
            given = self._of(batch)
            yield batch, given
            if given is not None and given.fault is not Fault.NONE:
                return
            row += 1

    def _cuts(self, low: int, high: int) -> list[int]:
        """The seeks within low..high at which the index may return another byte than before.

        The binary search ends at an entry that equals the target. Unless each entry is greater
        than the one before it, the next target may therefore lead it elsewhere.
        """
        offsets, _ = self._segment.entries
        filled = offsets.filled
        if len(offsets) == len(filled) and bool((filled[1:] > filled[:-1]).all()):
            around = filled
        else:
            around = np.concatenate((filled, filled + 1, [self._segment.base + 1]))
        cuts: list[int] = np.unique(around[(low < around) & (around <= high)]).tolist()
        return cuts

    def _answer(self, walk: Walk, row: int, at: int, last: int, found: Ranges) -> None:
        """Add the offsets received by seeks to at..last at a batch."""
        poisoned = self._poison(walk, row, self._end_of_fetch(walk.batches[row]))
        low = at  # the first seek that has received nothing yet
        for batch, given in self._fetched(walk, row):
            if given is None:
                first = self._first(batch)
                found.append((max(low, first), min(last, batch.last_offset, poisoned - 1)))
                low = max(low, batch.last_offset + 1)
            else:
                for offset in given.offsets:
                    if low <= offset <= last and offset < poisoned:
                        found.append((offset, offset))
                    # After the largest offset, a consumer accepts any.
                    low = max(low, offset + 1) if offset < _MOST_OFFSET else at
            if low > last:
                break

    def _end_of_fetch(self, batch: StoredBatch) -> int:
        """The end of the bytes sent with a batch."""
        return min(batch.position + max(FETCH_BYTES, batch.size), self._segment.size)

    def _first(self, batch: StoredBatch) -> int:
        """The first offset of a batch; a wrapper does not have it in its header."""
        return self._good.get(batch.position, batch.base_offset)

    def _of(self, batch: StoredBatch) -> Given | None:
        """The offsets that a consumer receives of a batch; None for all of them."""
        if batch.position in self._good:
            return None
        if batch.position not in self._given:
            self._given[batch.position] = given_of(self._segment.bytes, batch)
        return self._given[batch.position]

    def _poison(self, walk: Walk, row: int, end: int) -> int:
        """First offset from which a poll fails as a whole, because of this batch or a later one.

        Above every offset if no poll fails. end: the end of the bytes sent.
        """
        batch = walk.batches[row]
        given = self._of(batch)
        never = _MOST_OFFSET + 1
        if given is not None and given.fault is Fault.ERROR:
            return never  # does not get to the batches after it
        if given is not None and given.fault is Fault.POISON:
            if len(given.offsets) < POLL_RECORDS:
                return min(batch.base_offset, batch.last_offset)
            return given.offsets[1 - POLL_RECORDS]
        if batch.position in self._good:
            suspect = bisect_right(self._suspects, batch.position)
            if suspect == len(self._suspects) or self._suspects[suspect] >= end:
                return never
        left = self._before_poison(walk, row, end)
        if left is None:
            return never
        first = self._first(batch) if given is None else min(given.offsets, default=never)
        return max(batch.last_offset + 1 - left, first)

    def _before_poison(self, walk: Walk, row: int, end: int) -> int | None:
        """The number of a batch's last records that share a poll with a batch that fails it."""
        n = 0
        while n < POLL_RECORDS:
            row += 1
            following = walk.at(row)
            if following is None or following.end > end:
                at = walk.batches[row - 1].end
                fault = fault_of_header(self._segment.bytes, at, end)
                return POLL_RECORDS - 1 - n if fault is Fault.POISON else None
            given = self._of(following)
            if given is None:
                n += following.last_offset - self._first(following) + 1
                continue
            n += len(given.offsets)
            if given.fault is Fault.POISON and n < POLL_RECORDS:
                return POLL_RECORDS - 1 - n
            if given.fault is not Fault.NONE:
                return None
        return None
