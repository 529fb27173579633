"""compare, find and restore on Spark: rates of a warm session, next to the same without Spark.

python -m bench.spark_copies          full size; --write puts the table in docs/benchmarks.md
python -m bench.spark_copies --smoke  small files, once
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.make_files import FULL, HERE, SMOKE, Spec, make
from bench.process import KFMT, machine, put
from bench.spark import MASTER, best
from kfmt_cli.cli.selection_options import parse_selection_options
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.spark.jobs import compare, export_job, find_job, restore, verify
from kfmt_cli.spark.jobs.context import JobContext, JobSummary
from kfmt_cli.spark.session import session

KEY = "customer-7919"


@dataclass(frozen=True)
class Bench:
    """Jobs of a session."""

    spark: Any
    scratch: Path
    runs: int

    def run(self, module: Any, *paths: Path, to: Path | None = None, **options: Any) -> JobSummary:
        """A job, by default into a new directory, which is deleted."""
        place = to or self.scratch / str(time.monotonic_ns())
        asked = parse_selection_options(options)
        names = tuple(str(path.absolute()) for path in paths)
        table = "segments" if module in (verify, export_job) else "batches"
        request = ReadRequest(table=table, paths=names, selection_options=asked, parallelism=2)
        context = JobContext(self.spark, request, str(place), "parquet", lambda _: None, options)
        summary: JobSummary = module.run_job(context)
        if to is None:
            shutil.rmtree(place)
        return summary

    def best(self, module: Any, *paths: Path, **options: Any) -> float:
        """Its best time, in seconds."""
        return best(lambda: self.run(module, *paths, **options), self.runs)


def indexed(spec: Spec) -> Path:
    """The directory of a log with its index."""
    log = make(spec, HERE / "data")
    if not log.with_suffix(".index").exists():
        command = [*KFMT, "rebuild-index", "--in-place", str(log)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return log.parent


def alone(runs: int, *arguments: str | Path) -> float:
    """The best time of a command's whole process."""
    command = [*KFMT, *map(str, arguments)]

    def call() -> None:
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode in (0, 1), done.stderr

    return best(call, runs)


def met(is_met: bool, goal: str) -> str:
    """A goal's cell."""
    return f"{goal} met" if is_met else goal


def of_copies(bench: Bench, a: Path) -> Iterator[str]:
    """compare, and its peers."""
    b = bench.scratch / "copy" / a.name
    shutil.copytree(a, b)
    size = 2 * (a / f"{0:020}.log").stat().st_size
    both = size / bench.best(verify, a, b) / 1e9
    yield f"| verify of both | {size / both / 1e9:.2f} s | {both:.2f} GB/s | – |"
    seconds = bench.best(compare, a, b)
    rate = size / seconds / 1e9
    goal = met(rate >= 0.7 * both, "≥ 70 % of verify")
    yield f"| compare of identical replicas | {seconds:.2f} s | {rate:.2f} GB/s | {goal} |"
    seconds = alone(bench.runs, "diff", a, b)
    rate = size / seconds / 1e9
    goal = met(rate >= 1, "≥ 1 GB/s")
    name = "kfmt diff of the same without Spark, whole process"
    yield f"| {name} | {seconds:.2f} s | {rate:.2f} GB/s | {goal} |"
    command = ["cmp", *(str(folder / f"{0:020}.log") for folder in (a, b))]
    seconds = best(lambda: subprocess.run(command, check=True), bench.runs)
    yield f"| limit: cmp of the two logs | {seconds:.2f} s | {size / seconds / 1e9:.2f} GB/s | – |"
    shutil.rmtree(b.parent)


def of_records(name: str, n: int, seconds: float, goal: float | None = None) -> str:
    """A row with a rate of records. goal: millions per second."""
    rate = n / seconds / 1e6
    cell = "–" if goal is None else met(rate >= goal, f"≥ {goal:g} M")
    return f"| {name} | {seconds:.2f} s | {rate:.2f} M records/s | {cell} |"


def rows(specs: list[Spec], runs: int) -> Iterator[str]:
    """The lines of the table."""
    yield "| job | time | rate | goal |\n|---|---|---|---|"
    plain, packed = (indexed(spec) for spec in specs[:2])
    with (
        session(MASTER) as spark,
        tempfile.TemporaryDirectory(dir=HERE / "data") as scratch,
    ):
        bench = Bench(spark, Path(scratch), runs)
        yield from of_copies(bench, plain)
        for folder, words, goal in ((plain, "uncompressed", 6.0), (packed, "lz4", 4.0)):
            n = bench.run(verify, folder).counts["records"]
            seconds = bench.best(find_job, folder, key=KEY)
            yield of_records(f"find of one key, {words}", n, seconds, goal)
            seconds = alone(runs, "find", folder, "--key", KEY)
            yield of_records("kfmt find of the same without Spark, whole process", n, seconds)
        table = bench.scratch / "table"
        done = bench.run(export_job, plain, to=table, tables="records,batches")
        n = done.counts["records"]
        seconds = bench.best(restore, table)
        yield of_records("restore of one partition, with batches", n, seconds, 0.5)
        seconds = bench.best(compare, plain, table)
        yield of_records("compare of segments and their table", n, seconds)
        shutil.rmtree(table)
        bench.run(export_job, plain, to=table)
        seconds = bench.best(restore, table)
        yield of_records("restore without the table of batches", n, seconds, 0.5)
        seconds = bench.best(export_job, plain)
        yield of_records("export of the same records", n, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small files, once")
    parser.add_argument("--write", action="store_true", help="put the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    import pyspark

    written = [f"{machine()}; Spark {pyspark.__version__}, {MASTER}.", ""]
    print(written[0] + "\n")
    specs, runs = (SMOKE, 1) if arguments.smoke else (FULL, 3)
    for row in rows(specs, runs):
        written.append(row)
        print(row, flush=True)
    if arguments.write:
        put("spark copies", written)


if __name__ == "__main__":
    main()
