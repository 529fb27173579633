"""Runs of `pipeline export` without Spark: this process calls its tasks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kfmt_cli.arrow.export.atomic_files import read_file_bytes, remove_unfinished_files
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
    """Call the tasks of jobs in this process."""

    def run_in_this_process(
        spark: Any, request: ReadRequest, ledger: JobDirectory, tasks: list[Any], advance: Any
    ) -> None:
        del spark, advance
        staging = ledger.job.staging_directory(ledger.path)
        for task in tasks:
            task_input = split_processing.pickle_task_input(request, task)
            split_processing._process_task(
                ledger.job,
                request,
                staging,
                ledger.results_directory,
                ledger.run_number,
                task_input,
            )

    monkeypatch.setattr(split_processing, "_run_tasks", run_in_this_process)


def export(
    target: Path | str,
    *paths: Path,
    format_: str = "parquet",
    topics: str = "",
    request_options: Any = (),
    **options: Any,
) -> JobSummary:
    """One run of the job, as `kfmt pipeline export` starts it."""
    path_texts = tuple(map(str, paths))
    request = replace(
        parse_request({"topics": topics, **dict(request_options)}),
        table="segments",
        paths=path_texts,
        raises_if_unreadable=False,
    )
    files = list_input_files(request, require_topics=True)
    context = JobContext(None, request, str(target), format_, lambda _: None, options, files)
    context.preparation = export_job.prepare(context)
    summary = export_job.run_job(context)
    remove_unfinished_files(str(target))
    summary.unreadable_inputs += [f"{path}: {why}" for path, why in files.read_errors.items()]
    return summary


def forecast(target: Path, *paths: Path, **options: Any) -> list[str]:
    """The messages of a dry run about rows that would be removed."""
    request = replace(parse_request({}), paths=tuple(map(str, paths)))
    context = JobContext(
        None, request, str(target), "parquet", lambda _: None, options, is_dry_run=True
    )
    return list(export_job.forecast(context))


def manifest(target: Path | str) -> dict[str, list[dict[str, Any]]]:
    """The inputs and output files in a table's manifest."""
    file_groups: dict[str, Any] = {}
    document = json.loads(read_file_bytes(f"{target}/_kfmt/manifest.json") or b"")
    for part in document["parts"]:
        file_groups.update(
            map(json.loads, (read_file_bytes(f"{target}/_kfmt/{part}") or b"").splitlines())
        )
    current = [group for group in file_groups.values() if group is not None]
    rows_by_name = {
        name: [row for group in current for row in group[name]] for name in ("inputs", "outputs")
    }
    assert sorted(document["outputs"], key=str) == sorted(rows_by_name["outputs"], key=str)
    return rows_by_name


def manifest_rows(target: Path) -> Counter[Row]:
    """The rows of the files that the manifest names."""
    return _rows(
        [target / row["file"] for row in manifest(target)["outputs"] if row["table"] == "records"]
    )


def file_rows(target: Path) -> Counter[Row]:
    """The rows of the files that are there."""
    return _rows(sorted(target.glob("records/**/*.*")))


def delta_rows(target: Path, table: str = "records") -> Any:
    """The rows that deltalake reads."""
    from deltalake import DeltaTable

    return DeltaTable(str(target / table)).to_pyarrow_table()


def iceberg_table(target: Path, table: str = "records") -> Any:
    """A table in the catalog of a directory."""
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("kfmt", uri=f"sqlite:///{target}/_kfmt/iceberg.db").load_table(
        f"kfmt.{table}"
    )


def iceberg_rows(target: Path, table: str = "records") -> Any:
    """The rows that PyIceberg reads."""
    return iceberg_table(target, table).scan().to_arrow()


TABLE_READERS: dict[str, Callable[..., Any]] = {"delta": delta_rows, "iceberg": iceberg_rows}


def committed(table_format: str, target: Path) -> Counter[Row]:
    """The rows that the reader of a table format returns."""
    rows = TABLE_READERS[table_format](target).select(COLUMNS)
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
    header, *lines = path.read_text().splitlines()
    offset_column = header.split(",").index("offset")
    return [(None, 0, int(line.split(",")[offset_column])) for line in lines]


_READERS: dict[str, Callable[[Path], list[Row]]] = {
    ".parquet": _parquet,
    ".jsonl": _json,
    ".csv": _csv,
}
