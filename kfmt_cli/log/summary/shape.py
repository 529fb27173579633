"""The shape of logs: amounts written over time, codecs, time order, and layout in the file.

Uses batch headers only. Memory does not depend on the size of the log: time intervals get longer as
their number grows, and a log has a fixed number of cells.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.times import YEAR_10000
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.log.block import Block
from kfmt_cli.log.summary.statistics import codec_name
from kfmt_cli.rows.log_tables import BatchTable

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
# Lengths of time intervals in milliseconds; each is a multiple of the previous one.
WIDTHS = (
    *(1, 10, 100, SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND),
    *(MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR),
    *(DAY, 7 * DAY, 28 * DAY, 364 * DAY, 3_640 * DAY, 36_400 * DAY),
)
MOST_BUCKETS = 2_000
MOST_GAPS = 5

Counts = tuple[int, int, int]
"""Batches, records, bytes."""


def _sum(one: Counts, other: Counts) -> Counts:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


@dataclass(slots=True)
class Buckets:
    """Amounts written per time interval, for intervals that are not empty."""

    width: int = WIDTHS[0]
    counts: dict[int, Counts] = field(default_factory=dict)
    """By interval number, counted from 1970."""

    def add(self, times: IntArray, each: tuple[IntArray, IntArray, IntArray]) -> None:
        """Add batches: their times, and batches, records and bytes of each."""
        numbers, place = np.unique(times // self.width, return_inverse=True)
        while len(numbers) > MOST_BUCKETS and self._widened():
            numbers, place = np.unique(times // self.width, return_inverse=True)
        sums = (np.bincount(place, values).astype(np.int64).tolist() for values in each)
        for bucket, *counts in zip(numbers.tolist(), *sums, strict=True):
            batches, records, size = counts
            self.put(bucket, (batches, records, size))
        self.widen(MOST_BUCKETS)

    def merge(self, other: Buckets) -> None:
        """Add the intervals of other logs, which may have another length."""
        self.to_width(max(self.width, other.width))
        by = self.width // other.width
        for bucket, counts in other.counts.items():
            self.put(bucket // by, counts)
        self.widen(MOST_BUCKETS)

    def widen(self, most: int) -> None:
        """Lengthen the intervals until there are at most `most`, if possible."""
        while len(self.counts) > most and self._widened():
            pass

    def _widened(self) -> bool:
        """Lengthen the intervals by one step; False if they are the longest."""
        wider = next((width for width in WIDTHS if width > self.width), None)
        if wider is not None:
            self.to_width(wider)
        return wider is not None

    def drawn(self, most: int) -> Buckets:
        """A copy in intervals such that nearly all records take at most `most` of them."""
        made = Buckets(self.width, dict(self.counts))
        first, last = self.core()
        enough = (width for width in WIDTHS if (last - first) // width < most)
        made.to_width(max(self.width, next(enough, WIDTHS[-1])))
        made.widen(2 * most)
        return made

    def core(self) -> tuple[int, int]:
        """The first and the last time, without the few outermost batches."""
        numbers = np.sort(np.array(list(self.counts), np.int64))
        if not len(numbers):
            return 0, 0
        batches = np.cumsum([self.counts[number][0] for number in numbers.tolist()])
        few = min(int(batches[-1]) // 100, int(batches[-1]) - 1)
        first = int(np.searchsorted(batches, few, "right"))
        last = int(np.searchsorted(batches, batches[-1] - few))
        return int(numbers[first]) * self.width, int(numbers[last]) * self.width

    def to_width(self, width: int) -> None:
        """Lengthen the intervals to one of `WIDTHS`."""
        by, before = width // self.width, self.counts
        if by > 1:
            self.width, self.counts = width, {}
            for bucket, counts in before.items():
                self.put(bucket // by, counts)

    def put(self, bucket: int, counts: Counts) -> None:
        """Add counts to an interval, by its number."""
        self.counts[bucket] = _sum(self.counts.get(bucket, (0, 0, 0)), counts)

    def rows(self) -> Iterator[tuple[int, int, Counts]]:
        """Start, end and counts of each interval, in order."""
        for bucket in sorted(self.counts):
            yield bucket * self.width, (bucket + 1) * self.width, self.counts[bucket]


@dataclass(slots=True)
class TimeOrder:
    """The order of batch timestamps."""

    batches: int = 0
    late: int = 0
    """Batches whose time is below an earlier batch's."""
    first: int | None = None
    largest: int | None = None
    gaps: list[tuple[int, int, int, int]] = field(default_factory=list)
    """The longest times without a batch: duration, start, end, and the offset that ends it."""

    def take(self, batches: BatchTable) -> None:
        """Add the next batches, which must all have timestamps."""
        if not len(batches):
            return
        times, firsts = batches.max_timestamp, batches.first_times
        before = int(times[0]) if self.largest is None else self.largest
        largest = np.maximum.accumulate(np.concatenate([[before], times]))
        self.batches += len(batches)
        self.late += int((times < largest[:-1]).sum())
        waits = firsts - largest[:-1]
        for i in np.argsort(-waits, kind="stable")[:MOST_GAPS].tolist():
            if waits[i] > 0:
                begin, offset = int(largest[i]), int(batches.last_offset[i])
                self._gap(begin, int(firsts[i]), offset)
        least = int(firsts.min())
        self.first = least if self.first is None else min(self.first, least)
        self.largest = int(largest[-1])

    def add(self, later: TimeOrder) -> None:
        """Add the order of a later log."""
        if later.first is None or later.largest is None:
            return
        self.batches += later.batches
        self.late += later.late
        for _, begin, end, offset in later.gaps:
            self._gap(begin, end, offset)
        self.first = later.first if self.first is None else min(self.first, later.first)
        self.largest = max(later.largest, self.largest or 0)

    def _gap(self, begin: int, end: int, offset: int) -> None:
        found = [*self.gaps, (end - begin, begin, end, offset)]
        self.gaps = heapq.nlargest(MOST_GAPS, found)


class Cell(NamedTuple):
    """A part of a log, with its fields in the order of the JSON contract."""

    position: int
    bytes: int
    batches: int
    records: int
    control: int
    codec: str
    last_offset: int
    max_timestamp: int | None
    index_entries: int = 0


class Strip:
    """A log in cells of equal bytes; a batch counts in the cell of its first byte."""

    def __init__(self, size: int, n_cells: int) -> None:
        self._cell = max(-(-size // max(n_cells, 1)), 1)
        n_cells = -(-size // self._cell)
        self._sums: IntArray = np.zeros((4, n_cells), np.int64)  # bytes, batches, records, control
        self._codecs: IntArray = np.zeros((len(CODECS) + 1, n_cells), np.int64)
        self._firsts: IntArray = np.full(n_cells, -1, np.int64)
        self._lasts: IntArray = np.full((2, n_cells), -1, np.int64)  # offset, timestamp
        self._entries: IntArray = np.zeros(n_cells, np.int64)
        self.index_entries: int | None = None
        self.trouble = ""
        """Why the offset index cannot be read; empty if it can."""

    def take(self, batches: BatchTable) -> None:
        """Add the next batches."""
        place = batches.position // self._cell
        inside = place < len(self._firsts)  # the log may have grown since
        batches, place = batches.select(inside), place[inside]
        if not len(place):
            return
        n_cells = len(self._firsts)
        control = (batches.control == 1) & (batches.is_v2 == 1)
        each = (batches.size, np.ones(len(place)), batches.counted_records, control)
        for i, values in enumerate(each):
            self._sums[i] += np.bincount(place, values, n_cells).astype(np.int64)
        codecs = batches.compression.clip(0, len(CODECS))
        for codec in np.flatnonzero(np.bincount(codecs)).tolist():
            of_codec = codecs == codec
            sizes = np.bincount(place[of_codec], batches.size[of_codec], n_cells)
            self._codecs[codec] += sizes.astype(np.int64)
        firsts = np.flatnonzero(np.diff(place, prepend=-1))  # positions ascend
        cells = place[firsts]
        new = self._firsts[cells] < 0
        self._firsts[cells[new]] = batches.position[firsts[new]]
        timed = np.where(batches.has_timestamp == 1, batches.max_timestamp, -1)
        for lasts, values in zip(self._lasts, (batches.last_offset, timed), strict=True):
            np.maximum.at(lasts, place, values)

    def index(self, positions: IntArray) -> None:
        """Add the positions that the entries of the offset index point to."""
        self.index_entries = len(positions)
        place = positions // self._cell
        inside = (place >= 0) & (place < len(self._entries))
        self._entries += np.bincount(place[inside], minlength=len(self._entries))

    def cells(self) -> Iterator[Cell]:
        """The cells in which batches begin."""
        for i in np.flatnonzero(self._firsts >= 0).tolist():
            size, batches, records, control = self._sums[:, i].tolist()
            codec = int(self._codecs[:, i].argmax())
            offset, timestamp = self._lasts[:, i].tolist()
            yield Cell(
                int(self._firsts[i]),
                size,
                batches,
                records,
                control,
                codec_name(codec),
                offset,
                None if timestamp < 0 else timestamp,
                int(self._entries[i]),
            )


@dataclass(slots=True)
class Shape:
    """The shape of a log, or of consecutive ones."""

    buckets: Buckets = field(default_factory=Buckets)
    codecs: dict[str, Counts] = field(default_factory=dict)
    order: TimeOrder = field(default_factory=TimeOrder)
    strip: Strip | None = None
    """The cells, for a single log."""

    def take(self, block: Block) -> None:
        """Add the next block."""
        batches = block.batches
        if not len(batches):
            return
        records = batches.counted_records
        codecs = batches.compression
        n_batches = np.bincount(codecs)
        n_records, sizes = np.bincount(codecs, records), np.bincount(codecs, batches.size)
        for codec in np.flatnonzero(n_batches).tolist():
            name = codec_name(codec)
            found = int(n_batches[codec]), int(n_records[codec]), int(sizes[codec])
            self.codecs[name] = _sum(self.codecs.get(name, (0, 0, 0)), found)
        times = batches.max_timestamp
        timed = (batches.has_timestamp == 1) & (times >= 0) & (times < YEAR_10000)
        with_time = batches.select(timed)
        if len(with_time):
            ones = np.ones(len(with_time), np.int64)
            each = (ones, records[timed], with_time.size)
            self.buckets.add(with_time.max_timestamp, each)
            self.order.take(with_time)
        if self.strip is not None:
            self.strip.take(batches)

    def add(self, later: Shape) -> None:
        """Add the shape of a later log."""
        self.buckets.merge(later.buckets)
        for name, counts in later.codecs.items():
            self.codecs[name] = _sum(self.codecs.get(name, (0, 0, 0)), counts)
        self.order.add(later.order)
