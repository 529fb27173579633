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

from kfmt_cli.core.parallel import MAX_CONNECTIONS, map_ordered
from kfmt_cli.disk.mounts import MOUNTS, MountTable
from kfmt_cli.errors import KfmtError

T = TypeVar("T")
R = TypeVar("R")

MIN_PARALLEL_BYTES = 64 << 20  # from this size onward, processes are worth starting
MAX_CHUNK_ITEMS = 4  # items that a process gets at once, if there are many
MAX_PENDING_CHUNKS = 3  # chunks per process that are submitted before their results are needed


def useful_process_count(jobs: int, n_bytes: int) -> int:
    """The number of processes worth starting for a number of bytes, at most `jobs`; at least 2 for
    remote files, which threads request at the same time even with one job."""
    if MOUNTS.has_remote_trees:
        return max(jobs, 2)
    return jobs if n_bytes >= MIN_PARALLEL_BYTES else 1


def choose_chunk_size(n_items: int, jobs: int) -> int:
    """The number of items to send a process at once, leaving each process several turns."""
    return MAX_CHUNK_ITEMS if n_items > MAX_CHUNK_ITEMS * 4 * jobs else 1


def map_in_processes(
    function: Callable[[T], R], items: Sequence[T], jobs: int, chunk_size: int = 1
) -> Iterator[R]:
    """function(item) for each item, in order, on `jobs` processes; raises KfmtError.

    chunk_size: items that a process gets at once. The function and its items are pickled. With one
    job or one item, everything runs in this process.
    """
    if MOUNTS.has_remote_trees:  # connections do not survive a fork, and threads can wait too
        yield from map_ordered(function, items, MAX_CONNECTIONS)
        return
    if jobs <= 1 or len(items) <= 1:
        yield from map(function, items)
        return
    import multiprocessing
    from concurrent.futures import Future, ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    previous_children = set(multiprocessing.active_children())
    chunks = (items[i : i + chunk_size] for i in range(0, len(items), chunk_size))
    pending_futures: deque[Future[list[R]]] = deque()
    with _block_interrupts():
        pool = ProcessPoolExecutor(
            min(jobs, len(items)), initializer=_initialize_worker, initargs=(MOUNTS,)
        )
        for chunk in islice(chunks, MAX_PENDING_CHUNKS * jobs):
            pending_futures.append(pool.submit(_map_chunk, function, chunk))
    try:
        while pending_futures:
            chunk_results = pending_futures.popleft().result()
            for chunk in islice(chunks, 1):
                pending_futures.append(pool.submit(_map_chunk, function, chunk))
            yield from chunk_results
    except BrokenProcessPool:
        message = (
            "a worker process was killed before it finished; use --jobs 1 to run without workers"
        )
        raise KfmtError(message) from None
    except BaseException:
        for process in set(multiprocessing.active_children()) - previous_children:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Delay interrupts until the processes have started; the processes never receive them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def _map_chunk(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return [function(item) for item in items]


def _initialize_worker(mounts: MountTable) -> None:
    """Use the main process's mounts. Ignore interrupts, which the main process handles. End when
    the main process terminates this one or is killed: otherwise this process would wait for work
    forever, and keep the locks of the other."""
    MOUNTS.copy_mounts(mounts)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_exit_after_parent_ends, daemon=True).start()


def _exit_after_parent_ends() -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(128 + signal.SIGTERM)
