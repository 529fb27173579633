"""Readers of the files that jobs write: the page of report, and Spark's own frames."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.arrow.test_lake import run
from tests.render.test_report import BROKER, of
from tests.support.samples import ORDERS, Done, kfmt
from tests.support.spark_job import Job
from tools.kafka import ROOT

pytest.importorskip("altair", reason="the extra report is not installed")
pytest.importorskip("pyspark")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="java not found"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("format_", ["parquet", "json", "csv"])
def test_a_page_of_jobs_has_their_numbers(format_: str, job: Job, tmp_path: Path) -> None:
    paths = (BROKER, ROOT / "damaged_segments")
    jobs = ["verify", "stats"] if format_ == "parquet" else ["verify"]
    for name in jobs:
        options = ("--to", tmp_path / name, "--format", format_)
        job(name, *paths, *options, code=1)
    page = tmp_path / "page.html"
    data = tmp_path / "page.json"
    arguments = [argument for name in jobs for argument in ("--from", tmp_path / name / "_kfmt")]
    result: Done = kfmt("report", *arguments, "--to", page, "--data", data)
    assert result.code == 1, result.err
    rows = json.loads(data.read_text())
    stats = kfmt("stat", *paths, "--json").of("stat")
    rows_by_partition = {(row["topic"], row["partition"]): row for row in of(rows, "stat")}
    for row in stats:
        reported = rows_by_partition[row["topic"], row["partition"]]
        for name in ("segments", "bytes", "batches", "records", "last_offset", "max_timestamp"):
            assert reported[name] == row[name], name
    assert of(rows, "report")[0]["bytes"] == sum(row["bytes"] for row in stats)
    verified = kfmt("verify-crc", "--deep", *paths, "--json").of("finding")
    errors = sorted(row["code"] for row in verified if row["severity"] == "error")
    findings = of(rows, "finding")
    assert sorted(row["code"] for row in findings if row["severity"] == "error") == errors


def test_a_backfill_unions_with_sparks_stream(tmp_path: Path, spark: Any) -> None:
    run(ORDERS.parent, tmp_path / "lake", "--schema", "kafka")
    exported = spark.read.parquet(str(tmp_path / "lake/records"))
    ddl = (
        "key binary, value binary, topic string, partition int, offset bigint, "
        "timestamp timestamp, timestampType int"
    )
    spark_rows = spark.createDataFrame([], ddl)
    assert exported.schema == spark_rows.schema
    assert exported.union(spark_rows).count() == 1500
