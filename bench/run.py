"""kfmt and its peers side by side: the same file, the same machine, one run, whole processes.

    python -m bench.run                 full size; writes docs/benchmarks.md with --write
    python -m bench.run --smoke         small files, once: does every job still run?

kafka-dump-log is run where java and mvn are there, aiokafka and kafka-python where they are
installed (`pip install -e '.[bench]'`). Times are the best of several runs with a warm page cache;
outputs go to /dev/null.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench import writing
from bench.make_files import FULL, HERE, SMOKE, make
from tools import kafka

SMALL = kafka.SAMPLES / "kafka-3.9.1-broker1/orders-0/00000000000000000000.log"
KFMT = [sys.executable, "-m", "kfmt_cli"]


@dataclass(frozen=True)
class Timing:
    """Seconds and the peak of memory in MB of one process, the best of several."""

    seconds: float
    megabytes: float


@dataclass
class Job:
    """A job that several tools do. goal: kfmt's time as a part of kafka-dump-log's."""

    name: str
    ours: list[str]
    kafka: list[str] | None
    goal: float | None
    peers: list[str] = field(default_factory=list)
    seconds_goal: float | None = None


def jobs(files: dict[str, str]) -> list[Job]:
    """Everything that is measured."""
    none, lz4, zstd, tiny = (files[name] for name in ("none", "lz4", "zstd", "tiny"))
    python = ["aiokafka", "kafka-python"]
    return [
        Job("structure + CRC", ["verify-crc", none], [none], 0.32, [f"{p} {none}" for p in python]),
        Job(
            "+ decode every record",
            ["verify-crc", "--deep", none],
            ["--deep-iteration", none],
            0.045,
            [f"{p} {none} --deep" for p in python],
        ),
        Job(
            "the same, lz4",
            ["verify-crc", "--deep", lz4],
            ["--deep-iteration", lz4],
            0.053,
            [f"{p} {lz4} --deep" for p in python],
        ),
        Job(
            "the same, zstd",
            ["verify-crc", "--deep", zstd],
            ["--deep-iteration", zstd],
            None,
            [f"{p} {zstd} --deep" for p in python],
        ),
        Job(
            "every record as JSON Lines",
            ["dump", "--records", "--json", none],
            ["--print-data-log", none],
            0.10,
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
        ),
        Job("batches as a table", ["dump", none], [none], 1.0),
        Job(
            "structure + CRC, one-record batches",
            ["verify-crc", tiny],
            [tiny],
            0.14,
            [f"{p} {tiny}" for p in python],
        ),
        Job("batches as a table, one-record batches", ["dump", tiny], [tiny], 1.0),
        Job("one small file", ["dump", str(SMALL)], [str(SMALL)], 0.5),
        Job("--version", ["--version"], None, None, seconds_goal=0.08),
        Job("encode-varint 300", ["encode-varint", "300"], None, None, seconds_goal=0.08),
    ]


def measure(command: list[str], runs: int) -> Timing:
    """The best time of some runs, and the memory of the largest."""
    best, peak = 1e9, 0.0
    for _ in range(runs):
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=kafka.ROOT
        )
        assert process.stderr is not None
        complaint = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
        best = min(best, time.perf_counter() - began)
        peak = max(peak, usage.ru_maxrss / 1024)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} failed: {complaint.decode()}")
    return Timing(best, peak)


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
    goal = "–"
    if job.goal is not None:
        met = "" if theirs is None else " met" if ours.seconds <= job.goal * theirs.seconds else ""
        goal = f"≤ {job.goal}{met}"
    elif job.seconds_goal is not None:
        goal = f"≤ {job.seconds_goal} s{' met' if ours.seconds <= job.seconds_goal else ''}"
    cells.append(goal)
    for name in ("aiokafka", "kafka-python"):
        peer = next((it for it in job.peers if it.startswith(name)), None)
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


HEAD = """| job | kfmt | kfmt memory | kafka-dump-log | ratio | goal | aiokafka | kafka-python |
|---|---|---|---|---|---|---|---|"""


def machine() -> str:
    """The machine in a few words."""
    model = "unknown processor"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [it for it in cpuinfo.read_text().splitlines() if it.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, {platform.system()}, "
        f"Python {platform.python_version()}"
    )


def put(name: str, lines: list[str]) -> None:
    """Put a table between its marks in docs/benchmarks.md."""
    page = kafka.ROOT / "docs" / "benchmarks.md"
    before, _, rest = page.read_text().partition(f"<!-- {name} -->")
    _, _, after = rest.partition(f"<!-- end of {name} -->")
    table = "\n".join(lines)
    page.write_text(f"{before}<!-- {name} -->\n{table}\n<!-- end of {name} -->{after}")


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
    rows = [HEAD]
    print(f"{machine()}\n\n{HEAD}")
    for job in jobs(files):
        row = line(job, with_kafka, installed if not arguments.smoke else lambda _: False, runs)
        rows.append(row)
        print(row, flush=True)
    written = []
    print()
    for row in writing.rows(files["none"], arguments.smoke, with_kafka, runs, measure):
        written.append(row)
        print(row, flush=True)
    if arguments.write:
        put("table", [f"Machine: {machine()}.", "", *rows])
        put("writing", written)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\nlargest process: {peak:.0f} MB")


if __name__ == "__main__":
    main()
