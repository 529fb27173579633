"""kfmt next to other tools: the same file, the same machine, one run, entire processes.

    python -m bench.run                 full size; --write updates docs/benchmarks.md
    python -m bench.run --smoke         small files, once: does every job still run?

kafka-dump-log runs if there are java and mvn, aiokafka and kafka-python if they are installed (`pip
install -e '.[bench]'`), and the limit if there is a C compiler. Times are the best of several runs
with a warm page cache; output goes to /dev/null.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain

from bench import many, toolbox, writing
from bench.limit import limit_command
from bench.make_files import BENCH_DIRECTORY, FULL, SMOKE, make_file
from bench.process import KFMT, machine, measure, write_table
from tools import kafka

SMALL = kafka.SAMPLES / "kafka-3.9.1-broker1/orders-0/00000000000000000000.log"


@dataclass
class Job:
    """A job of several tools."""

    name: str
    kfmt: list[str]
    kafka: list[str] | None
    goal: float | None
    """kfmt's time as a fraction of kafka-dump-log's."""
    peers: list[str] = field(default_factory=list)
    seconds_goal: float | None = None
    limit: list[str] | None = None
    """Arguments of the C program that does the minimum of work, see `bench/limit.c`."""


def jobs(files: dict[str, str]) -> list[Job]:
    """All jobs to measure."""
    none, lz4, zstd, tiny = (files[name] for name in ("none", "lz4", "zstd", "tiny"))
    python = ["aiokafka", "kafka-python"]
    return [
        Job(
            "structure + CRC",
            ["verify-crc", none],
            [none],
            0.25,
            [f"{p} {none}" for p in python],
            limit=[none],
        ),
        Job(
            "+ decode every record",
            ["verify-crc", "--deep", none],
            ["--deep-iteration", none],
            0.030,
            [f"{p} {none} --deep" for p in python],
            limit=[none, "--deep"],
        ),
        Job(
            "the same, lz4",
            ["verify-crc", "--deep", lz4],
            ["--deep-iteration", lz4],
            0.045,
            [f"{p} {lz4} --deep" for p in python],
            limit=[lz4, "--deep"],
        ),
        Job(
            "the same, zstd",
            ["verify-crc", "--deep", zstd],
            ["--deep-iteration", zstd],
            0.060,
            [f"{p} {zstd} --deep" for p in python],
            limit=[zstd, "--deep"],
        ),
        Job(
            "every record as JSON Lines",
            ["dump", "--records", "--json", none],
            ["--print-data-log", none],
            0.07,
        ),
        Job(
            "every record as CSV",
            ["dump", "--records", "--format", "csv", none],
            ["--print-data-log", none],
            None,
        ),
        Job(
            "every record as a table",
            ["dump", "--records", none],
            ["--print-data-log", none],
            None,
            seconds_goal=3.0,
        ),
        Job("batches as a table", ["dump", none], [none], 1.0),
        Job(
            "structure + CRC, one-record batches",
            ["verify-crc", tiny],
            [tiny],
            0.08,
            [f"{p} {tiny}" for p in python],
            limit=[tiny],
        ),
        Job("batches as a table, one-record batches", ["dump", tiny], [tiny], 1.0),
        Job("one small file", ["dump", str(SMALL)], [str(SMALL)], 0.5),
        Job("--version", ["--version"], None, None, seconds_goal=0.08),
        Job("encode-varint 300", ["encode-varint", "300"], None, None, seconds_goal=0.08),
    ]


def line(job: Job, with_kafka: bool, is_installed: Callable[[str], bool], runs: int) -> str:
    """A row of the table."""
    kfmt_timing = measure([*KFMT, *job.kfmt], runs)
    cells = [job.name, f"{kfmt_timing.seconds:.2f} s", f"{kfmt_timing.megabytes:.0f} MB"]
    kafka_timing = None
    if job.kafka and with_kafka:
        *options, file = job.kafka
        command = kafka.dump_command(kafka.VERSION, *options, "--files", file)
        kafka_timing = measure(command, 1 if "--deep" in "".join(options) else max(runs - 1, 1))
    cells.append(
        f"{kafka_timing.seconds:.2f} s, {kafka_timing.megabytes:.0f} MB" if kafka_timing else "–"
    )
    cells.append(f"{kfmt_timing.seconds / kafka_timing.seconds:.3f}" if kafka_timing else "–")
    limit_arguments = None if job.limit is None else limit_command(job.limit[0], *job.limit[1:])
    cells += ["–", "–"]
    if limit_arguments is not None:
        seconds = measure(limit_arguments, runs).seconds
        cells[-2:] = [f"{seconds:.2f} s", f"{kfmt_timing.seconds / seconds:.1f}"]
    goal = "–"
    if job.goal is not None:
        met = (
            ""
            if kafka_timing is None
            else " met"
            if kfmt_timing.seconds <= job.goal * kafka_timing.seconds
            else ""
        )
        goal = f"≤ {job.goal}{met}"
    elif job.seconds_goal is not None:
        goal = f"≤ {job.seconds_goal} s{' met' if kfmt_timing.seconds <= job.seconds_goal else ''}"
    cells.append(goal)
    for name in ("aiokafka", "kafka-python"):
        peer = next((peer for peer in job.peers if peer.startswith(name)), None)
        if peer and is_installed(name):
            slow = name == "kafka-python" or runs == 1
            timing = measure([sys.executable, "-m", "bench.peers", *peer.split()], 1 if slow else 2)
            cells.append(f"{timing.seconds:.2f} s, {timing.megabytes:.0f} MB")
        else:
            cells.append("–")
    return "| " + " | ".join(cells) + " |"


def installed(peer: str) -> bool:
    """Whether a Python package is installed."""
    return importlib.util.find_spec({"kafka-python": "kafka"}.get(peer, peer)) is not None


HEADING = (
    "| job | kfmt | kfmt memory | kafka-dump-log | ratio | limit | ÷ limit | goal | aiokafka "
    "| kafka-python |\n|" + "---|" * 10
)


def print_lines(lines: Iterable[str]) -> list[str]:
    """Print each line of a table as soon as it is measured; returns the lines."""
    print()
    printed = []
    for text in lines:
        print(text, flush=True)
        printed.append(text)
    return printed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small files, once")
    parser.add_argument("--write", action="store_true", help="put the table in docs/benchmarks.md")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    specs = SMOKE if arguments.smoke else FULL
    files = {
        spec.seed.removesuffix(".log"): str(make_file(spec, BENCH_DIRECTORY / "data"))
        for spec in specs
    }
    files = {name: os.path.relpath(file, kafka.ROOT) for name, file in files.items()}
    runs = 1 if arguments.smoke else arguments.runs
    with_kafka = kafka.missing() is None and not arguments.smoke
    print(machine())
    is_installed = installed if not arguments.smoke else lambda _: False
    lines = (line(job, with_kafka, is_installed, runs) for job in jobs(files))
    table = print_lines(chain([HEADING], lines))
    many_table = print_lines(many.rows(arguments.smoke, runs))
    toolbox_table = print_lines(toolbox.rows(arguments.smoke, with_kafka, runs))
    writing_table = print_lines(writing.rows(files["none"], arguments.smoke, with_kafka, runs))
    if arguments.write:
        write_table("table", [f"Machine: {machine()}.", "", *table])
        write_table("many", many_table)
        write_table("writing", writing_table)
        write_table("toolbox", toolbox_table)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\nlargest process: {peak:.0f} MB")


if __name__ == "__main__":
    main()
