"""Abandons listings that never end, because a store may send the same names over and over.

pyarrow cannot report the progress of a listing or cancel it, so it runs in a thread. If that takes
long, obstore lists the same objects at the same time, and shows whether their names repeat.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import chain, takewhile
from typing import Any, TypeVar

from kfmt_cli.core.parallel import run_in_daemon_thread
from kfmt_cli.core.small_objects import iter_object_name_pages
from kfmt_cli.errors import InputError

T = TypeVar("T")

SLOW_LISTING_SECONDS = 20.0  # after which names are compared
MAX_LISTING_SECONDS = 3600.0  # if names cannot be compared


def run_listing(list_objects: Callable[[], T], url: str) -> T:
    """Run a request that lists the objects under a URL, and return its result.

    Raises the request's exceptions, and InputError if the listing never ends.
    """
    deadline_seconds = time.monotonic() + MAX_LISTING_SECONDS
    listing_future = run_in_daemon_thread(list_objects)
    wait([listing_future], SLOW_LISTING_SECONDS)
    if not listing_future.done():
        name_pages = takewhile(lambda _: not listing_future.done(), iter_object_name_pages(url))
        repetition_future = run_in_daemon_thread(
            lambda: find_repeated_name(chain.from_iterable(name_pages))
        )
        futures: list[Future[Any]] = [listing_future, repetition_future]
        wait(futures, deadline_seconds - time.monotonic(), FIRST_COMPLETED)
        if (
            repetition_future.done()
            and not repetition_future.exception()
            and (repeated_name := repetition_future.result())
        ):
            raise InputError(f"{url}: the store's listing never ends: it repeats {repeated_name}")
        wait([listing_future], deadline_seconds - time.monotonic())
    if not listing_future.done():
        raise InputError(
            f"{url}: the store's listing has not ended after {MAX_LISTING_SECONDS:.0f} seconds"
        )
    return listing_future.result()


def find_repeated_name(names: Iterable[str]) -> str | None:
    """A name that occurs twice in a listing, in which names are unique; None if the listing ends.

    Brent's algorithm: it remembers one name at a time, each for twice as long as the previous one.
    """
    reference_name, next_reference_index = None, 1
    for name_index, name in enumerate(names):
        if name == reference_name:
            return name
        if name_index == next_reference_index:
            reference_name, next_reference_index = name, 2 * next_reference_index
    return None
