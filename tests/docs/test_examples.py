"""The examples for other tools do what they say: an Airflow DAG, SQL over exported files."""

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


class Retried(Exception):  # noqa: N818 (what stands for AirflowException)
    """A task may be retried."""


class Failed(Retried):
    """A task is not retried."""


@dataclass
class Airflow:
    """What a DAG file uses of Airflow; `calls` has the tasks of the DAG in order."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    def task(self, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., None]]:
        """Airflow's decorator: a call inside a DAG is recorded."""
        self.options |= options
        return lambda run: lambda *arguments: self.calls.append((run, *arguments))

    def dag(self, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Airflow's decorator."""
        self.options |= options
        return lambda made: made


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    """Airflow's place is taken, and the DAG may be loaded."""
    stub = Airflow()
    modules = {name: ModuleType(name) for name in ("airflow", "airflow.sdk", "airflow.exceptions")}
    modules["airflow.sdk"].__dict__.update(dag=stub.dag, task=stub.task)
    modules["airflow.exceptions"].__dict__.update(
        AirflowException=Retried, AirflowFailException=Failed
    )
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return stub


def run_dag(stub: Airflow) -> Any:
    """Load the DAG and run its only task."""
    runpy.run_path(str(ROOT / "examples/airflow_kfmt.py"))
    ((run, *arguments),) = stub.calls
    return run(*arguments)


def on_path(monkeypatch: pytest.MonkeyPatch, folder: Path, line: str) -> None:
    """Let `kfmt` be a line of shell."""
    (folder / "kfmt").write_text(f"#!/bin/sh\n{line}\n")
    (folder / "kfmt").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("code", range(5))
def test_the_dag_maps_exit_codes(
    code: int,
    airflow: Airflow,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    on_path(monkeypatch, tmp_path, f'echo "$@" > {tmp_path}/words; echo why >&2; exit {code}')
    if code < 2:
        assert run_dag(airflow) == code
    else:
        with pytest.raises(Retried, match="why") as error:
            run_dag(airflow)
        assert (error.type is Failed) == (code == 2)
    warned = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warned) == (code == 1)
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
    on_path(monkeypatch, tmp_path, f'exec {sys.executable} -m kfmt_cli "$@"')
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
    copy = tmp_path / "disk-2/orders-0"
    copy.mkdir(parents=True)
    for file in (ORDERS, ORDERS.parent / "partition.metadata"):
        shutil.copy(file, copy)
    lake = tmp_path / "lake"
    done = kfmt("export", tmp_path / "disk-1", copy.parent, "--to", lake)
    assert done.code == 0, done.err
    monkeypatch.chdir(tmp_path)
    view, *queries = duckdb.extract_statements((ROOT / "examples/lake_report.sql").read_text())
    with duckdb.connect() as engine:
        engine.execute(view)
        largest, hours, duplicates = (engine.execute(query).fetchall() for query in queries)
        (rows,) = engine.execute("SELECT count(*) FROM records").fetchone()
        with_times = "SELECT count(*) FROM records WHERE timestamp IS NOT NULL"
        assert engine.execute(with_times).fetchone() == (sum(hour[-1] for hour in hours),)
        of_copy = "SELECT count(*) FROM records WHERE starts_with(file, ?)"
        (copied,) = engine.execute(of_copy, [str(copy)]).fetchone()
    codecs = [b"gzip", b"lz4", b"none", b"snappy", b"zstd"]
    assert largest == [("big-records", codec, 1, 300_000) for codec in codecs]
    assert rows > copied > 0
    assert len(duplicates) == copied
    assert {copies for *_, copies, _ in duplicates} == {2}
    assert duplicates[0][-1] == [
        str(tmp_path / name / "orders-0" / ORDERS.name) for name in ("disk-1", "disk-2")
    ]
