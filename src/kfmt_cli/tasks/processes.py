"""Work on several processes, results in order."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from kfmt_cli.errors import KfmtError

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 3  # shares for each process that are handed out before their results are asked for


def map_processes(
    function: Callable[[T], R], items: Sequence[T], jobs: int, at_once: int = 1
) -> Iterator[R]:
    """function(item) for each item, in order, on so many processes; raises KfmtError.

    at_once: items that a process is given in one go. The function and its items are pickled. With
    one job, or one item, everything happens here.
    """
    if jobs <= 1 or len(items) <= 1:
        yield from map(function, items)
        return
    from concurrent.futures import Future, ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    shares = (items[i : i + at_once] for i in range(0, len(items), at_once))
    pool = ProcessPoolExecutor(min(jobs, len(items)), initializer=_leave_interrupts_alone)
    pending: deque[Future[list[R]]] = deque()
    try:
        for share in islice(shares, AHEAD * jobs):
            pending.append(pool.submit(_each, function, share))
        while pending:
            done = pending.popleft().result()
            for share in islice(shares, 1):
                pending.append(pool.submit(_each, function, share))
            yield from done
    except BrokenProcessPool:
        words = "a worker process was killed before its work was done; --jobs 1 does without them"
        raise KfmtError(words) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _each(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return [function(item) for item in items]


def _leave_interrupts_alone() -> None:
    """An interrupt from the terminal reaches every process; the first one ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
