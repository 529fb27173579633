"""Work on several cores, results in order; small items handled together."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


SMALL = 1 << 20  # larger files are worth a reader of their own
PACK = 2 << 20  # bytes of small files that are looked at in one go


def together(items: Iterable[T], size: Callable[[T], int | None]) -> Iterator[list[T]]:
    """The items in their order: small ones that follow on each other together, others alone.

    size: the bytes of an item; None for one that is to be alone, whatever it has.
    """
    held: list[T] = []
    total = 0
    for item in items:
        n_bytes = size(item)
        small = n_bytes is not None and n_bytes <= SMALL
        more = n_bytes or 0
        if held and (not small or total + more > PACK):
            yield held
            held, total = [], 0
        if not small:
            yield [item]
            continue
        held.append(item)
        total += more
    if held:
        yield held


def available_cores() -> int:
    """The cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def map_ordered(
    function: Callable[[T], R],
    items: Iterable[T],
    workers: int,
    alone: Callable[[T], bool] = lambda _: False,
) -> Iterator[R]:
    """function(item) for each item, in order, on `workers` threads; a few items ahead at most.

    The items are made in the caller's thread. With no workers everything happens there, and so
    does the work on items that are to be alone, after all before them. What making them raises is
    raised after the results of all that were made.
    """
    if workers < 1:
        yield from map(function, items)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    pool = ThreadPoolExecutor(workers)
    pending: deque[Future[R]] = deque()
    failures: list[Exception] = []
    try:
        for item in _until_failure(items, failures):
            if alone(item):
                while pending:
                    yield pending.popleft().result()
                yield function(item)
                continue
            pending.append(pool.submit(function, item))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
        for failure in failures:
            raise failure
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _until_failure(items: Iterable[T], failures: list[Exception]) -> Iterator[T]:
    """The items up to where making one fails, which is kept."""
    try:
        yield from items
    except Exception as error:
        failures.append(error)
