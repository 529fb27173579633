"""Offset intervals: merged, subtracted, and those that a damaged log contains."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from kfmt_cli.broker.log_reading.offset_intervals import (
    BatchOffsets,
    LogOffsets,
    OffsetIntervals,
    count_offsets,
    merge_intervals,
    subtract_intervals,
)

MAX_DELTA = (1 << 31) - 1


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        *(([], []), ([(3, 2)], []), ([(3, 3)], [(3, 3)])),
        *(([(0, 1), (2, 3)], [(0, 3)]), ([(0, 1), (3, 3)], [(0, 1), (3, 3)])),
        *(([(0, 9), (2, 3)], [(0, 9)]), ([(5, 9), (0, 5)], [(0, 9)]), ([(5, 9), (0, 4)], [(0, 9)])),
    ],
)
def test_ranges_that_touch_are_one(ranges: OffsetIntervals, expected: OffsetIntervals) -> None:
    assert merge_intervals(ranges) == expected


@pytest.mark.parametrize(
    ("ranges", "subtracted", "remaining"),
    [
        *(([(0, 9)], [], [(0, 9)]), ([(0, 9)], [(0, 9)], []), ([(0, 9)], [(-5, 20)], [])),
        *(([(0, 9)], [(0, 0)], [(1, 9)]), ([(0, 9)], [(9, 9)], [(0, 8)])),
        *(([(0, 9)], [(4, 5)], [(0, 3), (6, 9)]), ([(0, 9)], [(10, 12)], [(0, 9)])),
        ([(0, 3), (7, 9)], [(2, 7)], [(0, 1), (8, 9)]),
        ([(0, 9)], [(1, 1), (3, 3), (8, 12)], [(0, 0), (2, 2), (4, 7)]),
    ],
)
def test_what_is_left_without_others(
    ranges: OffsetIntervals, subtracted: OffsetIntervals, remaining: OffsetIntervals
) -> None:
    assert subtract_intervals(ranges, subtracted) == remaining
    assert count_offsets(remaining) == sum(last - first + 1 for first, last in remaining)


def test_ranges_are_sets_of_offsets() -> None:
    rng = Random(5)

    def random_intervals() -> OffsetIntervals:
        firsts = [rng.randrange(60) for _ in range(rng.randrange(6))]
        return [(first, first + rng.randrange(-1, 12)) for first in firsts]

    def offsets(ranges: OffsetIntervals) -> set[int]:
        return {offset for first, last in ranges for offset in range(first, last + 1)}

    for _ in range(300):
        left, right = random_intervals(), random_intervals()
        for intervals, expected in (
            (merge_intervals([*left, *right]), offsets(left) | offsets(right)),
            (subtract_intervals(left, right), offsets(left) - offsets(right)),
        ):
            assert offsets(intervals) == expected
            assert count_offsets(intervals) == len(expected)
            assert all(
                previous[1] + 1 < following[0] for previous, following in pairwise(intervals)
            )


def valid(position: int, first: int, last: int) -> BatchOffsets:
    return BatchOffsets(position, first, last, True)


def invalid(position: int, first: int, last: int) -> BatchOffsets:
    return BatchOffsets(position, first, last, False)


@pytest.mark.parametrize(
    ("batches", "damage_positions", "next_base", "size", "expected"),
    [
        ([], [], None, None, []),
        ([valid(0, 10, 19), valid(50, 20, 29)], [], 30, None, [(10, 29)]),
        ([valid(0, 10, 19), valid(50, 25, 29)], [], 40, None, [(10, 19), (25, 29)]),
        # Between undamaged batches, all offsets count, whatever the damaged batch contains.
        ([valid(0, 10, 14), invalid(50, 900, 950), valid(90, 25, 29)], [], 40, None, [(10, 29)]),
        ([valid(0, 10, 14), valid(90, 25, 29)], [50], 40, None, [(10, 29)]),
        ([invalid(0, 10, 14), valid(50, 15, 19)], [], 40, None, [(10, 19)]),
        ([valid(50, 15, 19)], [0], None, None, [(10, 19)]),
        # At the end, all up to the next segment, or the offsets in the damaged batches.
        ([valid(0, 10, 14), invalid(50, 15, 19)], [], 30, None, [(10, 29)]),
        ([valid(0, 10, 14)], [50], 30, None, [(10, 29)]),
        ([valid(0, 10, 14), invalid(50, 15, 19)], [], None, None, [(10, 19)]),
        ([valid(0, 10, 14), invalid(50, 12, 19)], [], None, None, [(10, 19)]),
        ([valid(0, 10, 14), invalid(50, 20, 19)], [], None, None, [(10, 14)]),
        (
            [valid(0, 10, 14), invalid(50, 15, 15 + MAX_DELTA)],
            [],
            None,
            None,
            [(10, 15 + MAX_DELTA)],
        ),
        ([valid(0, 10, 14), invalid(50, 15, 16 + MAX_DELTA)], [], None, None, [(10, 14)]),
        ([valid(0, 10, 14)], [50], None, None, [(10, 14)]),
        # Only the first bytes of the log.
        ([valid(0, 10, 14), valid(50, 15, 19)], [], 30, 50, [(10, 14)]),
        ([valid(0, 10, 14), valid(50, 15, 19)], [], 30, 51, [(10, 19)]),
        ([valid(0, 10, 14), valid(50, 15, 19)], [60], 30, 60, [(10, 19)]),
        # A batch out of the segment's range says nothing about the damage around it.
        ([invalid(0, 0, 0), valid(50, 5, 6), valid(90, 15, 19)], [], 30, None, [(5, 6), (10, 19)]),
        ([valid(0, 10, 10 + MAX_DELTA)], [50], 20, None, [(10, 10 + MAX_DELTA)]),
        (
            [invalid(0, 0, 0), valid(50, 11 + MAX_DELTA, 11 + MAX_DELTA)],
            [],
            20,
            None,
            [(10, 19), (11 + MAX_DELTA,) * 2],
        ),
    ],
)
def test_the_offsets_that_a_damaged_log_contains(
    batches: list[BatchOffsets],
    damage_positions: list[int],
    next_base: int | None,
    size: int | None,
    expected: OffsetIntervals,
) -> None:
    damaged = {*damage_positions, *(batch.position for batch in batches if not batch.is_valid)}
    assert LogOffsets(10, batches, damaged).contained_offsets(next_base, size) == expected
