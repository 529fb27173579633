"""Exports of many small segments, a bucket with many objects, a stream: what the lake side takes.

python -m bench.lake              full size; --write puts the table in docs/benchmarks.md
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

from bench.make_files import FULL, HERE, PARTITIONS, SMOKE, make, make_many
from bench.process import KFMT, machine, measure, put
from kfmt_cli.arrow.input_files import list_input_files
from kfmt_cli.spark.input_partition import distribute_files
from kfmt_cli.spark.partition_reader import read_input_partition
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.streaming.follower import StreamFollower
from kfmt_cli.spark.streaming.stream_listing import SETTLE_SECONDS
from tools.broker import free_ports

STORE = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}
IDLE_TRIGGERS = 9
MASTER = ("--master", "local[2]")
HEAD = "| job | time | what else | goal |\n|---|---|---|---|"


# What `getrusage` says of a new process is at least what the one had that began it.
DRIVER = """
import re, sys
from pathlib import Path
from kfmt_cli.commands.pipeline.options import pipeline
pipeline.main(sys.argv[1:], standalone_mode=False)
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def row(job: str, seconds: float, more: str, goal: float | None) -> str:
    """A line of the table; the goal is in seconds."""
    words = "–" if goal is None else f"≤ {goal:g} s{' met' if seconds <= goal else ''}"
    return f"| {job} | {seconds:.2f} s | {more} | {words} |"


def exports(logs: Path, scratch: Path) -> Iterator[str]:
    """Whole processes, Spark's start included."""
    for name, command, goal in (
        ("`kfmt export`", ["export"], 25.0),
        ("`kfmt pipeline export`", ["pipeline", "export", *MASTER], 18.0),
        ("`kfmt pipeline verify`", ["pipeline", "verify", *MASTER], 15.0),
        ("`kfmt pipeline stats`", ["pipeline", "stats", *MASTER], 15.0),
    ):
        to = scratch / name.strip("`").replace(" ", "-")
        done = measure([*KFMT, *command, str(logs), "--to", str(to)], 1)
        files = sum(1 for _ in to.rglob("*.parquet"))
        yield row(name, done.seconds, f"{files} files, {done.megabytes:.0f} MB", goal)
        shutil.rmtree(to)


def bucket(n: int, scratch: Path) -> Iterator[str]:
    """Objects of a server that speaks S3, listed and planned: versitygw, where it is installed, and
    moto, which takes most of the time for itself."""
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
    """A server in this process; what puts an object into its bucket."""
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
    """A server of its own, whose buckets are directories; what puts an object into one."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    keys = ["--access", STORE["AWS_ACCESS_KEY_ID"], "--secret", STORE["AWS_SECRET_ACCESS_KEY"]]
    top = scratch / "buckets"
    (top / "segments").mkdir(parents=True)
    server = subprocess.Popen(
        [gateway, "--port", address, *keys, "--quiet", "posix", "--nometa", str(top)],
        stdout=subprocess.DEVNULL,
    )
    os.environ |= {**STORE, "AWS_ENDPOINT_URL": f"http://{address}"}

    def put_object(name: str) -> None:
        file = top / "segments" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")

    try:
        yield put_object
    finally:
        server.terminate()
        server.wait()


def stream(logs: Path, large: Path, n_partitions: int, scratch: Path) -> Iterator[str]:
    """A trigger without new data, and one with much."""
    request = replace(parse_request({}), paths=(str(hard_linked(logs, n_partitions, scratch)),))
    follower = StreamFollower(request)
    n_files = len(list_input_files(request))
    start = follower.latest_positions({})
    time.sleep(SETTLE_SECONDS)
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
    splits = follower.input_partitions({}, follower.latest_positions({}))
    n = sum(len(batch) for split in splits for batch in read_input_partition(request, split))
    seconds = time.perf_counter() - began
    rate = f"{n / seconds / 1e6:.1f} M records/s by one process"
    yield row(f"a trigger with {n / 1e6:.1f} M records", seconds, rate, n / 3e6)


def hard_linked(logs: Path, n_folders: int, folder: Path) -> Path:
    """A log directory with the segments of some partitions of another, as often as is asked for."""
    sources = [sorted(source.glob("*.log")) for source in sorted(logs.iterdir())[:100]]
    for number in range(n_folders):
        place = folder / f"topic{number // 40:04}-{number % 40}"
        place.mkdir(parents=True)
        for log in sources[number % len(sources)]:
            (place / log.name).hardlink_to(log)
    return folder


def memory(logs: Path, n_folders: tuple[int, int], scratch: Path) -> Iterator[str]:
    """What the Python of a driver takes for few segments, and for many."""
    sizes = []
    for n in n_folders:
        folder = hard_linked(logs, n, scratch / f"driver-{n}")
        n_files = sum(1 for _ in folder.rglob("*.log"))
        command = ["verify", *MASTER, str(folder), "--to", str(scratch / f"verify-{n}")]
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, *command], check=True, capture_output=True, text=True
        )
        seconds = time.perf_counter() - began
        sizes.append((n_files, int(done.stdout.split()[-1])))
        words = f"the driver's Python used {sizes[-1][1] / 1024:.0f} MB"
        yield row(f"`kfmt pipeline verify` of {n_files:,} segments", seconds, words, None)
    (few, before), (many, after) = sizes
    each = (after - before) * 1024 / (many - few)
    yield f"| additional memory per segment | – | {each:.0f} bytes at the peak | – |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small files, once")
    parser.add_argument("--write", action="store_true", help="put the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    logs = make_many(HERE / "data", 20 if arguments.smoke else PARTITIONS)
    large = make((SMOKE if arguments.smoke else FULL)[0], HERE / "data").parent
    written = [f"{machine()}.", "", HEAD]
    print("\n".join(written))
    with tempfile.TemporaryDirectory(dir=HERE / "data") as scratch:
        followed = Path(scratch) / "followed"
        followed.mkdir()
        for line in (
            *exports(logs, Path(scratch)),
            *bucket(200 if arguments.smoke else 100_000, Path(scratch)),
            *stream(logs, large, 20 if arguments.smoke else 5000, followed),
            *memory(logs, (2, 20) if arguments.smoke else (150, 14300), Path(scratch)),
        ):
            written.append(line)
            print(line, flush=True)
    if arguments.write:
        put("lake", written)


if __name__ == "__main__":
    main()
