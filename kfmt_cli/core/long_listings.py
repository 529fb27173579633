"""Listings that can be given up, because a store may send the same names over and over.

pyarrow can neither say how far a listing has come nor be stopped, so it lists in a thread. If that
takes long, obstore lists the same objects at the same time, and its names show whether they repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import chain, takewhile
from typing import Any, TypeVar

from kfmt_cli.core.parallel import run_detached
from kfmt_cli.core.small_objects import iter_object_names
from kfmt_cli.errors import InputError

T = TypeVar("T")

SLOW_LISTING_SECONDS = 20.0  # seconds
MAX_LISTING_SECONDS = 3600.0  # seconds, for a store whose names cannot be compared


def run_listing(request: Callable[[], T], url: str) -> T:
    """What `request` returns about the objects below a URL; raises what it raises, and InputError
    if the listing has no end."""
    listing = run_detached(request)
    wait([listing], SLOW_LISTING_SECONDS)
    if not listing.done():
        pages = takewhile(lambda _: not listing.done(), iter_object_names(url))
        repetition = run_detached(lambda: find_repeated_name(chain.from_iterable(pages)))
        futures: list[Future[Any]] = [listing, repetition]
        wait(futures, MAX_LISTING_SECONDS, FIRST_COMPLETED)
        if repetition.done() and not repetition.exception() and (name := repetition.result()):
            raise InputError(f"{url}: the store's listing never ends: it repeats {name}")
        wait([listing], MAX_LISTING_SECONDS)
    if not listing.done():
        raise InputError(
            f"{url}: the store's listing has not ended after {MAX_LISTING_SECONDS:.0f} seconds"
        )
    return listing.result()


def find_repeated_name(names: Iterable[str]) -> str | None:
    """A name that comes again in a listing, whose names differ; None if the listing ends.

    Brent's algorithm: one name is kept at a time, for twice as long as the one before.
    """
    reference_name, next_reference = None, 1
    for n, name in enumerate(names):
        if name == reference_name:
            return name
        if n == next_reference:
            reference_name, next_reference = name, 2 * next_reference
    return None
