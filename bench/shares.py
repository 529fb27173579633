"""How verify-crc scales with cores: a model out of the measured times of its shares.

    python -m bench.shares            --write puts the table in docs/benchmarks.md

Every share is done here, one after the other, and timed; so is what the first process does for
itself: start, listing, handing over, and telling what was found. With n cores a share goes to the
process that is free first, in the order of the shares, and the first process tells results
meanwhile, on a core of its own where there is one. Memory bandwidth and the page cache are taken to
keep up.
"""

from __future__ import annotations

import argparse
import heapq
import pickle
import time
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

from bench.make_files import FULL, HERE, make, make_many
from bench.process import KFMT, machine, measure, put
from kfmt_cli.checks.log.checker import LogChecker
from kfmt_cli.commands.verify_crc.command import VerifyCrcCommand
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.execution import item_processor
from tools import kafka

SMALL = kafka.SAMPLES / "kafka-3.9.1-broker1/orders-0/00000000000000000000.log"
CORES = (1, 2, 4, 8, 16)
POOL = 0.03  # a process's start, forked from one that has everything loaded


def shares(path: str, deep: bool, jobs: int) -> tuple[float, list[float]]:
    """What the first process needs for itself, and each share's seconds in the order of shares."""
    task = VerifyCrcCommand(LogChecker(deep, DecompressionLimit(), 0), jobs)
    times: list[float] = []

    def timed(function: Any, items: Sequence[Any], jobs: int, at_once: int) -> Iterator[Any]:
        del jobs
        for first in range(0, len(items), at_once):
            handed = pickle.dumps(items[first : first + at_once])
            began = time.perf_counter()
            done = pickle.dumps([function(item) for item in pickle.loads(handed)])  # noqa: S301
            times.append(time.perf_counter() - began)
            yield from pickle.loads(done)  # noqa: S301

    began = time.perf_counter()
    with patch.object(item_processor, "map_processes", timed):
        list(task.find_files((path,)))
        for _ in task.process():
            pass
    return time.perf_counter() - began - sum(times), times


def makespan(own: float, times: list[float], cores: int) -> float:
    """When all is done on so many cores."""
    if cores == 1:
        return own + sum(times)
    free = [POOL] * cores
    heapq.heapify(free)
    for each_float in times:
        heapq.heappush(free, heapq.heappop(free) + each_float)
    together = own + sum(times) + POOL * cores
    return max(*free, own, together / cores)


def rows() -> Iterator[str]:
    """The lines of the table."""
    yield "| job | measured, 2 cores | " + " | ".join(f"model, {n}" for n in CORES) + " |"
    yield "|---|" + "---|" * (len(CORES) + 1)
    small = str(make_many(HERE / "data"))
    large = str(make(FULL[2], HERE / "data"))
    for words, path, deep in (
        ("28,000 logs, structure + CRC", small, False),
        ("28,000 logs, every record", small, True),
        ("one log of 110 MiB, zstd, every record", large, True),
    ):
        yield row(words, path, deep)


def row(words: str, path: str, deep: bool) -> str:
    """The line of one job."""
    command = [*KFMT, "verify-crc", *(["--deep"] if deep else []), path]
    start = measure([*KFMT, "verify-crc", str(SMALL)], 5).seconds
    seconds = []
    for n in CORES:
        runs = [shares(path, deep, max(n, 2)) for _ in range(3)]
        own, times = min(runs, key=lambda run: sum(run[1]))
        seconds.append(start + makespan(own, times, n))
    cells = [
        words,
        f"{measure(command, 3).seconds:.2f} s",
        *(f"{second:.2f} s" for second in seconds),
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table in docs/benchmarks.md")
    written = []
    print(f"{machine()}\n")
    arguments = parser.parse_args()
    for text in rows():
        written.append(text)
        print(text, flush=True)
    if arguments.write:
        put("shares", written)


if __name__ == "__main__":
    main()
