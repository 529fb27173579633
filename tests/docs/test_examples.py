"""The examples for other tools work: an Airflow DAG, SQL over exported files."""

from __future__ import annotations

import logging
import os
import runpy
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.samples import ORDERS, kfmt
from tools.kafka import ROOT, SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"


class StubAirflowException(Exception):  # noqa: N818 (what stands for AirflowException)
    """A task may be retried."""


class StubAirflowFailException(StubAirflowException):
    """A task is not retried."""


@dataclass
class Airflow:
    """The parts of Airflow that a DAG file uses; `calls` has the tasks of the DAG in order."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    def task(self, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., None]]:
        """Airflow's decorator: a call inside a DAG is recorded."""
        self.options |= options
        return lambda run: lambda *arguments: self.calls.append((run, *arguments))

    def dag(self, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Airflow's decorator."""
        self.options |= options
        return lambda dag_function: dag_function


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    """A stub in place of Airflow, so that the DAG can be loaded."""
    stub = Airflow()
    modules = {name: ModuleType(name) for name in ("airflow", "airflow.sdk", "airflow.exceptions")}
    modules["airflow.sdk"].__dict__.update(dag=stub.dag, task=stub.task)
    modules["airflow.exceptions"].__dict__.update(
        AirflowException=StubAirflowException, AirflowFailException=StubAirflowFailException
    )
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return stub


def run_dag(stub: Airflow) -> Any:
    """Load the DAG and run its only task."""
    runpy.run_path(str(ROOT / "examples/airflow_kfmt.py"))
    ((run, *arguments),) = stub.calls
    return run(*arguments)


def put_kfmt_on_path(monkeypatch: pytest.MonkeyPatch, directory: Path, line: str) -> None:
    """Put a `kfmt` that runs a line of shell on the PATH."""
    (directory / "kfmt").write_text(f"#!/bin/sh\n{line}\n")
    (directory / "kfmt").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("code", range(5))
def test_the_dag_maps_exit_codes(
    code: int,
    airflow: Airflow,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    put_kfmt_on_path(
        monkeypatch, tmp_path, f'echo "$@" > {tmp_path}/words; echo why >&2; exit {code}'
    )
    if code < 2:
        assert run_dag(airflow) == code
    else:
        with pytest.raises(StubAirflowException, match="why") as error:
            run_dag(airflow)
        assert (error.type is StubAirflowFailException) == (code == 2)
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == (code == 1)
    assert airflow.options["retries"] == 3
    assert (tmp_path / "words").read_text().split() == [
        *("pipeline", "export", "s3://bucket/kafka"),
        *("--to", "s3://lake/kafka", "--master", "local[*]"),
    ]


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="java not found")
def test_the_dag_exports_damaged_segments(
    airflow: Airflow,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("pyspark")
    put_kfmt_on_path(monkeypatch, tmp_path, f'exec {sys.executable} -m kfmt_cli "$@"')
    for name, value in {
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "KFMT_SOURCE": str(ROOT / "damaged_segments"),
        "KFMT_LAKE": str(tmp_path / "lake"),
        "KFMT_MASTER": "local[2]",
    }.items():
        monkeypatch.setenv(name, value)
    assert run_dag(airflow) == 1
    assert "segments are damaged" in caplog.text
    assert parquet.read_table(tmp_path / "lake/records").num_rows == 1720


def test_the_sql_report_on_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    shutil.copytree(BROKER, tmp_path / "disk-1")
    copy_directory = tmp_path / "disk-2/orders-0"
    copy_directory.mkdir(parents=True)
    for file in (ORDERS, ORDERS.parent / "partition.metadata"):
        shutil.copy(file, copy_directory)
    lake = tmp_path / "lake"
    disks = (tmp_path / "disk-1", copy_directory.parent)
    result = kfmt("export", *disks, "--all-replicas", "--to", lake)
    assert result.code == 0, result.err
    monkeypatch.chdir(tmp_path)
    view, *queries = duckdb.extract_statements((ROOT / "examples/lake_report.sql").read_text())
    with duckdb.connect() as engine:
        engine.execute(view)
        largest, hours, duplicates = (engine.execute(query).fetchall() for query in queries)
        (n_rows,) = engine.execute("SELECT count(*) FROM records").fetchone()
        timestamped_query = "SELECT count(*) FROM records WHERE timestamp IS NOT NULL"
        assert engine.execute(timestamped_query).fetchone() == (sum(hour[-1] for hour in hours),)
        copied_query = "SELECT count(*) FROM records WHERE starts_with(file, ?)"
        (n_copied,) = engine.execute(copied_query, [str(copy_directory)]).fetchone()
    codecs = [b"gzip", b"lz4", b"none", b"snappy", b"zstd"]
    assert largest == [("big-records", codec, 1, 300_000) for codec in codecs]
    assert n_rows > n_copied > 0
    assert len(duplicates) == n_copied
    assert {n_copies for *_, n_copies, _ in duplicates} == {2}
    assert duplicates[0][-1] == [
        str(tmp_path / name / "orders-0" / ORDERS.name) for name in ("disk-1", "disk-2")
    ]
