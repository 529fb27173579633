"""Runs of `pipeline export` without Spark: its tasks are called in this process."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kfmt_cli.arrow.export.atomic_files import read_file_bytes, remove_unfinished
from kfmt_cli.arrow.input_files import list_input_files
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.spark import split_processing
from kfmt_cli.spark.job_directory import JobDirectory
from kfmt_cli.spark.jobs import export_job
from kfmt_cli.spark.jobs.context import JobContext, JobSummary
from kfmt_cli.spark.source_options import parse_request

Row = tuple[str | None, int, int]
"""Topic id, partition and offset."""
COLUMNS = ["topic_id", "partition", "offset"]


def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call the tasks of jobs here."""

    def run_here(
        spark: Any, request: ReadRequest, ledger: JobDirectory, shares: list[Any], advance: Any
    ) -> None:
        del spark, advance
        to = ledger.job.staging_directory(ledger.path)
        for share in shares:
            given = split_processing.pickle_task_input(request, share)
            split_processing._process_task(
                ledger.job, request, to, ledger.results_directory, ledger.run_number, given
            )

    monkeypatch.setattr(split_processing, "_run_tasks", run_here)


def export(
    to: Path | str,
    *paths: Path,
    format_: str = "parquet",
    topics: str = "",
    asked: Any = (),
    **options: Any,
) -> JobSummary:
    """One run of the job, as `kfmt pipeline export` starts it. asked: more of the request."""
    paths_of = tuple(map(str, paths))
    request = replace(
        parse_request({"topics": topics, **dict(asked)}),
        table="segments",
        paths=paths_of,
        raises_if_unreadable=False,
    )
    files = list_input_files(request, require_topics=True)
    context = JobContext(None, request, str(to), format_, lambda _: None, options, files)
    context.preparation = export_job.prepare(context)
    summary = export_job.run_job(context)
    remove_unfinished(str(to))
    return summary


def forecast(to: Path, *paths: Path, **options: Any) -> list[str]:
    """What a dry run says of rows that would go."""
    request = replace(parse_request({}), paths=tuple(map(str, paths)))
    context = JobContext(
        None, request, str(to), "parquet", lambda _: None, options, is_dry_run=True
    )
    return list(export_job.forecast(context))


def manifest(to: Path | str) -> dict[str, list[dict[str, Any]]]:
    """The inputs and files of a table, as its manifest has them."""
    bundles: dict[str, Any] = {}
    shown = json.loads(read_file_bytes(f"{to}/_kfmt/manifest.json") or b"")
    for part in shown["parts"]:
        bundles.update(map(json.loads, (read_file_bytes(f"{to}/_kfmt/{part}") or b"").splitlines()))
    there = [bundle for bundle in bundles.values() if bundle is not None]
    found = {
        name: [row for bundle in there for row in bundle[name]] for name in ("inputs", "outputs")
    }
    assert sorted(shown["outputs"], key=str) == sorted(found["outputs"], key=str)
    return found


def listed(to: Path) -> Counter[Row]:
    """The rows of the files that the manifest names."""
    return _rows([to / row["file"] for row in manifest(to)["outputs"] if row["table"] == "records"])


def found(to: Path) -> Counter[Row]:
    """The rows of the files that are there."""
    return _rows(sorted(to.glob("records/**/*.*")))


def of_delta(to: Path, table: str = "records") -> Any:
    """The rows that deltalake sees."""
    from deltalake import DeltaTable

    return DeltaTable(str(to / table)).to_pyarrow_table()


def iceberg_table(to: Path, table: str = "records") -> Any:
    """A table in the catalog of a directory."""
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("kfmt", uri=f"sqlite:///{to}/_kfmt/iceberg.db").load_table(f"kfmt.{table}")


def of_iceberg(to: Path, table: str = "records") -> Any:
    """The rows that PyIceberg sees."""
    return iceberg_table(to, table).scan().to_arrow()


TABLE_READERS: dict[str, Callable[..., Any]] = {"delta": of_delta, "iceberg": of_iceberg}


def committed(kind: str, to: Path) -> Counter[Row]:
    """The rows of a table in a table format."""
    rows = TABLE_READERS[kind](to).select(COLUMNS)
    return Counter(zip(*(rows[name].to_pylist() for name in COLUMNS), strict=True))


def _rows(paths: list[Path]) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for path in paths:
        rows.update(_READERS[path.suffix](path))
    return rows


def _parquet(path: Path) -> list[Row]:
    table = pq.ParquetFile(path).read(COLUMNS)
    return list(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))


def _json(path: Path) -> list[Row]:
    rows = map(json.loads, path.read_text().splitlines())
    return [(None, 0, row["offset"]) for row in rows if row["type"] == "record"]


def _csv(path: Path) -> list[Row]:
    head, *lines = path.read_text().splitlines()
    at = head.split(",").index("offset")
    return [(None, 0, int(line.split(",")[at])) for line in lines]


_READERS: dict[str, Callable[[Path], list[Row]]] = {
    ".parquet": _parquet,
    ".jsonl": _json,
    ".csv": _csv,
}
