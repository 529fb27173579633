"""The offsets of a hole that another log of the output contains are not missing."""

from __future__ import annotations

import pytest

from kfmt_cli.writers.salvage.arrangement_writer import _exclude_placed_offsets
from kfmt_cli.writers.salvage.holes import LogHole


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        *((9, None, (9, None)), (10, None, (20, None)), (19, None, (20, None))),
        *((20, None, (20, None)), (None, None, (None, None))),
        *((10, 19, (None, None)), (5, 14, (5, 9)), (15, 25, (20, 25)), (5, 25, (5, 25))),
        *((20, 29, (20, 29)), (0, 9, (0, 9))),
    ],
)
def test_only_offsets_that_no_log_has_are_missing(
    first: int | None, last: int | None, expected: tuple[int | None, int | None]
) -> None:
    hole = _exclude_placed_offsets(LogHole(0, 9, 1, first, last, 0, ()), [(10, 19)])
    assert (hole.first_offset, hole.last_offset) == expected
