"""The fsck and the toolbox: kfmt's jobs on the same files, and kafka-dump-log next to them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.make_files import HERE, PARTITIONS, make_many, make_thousand
from bench.process import KFMT, Timing, measure
from tools import kafka

HEAD = """| job | kfmt | memory of the largest process | rate | goal | kafka-dump-log |
|---|---|---|---|---|---|"""


def rows(smoke: bool, with_kafka: bool, runs: int) -> Iterator[str]:
    """The lines of the table."""
    data = HERE / "data"
    thousand = make_thousand(data, 10 if smoke else 1000)
    many = str(make_many(data, 20 if smoke else PARTITIONS))
    yield HEAD
    logs = sorted(thousand.rglob("*.log"))
    n_bytes = sum(log.stat().st_size for log in logs)
    deep = _ours(["verify-crc", "--deep", str(thousand)], runs)
    check = _ours(["check", str(thousand)], runs)
    ratio = check.seconds / deep.seconds
    theirs = "–"
    if with_kafka:
        names = ",".join(map(str, logs))
        timing = measure(kafka.dump_command(kafka.VERSION, "--deep-iteration", "--files", names), 1)
        theirs = f"{timing.seconds:.1f} s, {timing.megabytes:.0f} MB"
    size = f"{n_bytes >> 20} MiB in {len(logs)} segments"
    yield _row(f"verify-crc --deep, {size}", deep, "–", "–", theirs)
    goal = f"≤ 1.4 times that: {ratio:.2f}{' met' if ratio <= 1.4 else ''}"
    yield _row(f"check, {size}", check, "–", goal)
    words = "28 000" if not smoke else "140"
    alone = _ours(["check", many], runs)
    met = " met" if alone.seconds <= 8 else ""
    yield _row(f"check, {words} small segments", alone, "–", f"≤ 8.0 s{met}")
    three = _ours(["replicas", *_copies(Path(many))], runs)
    ratio = three.seconds / alone.seconds
    goal = f"≤ 3.3 times that: {ratio:.2f}{' met' if ratio <= 3.3 else ''}"
    yield _row(f"replicas, three copies of {words} small segments", three, "–", goal)
    yield _timed(f"retention, {words} small segments", ["retention", many], 2.0, runs)
    n_keyed = 6000 if smoke else 6_000_000
    keyed = _keyed(data, n_keyed)
    # A key that six records have, and an expression, for which every key is looked at.
    for pattern in ("key-7919", "~^key-79[0-9]{2}$"):
        cat = _ours(["cat", keyed, "--key", pattern, "--json"], runs)
        rate = n_keyed / cat.seconds / 1e6
        met = " met" if rate >= 6 and not smoke else ""
        words = f"cat --key '{pattern}' --json"
        yield _row(words, cat, f"{rate:.1f} M records/s", f"≥ 6 M records/s{met}")
    stat = _ours(["stat", str(thousand)], runs)
    speed = n_bytes / stat.seconds / 1e9
    met = " met" if speed >= 1.5 else ""
    yield _row(f"stat, {size}", stat, f"{speed:.2f} GB/s", f"≥ 1.5 GB/s{met}")
    sample = _ours(["stat", "--sample", "64M", str(thousand)], runs)
    yield _row(f"stat --sample 64M, {size}", sample, "–", "–")
    yield _timed("compaction, 6 M records of a million keys", ["compaction", keyed], 2.5, runs)


def _copies(directory: Path) -> list[str]:
    """Three brokers' directories with the same logs, as hard links."""
    found = []
    for node in (1, 2, 3):
        copy = directory.with_name(f"{directory.name}-of-{node}")
        if not copy.exists():
            shutil.copytree(directory, copy, copy_function=os.link)
            ids = f"cluster.id=4L6g3nShT-eMCtK--X86sw\nnode.id={node}\n"
            (copy / "meta.properties").write_text(f"version=1\n{ids}")
        found.append(str(copy))
    return found


def _keyed(data: Path, n_records: int) -> str:
    """A partition of records with keys whose one log is closed: an empty segment is active."""
    folder = data / f"keyed-{n_records}-0"
    active = folder / f"{n_records:020}.log"
    if not active.exists():
        shutil.rmtree(folder, ignore_errors=True)
        command = [*KFMT, "build", "-", str(folder), "--batch-records", "200"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as build:
            assert build.stdin is not None
            for i in range(n_records):
                key, value = f"key-{i * 7919 % max(n_records // 6, 1)}", "v" * 48
                build.stdin.write(b'{"key":"%s","value":"%s"}\n' % (key.encode(), value.encode()))
        active.touch()
    return str(folder)


def _ours(arguments: list[str], runs: int) -> Timing:
    return measure([*KFMT, *arguments], runs)


def _timed(name: str, arguments: list[str], goal: float, runs: int) -> str:
    timing = _ours(arguments, runs)
    return _row(name, timing, "–", f"≤ {goal} s{' met' if timing.seconds <= goal else ''}")


def _row(name: str, timing: Timing, rate: str, goal: str, theirs: str = "–") -> str:
    cells = [name, f"{timing.seconds:.2f} s", f"{timing.megabytes:.0f} MB", rate, goal, theirs]
    return "| " + " | ".join(cells) + " |"
