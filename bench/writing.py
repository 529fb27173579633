"""Indexes, look-ups and writing: kfmt on a large segment, next to kafka-dump-log where it can."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.make_files import BENCH_DIRECTORY, NAME, Spec, make_file
from bench.process import KFMT, Timing, measure
from tools import kafka

RECORDS = 2_000_000
GIB = Spec("gib-0", "none.log", (1 << 30) - (1 << 20))  # as large as a segment becomes
DST = "DST"

HEADING = """| job | kfmt | kfmt memory | rate | goal | kafka-dump-log |
|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class WritingJob:
    """A job. records: how many it processes; the goal is `seconds` or `rate` (records a second)."""

    name: str
    kfmt: list[str]
    seconds: float | None = None
    rate: float | None = None
    records: int = 0
    megabytes: float | None = None
    kafka: list[str] | None = None


def prepare(log: str, n_records: int) -> tuple[str, str]:
    """Indexes next to the log; its first records as JSON Lines and as a log of magic 1."""
    if not Path(log).with_suffix(".index").exists():
        subprocess.run(
            [*KFMT, "rebuild-index", "--in-place", log], check=True, stdout=subprocess.DEVNULL
        )
    lines = BENCH_DIRECTORY / "data" / f"records-{n_records}.jsonl"
    if not lines.exists():
        with lines.open("wb") as output:
            command = [*KFMT, "dump", "--records", "--json", "--limit", str(n_records), log]
            subprocess.run(command, check=True, stdout=output)
    old_partition = BENCH_DIRECTORY / "data" / f"magic-1-{n_records}-0"
    if not old_partition.exists():
        command = [*KFMT, "build", "-", str(old_partition), "--magic", "1", "--base-offset", "0"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as build:
            assert build.stdin is not None
            with lines.open("rb") as records:
                # Without the lines of batches, which name magic 2.
                build.stdin.writelines(
                    record for record in records if record.startswith(b'{"type":"record"')
                )
    return str(lines), str(old_partition / NAME)


def jobs(log: str, n_records: int, large: str) -> list[WritingJob]:
    """All jobs to measure. large: the log for look-ups, with its indexes."""
    lines, old_log = prepare(log, n_records)
    index = str(Path(log).with_suffix(".index"))
    n_bytes = Path(large).stat().st_size
    size, middle = f"{n_bytes >> 20} MiB", str(n_bytes // 150)  # a record takes about 75 bytes
    return [
        WritingJob(f"find --offset, {size}", ["find", large, "--offset", middle], seconds=0.2),
        WritingJob(f"cat --key, {size}, no match", ["cat", large, "--key", "no such key"]),
        WritingJob(
            "index-check",
            ["index-check", log],
            seconds=0.5,
            kafka=["--verify-index-only", "--files", index],
        ),
        WritingJob("rebuild-index", ["rebuild-index", log, DST], seconds=0.5),
        WritingJob("salvage", ["salvage", log, DST]),
        WritingJob(
            "convert-v0-to-v2, magic 1, uncompressed",
            ["convert-v0-to-v2", old_log, DST],
            rate=1e6,
            records=n_records,
            megabytes=300,
        ),
        WritingJob(
            "convert-v0-to-v2 --compression lz4",
            ["convert-v0-to-v2", old_log, DST, "--compression", "lz4"],
            records=n_records,
        ),
        WritingJob("build", ["build", lines, DST], rate=5e5, records=n_records),
        WritingJob(
            "build --compression zstd",
            ["build", "--compression", "zstd", "--magic", "2", lines, DST],
            records=n_records,
        ),
    ]


def rows(log: str, smoke: bool, with_kafka: bool, runs: int) -> Iterator[str]:
    """The lines of the table."""
    yield HEADING
    large = log if smoke else str(make_file(GIB, BENCH_DIRECTORY / "data"))
    if not Path(large).with_suffix(".index").exists():
        command = [*KFMT, "rebuild-index", "--in-place", large]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for job in jobs(log, 20_000 if smoke else RECORDS, large):
        kfmt_timing = best(job, runs)
        rate = f"{job.records / kfmt_timing.seconds / 1e6:.2f} M records/s" if job.records else "–"
        goals = []
        if job.seconds is not None:
            goals.append(f"≤ {job.seconds} s{' met' if kfmt_timing.seconds <= job.seconds else ''}")
        if job.rate is not None:
            met = job.records / kfmt_timing.seconds >= job.rate
            goals.append(f"≥ {job.rate / 1e6:g} M records/s{' met' if met else ''}")
        if job.megabytes is not None:
            met = kfmt_timing.megabytes <= job.megabytes
            goals.append(f"≤ {job.megabytes:g} MB{' met' if met else ''}")
        kafka_cell = "–"
        if job.kafka and with_kafka:
            timing = measure(kafka.dump_command(kafka.VERSION, *job.kafka), max(runs - 1, 1))
            kafka_cell = f"{timing.seconds:.2f} s, {timing.megabytes:.0f} MB"
        cells = [job.name, f"{kfmt_timing.seconds:.2f} s", f"{kfmt_timing.megabytes:.0f} MB", rate]
        yield "| " + " | ".join([*cells, ", ".join(goals) or "–", kafka_cell]) + " |"


def best(job: WritingJob, runs: int) -> Timing:
    """The best of some runs, each with a new target directory."""
    timings = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(dir=BENCH_DIRECTORY / "data") as directory:
            target = str(Path(directory) / "out")
            command = [target if argument == DST else argument for argument in job.kfmt]
            timings.append(measure([*KFMT, *command], 1))
            shutil.rmtree(target, ignore_errors=True)
    return min(timings, key=lambda timing: timing.seconds)
