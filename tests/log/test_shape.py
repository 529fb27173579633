"""The shape of a log: time intervals, gaps, the order of timestamps, and the cells of its map."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kfmt_cli.disk.file_access import open_source
from kfmt_cli.log.block import Block
from kfmt_cli.log.reader import LogReader
from kfmt_cli.log.summary.shape import (
    BUCKET_WIDTHS_MS,
    DAY_MS,
    HOUR_MS,
    MAX_BUCKETS,
    MAX_GAPS,
    MAX_LEADING_BATCHES,
    LogShape,
    SegmentMap,
    TimeBuckets,
    TimeOrder,
)
from kfmt_cli.log.summary.statistics import LogStatistics
from kfmt_cli.rows.log_tables import BatchTable
from tests.support.samples import ORDERS, TXN


def buckets(batches_by_index: dict[int, int], width: int = 1) -> TimeBuckets:
    """Intervals with these numbers of batches, each of two records and three bytes."""
    return TimeBuckets(width, {index: (n, 2 * n, 3 * n) for index, n in batches_by_index.items()})


def test_each_width_is_a_multiple_of_the_one_before() -> None:
    assert all(wide % narrow == 0 for narrow, wide in pairwise(BUCKET_WIDTHS_MS))
    assert (BUCKET_WIDTHS_MS[0], BUCKET_WIDTHS_MS[-1]) == (1, 36_400 * DAY_MS)


def test_intervals_are_summed_when_they_grow() -> None:
    time_buckets = buckets({0: 1, 9: 2, 10: 3, 25: 4})
    time_buckets.widen_to_width(10)
    assert time_buckets.counts_by_bucket == {0: (3, 6, 9), 1: (3, 6, 9), 2: (4, 8, 12)}
    assert list(time_buckets.iter_intervals()) == [
        (0, 10, (3, 6, 9)),
        (10, 20, (3, 6, 9)),
        (20, 30, (4, 8, 12)),
    ]
    time_buckets.widen_to_width(10)
    assert time_buckets.width_ms == 10
    time_buckets.widen_to_fit(3)
    assert time_buckets.width_ms == 10
    time_buckets.widen_to_fit(2)
    assert (time_buckets.width_ms, time_buckets.counts_by_bucket) == (100, {0: (10, 20, 30)})


def test_logs_of_unlike_intervals_are_merged_in_the_longer() -> None:
    for width, other_width in ((1, 100), (100, 1)):
        left = buckets({250 // width: 1}, width)
        left.merge_buckets(buckets({200 // other_width: 5, 900 // other_width: 7}, other_width))
        assert (left.width_ms, left.counts_by_bucket) == (100, {2: (6, 12, 18), 9: (7, 14, 21)})


def test_times_are_added_in_intervals_of_which_there_are_not_too_many() -> None:
    times = np.arange(0, 20 * MAX_BUCKETS, 5)
    ones = np.ones(len(times), np.int64)
    widened, unwidened = TimeBuckets(), TimeBuckets()
    widened.add_batches(times, (ones, 2 * ones, 3 * ones))
    assert widened.width_ms == 100
    assert len(widened.counts_by_bucket) == MAX_BUCKETS // 5
    assert set(widened.counts_by_bucket.values()) == {(20, 40, 60)}
    times, ones = times[:MAX_BUCKETS], ones[:MAX_BUCKETS]
    unwidened.add_batches(times, (ones, ones, ones))
    assert (unwidened.width_ms, len(unwidened.counts_by_bucket)) == (1, MAX_BUCKETS)


@pytest.mark.parametrize(
    ("batches_by_index", "core"),
    [
        ({}, (0, 0)),
        ({5: 1}, (50, 50)),
        ({5: 1, 7: 1}, (50, 70)),
        ({0: 1, 50: 98, 99: 1}, (500, 500)),  # one of a hundred at each end is an outlier
        ({0: 1, 50: 97, 99: 1}, (0, 990)),
        ({0: 2, 50: 98, 99: 1}, (0, 500)),
        ({0: 1, 50: 98, 99: 2}, (500, 990)),
    ],
)
def test_the_core_is_without_the_outermost_batches(
    batches_by_index: dict[int, int], core: tuple[int, int]
) -> None:
    assert buckets(batches_by_index, 10).core_interval_ms() == core


@pytest.mark.parametrize(
    ("last_index", "width"),
    [(149, 1), (150, 10), (1499, 10), (1500, 100), (149 * HOUR_MS, HOUR_MS)],
)
def test_intervals_are_drawn_as_long_as_fit(last_index: int, width: int) -> None:
    time_buckets = buckets({0: 500, last_index: 500})
    resampled = time_buckets.resampled(150)
    assert resampled.width_ms == width
    assert resampled.counts_by_bucket == {
        0: (500, 1000, 1500),
        last_index // width: (500, 1000, 1500),
    }
    assert time_buckets.width_ms == 1  # resampled() returns a copy


def test_outliers_are_drawn_in_the_intervals_of_the_others() -> None:
    clustered = buckets({0: 1, 10_000: 300, 10_100: 300, 90_000: 1})
    assert clustered.resampled(150).width_ms == 1
    spread = buckets({**{i * 1000: 1 for i in range(7)}, 50_000: 1000})
    # At most twice as many.
    assert [spread.resampled(max_buckets).width_ms for max_buckets in (4, 3)] == [
        1,
        5000,
    ]


def timed_batches(times: list[tuple[int, int]]) -> BatchTable:
    """Batches of one offset each: the timestamps of their first record and of their latest."""
    batches = BatchTable.zeros(len(times))
    batches.is_v2 = batches.has_timestamp = batches.has_base_offset = np.ones(len(times), np.int64)
    batches.base_timestamp = np.array([first for first, _ in times], np.int64)
    batches.max_timestamp = np.array([latest for _, latest in times], np.int64)
    batches.base_offset = batches.last_offset = np.arange(len(times))
    return batches


def test_gaps_and_late_batches_of_a_real_log() -> None:
    (block,) = (
        block
        for block in LogReader(open_source(str(ORDERS)), 0).iter_blocks()
        if len(block.batches)
    )
    batches = block.batches
    order = TimeOrder()
    order.add_batches(batches)
    assert (order.n_batches, order.n_out_of_order) == (12, 0)
    assert order.max_time_ms == int(batches.max_timestamp.max())
    expected_gaps = [
        (int(previous), int(first), int(offset))
        for first, previous, offset in zip(
            batches.base_timestamp[1:],
            np.maximum.accumulate(batches.max_timestamp)[:-1],
            batches.last_offset[1:],
            strict=True,
        )
        if first > previous
    ]
    assert order.gaps == sorted(expected_gaps, key=lambda gap: gap[0] - gap[1])[:5]


@given(
    # At most MAX_GAPS gaps: of longer logs only the longest gaps are kept.
    times=st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 6)).map(lambda pair: (pair[0], sum(pair))),
        max_size=MAX_GAPS + 1,
    ),
    cuts=st.lists(st.integers(0, MAX_GAPS + 1), max_size=3),
)
@example(times=[(0, 0), (864_000, 864_000)], cuts=[1])  # a gap between two segments
@example(times=[(9, 9), (3, 3), (5, 5), (11, 11)], cuts=[1])
def test_where_segments_are_cut_changes_neither_gaps_nor_order_nor_skew(
    times: list[tuple[int, int]], cuts: list[int]
) -> None:
    batches = timed_batches(times)
    whole_order, merged_order = TimeOrder(), TimeOrder()
    whole_order.add_batches(batches)
    whole, merged = LogStatistics(), LogStatistics()
    whole.add_block(Block("a.log", b"", 0, batches))
    for start, end in pairwise([0, *sorted(cuts), len(times)]):
        part = batches.select_rows(np.arange(len(times))[start:end])
        order, statistics = TimeOrder(), LogStatistics()
        order.add_batches(part)
        merged_order.merge_later(order)
        statistics.add_block(Block("a.log", b"", 0, part))
        merged.merge_later(statistics)
    assert merged_order.n_out_of_order == whole_order.n_out_of_order
    assert merged_order.max_time_ms == whole_order.max_time_ms
    assert set(merged_order.gaps) == set(whole_order.gaps)
    assert merged.timestamp_skew_ms == whole.timestamp_skew_ms


def test_a_log_that_is_all_older_than_its_predecessor_is_out_of_order() -> None:
    order, later = TimeOrder(), TimeOrder()
    order.add_batches(timed_batches([(10_000, 10_000)]))
    later.add_batches(timed_batches([(time, time) for time in range(2 * MAX_LEADING_BATCHES)]))
    assert len(later.leading_batches) == MAX_LEADING_BATCHES
    order.merge_later(later)
    assert (order.n_out_of_order, order.gaps) == (2 * MAX_LEADING_BATCHES, [])


def test_late_batches_are_older_than_one_before_them() -> None:
    (block,) = LogReader(open_source(str(TXN)), 0).iter_blocks()
    times = block.batches.max_timestamp.tolist()
    order = TimeOrder()
    order.add_batches(block.batches)
    assert (
        order.n_out_of_order == sum(time < max(times[: i + 1]) for i, time in enumerate(times)) > 0
    )


@pytest.mark.parametrize("n_cells", [1, 3, 12, 1000])
def test_the_cells_of_a_log_hold_all_of_it(n_cells: int) -> None:
    (block,) = LogReader(open_source(str(TXN)), 0).iter_blocks()
    batches = block.batches
    size = TXN.stat().st_size
    segment_map = SegmentMap(size, n_cells)
    segment_map.add_batches(batches)
    segment_map.add_index_positions(np.array([1206, 2250, 3559, 2 * size, -1]))
    cells = list(segment_map.iter_cells())
    cell_bytes = -(-size // n_cells)
    assert len(cells) <= n_cells
    assert segment_map.index_entries == 5
    n_rows = 0
    for cell in cells:
        is_in_cell = batches.position // cell_bytes == cell.position // cell_bytes
        rows = np.flatnonzero(is_in_cell)
        assert cell.position == batches.position[rows[0]]
        assert cell.bytes == batches.size[rows].sum()
        assert (cell.batches, cell.records) == (len(rows), batches.records_count[rows].sum())
        assert cell.control == batches.control[rows].sum()
        assert cell.last_offset == batches.last_offset[rows].max()
        assert cell.max_timestamp == batches.max_timestamp[rows].max()
        assert cell.index_entries == sum(
            position // cell_bytes == cell.position // cell_bytes for position in (1206, 2250, 3559)
        )
        n_rows += len(rows)
    assert n_rows == len(batches)


def test_the_shape_of_two_logs_is_that_of_both() -> None:
    first, second = LogShape(), LogShape()
    for block in LogReader(open_source(str(TXN)), 0).iter_blocks():
        first.add_block(block)
        second.add_block(block)
    merged = LogShape()
    merged.merge(first)
    merged.merge(second)
    assert set(first.counts_by_codec) == {"none", "lz4", "zstd"}
    for name, counts in first.counts_by_codec.items():
        assert merged.counts_by_codec[name] == tuple(2 * n for n in counts)
    assert sum(counts[2] for counts in first.counts_by_codec.values()) == TXN.stat().st_size
    assert merged.time_buckets.counts_by_bucket == {
        index: tuple(2 * n for n in counts)
        for index, counts in first.time_buckets.counts_by_bucket.items()
    }
