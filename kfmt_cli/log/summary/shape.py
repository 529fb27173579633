"""The shape of logs: amounts written over time, codecs, time order, and layout in the file.

Uses batch headers only. Memory does not depend on the size of the log: time intervals get longer as
their number grows, and a segment map has a fixed number of cells.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
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
MAX_LEADING_BATCHES = 1_024

LogCounts = tuple[int, int, int]
"""Batches, records, bytes."""


class TimeGap(NamedTuple):
    """A time without a batch."""

    start_ms: int
    end_ms: int
    last_offset: int
    """The last offset of the batch that ends it."""

    @property
    def length_ms(self) -> int:
        """Its length."""
        return self.end_ms - self.start_ms


def _sum_counts(left: LogCounts, right: LogCounts) -> LogCounts:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


@dataclass(slots=True)
class TimeBuckets:
    """Amounts written per time interval, for intervals that are not empty."""

    width_ms: int = BUCKET_WIDTHS_MS[0]
    counts_by_bucket: dict[int, LogCounts] = field(default_factory=dict)
    """By interval number, counted from 1970."""

    def add_batches(
        self, times_ms: IntArray, count_columns: tuple[IntArray, IntArray, IntArray]
    ) -> None:
        """Add batches: their times, and batches, records and bytes of each."""
        bucket_numbers, bucket_of_batch = np.unique(times_ms // self.width_ms, return_inverse=True)
        while len(bucket_numbers) > MAX_BUCKETS and self._widen_one_step():
            bucket_numbers, bucket_of_batch = np.unique(
                times_ms // self.width_ms, return_inverse=True
            )
        totals = (
            np.bincount(bucket_of_batch, count_column).astype(np.int64).tolist()
            for count_column in count_columns
        )
        for bucket, *counts in zip(bucket_numbers.tolist(), *totals, strict=True):
            n_batches, n_records, n_bytes = counts
            self.add_counts(bucket, (n_batches, n_records, n_bytes))
        self.widen_to_fit(MAX_BUCKETS)

    def merge_buckets(self, other: TimeBuckets) -> None:
        """Add the intervals of other logs, which may have another length."""
        self.widen_to_width(max(self.width_ms, other.width_ms))
        width_ratio = self.width_ms // other.width_ms
        for bucket, counts in other.counts_by_bucket.items():
            self.add_counts(bucket // width_ratio, counts)
        self.widen_to_fit(MAX_BUCKETS)

    def widen_to_fit(self, max_buckets: int) -> None:
        """Lengthen the intervals until there are at most `max_buckets`, if possible."""
        while len(self.counts_by_bucket) > max_buckets and self._widen_one_step():
            pass

    def _widen_one_step(self) -> bool:
        """Lengthen the intervals by one step; False if they are the longest."""
        next_width_ms = next(
            (width_ms for width_ms in BUCKET_WIDTHS_MS if width_ms > self.width_ms), None
        )
        if next_width_ms is not None:
            self.widen_to_width(next_width_ms)
        return next_width_ms is not None

    def resampled(self, max_buckets: int) -> TimeBuckets:
        """A copy with intervals so long that nearly all batches are in at most `max_buckets`."""
        resampled_buckets = TimeBuckets(self.width_ms, dict(self.counts_by_bucket))
        first_ms, last_ms = self.core_interval_ms()
        sufficient_widths = (
            width_ms
            for width_ms in BUCKET_WIDTHS_MS
            if (last_ms - first_ms) // width_ms < max_buckets
        )
        resampled_buckets.widen_to_width(
            max(self.width_ms, next(sufficient_widths, BUCKET_WIDTHS_MS[-1]))
        )
        resampled_buckets.widen_to_fit(2 * max_buckets)
        return resampled_buckets

    def core_interval_ms(self) -> tuple[int, int]:
        """The first and the last time, without the outermost 1 % of batches at each end."""
        bucket_numbers = np.sort(np.array(list(self.counts_by_bucket), np.int64))
        if not len(bucket_numbers):
            return 0, 0
        cumulative_batches = np.cumsum(
            [self.counts_by_bucket[bucket_number][0] for bucket_number in bucket_numbers.tolist()]
        )
        n_outliers = min(int(cumulative_batches[-1]) // 100, int(cumulative_batches[-1]) - 1)
        first_index = int(np.searchsorted(cumulative_batches, n_outliers, "right"))
        last_index = int(np.searchsorted(cumulative_batches, cumulative_batches[-1] - n_outliers))
        return int(bucket_numbers[first_index]) * self.width_ms, int(
            bucket_numbers[last_index]
        ) * self.width_ms

    def widen_to_width(self, width_ms: int) -> None:
        """Lengthen the intervals to one of `BUCKET_WIDTHS_MS`."""
        width_ratio, old_counts = width_ms // self.width_ms, self.counts_by_bucket
        if width_ratio > 1:
            self.width_ms, self.counts_by_bucket = width_ms, {}
            for bucket, counts in old_counts.items():
                self.add_counts(bucket // width_ratio, counts)

    def add_counts(self, bucket_number: int, counts: LogCounts) -> None:
        """Add counts to an interval, by its number."""
        self.counts_by_bucket[bucket_number] = _sum_counts(
            self.counts_by_bucket.get(bucket_number, (0, 0, 0)), counts
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
    """The order of batch timestamps in consecutive logs of a partition.

    Logs are read separately and merged afterwards. The first batches of a later log may be older
    than an earlier log's; the first MAX_LEADING_BATCHES of them are compared one by one.
    """

    n_batches: int = 0
    n_out_of_order: int = 0
    """Batches whose time is below an earlier batch's."""
    max_time_ms: int | None = None
    gaps: list[TimeGap] = field(default_factory=list)
    """The longest times without a batch, longest first."""
    leading_batches: list[tuple[int, int, int]] = field(default_factory=list)
    """Time, first record's time and last offset of the first batches that are in order."""

    def add_batches(self, batches: BatchTable) -> None:
        """Add the next batches, which must all have timestamps."""
        if not len(batches):
            return
        times_ms, first_times_ms = batches.max_timestamp, batches.first_timestamps
        previous_max_ms = int(times_ms[0]) if self.max_time_ms is None else self.max_time_ms
        running_max_ms = np.maximum.accumulate(np.concatenate([[previous_max_ms], times_ms]))
        is_in_order = times_ms >= running_max_ms[:-1]
        self.n_batches += len(batches)
        self.n_out_of_order += int((~is_in_order).sum())
        self.max_time_ms = int(running_max_ms[-1])
        gaps_ms = first_times_ms - running_max_ms[:-1]
        self._add_gaps(
            TimeGap(int(running_max_ms[i]), int(first_times_ms[i]), int(batches.last_offset[i]))
            for i in np.argsort(-gaps_ms, kind="stable")[:MAX_GAPS].tolist()
            if gaps_ms[i] > 0
        )
        for i in np.flatnonzero(is_in_order)[
            : MAX_LEADING_BATCHES - len(self.leading_batches)
        ].tolist():
            self.leading_batches.append(
                (int(times_ms[i]), int(first_times_ms[i]), int(batches.last_offset[i]))
            )

    def merge_later(self, later: TimeOrder) -> None:
        """Add the order of a later log."""
        if later.max_time_ms is None:
            return
        self.n_batches += later.n_batches
        self.n_out_of_order += later.n_out_of_order
        gaps = later.gaps
        if self.max_time_ms is not None:
            max_time_ms = self.max_time_ms
            self.n_out_of_order += (
                later.n_batches - later.n_out_of_order
                if later.max_time_ms < max_time_ms
                else bisect_left(later.leading_batches, (max_time_ms,))
            )
            boundary_gaps = (
                TimeGap(max_time_ms, first_time_ms, last_offset)
                for _, first_time_ms, last_offset in later.leading_batches
                if first_time_ms > max_time_ms
            )
            # The log's own gaps count from the latest time of all logs so far.
            gaps = [gap._replace(start_ms=max(gap.start_ms, max_time_ms)) for gap in gaps]
            gaps = [*{*(gap for gap in gaps if gap.length_ms > 0), *islice(boundary_gaps, 1)}]
        self._add_gaps(gaps)
        self.max_time_ms = max(later.max_time_ms, self.max_time_ms or 0)

    def _add_gaps(self, gaps: Iterable[TimeGap]) -> None:
        self.gaps = heapq.nlargest(MAX_GAPS, [*self.gaps, *gaps], attrgetter("length_ms"))


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

    def __init__(self, log_bytes: int, n_cells: int) -> None:
        self._cell_bytes = max(-(-log_bytes // max(n_cells, 1)), 1)
        n_cells = -(-log_bytes // self._cell_bytes)
        # Bytes, batches, records, control.
        self._cell_totals: IntArray = np.zeros((4, n_cells), np.int64)
        self._bytes_by_codec: IntArray = np.zeros((len(CODECS) + 1, n_cells), np.int64)
        self._first_positions: IntArray = np.full(n_cells, -1, np.int64)
        self._max_offsets_and_times: IntArray = np.full(
            (2, n_cells), -1, np.int64
        )  # offset, timestamp
        self._index_entry_counts: IntArray = np.zeros(n_cells, np.int64)
        self.index_entries: int | None = None
        self.index_error = ""
        """Why the offset index cannot be read; empty if it can."""

    def add_batches(self, batches: BatchTable) -> None:
        """Add the next batches."""
        cell_of_batch = batches.position // self._cell_bytes
        is_in_map = cell_of_batch < len(self._first_positions)  # the log may have grown since
        batches, cell_of_batch = batches.select_rows(is_in_map), cell_of_batch[is_in_map]
        if not len(cell_of_batch):
            return
        n_cells = len(self._first_positions)
        is_control = (batches.control == 1) & (batches.is_v2 == 1)
        count_columns = (
            batches.size,
            np.ones(len(cell_of_batch)),
            batches.record_counts,
            is_control,
        )
        for total_row, column_values in enumerate(count_columns):
            self._cell_totals[total_row] += np.bincount(
                cell_of_batch, column_values, n_cells
            ).astype(np.int64)
        codecs = batches.compression.clip(0, len(CODECS))
        for codec in np.flatnonzero(np.bincount(codecs)).tolist():
            has_codec = codecs == codec
            bytes_by_cell = np.bincount(cell_of_batch[has_codec], batches.size[has_codec], n_cells)
            self._bytes_by_codec[codec] += bytes_by_cell.astype(np.int64)
        first_rows = np.flatnonzero(np.diff(cell_of_batch, prepend=-1))  # positions ascend
        occupied_cells = cell_of_batch[first_rows]
        is_new_cell = self._first_positions[occupied_cells] < 0
        self._first_positions[occupied_cells[is_new_cell]] = batches.position[
            first_rows[is_new_cell]
        ]
        timestamps = np.where(batches.has_timestamp == 1, batches.max_timestamp, -1)
        for max_values, column_values in zip(
            self._max_offsets_and_times, (batches.last_offset, timestamps), strict=True
        ):
            np.maximum.at(max_values, cell_of_batch, column_values)

    def add_index_positions(self, log_positions: IntArray) -> None:
        """Add the positions that the entries of the offset index point to."""
        self.index_entries = len(log_positions)
        cell_of_entry = log_positions // self._cell_bytes
        is_in_map = (cell_of_entry >= 0) & (cell_of_entry < len(self._index_entry_counts))
        self._index_entry_counts += np.bincount(
            cell_of_entry[is_in_map], minlength=len(self._index_entry_counts)
        )

    def iter_cells(self) -> Iterator[SegmentMapCell]:
        """The cells in which batches begin."""
        for cell_index in np.flatnonzero(self._first_positions >= 0).tolist():
            n_bytes, n_batches, n_records, n_control_batches = self._cell_totals[
                :, cell_index
            ].tolist()
            codec = int(self._bytes_by_codec[:, cell_index].argmax())
            last_offset, max_timestamp = self._max_offsets_and_times[:, cell_index].tolist()
            yield SegmentMapCell(
                int(self._first_positions[cell_index]),
                n_bytes,
                n_batches,
                n_records,
                n_control_batches,
                codec_name(codec),
                last_offset,
                None if max_timestamp < 0 else max_timestamp,
                int(self._index_entry_counts[cell_index]),
            )


@dataclass(slots=True)
class LogShape:
    """The shape of a log, or of consecutive logs."""

    time_buckets: TimeBuckets = field(default_factory=TimeBuckets)
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
        batches_by_codec = np.bincount(codec_numbers)
        records_by_codec = np.bincount(codec_numbers, record_counts)
        bytes_by_codec = np.bincount(codec_numbers, batches.size)
        for codec in np.flatnonzero(batches_by_codec).tolist():
            codec_label = codec_name(codec)
            counts = (
                int(batches_by_codec[codec]),
                int(records_by_codec[codec]),
                int(bytes_by_codec[codec]),
            )
            self.counts_by_codec[codec_label] = _sum_counts(
                self.counts_by_codec.get(codec_label, (0, 0, 0)), counts
            )
        max_timestamps = batches.max_timestamp
        has_valid_time = (
            (batches.has_timestamp == 1) & (max_timestamps >= 0) & (max_timestamps < YEAR_10000_MS)
        )
        timed_batches = batches.select_rows(has_valid_time)
        if len(timed_batches):
            batch_counts = np.ones(len(timed_batches), np.int64)
            count_columns = (batch_counts, record_counts[has_valid_time], timed_batches.size)
            self.time_buckets.add_batches(timed_batches.max_timestamp, count_columns)
            self.time_order.add_batches(timed_batches)
        if self.segment_map is not None:
            self.segment_map.add_batches(batches)

    def merge(self, other: LogShape) -> None:
        """Add the shape of another log; `TimeOrder` is merged by partition."""
        self.time_buckets.merge_buckets(other.time_buckets)
        for codec_label, counts in other.counts_by_codec.items():
            self.counts_by_codec[codec_label] = _sum_counts(
                self.counts_by_codec.get(codec_label, (0, 0, 0)), counts
            )
