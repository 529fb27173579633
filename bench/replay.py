"""kfmt replay into a local broker, next to confluent-kafka producing the same records from memory.

python -m bench.replay              full size; --write updates docs/benchmarks.md
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

from bench.make_files import BENCH_DIRECTORY
from bench.process import KFMT, Timing, machine, measure, write_table
from tools.kafka import VERSION, missing
from tools.live import Live, format_storage, live

GOAL = 200_000  # records per second
HEADER = ("trace", b"0123456789abcdef")
HEADING = "| records | kfmt replay | its CPU | rate | from memory | ÷ that | goal |\n|" + "---|" * 7


def make_partition(n_records: int, *, with_key: bool) -> Path:
    """A partition of records of 100 bytes. with_key: also a key and a header."""
    directory = BENCH_DIRECTORY / "data" / f"replayed-{n_records}-{int(with_key)}-0"
    if not directory.exists():
        key_and_header = b',"key":"key-%07d","headers":[{"key":"trace","value":"0123456789abcdef"}]'
        command = [*KFMT, "build", "-", str(directory), "--batch-records", "200"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as build:
            assert build.stdin is not None
            for i in range(n_records):
                line = b'{"value":"%s","timestamp":%d' % (value(i), 1_700_000_000_000 + i)
                build.stdin.write(line + (key_and_header % i if with_key else b"") + b"}\n")
    return directory


def value(i: int) -> bytes:
    """The 100 bytes of a record."""
    return b"%010d" % i * 10


def from_memory(address: str, topic: str, n_records: int, *, with_key: bool) -> float:
    """Seconds of a loop of `produce` with the settings of a replay, without reading input or
    reporting acknowledgements."""
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
    keys = [b"key-%07d" % i for i in range(n_records)] if with_key else [None] * n_records
    headers: Any = [HEADER] if with_key else None
    began = time.perf_counter()
    for i, (content, key) in enumerate(zip(values, keys, strict=True)):
        while True:
            try:
                timestamp = 1_700_000_000_000 + i
                producer.produce(topic, content, key, 0, None, None, timestamp, headers)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
    return time.perf_counter() - began


def rows(broker: Live, smoke: bool, runs: int) -> Iterator[str]:
    """The lines of the table: both programs in turns, the best time of each."""
    yield HEADING
    n_records = 20_000 if smoke else 2_000_000
    for label, with_key in (("100 bytes", False), ("100 bytes, a key and a header", True)):
        partition = make_partition(n_records, with_key=with_key)
        best = Timing(1e9, 0, 1e9)
        memory_seconds = 1e9
        for run in range(runs):
            topic = f"bench-{int(with_key)}-{run}"
            target = ["--bootstrap-server", broker.address, "--as", topic]
            state = str(broker.scratch / f"{topic}.json")
            timing = measure([*KFMT, "replay", str(partition), *target, "--state", state], 1)
            best = min(best, timing, key=lambda item: item.seconds)
            memory_seconds = min(
                memory_seconds,
                time_from_memory(broker.address, topic, n_records, with_key=with_key),
            )
        rate = n_records / best.seconds
        goal = f"≥ {GOAL:,}{' met' if rate >= GOAL else ''}"
        cells = [f"{n_records:,} of {label}", f"{best.seconds:.2f} s, {best.megabytes:.0f} MB"]
        cells += [
            f"{best.cpu:.2f} s",
            f"{round(rate, -3):,.0f} records/s",
            f"{memory_seconds:.2f} s",
        ]
        cells += [f"{best.seconds / memory_seconds:.2f}", "–" if with_key else goal]
        yield "| " + " | ".join(cells) + " |"


def time_from_memory(address: str, topic: str, n_records: int, *, with_key: bool) -> float:
    """`from_memory` in a new process."""
    arguments = [address, topic, str(n_records), str(int(with_key))]
    command = [sys.executable, "-m", "bench.replay", "--from-memory", *arguments]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def with_broker(show: Callable[[str], None], smoke: bool, runs: int) -> None:
    """Show each line of the table, measured with a new broker."""
    with tempfile.TemporaryDirectory(dir=BENCH_DIRECTORY / "data") as scratch:
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
        address, topic, n_records, with_key = arguments.from_memory
        seconds = from_memory(address, topic, int(n_records), with_key=with_key == "1")
        print(seconds)
        return
    if reason := missing():
        print(f"skipped: {reason}")
        return
    lines: list[str] = []

    def show(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    (BENCH_DIRECTORY / "data").mkdir(exist_ok=True)
    with_broker(show, arguments.smoke, 1 if arguments.smoke else arguments.runs)
    if arguments.write:
        write_table(
            "replay", [f"{machine()}; Kafka {VERSION}.", "", *"\n".join(lines).splitlines()]
        )


if __name__ == "__main__":
    main()
