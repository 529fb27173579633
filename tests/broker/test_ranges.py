"""Ranges of offsets: merged, subtracted, and those that a damaged log contains."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from kfmt_cli.broker.start.offset_intervals import (
    BatchOffsets,
    LogOffsets,
    OffsetIntervals,
    count_offsets,
    merge_intervals,
    subtract_intervals,
)

MOST = (1 << 31) - 1


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
    ("ranges", "others", "left"),
    [
        *(([(0, 9)], [], [(0, 9)]), ([(0, 9)], [(0, 9)], []), ([(0, 9)], [(-5, 20)], [])),
        *(([(0, 9)], [(0, 0)], [(1, 9)]), ([(0, 9)], [(9, 9)], [(0, 8)])),
        *(([(0, 9)], [(4, 5)], [(0, 3), (6, 9)]), ([(0, 9)], [(10, 12)], [(0, 9)])),
        ([(0, 3), (7, 9)], [(2, 7)], [(0, 1), (8, 9)]),
        ([(0, 9)], [(1, 1), (3, 3), (8, 12)], [(0, 0), (2, 2), (4, 7)]),
    ],
)
def test_what_is_left_without_others(
    ranges: OffsetIntervals, others: OffsetIntervals, left: OffsetIntervals
) -> None:
    assert subtract_intervals(ranges, others) == left
    assert count_offsets(left) == sum(last - first + 1 for first, last in left)


def test_ranges_are_sets_of_offsets() -> None:
    rng = Random(5)

    def drawn() -> OffsetIntervals:
        firsts = [rng.randrange(60) for _ in range(rng.randrange(6))]
        return [(first, first + rng.randrange(-1, 12)) for first in firsts]

    def offsets(ranges: OffsetIntervals) -> set[int]:
        return {offset for first, last in ranges for offset in range(first, last + 1)}

    for _ in range(300):
        one, other = drawn(), drawn()
        for found, expected in (
            (merge_intervals([*one, *other]), offsets(one) | offsets(other)),
            (subtract_intervals(one, other), offsets(one) - offsets(other)),
        ):
            assert offsets(found) == expected
            assert count_offsets(found) == len(expected)
            assert all(before[1] + 1 < after[0] for before, after in pairwise(found))


def good(position: int, first: int, last: int) -> BatchOffsets:
    return BatchOffsets(position, first, last, True)


def bad(position: int, first: int, last: int) -> BatchOffsets:
    return BatchOffsets(position, first, last, False)


@pytest.mark.parametrize(
    ("batches", "places", "next_base", "size", "held"),
    [
        ([], [], None, None, []),
        ([good(0, 10, 19), good(50, 20, 29)], [], 30, None, [(10, 29)]),
        ([good(0, 10, 19), good(50, 25, 29)], [], 40, None, [(10, 19), (25, 29)]),
        # Between undamaged batches, all offsets count, whatever the damaged one says.
        ([good(0, 10, 14), bad(50, 900, 950), good(90, 25, 29)], [], 40, None, [(10, 29)]),
        ([good(0, 10, 14), good(90, 25, 29)], [50], 40, None, [(10, 29)]),
        ([bad(0, 10, 14), good(50, 15, 19)], [], 40, None, [(10, 19)]),
        ([good(50, 15, 19)], [0], None, None, [(10, 19)]),
        # At the end, all up to the next segment, or what the damaged batches say.
        ([good(0, 10, 14), bad(50, 15, 19)], [], 30, None, [(10, 29)]),
        ([good(0, 10, 14)], [50], 30, None, [(10, 29)]),
        ([good(0, 10, 14), bad(50, 15, 19)], [], None, None, [(10, 19)]),
        ([good(0, 10, 14), bad(50, 12, 19)], [], None, None, [(10, 19)]),
        ([good(0, 10, 14), bad(50, 20, 19)], [], None, None, [(10, 14)]),
        ([good(0, 10, 14), bad(50, 15, 15 + MOST)], [], None, None, [(10, 15 + MOST)]),
        ([good(0, 10, 14), bad(50, 15, 16 + MOST)], [], None, None, [(10, 14)]),
        ([good(0, 10, 14)], [50], None, None, [(10, 14)]),
        # Only so many bytes of the log.
        ([good(0, 10, 14), good(50, 15, 19)], [], 30, 50, [(10, 14)]),
        ([good(0, 10, 14), good(50, 15, 19)], [], 30, 51, [(10, 19)]),
        ([good(0, 10, 14), good(50, 15, 19)], [60], 30, 60, [(10, 19)]),
        # A batch out of the segment's range says nothing about the damage around it.
        ([bad(0, 0, 0), good(50, 5, 6), good(90, 15, 19)], [], 30, None, [(5, 6), (10, 19)]),
        ([good(0, 10, 10 + MOST)], [50], 20, None, [(10, 10 + MOST)]),
        (
            [bad(0, 0, 0), good(50, 11 + MOST, 11 + MOST)],
            [],
            20,
            None,
            [(10, 19), (11 + MOST,) * 2],
        ),
    ],
)
def test_the_offsets_that_a_damaged_log_contains(
    batches: list[BatchOffsets],
    places: list[int],
    next_base: int | None,
    size: int | None,
    held: OffsetIntervals,
) -> None:
    damaged = {*places, *(batch.position for batch in batches if not batch.is_valid)}
    assert LogOffsets(10, batches, damaged).contained_offsets(next_base, size) == held
