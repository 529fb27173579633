"""Listings that can be given up, because a store may send the same names over and over.

pyarrow can neither say how far a listing has come nor be stopped, so it lists in a thread. If that
takes long, obstore lists the same objects at the same time, and its names show whether they repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import chain, takewhile
from typing import Any, TypeVar

from kfmt_cli.core.parallel import aside
from kfmt_cli.core.small_objects import names_below
from kfmt_cli.errors import InputError

T = TypeVar("T")

LONG = 20.0  # seconds
LONGEST = 3600.0  # seconds, for a store whose names cannot be compared


def listed(ask: Callable[[], T], url: str) -> T:
    """What `ask` returns about the objects below a URL; raises what it raises, and InputError if
    the listing has no end."""
    answer = aside(ask)
    wait([answer], LONG)
    if not answer.done():
        pages = takewhile(lambda _: not answer.done(), names_below(url))
        again = aside(lambda: repeated(chain.from_iterable(pages)))
        either: list[Future[Any]] = [answer, again]
        wait(either, LONGEST, FIRST_COMPLETED)
        if again.done() and not again.exception() and (name := again.result()):
            raise InputError(f"{url}: the store's listing never ends: it repeats {name}")
        wait([answer], LONGEST)
    if not answer.done():
        raise InputError(f"{url}: the store's listing has not ended after {LONGEST:.0f} seconds")
    return answer.result()


def repeated(names: Iterable[str]) -> str | None:
    """A name that comes again in a listing, whose names differ; None if the listing ends.

    Brent's algorithm: one name is kept at a time, for twice as long as the one before.
    """
    kept, until = None, 1
    for n, name in enumerate(names):
        if name == kept:
            return name
        if n == until:
            kept, until = name, 2 * until
    return None
