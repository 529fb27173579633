"""Runs work in several processes, with results in order."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from kfmt_cli.core.parallel import CONNECTIONS, map_ordered
from kfmt_cli.disk.trees import TREES, Trees
from kfmt_cli.errors import KfmtError

T = TypeVar("T")
R = TypeVar("R")

MANY_BYTES = 64 << 20  # from this size onward, processes are worth starting
AT_ONCE = 4  # shares that a process gets at once, if there are many
AHEAD = 3  # shares per process that are submitted before their results are needed


def worth(jobs: int, n_bytes: int) -> int:
    """The number of processes worth starting for a number of bytes, at most `jobs`; 2 for files
    elsewhere, which threads request at once even with one job."""
    if TREES.are_elsewhere:
        return max(jobs, 2)
    return jobs if n_bytes >= MANY_BYTES else 1


def at_once(n_shares: int, jobs: int) -> int:
    """The number of shares to give a process at once, leaving each process several turns."""
    return AT_ONCE if n_shares > AT_ONCE * 4 * jobs else 1


def map_processes(
    function: Callable[[T], R], items: Sequence[T], jobs: int, at_once: int = 1
) -> Iterator[R]:
    """function(item) for each item, in order, on `jobs` processes; raises KfmtError.

    at_once: items that a process gets at once. The function and its items are pickled. With one
    job or one item, everything runs in this process.
    """
    if TREES.are_elsewhere:  # connections do not survive a fork, and threads can wait too
        yield from map_ordered(function, items, CONNECTIONS)
        return
    if jobs <= 1 or len(items) <= 1:
        yield from map(function, items)
        return
    import multiprocessing
    from concurrent.futures import Future, ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    before = set(multiprocessing.active_children())
    shares = (items[i : i + at_once] for i in range(0, len(items), at_once))
    pending: deque[Future[list[R]]] = deque()
    with _no_interrupt():
        pool = ProcessPoolExecutor(min(jobs, len(items)), initializer=_begin, initargs=(TREES,))
        for share in islice(shares, AHEAD * jobs):
            pending.append(pool.submit(_each, function, share))
    try:
        while pending:
            done = pending.popleft().result()
            for share in islice(shares, 1):
                pending.append(pool.submit(_each, function, share))
            yield from done
    except BrokenProcessPool:
        words = (
            "a worker process was killed before it finished; use --jobs 1 to run without workers"
        )
        raise KfmtError(words) from None
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Delay interrupts until the processes have started; the processes never receive them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    known = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, known)


def _each(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return [function(item) for item in items]


def _begin(trees: Trees) -> None:
    """Take the trees of the main process. Ignore interrupts, which it handles; end when it
    terminates this process, or is killed: otherwise this process would wait for work forever, and
    hold what the other locked."""
    TREES.take(trees)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    import multiprocessing

    main = multiprocessing.parent_process()
    assert main is not None
    main.join()
    os._exit(128 + signal.SIGTERM)
