"""Threads whose results come in order, and groups of small items."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
R = TypeVar("R")


MAX_CONNECTIONS = 8  # to stores, at the same time
MAX_SMALL_FILE_BYTES = 1 << 20  # larger files are read separately
MAX_GROUP_BYTES = 2 << 20  # of small files read together


def group_small_items(
    items: Iterable[T], get_n_bytes: Callable[[T], int | None]
) -> Iterator[list[T]]:
    """Group items in order: consecutive small ones together, each other one separately.

    get_n_bytes: returns the bytes of an item; None for one that needs its own group.
    """

    def get_cost(item: T) -> int:
        n_bytes = get_n_bytes(item)
        return (
            n_bytes
            if n_bytes is not None and n_bytes <= MAX_SMALL_FILE_BYTES
            else MAX_GROUP_BYTES + 1
        )

    return group_by_cost(items, MAX_GROUP_BYTES, get_cost)


def group_by_cost(
    items: Iterable[T], max_cost: int, get_cost: Callable[[T], int]
) -> Iterator[list[T]]:
    """Group items, in order, into lists that cost at most `max_cost`; an item that costs more is a
    group of its own."""
    group: list[T] = []
    remaining_cost = max_cost
    for item in items:
        item_cost = get_cost(item)
        if group and item_cost > remaining_cost:
            yield group
            group, remaining_cost = [], max_cost
        group.append(item)
        remaining_cost -= item_cost
        if remaining_cost < 0:  # do not wait for the next item
            yield group
            group, remaining_cost = [], max_cost
    if group:
        yield group


def run_in_daemon_thread(compute: Callable[[], R]) -> Future[R]:
    """The result of a daemon thread: the process can exit even if the thread never ends."""
    from concurrent.futures import Future
    from threading import Thread

    future: Future[R] = Future()

    def set_future_result() -> None:
        try:
            future.set_result(compute())
        except BaseException as error:  # for the caller to handle
            future.set_exception(error)

    Thread(target=set_future_result, daemon=True).start()
    return future


def available_cores() -> int:
    """The number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # missing on some systems
        return os.cpu_count() or 1


def map_ordered(
    function: Callable[[T], R],
    items: Iterable[T],
    n_workers: int,
    is_run_by_caller: Callable[[T], bool] = lambda _: False,
) -> Iterator[R]:
    """Map a function over items on `n_workers` threads, in order, at most a few items ahead.

    The caller's thread iterates over the items. It also processes those for which
    `is_run_by_caller` is true, after all earlier ones, or all of them if there are no workers. An
    exception of the iterator is raised after the results of the items before it.
    """
    if n_workers < 1:
        yield from map(function, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(n_workers)
    pending_futures: deque[Future[R]] = deque()
    failures: list[Exception] = []
    try:
        for item in _iter_until_failure(items, failures):
            if is_run_by_caller(item):
                while pending_futures:
                    yield pending_futures.popleft().result()
                yield function(item)
                continue
            pending_futures.append(pool.submit(function, item))
            if len(pending_futures) > 2 * n_workers:
                yield pending_futures.popleft().result()
        while pending_futures:
            yield pending_futures.popleft().result()
        for failure in failures:
            raise failure
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _iter_until_failure(items: Iterable[T], failures: list[Exception]) -> Iterator[T]:
    """The items until their iterator fails; appends the exception to `failures`."""
    try:
        yield from items
    except Exception as error:
        failures.append(error)
