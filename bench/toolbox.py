"""The checks and the toolbox: kfmt's jobs on the same files, next to kafka-dump-log."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.make_files import BENCH_DIRECTORY, PARTITIONS, make_many, make_thousand
from bench.process import KFMT, Timing, measure
from tools import kafka

HEADING = """| job | kfmt | memory of the largest process | rate | goal | kafka-dump-log |
|---|---|---|---|---|---|"""


def rows(smoke: bool, with_kafka: bool, runs: int) -> Iterator[str]:
    """The lines of the table."""
    data = BENCH_DIRECTORY / "data"
    thousand = make_thousand(data, 10 if smoke else 1000)
    many = str(make_many(data, 20 if smoke else PARTITIONS))
    yield HEADING
    logs = sorted(thousand.rglob("*.log"))
    n_bytes = sum(log.stat().st_size for log in logs)
    deep = _measure_kfmt(["verify-crc", "--deep", str(thousand)], runs)
    check = _measure_kfmt(["check", str(thousand)], runs)
    ratio = check.seconds / deep.seconds
    kafka_cell = "–"
    if with_kafka:
        names = ",".join(map(str, logs))
        timing = measure(kafka.dump_command(kafka.VERSION, "--deep-iteration", "--files", names), 1)
        kafka_cell = f"{timing.seconds:.1f} s, {timing.megabytes:.0f} MB"
    size = f"{n_bytes >> 20} MiB in {len(logs)} segments"
    yield _row(f"verify-crc --deep, {size}", deep, "–", "–", kafka_cell)
    goal = f"≤ 1.4 times that: {ratio:.2f}{' met' if ratio <= 1.4 else ''}"
    yield _row(f"check, {size}", check, "–", goal)
    label = "28 000" if not smoke else "140"
    check_many = _measure_kfmt(["check", many], runs)
    met = " met" if check_many.seconds <= 8 else ""
    yield _row(f"check, {label} small segments", check_many, "–", f"≤ 8.0 s{met}")
    check_replicas = _measure_kfmt(["replicas", *_make_copies(Path(many))], runs)
    ratio = check_replicas.seconds / check_many.seconds
    goal = f"≤ 3.3 times that: {ratio:.2f}{' met' if ratio <= 3.3 else ''}"
    yield _row(f"replicas, three copies of {label} small segments", check_replicas, "–", goal)
    yield _timed_row(f"retention, {label} small segments", ["retention", many], 2.0, runs)
    n_keyed = 6000 if smoke else 6_000_000
    keyed_partition = _make_keyed_partition(data, n_keyed)
    # A key of six records, and a regular expression, which is matched with every key.
    for pattern in ("key-7919", "~^key-79[0-9]{2}$"):
        cat = _measure_kfmt(["cat", keyed_partition, "--key", pattern, "--json"], runs)
        rate = n_keyed / cat.seconds / 1e6
        met = " met" if rate >= 6 and not smoke else ""
        label = f"cat --key '{pattern}' --json"
        yield _row(label, cat, f"{rate:.1f} M records/s", f"≥ 6 M records/s{met}")
    stat = _measure_kfmt(["stat", str(thousand)], runs)
    speed = n_bytes / stat.seconds / 1e9
    met = " met" if speed >= 1.5 else ""
    yield _row(f"stat, {size}", stat, f"{speed:.2f} GB/s", f"≥ 1.5 GB/s{met}")
    sample = _measure_kfmt(["stat", "--sample", "64M", str(thousand)], runs)
    yield _row(f"stat --sample 64M, {size}", sample, "–", "–")
    yield _timed_row(
        "compaction, 6 M records of a million keys", ["compaction", keyed_partition], 2.5, runs
    )


def _make_copies(directory: Path) -> list[str]:
    """The directories of three brokers with the same logs, as hard links."""
    copies = []
    for node in (1, 2, 3):
        copy = directory.with_name(f"{directory.name}-of-{node}")
        if not copy.exists():
            shutil.copytree(directory, copy, copy_function=os.link)
            ids = f"cluster.id=4L6g3nShT-eMCtK--X86sw\nnode.id={node}\n"
            (copy / "meta.properties").write_text(f"version=1\n{ids}")
        copies.append(str(copy))
    return copies


def _make_keyed_partition(data: Path, n_records: int) -> str:
    """A partition of keyed records in one closed log; the active segment is empty."""
    partition = data / f"keyed-{n_records}-0"
    active = partition / f"{n_records:020}.log"
    if not active.exists():
        shutil.rmtree(partition, ignore_errors=True)
        command = [*KFMT, "build", "-", str(partition), "--batch-records", "200"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as build:
            assert build.stdin is not None
            for i in range(n_records):
                key, value = f"key-{i * 7919 % max(n_records // 6, 1)}", "v" * 48
                build.stdin.write(b'{"key":"%s","value":"%s"}\n' % (key.encode(), value.encode()))
        active.touch()
    return str(partition)


def _measure_kfmt(arguments: list[str], runs: int) -> Timing:
    return measure([*KFMT, *arguments], runs)


def _timed_row(name: str, arguments: list[str], goal: float, runs: int) -> str:
    timing = _measure_kfmt(arguments, runs)
    return _row(name, timing, "–", f"≤ {goal} s{' met' if timing.seconds <= goal else ''}")


def _row(name: str, timing: Timing, rate: str, goal: str, kafka_cell: str = "–") -> str:
    cells = [name, f"{timing.seconds:.2f} s", f"{timing.megabytes:.0f} MB", rate, goal, kafka_cell]
    return "| " + " | ".join(cells) + " |"
