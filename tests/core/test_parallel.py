"""Work on several threads: an item that fails does not discard earlier results."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kfmt_cli.core.parallel import map_ordered


class ItemError(Exception):
    """Raised by the iterator of items."""


def failing_items(n: int) -> Iterator[int]:
    yield from range(n)
    raise ItemError


def slow_square(i: int) -> int:
    time.sleep(0.02)
    return i * i


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("n", [0, 1, 5, 20])
def test_results_of_all_items_come_before_what_ends_them(workers: int, n: int) -> None:
    results = map_ordered(slow_square, failing_items(n), workers, lambda i: i == 3)
    assert [next(results) for _ in range(n)] == [i * i for i in range(n)]
    with pytest.raises(ItemError):
        next(results)
