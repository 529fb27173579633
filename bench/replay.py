"""kfmt replay into a local broker, next to confluent-kafka producing the same records from memory.

python -m bench.replay              full size; --write puts the table in docs/benchmarks.md
python -m bench.replay --smoke      small files, once
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench.make_files import HERE
from bench.process import KFMT, Timing, machine, measure, put
from tools.kafka import VERSION, missing
from tools.live import Live, format_storage, live

GOAL = 200_000  # records per second
HEADER = ("trace", b"0123456789abcdef")
HEAD = "| records | kfmt replay | its CPU | rate | from memory | ÷ that | goal |\n|" + "---|" * 7


def made(n_records: int, *, with_more: bool) -> Path:
    """A partition of records of 100 bytes; with more: also a key and a header."""
    folder = HERE / "data" / f"replayed-{n_records}-{int(with_more)}-0"
    if not folder.exists():
        more = b',"key":"key-%07d","headers":[{"key":"trace","value":"0123456789abcdef"}]'
        command = [*KFMT, "build", "-", str(folder), "--batch-records", "200"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as build:
            assert build.stdin is not None
            for i in range(n_records):
                line = b'{"value":"%s","timestamp":%d' % (value(i), 1_700_000_000_000 + i)
                build.stdin.write(line + (more % i if with_more else b"") + b"}\n")
    return folder


def value(i: int) -> bytes:
    """The 100 bytes of a record."""
    return b"%010d" % i * 10


def from_memory(address: str, topic: str, n_records: int, *, with_more: bool) -> float:
    """The seconds that a plain loop of `produce` takes, with the settings of a replay; nothing is
    read, and no acknowledgement is reported."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 200_000,
        }
    )
    values = [value(i) for i in range(n_records)]
    keys = [b"key-%07d" % i for i in range(n_records)] if with_more else [None] * n_records
    headers: Any = [HEADER] if with_more else None
    began = time.perf_counter()
    for i, (content, key) in enumerate(zip(values, keys, strict=True)):
        while True:
            try:
                at = 1_700_000_000_000 + i
                producer.produce(topic, content, key, 0, None, None, at, headers)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
    return time.perf_counter() - began


def rows(broker: Live, smoke: bool, runs: int) -> Iterator[str]:
    """The lines of the table; both in turns, the best of each."""
    yield HEAD
    n_records = 20_000 if smoke else 2_000_000
    for words, with_more in (("100 bytes", False), ("100 bytes, a key and a header", True)):
        folder, ours, least = made(n_records, with_more=with_more), Timing(1e9, 0, 1e9), 1e9
        for run in range(runs):
            topic = f"bench-{int(with_more)}-{run}"
            to = ["--bootstrap-server", broker.address, "--as", topic]
            state = str(broker.scratch / f"{topic}.json")
            timing = measure([*KFMT, "replay", str(folder), *to, "--state", state], 1)
            ours = min(ours, timing, key=lambda each: each.seconds)
            least = min(least, apart(broker.address, topic, n_records, with_more=with_more))
        rate = n_records / ours.seconds
        goal = f"≥ {GOAL:,}{' met' if rate >= GOAL else ''}"
        cells = [f"{n_records:,} of {words}", f"{ours.seconds:.2f} s, {ours.megabytes:.0f} MB"]
        cells += [f"{ours.cpu:.2f} s", f"{round(rate, -3):,.0f} records/s", f"{least:.2f} s"]
        cells += [f"{ours.seconds / least:.2f}", "–" if with_more else goal]
        yield "| " + " | ".join(cells) + " |"


def apart(address: str, topic: str, n_records: int, *, with_more: bool) -> float:
    """`from_memory` in a process of its own."""
    words = [address, topic, str(n_records), str(int(with_more))]
    command = [sys.executable, "-m", "bench.replay", "--from-memory", *words]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def with_broker(show: Callable[[str], None], smoke: bool, runs: int) -> None:
    """Every line, from a new broker."""
    with tempfile.TemporaryDirectory(dir=HERE / "data") as scratch:
        data = Path(scratch) / "data"
        data.mkdir()
        format_storage(VERSION, data, Path(scratch))
        with live(VERSION, data, Path(scratch)) as broker:
            for line in rows(broker, smoke, runs):
                show(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small files, once")
    parser.add_argument("--write", action="store_true", help="put the table in docs/benchmarks.md")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--from-memory", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.from_memory:
        address, topic, n_records, with_more = arguments.from_memory
        seconds = from_memory(address, topic, int(n_records), with_more=with_more == "1")
        print(seconds)
        return
    if words := missing():
        print(f"skipped: {words}")
        return
    lines: list[str] = []

    def show(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    (HERE / "data").mkdir(exist_ok=True)
    with_broker(show, arguments.smoke, 1 if arguments.smoke else arguments.runs)
    if arguments.write:
        put("replay", [f"{machine()}; Kafka {VERSION}.", "", *"\n".join(lines).splitlines()])


if __name__ == "__main__":
    main()
