"""The shape of logs: amounts written over time, codecs, time order, and layout in the file.

Uses batch headers only. Memory does not depend on the size of the log: time intervals get longer as
their number grows, and a segment map has a fixed number of cells.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.times import YEAR_10000_MS
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.log.block import Block
from kfmt_cli.log.summary.statistics import codec_name
from kfmt_cli.rows.log_tables import BatchTable

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000
# Lengths of time intervals in milliseconds; each is a multiple of the previous one.
BUCKET_WIDTHS_MS = (
    *(1, 10, 100, SECOND_MS, 5 * SECOND_MS, 10 * SECOND_MS, 30 * SECOND_MS),
    *(
        MINUTE_MS,
        5 * MINUTE_MS,
        10 * MINUTE_MS,
        30 * MINUTE_MS,
        HOUR_MS,
        3 * HOUR_MS,
        6 * HOUR_MS,
        12 * HOUR_MS,
    ),
    *(DAY_MS, 7 * DAY_MS, 28 * DAY_MS, 364 * DAY_MS, 3_640 * DAY_MS, 36_400 * DAY_MS),
)
MAX_BUCKETS = 2_000
MAX_GAPS = 5

LogCounts = tuple[int, int, int]
"""Batches, records, bytes."""


def _add_counts(left: LogCounts, right: LogCounts) -> LogCounts:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


@dataclass(slots=True)
class TimeBuckets:
    """Amounts written per time interval, for intervals that are not empty."""

    width_ms: int = BUCKET_WIDTHS_MS[0]
    counts_by_bucket: dict[int, LogCounts] = field(default_factory=dict)
    """By interval number, counted from 1970."""

    def add(self, times: IntArray, amounts: tuple[IntArray, IntArray, IntArray]) -> None:
        """Add batches: their times, and batches, records and bytes of each."""
        bucket_numbers, bucket_index = np.unique(times // self.width_ms, return_inverse=True)
        while len(bucket_numbers) > MAX_BUCKETS and self._widen_once():
            bucket_numbers, bucket_index = np.unique(times // self.width_ms, return_inverse=True)
        totals = (np.bincount(bucket_index, values).astype(np.int64).tolist() for values in amounts)
        for bucket, *counts in zip(bucket_numbers.tolist(), *totals, strict=True):
            batches, records, size = counts
            self.add_counts(bucket, (batches, records, size))
        self.widen(MAX_BUCKETS)

    def merge(self, other: TimeBuckets) -> None:
        """Add the intervals of other logs, which may have another length."""
        self.widen_to(max(self.width_ms, other.width_ms))
        factor = self.width_ms // other.width_ms
        for bucket, counts in other.counts_by_bucket.items():
            self.add_counts(bucket // factor, counts)
        self.widen(MAX_BUCKETS)

    def widen(self, max_buckets: int) -> None:
        """Lengthen the intervals until there are at most `max_buckets`, if possible."""
        while len(self.counts_by_bucket) > max_buckets and self._widen_once():
            pass

    def _widen_once(self) -> bool:
        """Lengthen the intervals by one step; False if they are the longest."""
        next_width_ms = next((width for width in BUCKET_WIDTHS_MS if width > self.width_ms), None)
        if next_width_ms is not None:
            self.widen_to(next_width_ms)
        return next_width_ms is not None

    def resampled(self, max_buckets: int) -> TimeBuckets:
        """A copy with intervals so long that nearly all batches are in at most `max_buckets`."""
        copy = TimeBuckets(self.width_ms, dict(self.counts_by_bucket))
        first, last = self.core_interval()
        sufficient_widths = (
            width for width in BUCKET_WIDTHS_MS if (last - first) // width < max_buckets
        )
        copy.widen_to(max(self.width_ms, next(sufficient_widths, BUCKET_WIDTHS_MS[-1])))
        copy.widen(2 * max_buckets)
        return copy

    def core_interval(self) -> tuple[int, int]:
        """The first and the last time, without the outermost 1 % of batches at each end."""
        bucket_numbers = np.sort(np.array(list(self.counts_by_bucket), np.int64))
        if not len(bucket_numbers):
            return 0, 0
        cumulative_batches = np.cumsum(
            [self.counts_by_bucket[bucket][0] for bucket in bucket_numbers.tolist()]
        )
        n_outliers = min(int(cumulative_batches[-1]) // 100, int(cumulative_batches[-1]) - 1)
        first = int(np.searchsorted(cumulative_batches, n_outliers, "right"))
        last = int(np.searchsorted(cumulative_batches, cumulative_batches[-1] - n_outliers))
        return int(bucket_numbers[first]) * self.width_ms, int(bucket_numbers[last]) * self.width_ms

    def widen_to(self, width_ms: int) -> None:
        """Lengthen the intervals to one of `BUCKET_WIDTHS_MS`."""
        factor, old_counts = width_ms // self.width_ms, self.counts_by_bucket
        if factor > 1:
            self.width_ms, self.counts_by_bucket = width_ms, {}
            for bucket, counts in old_counts.items():
                self.add_counts(bucket // factor, counts)

    def add_counts(self, bucket: int, counts: LogCounts) -> None:
        """Add counts to an interval, by its number."""
        self.counts_by_bucket[bucket] = _add_counts(
            self.counts_by_bucket.get(bucket, (0, 0, 0)), counts
        )

    def iter_intervals(self) -> Iterator[tuple[int, int, LogCounts]]:
        """Start, end and counts of each interval, in order."""
        for bucket in sorted(self.counts_by_bucket):
            yield (
                bucket * self.width_ms,
                (bucket + 1) * self.width_ms,
                self.counts_by_bucket[bucket],
            )


@dataclass(slots=True)
class TimeOrder:
    """The order of batch timestamps."""

    batches: int = 0
    n_out_of_order: int = 0
    """Batches whose time is below an earlier batch's."""
    min_time_ms: int | None = None
    max_time_ms: int | None = None
    gaps: list[tuple[int, int, int, int]] = field(default_factory=list)
    """The longest times without a batch: duration, start, end, and the offset that ends it."""

    def add_batches(self, batches: BatchTable) -> None:
        """Add the next batches, which must all have timestamps."""
        if not len(batches):
            return
        times, first_times = batches.max_timestamp, batches.first_timestamps
        previous_max = int(times[0]) if self.max_time_ms is None else self.max_time_ms
        running_max = np.maximum.accumulate(np.concatenate([[previous_max], times]))
        self.batches += len(batches)
        self.n_out_of_order += int((times < running_max[:-1]).sum())
        gaps_ms = first_times - running_max[:-1]
        for i in np.argsort(-gaps_ms, kind="stable")[:MAX_GAPS].tolist():
            if gaps_ms[i] > 0:
                gap_start, offset = int(running_max[i]), int(batches.last_offset[i])
                self._add_gap(gap_start, int(first_times[i]), offset)
        min_time = int(first_times.min())
        self.min_time_ms = min_time if self.min_time_ms is None else min(self.min_time_ms, min_time)
        self.max_time_ms = int(running_max[-1])

    def merge_later(self, later: TimeOrder) -> None:
        """Add the order of a later log."""
        if later.min_time_ms is None or later.max_time_ms is None:
            return
        self.batches += later.batches
        self.n_out_of_order += later.n_out_of_order
        for _, begin, end, offset in later.gaps:
            self._add_gap(begin, end, offset)
        self.min_time_ms = (
            later.min_time_ms
            if self.min_time_ms is None
            else min(self.min_time_ms, later.min_time_ms)
        )
        self.max_time_ms = max(later.max_time_ms, self.max_time_ms or 0)

    def _add_gap(self, begin: int, end: int, offset: int) -> None:
        gaps = [*self.gaps, (end - begin, begin, end, offset)]
        self.gaps = heapq.nlargest(MAX_GAPS, gaps)


class SegmentMapCell(NamedTuple):
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


class SegmentMap:
    """A log in cells of equal bytes; a batch counts in the cell of its first byte."""

    def __init__(self, size: int, n_cells: int) -> None:
        self._cell_bytes = max(-(-size // max(n_cells, 1)), 1)
        n_cells = -(-size // self._cell_bytes)
        # Bytes, batches, records, control.
        self._totals: IntArray = np.zeros((4, n_cells), np.int64)
        self._bytes_by_codec: IntArray = np.zeros((len(CODECS) + 1, n_cells), np.int64)
        self._first_positions: IntArray = np.full(n_cells, -1, np.int64)
        self._max_values: IntArray = np.full((2, n_cells), -1, np.int64)  # offset, timestamp
        self._index_entry_counts: IntArray = np.zeros(n_cells, np.int64)
        self.index_entries: int | None = None
        self.index_error = ""
        """Why the offset index cannot be read; empty if it can."""

    def add_batches(self, batches: BatchTable) -> None:
        """Add the next batches."""
        cell_index = batches.position // self._cell_bytes
        is_inside = cell_index < len(self._first_positions)  # the log may have grown since
        batches, cell_index = batches.select_rows(is_inside), cell_index[is_inside]
        if not len(cell_index):
            return
        n_cells = len(self._first_positions)
        is_control = (batches.control == 1) & (batches.is_v2 == 1)
        amounts = (batches.size, np.ones(len(cell_index)), batches.record_counts, is_control)
        for i, values in enumerate(amounts):
            self._totals[i] += np.bincount(cell_index, values, n_cells).astype(np.int64)
        codecs = batches.compression.clip(0, len(CODECS))
        for codec in np.flatnonzero(np.bincount(codecs)).tolist():
            has_codec = codecs == codec
            sizes = np.bincount(cell_index[has_codec], batches.size[has_codec], n_cells)
            self._bytes_by_codec[codec] += sizes.astype(np.int64)
        first_rows = np.flatnonzero(np.diff(cell_index, prepend=-1))  # positions ascend
        cells = cell_index[first_rows]
        is_new = self._first_positions[cells] < 0
        self._first_positions[cells[is_new]] = batches.position[first_rows[is_new]]
        timestamps = np.where(batches.has_timestamp == 1, batches.max_timestamp, -1)
        for max_values, values in zip(
            self._max_values, (batches.last_offset, timestamps), strict=True
        ):
            np.maximum.at(max_values, cell_index, values)

    def add_index_positions(self, positions: IntArray) -> None:
        """Add the positions that the entries of the offset index point to."""
        self.index_entries = len(positions)
        cell_index = positions // self._cell_bytes
        is_inside = (cell_index >= 0) & (cell_index < len(self._index_entry_counts))
        self._index_entry_counts += np.bincount(
            cell_index[is_inside], minlength=len(self._index_entry_counts)
        )

    def iter_cells(self) -> Iterator[SegmentMapCell]:
        """The cells in which batches begin."""
        for i in np.flatnonzero(self._first_positions >= 0).tolist():
            size, batches, records, control = self._totals[:, i].tolist()
            codec = int(self._bytes_by_codec[:, i].argmax())
            offset, timestamp = self._max_values[:, i].tolist()
            yield SegmentMapCell(
                int(self._first_positions[i]),
                size,
                batches,
                records,
                control,
                codec_name(codec),
                offset,
                None if timestamp < 0 else timestamp,
                int(self._index_entry_counts[i]),
            )


@dataclass(slots=True)
class LogShape:
    """The shape of a log, or of consecutive logs."""

    buckets: TimeBuckets = field(default_factory=TimeBuckets)
    counts_by_codec: dict[str, LogCounts] = field(default_factory=dict)
    time_order: TimeOrder = field(default_factory=TimeOrder)
    segment_map: SegmentMap | None = None
    """The cells, for a single log."""

    def add_block(self, block: Block) -> None:
        """Add the next block."""
        batches = block.batches
        if not len(batches):
            return
        record_counts = batches.record_counts
        codec_numbers = batches.compression
        n_batches = np.bincount(codec_numbers)
        n_records = np.bincount(codec_numbers, record_counts)
        sizes = np.bincount(codec_numbers, batches.size)
        for codec in np.flatnonzero(n_batches).tolist():
            name = codec_name(codec)
            counts = int(n_batches[codec]), int(n_records[codec]), int(sizes[codec])
            self.counts_by_codec[name] = _add_counts(
                self.counts_by_codec.get(name, (0, 0, 0)), counts
            )
        times = batches.max_timestamp
        has_time = (batches.has_timestamp == 1) & (times >= 0) & (times < YEAR_10000_MS)
        timed_batches = batches.select_rows(has_time)
        if len(timed_batches):
            ones = np.ones(len(timed_batches), np.int64)
            amounts = (ones, record_counts[has_time], timed_batches.size)
            self.buckets.add(timed_batches.max_timestamp, amounts)
            self.time_order.add_batches(timed_batches)
        if self.segment_map is not None:
            self.segment_map.add_batches(batches)

    def merge_later(self, later: LogShape) -> None:
        """Add the shape of a later log."""
        self.buckets.merge(later.buckets)
        for name, counts in later.counts_by_codec.items():
            self.counts_by_codec[name] = _add_counts(
                self.counts_by_codec.get(name, (0, 0, 0)), counts
            )
        self.time_order.merge_later(later.time_order)
