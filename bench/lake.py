"""Exports of many small segments, the listing of a bucket with many objects, and a stream.

python -m bench.lake              full size; --write updates docs/benchmarks.md
python -m bench.lake --smoke      small files, once
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.make_files import BENCH_DIRECTORY, FULL, PARTITIONS, SMOKE, make_file, make_many
from bench.process import KFMT, machine, measure, write_table
from kfmt_cli.arrow.input_files import list_input_files
from kfmt_cli.spark.input_partition import distribute_files
from kfmt_cli.spark.partition_reader import read_input_partition
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.streaming.follower import StreamFollower
from kfmt_cli.spark.streaming.stream_listing import MIN_STABLE_SECONDS
from tools.broker import free_ports

STORE = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}
IDLE_TRIGGERS = 9
MASTER = ("--master", "local[2]")
HEADING = "| job | time | what else | goal |\n|---|---|---|---|"


# VmHWM, because `getrusage` reports at least the memory of the parent process.
DRIVER = """
import re, sys
from pathlib import Path
from kfmt_cli.commands.pipeline.options import pipeline
pipeline.main(sys.argv[1:], standalone_mode=False)
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def row(job: str, seconds: float, details: str, goal: float | None) -> str:
    """A line of the table; the goal is in seconds."""
    goal_text = "–" if goal is None else f"≤ {goal:g} s{' met' if seconds <= goal else ''}"
    return f"| {job} | {seconds:.2f} s | {details} | {goal_text} |"


def export_rows(logs: Path, scratch: Path) -> Iterator[str]:
    """Entire processes, with the start of Spark."""
    for name, command, goal in (
        ("`kfmt export`", ["export"], 25.0),
        ("`kfmt pipeline export`", ["pipeline", "export", *MASTER], 18.0),
        ("`kfmt pipeline verify`", ["pipeline", "verify", *MASTER], 15.0),
        ("`kfmt pipeline stats`", ["pipeline", "stats", *MASTER], 15.0),
    ):
        output = scratch / name.strip("`").replace(" ", "-")
        timing = measure([*KFMT, *command, str(logs), "--to", str(output)], 1)
        files = sum(1 for _ in output.rglob("*.parquet"))
        yield row(name, timing.seconds, f"{files} files, {timing.megabytes:.0f} MB", goal)
        shutil.rmtree(output)


def bucket_rows(n: int, scratch: Path) -> Iterator[str]:
    """List and plan the objects of an S3 server: versitygw if installed, else moto, which needs
    most of the time itself."""
    gateway = shutil.which("versitygw")
    with moto() if gateway is None else versity(gateway, scratch) as put_object:
        for i in range(n):
            put_object(f"kafka/topic{i // 1000}-{i % 10}/{i:020}.log")
        request = replace(parse_request({}), paths=("s3://segments/kafka",))
        began = time.perf_counter()
        splits = distribute_files(request, list_input_files(request))
        seconds = time.perf_counter() - began
    name = f"{n:,} objects of a bucket ({'moto' if gateway is None else 'versitygw'})"
    yield row(f"{name}, listed and planned", seconds, f"{len(splits)} tasks", 10)


@contextmanager
def moto() -> Iterator[Callable[[str], object]]:
    """A server in this process; yields a function that puts an object into its bucket."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {**STORE, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    store.create_bucket("segments", "us-east-1")
    yield lambda name: store.put_object("segments", name, b"x")
    server.stop()


@contextmanager
def versity(gateway: str, scratch: Path) -> Iterator[Callable[[str], object]]:
    """A server process whose buckets are directories; yields a function that puts an object into
    one."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    keys = ["--access", STORE["AWS_ACCESS_KEY_ID"], "--secret", STORE["AWS_SECRET_ACCESS_KEY"]]
    root = scratch / "buckets"
    (root / "segments").mkdir(parents=True)
    server = subprocess.Popen(
        [gateway, "--port", address, *keys, "--quiet", "posix", "--nometa", str(root)],
        stdout=subprocess.DEVNULL,
    )
    os.environ |= {**STORE, "AWS_ENDPOINT_URL": f"http://{address}"}

    def put_object(name: str) -> None:
        file = root / "segments" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")

    try:
        yield put_object
    finally:
        server.terminate()
        server.wait()


def stream_rows(logs: Path, large: Path, n_partitions: int, scratch: Path) -> Iterator[str]:
    """A trigger without new data, and one with much."""
    request = replace(parse_request({}), paths=(str(hard_linked(logs, n_partitions, scratch)),))
    follower = StreamFollower(request)
    n_files = len(list_input_files(request))
    start = follower.latest_positions({})
    time.sleep(MIN_STABLE_SECONDS)
    assert follower.latest_positions(start) == start
    times = []
    for _ in range(IDLE_TRIGGERS):
        began = time.perf_counter()
        assert follower.latest_positions(start) == start
        times.append(time.perf_counter() - began)
    name = f"a trigger without new data, {n_partitions:,} partitions, {n_files:,} logs"
    yield row(name, median(times), f"median of {IDLE_TRIGGERS}", 0.1)
    request = replace(parse_request({"columns": "offset,timestamp"}), paths=(str(large),))
    follower = StreamFollower(request)
    began = time.perf_counter()
    splits = follower.plan_input_partitions({}, follower.latest_positions({}))
    n = sum(len(batch) for split in splits for batch in read_input_partition(request, split))
    seconds = time.perf_counter() - began
    rate = f"{n / seconds / 1e6:.1f} M records/s by one process"
    yield row(f"a trigger with {n / 1e6:.1f} M records", seconds, rate, n / 3e6)


def hard_linked(logs: Path, n_partitions: int, directory: Path) -> Path:
    """Fill a log directory with hard links to segments of another, repeating its partitions."""
    sources = [sorted(source.glob("*.log")) for source in sorted(logs.iterdir())[:100]]
    for index in range(n_partitions):
        partition = directory / f"topic{index // 40:04}-{index % 40}"
        partition.mkdir(parents=True)
        for log in sources[index % len(sources)]:
            (partition / log.name).hardlink_to(log)
    return directory


def memory_rows(logs: Path, partition_counts: tuple[int, int], scratch: Path) -> Iterator[str]:
    """Memory of a driver's Python for few segments, and for many."""
    sizes = []
    for n in partition_counts:
        directory = hard_linked(logs, n, scratch / f"driver-{n}")
        n_files = sum(1 for _ in directory.rglob("*.log"))
        command = ["verify", *MASTER, str(directory), "--to", str(scratch / f"verify-{n}")]
        began = time.perf_counter()
        result = subprocess.run(
            [sys.executable, "-c", DRIVER, *command], check=True, capture_output=True, text=True
        )
        seconds = time.perf_counter() - began
        sizes.append((n_files, int(result.stdout.split()[-1])))
        details = f"the driver's Python used {sizes[-1][1] / 1024:.0f} MB"
        yield row(f"`kfmt pipeline verify` of {n_files:,} segments", seconds, details, None)
    (few_files, few_kilobytes), (many_files, many_kilobytes) = sizes
    bytes_per_file = (many_kilobytes - few_kilobytes) * 1024 / (many_files - few_files)
    yield f"| additional memory per segment | – | {bytes_per_file:.0f} bytes at the peak | – |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small files, once")
    parser.add_argument("--write", action="store_true", help="put the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    logs = make_many(BENCH_DIRECTORY / "data", 20 if arguments.smoke else PARTITIONS)
    large = make_file((SMOKE if arguments.smoke else FULL)[0], BENCH_DIRECTORY / "data").parent
    lines = [f"{machine()}.", "", HEADING]
    print("\n".join(lines))
    with tempfile.TemporaryDirectory(dir=BENCH_DIRECTORY / "data") as scratch:
        stream_directory = Path(scratch) / "followed"
        stream_directory.mkdir()
        for line in (
            *export_rows(logs, Path(scratch)),
            *bucket_rows(200 if arguments.smoke else 100_000, Path(scratch)),
            *stream_rows(logs, large, 20 if arguments.smoke else 5000, stream_directory),
            *memory_rows(logs, (2, 20) if arguments.smoke else (150, 14300), Path(scratch)),
        ):
            lines.append(line)
            print(line, flush=True)
    if arguments.write:
        write_table("lake", lines)


if __name__ == "__main__":
    main()
