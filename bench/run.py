"""kfmt and its peers side by side: the same file, the same machine, one run, whole processes.

    python -m bench.run                 full size; writes docs/benchmarks.md with --write
    python -m bench.run --smoke         small files, once: does every job still run?

kafka-dump-log is run where java and mvn are there, aiokafka and kafka-python where they are
installed (`pip install -e '.[bench]'`), and the limit where there is a C compiler. Times are the
best of several runs with a warm page cache; outputs go to /dev/null.
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
from bench.limit import limit_of
from bench.make_files import FULL, HERE, SMOKE, make
from bench.process import KFMT, machine, measure, put
from tools import kafka

SMALL = kafka.SAMPLES / "kafka-3.9.1-broker1/orders-0/00000000000000000000.log"


@dataclass
class Job:
    """A job that several tools do."""

    name: str
    ours: list[str]
    kafka: list[str] | None
    goal: float | None
    """Kfmt's time as a part of kafka-dump-log's."""
    peers: list[str] = field(default_factory=list)
    seconds_goal: float | None = None
    limit: list[str] | None = None
    """The arguments of the C program that does the least of it, see `bench/limit.c`."""


def jobs(files: dict[str, str]) -> list[Job]:
    """Everything that is measured."""
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


def line(job: Job, with_kafka: bool, python: Callable[[str], bool], runs: int) -> str:
    """A row of the table."""
    ours = measure([*KFMT, *job.ours], runs)
    cells = [job.name, f"{ours.seconds:.2f} s", f"{ours.megabytes:.0f} MB"]
    theirs = None
    if job.kafka and with_kafka:
        *options, file = job.kafka
        command = kafka.dump_command(kafka.VERSION, *options, "--files", file)
        theirs = measure(command, 1 if "--deep" in "".join(options) else max(runs - 1, 1))
    cells.append(f"{theirs.seconds:.2f} s, {theirs.megabytes:.0f} MB" if theirs else "–")
    cells.append(f"{ours.seconds / theirs.seconds:.3f}" if theirs else "–")
    least = None if job.limit is None else limit_of(job.limit[0], *job.limit[1:])
    cells += ["–", "–"]
    if least is not None:
        seconds = measure(least, runs).seconds
        cells[-2:] = [f"{seconds:.2f} s", f"{ours.seconds / seconds:.1f}"]
    goal = "–"
    if job.goal is not None:
        met = "" if theirs is None else " met" if ours.seconds <= job.goal * theirs.seconds else ""
        goal = f"≤ {job.goal}{met}"
    elif job.seconds_goal is not None:
        goal = f"≤ {job.seconds_goal} s{' met' if ours.seconds <= job.seconds_goal else ''}"
    cells.append(goal)
    for name in ("aiokafka", "kafka-python"):
        peer = next((peer for peer in job.peers if peer.startswith(name)), None)
        if peer and python(name):
            slow = name == "kafka-python" or runs == 1
            timing = measure([sys.executable, "-m", "bench.peers", *peer.split()], 1 if slow else 2)
            cells.append(f"{timing.seconds:.2f} s, {timing.megabytes:.0f} MB")
        else:
            cells.append("–")
    return "| " + " | ".join(cells) + " |"


def installed(peer: str) -> bool:
    """Whether a Python peer can be run."""
    return importlib.util.find_spec({"kafka-python": "kafka"}.get(peer, peer)) is not None


HEAD = (
    "| job | kfmt | kfmt memory | kafka-dump-log | ratio | limit | ÷ limit | goal | aiokafka "
    "| kafka-python |\n|" + "---|" * 10
)


def shown(lines: Iterable[str]) -> list[str]:
    """The lines of a table, each printed when it is known."""
    print()
    made = []
    for text in lines:
        print(text, flush=True)
        made.append(text)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small files, once")
    parser.add_argument("--write", action="store_true", help="put the table in docs/benchmarks.md")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    specs = SMOKE if arguments.smoke else FULL
    files = {spec.seed.removesuffix(".log"): str(make(spec, HERE / "data")) for spec in specs}
    files = {name: os.path.relpath(file, kafka.ROOT) for name, file in files.items()}
    runs = 1 if arguments.smoke else arguments.runs
    with_kafka = kafka.missing() is None and not arguments.smoke
    print(machine())
    python = installed if not arguments.smoke else lambda _: False
    lines = (line(job, with_kafka, python, runs) for job in jobs(files))
    table = shown(chain([HEAD], lines))
    packed = shown(many.rows(arguments.smoke, runs))
    tools = shown(toolbox.rows(arguments.smoke, with_kafka, runs))
    written = shown(writing.rows(files["none"], arguments.smoke, with_kafka, runs))
    if arguments.write:
        put("table", [f"Machine: {machine()}.", "", *table])
        put("many", packed)
        put("writing", written)
        put("toolbox", tools)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\nlargest process: {peak:.0f} MB")


if __name__ == "__main__":
    main()
