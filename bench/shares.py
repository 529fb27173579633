"""How verify-crc scales with cores: a model from the measured times of its chunks of work.

    python -m bench.shares            --write updates docs/benchmarks.md

This program processes the chunks one after the other and times each. It also times the main
process: start, listing, passing chunks, and reporting results. With n cores, each chunk goes, in
order, to the process that is free first, while the main process reports results, on a separate core
if there is one. The model assumes that memory bandwidth and the page cache keep up.
"""

from __future__ import annotations

import argparse
import heapq
import pickle
import time
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

from bench.make_files import BENCH_DIRECTORY, FULL, make_file, make_many
from bench.process import KFMT, machine, measure, write_table
from kfmt_cli.commands.python.command_result import null_run
from kfmt_cli.commands.verify_crc.command import VerifyCrcCommand
from kfmt_cli.commands.verify_crc.options import VerifyCrcOptions
from kfmt_cli.execution import item_processor
from tools import kafka

SMALL = kafka.SAMPLES / "kafka-3.9.1-broker1/orders-0/00000000000000000000.log"
CORES = (1, 2, 4, 8, 16)
POOL = 0.03  # seconds to fork a process from one with all modules loaded


def measure_shares(path: str, deep: bool, jobs: int) -> tuple[float, list[float]]:
    """Seconds of the main process itself, and of each chunk in order."""
    options = VerifyCrcOptions(paths=(path,), deep=deep, jobs=jobs)
    task = VerifyCrcCommand(null_run(), options)
    times: list[float] = []

    def process_chunks(
        function: Any, items: Sequence[Any], jobs: int, chunk_size: int
    ) -> Iterator[Any]:
        del jobs
        for first in range(0, len(items), chunk_size):
            pickled_items = pickle.dumps(items[first : first + chunk_size])
            began = time.perf_counter()
            pickled_results = pickle.dumps([function(item) for item in pickle.loads(pickled_items)])  # noqa: S301
            times.append(time.perf_counter() - began)
            yield from pickle.loads(pickled_results)  # noqa: S301

    began = time.perf_counter()
    with patch.object(item_processor, "map_in_processes", process_chunks):
        list(task.find_files((path,)))
        for _ in task.process_files():
            pass
    return time.perf_counter() - began - sum(times), times


def makespan(main_seconds: float, times: list[float], cores: int) -> float:
    """Seconds until all chunks are processed on a number of cores."""
    if cores == 1:
        return main_seconds + sum(times)
    free_at = [POOL] * cores
    heapq.heapify(free_at)
    for seconds in times:
        heapq.heappush(free_at, heapq.heappop(free_at) + seconds)
    total = main_seconds + sum(times) + POOL * cores
    return max(*free_at, main_seconds, total / cores)


def rows() -> Iterator[str]:
    """The lines of the table."""
    yield "| job | measured, 2 cores | " + " | ".join(f"model, {n}" for n in CORES) + " |"
    yield "|---|" + "---|" * (len(CORES) + 1)
    small = str(make_many(BENCH_DIRECTORY / "data"))
    large = str(make_file(FULL[2], BENCH_DIRECTORY / "data"))
    for label, path, deep in (
        ("28,000 logs, structure + CRC", small, False),
        ("28,000 logs, every record", small, True),
        ("one log of 110 MiB, zstd, every record", large, True),
    ):
        yield row(label, path, deep)


def row(label: str, path: str, deep: bool) -> str:
    """The line of one job."""
    command = [*KFMT, "verify-crc", *(["--deep"] if deep else []), path]
    start = measure([*KFMT, "verify-crc", str(SMALL)], 5).seconds
    seconds = []
    for n in CORES:
        runs = [measure_shares(path, deep, max(n, 2)) for _ in range(3)]
        main_seconds, times = min(runs, key=lambda run: sum(run[1]))
        seconds.append(start + makespan(main_seconds, times, n))
    cells = [
        label,
        f"{measure(command, 3).seconds:.2f} s",
        *(f"{second:.2f} s" for second in seconds),
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table in docs/benchmarks.md")
    lines = []
    print(f"{machine()}\n")
    arguments = parser.parse_args()
    for line in rows():
        lines.append(line)
        print(line, flush=True)
    if arguments.write:
        write_table("shares", lines)


if __name__ == "__main__":
    main()
