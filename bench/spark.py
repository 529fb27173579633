"""kfmt on Spark: rates of a warm session on a large segment, and the most that Spark can ingest.

    python -m bench.spark             full size; --write updates docs/benchmarks.md
    python -m bench.spark --smoke     a small file, once

The ceiling is a data source that repeats one constant Arrow batch.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from bench.make_files import BENCH_DIRECTORY, FULL, SMOKE, make_file
from bench.process import KFMT, machine, write_table
from kfmt_cli.arrow.input_files import list_input_files
from kfmt_cli.spark import register
from kfmt_cli.spark.input_partition import distribute_files
from kfmt_cli.spark.jobs import export_job as export
from kfmt_cli.spark.jobs import verify
from kfmt_cli.spark.jobs.context import JobContext
from kfmt_cli.spark.session import open_sql_session
from kfmt_cli.spark.source_options import parse_request

MASTER = "local[2]"
ROWS = 32768


class Constant(DataSource):
    """A requested number of rows, of one constant batch."""

    @classmethod
    def name(cls) -> str:
        return "constant"

    def schema(self) -> str:
        return "offset bigint, timestamp timestamp, value binary"

    def reader(self, schema: Any) -> DataSourceReader:
        del schema
        return ConstantReader(int(self.options["rows"]))


class ConstantReader(DataSourceReader):
    """Two tasks."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self.rows // 2), InputPartition(self.rows - self.rows // 2)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = pa.RecordBatch.from_pydict(
            {
                "offset": pa.array(range(ROWS), pa.int64()),
                "timestamp": pa.array([0] * ROWS, pa.timestamp("us", "UTC")),
                "value": pa.array([b"v" * 60] * ROWS),
            }
        )
        remaining = partition.value
        while remaining > 0:
            yield batch.slice(0, min(remaining, ROWS))
            remaining -= ROWS


def best(function: Callable[[], object], runs: int) -> float:
    """The best time of some runs."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def make_many_files(directory: Path, n: int) -> None:
    """Empty segments of many partitions."""
    for i in range(n):
        partition = directory / f"topic-{i // 1000}-{i % 10}"
        partition.mkdir(exist_ok=True)
        (partition / f"{i:020}.log").touch()


def rows(log: str, runs: int, n_files: int) -> Iterator[str]:
    """The lines of the table."""
    size = Path(log).stat().st_size
    request = replace(parse_request({}), paths=(str(Path(log).absolute()),), parallelism=2)
    yield "| job | time | rate | goal |\n|---|---|---|---|"
    with (
        open_sql_session(MASTER) as spark,
        tempfile.TemporaryDirectory(dir=BENCH_DIRECTORY / "data") as scratch,
    ):
        register(spark)
        spark.dataSource.register(Constant)
        reader = spark.read.format("kfmt")
        n = reader.option("columns", "offset").load(log).count()

        def record_row(name: str, seconds: float, goal: float | None) -> str:
            rate = n / seconds / 1e6
            met = "" if goal is None else f"≥ {goal:g} M{' met' if rate >= goal else ''}"
            return f"| {name} | {seconds:.2f} s | {rate:.1f} M records/s | {met or '–'} |"

        columns = "offset,timestamp"
        frame = spark.read.format("kfmt").option("columns", columns).load(log)
        yield record_row(f"count over records ({columns})", best(frame.count, runs), 3)
        all_columns = spark.read.format("kfmt").load(log)
        yield record_row(
            "all columns of records (noop sink)",
            best(lambda: all_columns.write.format("noop").mode("overwrite").save(), runs),
            None,
        )
        ceiling = spark.read.format("constant").option("rows", n).load()
        yield record_row("ceiling: count over constant batches", best(ceiling.count, runs), None)
        yield record_row(
            "ceiling: three constant columns (noop sink)",
            best(lambda: ceiling.write.format("noop").mode("overwrite").save(), runs),
            None,
        )

        def job(module: Any) -> None:
            output = f"{scratch}/{time.monotonic_ns()}"
            module.run_job(JobContext(spark, request, output, "parquet", lambda _: None))
            shutil.rmtree(output)

        seconds = best(lambda: job(verify), runs)
        rate = size / seconds / 1e9
        met = " met" if rate >= 1 else ""
        yield f"| verify | {seconds:.2f} s | {rate:.2f} GB/s | ≥ 1 GB/s{met} |"
        yield record_row("export of records to Parquet", best(lambda: job(export), runs), 2.5)
        yield record_row(
            "the same through Spark's own writer",
            best(lambda: all_columns.write.mode("overwrite").parquet(f"{scratch}/spark"), 1),
            None,
        )
        command = [*KFMT, "verify-crc", log]
        kfmt_seconds = best(lambda: subprocess.run(command, check=True, capture_output=True), runs)
        rate = size / kfmt_seconds / 1e9
        name = "kfmt verify-crc without Spark, whole process"
        yield f"| {name} | {kfmt_seconds:.2f} s | {rate:.2f} GB/s | – |"
        many_directory = Path(scratch) / "many"
        many_directory.mkdir()
        make_many_files(many_directory, n_files)
        many_request = replace(request, paths=(str(many_directory),))
        seconds = best(lambda: distribute_files(many_request, list_input_files(many_request)), runs)
        met = " met" if seconds < 2 else ""
        yield f"| planning of {n_files} files | {seconds:.2f} s | – | < 2 s{met} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a small file, once")
    parser.add_argument("--write", action="store_true", help="put the table in docs/benchmarks.md")
    arguments = parser.parse_args()
    spec = (SMOKE if arguments.smoke else FULL)[0]
    log = make_file(spec, BENCH_DIRECTORY / "data")
    if not log.with_suffix(".index").exists():
        command = [*KFMT, "rebuild-index", "--in-place", str(log)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    import pyspark

    lines = [f"{machine()}; Spark {pyspark.__version__}, {MASTER}.", ""]
    print(lines[0] + "\n")
    for row in rows(str(log), 1 if arguments.smoke else 3, 200 if arguments.smoke else 20_000):
        lines.append(row)
        print(row, flush=True)
    if arguments.write:
        write_table("spark", lines)


if __name__ == "__main__":
    main()
