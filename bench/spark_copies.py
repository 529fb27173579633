"""compare, find and restore on Spark: rates of a warm session, next to the same without Spark.

python -m bench.spark_copies          full size; --write updates docs/benchmarks.md
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

from bench.make_files import BENCH_DIRECTORY, FULL, SMOKE, Spec, make_file
from bench.process import KFMT, machine, write_table
from bench.spark import MASTER, best
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.options.selection import parse_selection_options
from kfmt_cli.spark.jobs import compare, export_job, find_job, restore, verify
from kfmt_cli.spark.jobs.context import JobContext, JobSummary
from kfmt_cli.spark.session import open_sql_session

KEY = "customer-7919"


@dataclass(frozen=True)
class Bench:
    """Runs jobs in a session."""

    spark: Any
    scratch: Path
    runs: int

    def run(self, module: Any, *paths: Path, to: Path | None = None, **options: Any) -> JobSummary:
        """Run a job, by default into a new directory that is then deleted."""
        output = to or self.scratch / str(time.monotonic_ns())
        selection_options = parse_selection_options(options)
        names = tuple(str(path.absolute()) for path in paths)
        table = "segments" if module in (verify, export_job) else "batches"
        request = ReadRequest(
            table=table, paths=names, selection_options=selection_options, parallelism=2
        )
        context = JobContext(self.spark, request, str(output), "parquet", lambda _: None, options)
        summary: JobSummary = module.run_job(context)
        if to is None:
            shutil.rmtree(output)
        return summary

    def best(self, module: Any, *paths: Path, **options: Any) -> float:
        """A job's best time, in seconds."""
        return best(lambda: self.run(module, *paths, **options), self.runs)


def indexed_directory(spec: Spec) -> Path:
    """The directory of a log with its index."""
    log = make_file(spec, BENCH_DIRECTORY / "data")
    if not log.with_suffix(".index").exists():
        command = [*KFMT, "rebuild-index", "--in-place", str(log)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return log.parent


def time_command(runs: int, *arguments: str | Path) -> float:
    """The best time of a command as an entire process."""
    command = [*KFMT, *map(str, arguments)]

    def run_command() -> None:
        result = subprocess.run(command, capture_output=True, check=False)
        assert result.returncode in (0, 1), result.stderr

    return best(run_command, runs)


def goal_cell(is_met: bool, goal: str) -> str:
    """The text of a goal, and whether it is met."""
    return f"{goal} met" if is_met else goal


def copy_rows(bench: Bench, original: Path) -> Iterator[str]:
    """Rows for compare, diff, cmp, and verify of both directories."""
    copy = bench.scratch / "copy" / original.name
    shutil.copytree(original, copy)
    size = 2 * (original / f"{0:020}.log").stat().st_size
    verify_rate = size / bench.best(verify, original, copy) / 1e9
    yield f"| verify of both | {size / verify_rate / 1e9:.2f} s | {verify_rate:.2f} GB/s | – |"
    seconds = bench.best(compare, original, copy)
    rate = size / seconds / 1e9
    goal = goal_cell(rate >= 0.7 * verify_rate, "≥ 70 % of verify")
    yield f"| compare of identical replicas | {seconds:.2f} s | {rate:.2f} GB/s | {goal} |"
    seconds = time_command(bench.runs, "diff", original, copy)
    rate = size / seconds / 1e9
    goal = goal_cell(rate >= 1, "≥ 1 GB/s")
    name = "kfmt diff of the same without Spark, whole process"
    yield f"| {name} | {seconds:.2f} s | {rate:.2f} GB/s | {goal} |"
    command = ["cmp", *(str(directory / f"{0:020}.log") for directory in (original, copy))]
    seconds = best(lambda: subprocess.run(command, check=True), bench.runs)
    yield f"| limit: cmp of the two logs | {seconds:.2f} s | {size / seconds / 1e9:.2f} GB/s | – |"
    shutil.rmtree(copy.parent)


def record_row(name: str, n: int, seconds: float, goal: float | None = None) -> str:
    """A row with a rate of records. goal: millions per second."""
    rate = n / seconds / 1e6
    cell = "–" if goal is None else goal_cell(rate >= goal, f"≥ {goal:g} M")
    return f"| {name} | {seconds:.2f} s | {rate:.2f} M records/s | {cell} |"


def rows(specs: list[Spec], runs: int) -> Iterator[str]:
    """The lines of the table."""
    yield "| job | time | rate | goal |\n|---|---|---|---|"
    uncompressed, compressed = (indexed_directory(spec) for spec in specs[:2])
    with (
        open_sql_session(MASTER) as spark,
        tempfile.TemporaryDirectory(dir=BENCH_DIRECTORY / "data") as scratch,
    ):
        bench = Bench(spark, Path(scratch), runs)
        yield from copy_rows(bench, uncompressed)
        for directory, codec, goal in (
            (uncompressed, "uncompressed", 6.0),
            (compressed, "lz4", 4.0),
        ):
            n = bench.run(verify, directory).counts["records"]
            seconds = bench.best(find_job, directory, key=KEY)
            yield record_row(f"find of one key, {codec}", n, seconds, goal)
            seconds = time_command(runs, "find", directory, "--key", KEY)
            yield record_row("kfmt find of the same without Spark, whole process", n, seconds)
        table = bench.scratch / "table"
        summary = bench.run(export_job, uncompressed, to=table, tables="records,batches")
        n = summary.counts["records"]
        seconds = bench.best(restore, table)
        yield record_row("restore of one partition, with batches", n, seconds, 0.5)
        seconds = bench.best(compare, uncompressed, table)
        yield record_row("compare of segments and their table", n, seconds)
        shutil.rmtree(table)
        bench.run(export_job, uncompressed, to=table)
        seconds = bench.best(restore, table)
        yield record_row("restore without the table of batches", n, seconds, 0.5)
        seconds = bench.best(export_job, uncompressed)
        yield record_row("export of the same records", n, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small files, once")
    parser.add_argument("--write", action="store_true", help="put the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    import pyspark

    lines = [f"{machine()}; Spark {pyspark.__version__}, {MASTER}.", ""]
    print(lines[0] + "\n")
    specs, runs = (SMOKE, 1) if arguments.smoke else (FULL, 3)
    for row in rows(specs, runs):
        lines.append(row)
        print(row, flush=True)
    if arguments.write:
        write_table("spark copies", lines)


if __name__ == "__main__":
    main()
