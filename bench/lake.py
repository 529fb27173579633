"""Exports of many small segments, a bucket with many objects, a stream: what the lake side takes.

python -m bench.lake              full size; --write puts the table in docs/benchmarks.md
python -m bench.lake --smoke      small files, once
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.make_files import FULL, HERE, PARTITIONS, SMOKE, make, make_many
from bench.process import KFMT, machine, measure, put
from kfmt_cli.arrow.inputs import files_of
from kfmt_cli.spark.plan import plan
from kfmt_cli.spark.request import request_of
from kfmt_cli.spark.splits import read_split
from kfmt_cli.spark.stream import Follower

MASTER = ("--master", "local[2]")
HEAD = "| job | time | what else | goal |\n|---|---|---|---|"


def row(job: str, seconds: float, more: str, goal: float) -> str:
    """A line of the table; the goal is in seconds."""
    met = " met" if seconds <= goal else ""
    return f"| {job} | {seconds:.2f} s | {more} | ≤ {goal:g} s{met} |"


def exports(logs: Path, scratch: Path) -> Iterator[str]:
    """Whole processes, Spark's start included."""
    for name, command, goal in (
        ("`kfmt export`", ["export"], 25.0),
        ("`kfmt pipeline export`", ["pipeline", "export", *MASTER], 40.0),
        ("`kfmt pipeline verify`", ["pipeline", "verify", *MASTER], 20.0),
        ("`kfmt pipeline stats`", ["pipeline", "stats", *MASTER], 20.0),
    ):
        to = scratch / name.strip("`").replace(" ", "-")
        done = measure([*KFMT, *command, str(logs), "--to", str(to)], 1)
        files = sum(1 for _ in to.rglob("*.parquet"))
        yield row(name, done.seconds, f"{files} files, {done.megabytes:.0f} MB", goal)
        shutil.rmtree(to)


def bucket(n: int) -> Iterator[str]:
    """Objects of a server that speaks S3, listed and planned."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    store.create_bucket("segments", "us-east-1")
    for i in range(n):
        store.put_object("segments", f"kafka/topic{i // 1000}-{i % 10}/{i:020}.log", b"x")
    request = replace(request_of({}), paths=("s3://segments/kafka",))
    began = time.perf_counter()
    splits = plan(request)
    seconds = time.perf_counter() - began
    server.stop()
    yield row(f"{n:,} objects of a bucket, listed and planned", seconds, f"{len(splits)} tasks", 10)


def stream(logs: Path, large: Path, n_partitions: int, scratch: Path) -> Iterator[str]:
    """A trigger without new data, and one with much."""
    for folder in sorted(logs.iterdir())[:n_partitions]:
        (scratch / folder.name).symlink_to(folder)
    request = replace(request_of({}), paths=(str(scratch),))
    follower = Follower(request)
    n_files = len(files_of(request))
    start = follower.latest({})
    began = time.perf_counter()
    assert follower.latest(start) == start
    seconds = time.perf_counter() - began
    yield row(f"a trigger without new data, {n_files:,} logs", seconds, "–", 0.1)
    request = replace(request_of({"columns": "offset,timestamp"}), paths=(str(large),))
    follower = Follower(request)
    began = time.perf_counter()
    splits = follower.splits({}, follower.latest({}))
    n = sum(len(batch) for split in splits for batch in read_split(request, split))
    seconds = time.perf_counter() - began
    rate = f"{n / seconds / 1e6:.1f} M records/s by one process"
    yield row(f"a trigger with {n / 1e6:.1f} M records", seconds, rate, n / 3e6)


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
            *bucket(200 if arguments.smoke else 100_000),
            *stream(logs, large, 20 if arguments.smoke else 286, followed),
        ):
            written.append(line)
            print(line, flush=True)
    if arguments.write:
        put("lake", written)


if __name__ == "__main__":
    main()
