"""Exports as Delta and Iceberg tables: each row once, after growth, deletions and kills."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake_runs import (
    TABLE_READERS,
    Row,
    committed,
    export,
    iceberg_table,
    without_spark,
)
from tests.support.real_stores import answers
from tests.support.samples import ORDERS, kfmt
from tests.support.store_server import Bucket, new_bucket
from tests.support.waiting import wait_for
from tools.broker import free_ports

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from pyiceberg.catalog.sql import SqlCatalog  # noqa: E402
from pyiceberg.utils.config import Config  # noqa: E402

from kfmt_cli.core.small_objects import object_store_options  # noqa: E402
from kfmt_cli.errors import OutputError, UsageError  # noqa: E402
from kfmt_cli.spark.lake import lake_table  # noqa: E402
from kfmt_cli.spark.lake.table_formats.delta import DeltaOpenTable  # noqa: E402
from kfmt_cli.spark.lake.table_formats.iceberg import IcebergOpenTable  # noqa: E402

BROKER1 = ORDERS.parent.parent


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Partition orders-0: 1,500 records in 7 segments."""
    shutil.copytree(ORDERS.parent, tmp_path / "in/orders-0")
    return tmp_path / "in"


FORMATS = pytest.mark.parametrize("kind", TABLE_READERS)


def rows(first: int, end: int) -> Counter[Row]:
    topic_id = (ORDERS.parent / "partition.metadata").read_text().split()[-1]
    return Counter((topic_id, 0, offset) for offset in range(first, end))


def segment(logs: Path, base: int) -> Path:
    return logs / f"orders-0/{base:020}.log"


@FORMATS
def test_rows_are_there_once_while_inputs_grow_and_go(
    kind: str, logs: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    last = segment(logs, 1440)
    data = last.read_bytes()
    last.write_bytes(data[: len(data) // 2])
    export(to, logs, table=kind)
    assert 1440 < sum(committed(kind, to).values()) < 1500
    last.write_bytes(data)
    segment(logs, 0).unlink()
    export(to, logs, table=kind)
    assert committed(kind, to) == rows(0, 1500)
    versions = list((to / "records").rglob("*.json"))
    export(to, logs, table=kind)
    assert list((to / "records").rglob("*.json")) == versions
    export(to, logs, table=kind, mode="sync")
    assert committed(kind, to) == rows(240, 1500)


@FORMATS
def test_every_table_has_the_format(kind: str, tmp_path: Path) -> None:
    to = tmp_path / "to"
    summary = export(to, BROKER1, table=kind, tables="records,batches")
    for table in ("records", "batches", "snapshot_records"):
        content = TABLE_READERS[kind](to, table)
        assert (
            len(content) == summary.counts[table.replace("_", " ")]
            if table
            in (
                "records",
                "batches",
            )
            else len(content)
        )


@FORMATS
def test_polars_and_duckdb_read_them(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    to = tmp_path / "to"
    summary = export(to, BROKER1, table=kind)
    location = str(to / "records") if kind == "delta" else iceberg_table(to)
    scanned = (pl.scan_delta if kind == "delta" else pl.scan_iceberg)(location)
    offsets = pl.col("topic") == "orders"
    assert scanned.filter(offsets).select("offset").collect()["offset"].n_unique() == 1500
    made = TABLE_READERS[kind](to)
    query = "select count(*), count(timestamp), count(timestamp_ms) from made"
    assert len(made) == summary.counts["records"]
    assert duckdb.sql(query).fetchall() == [(len(made),) * 3]


@FORMATS
def test_times_that_no_calendar_has_are_null_beside_their_number(kind: str, tmp_path: Path) -> None:
    """Year 0, year 10000, and nanoseconds as if they were milliseconds."""
    timestamps = [-62_167_219_200_000, 253_402_300_800_000, 1_700_000_000_000_000_000]
    rows = [
        {"type": "record", "offset": offset, "timestamp": timestamp, "key": None, "value": "v"}
        for offset, timestamp in enumerate(timestamps)
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    assert kfmt("build", "-", tmp_path / "in/odd-0", stdin=lines.encode()).code == 0
    export(tmp_path / "to", tmp_path / "in", table=kind)
    exported = TABLE_READERS[kind](tmp_path / "to")
    assert exported["timestamp_ms"].to_pylist() == timestamps
    assert exported["timestamp"].to_pylist() == [None] * 3


@pytest.mark.parametrize(
    "point",
    [
        *("write_commit", "_move_staged_files", "first table", "second table"),
        "_delete_unreferenced",
    ],
)
@pytest.mark.parametrize("after", [False, True])
@FORMATS
def test_a_kill_leaves_the_old_rows_or_the_new(
    kind: str, after: bool, point: str, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table on its own: a run commits to one after the other."""
    to, options = tmp_path / "to", {"table": kind, "tables": "records,batches"}
    last = segment(logs, 1440)
    data = last.read_bytes()
    last.write_bytes(data[: len(data) // 2])
    export(to, logs, **options)
    old = committed(kind, to)
    last.write_bytes(data)
    segment(logs, 0).unlink()
    format_: Any = {"delta": DeltaOpenTable, "iceberg": IcebergOpenTable}[kind]
    owner: Any = format_ if "table" in point else lake_table.LakeTable
    if point == "write_commit":
        owner = lake_table
    name = "commit" if "table" in point else point
    original, calls = getattr(owner, name), 0

    def killed(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        # It opens a run, too.
        if calls < {"second table": 2, "_move_staged_files": 2}.get(point, 1):
            original(*arguments)
            return
        if after:
            original(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, killed)
        with pytest.raises(KeyboardInterrupt):
            export(to, logs, **options)
    assert committed(kind, to) in (old, rows(0, 1500))
    export(to, logs, **options)
    assert committed(kind, to) == rows(0, 1500)
    offsets = Counter(TABLE_READERS[kind](to, "batches")["base_offset"].to_pylist())
    assert max(offsets.values()) == 1


def test_rows_of_files_that_another_writer_replaced_are_not_doubled(
    logs: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    last = segment(logs, 1440)
    data = last.read_bytes()
    last.write_bytes(data[: len(data) // 2])
    options: dict[str, Any] = {"table": "delta", "one_file_per_partition": True}
    options["target_file_bytes"] = 1 << 16
    export(to, logs, **options)
    before = committed("delta", to)
    table = deltalake.DeltaTable(str(to / "records"))
    assert table.optimize.compact()["numFilesRemoved"] > 1
    last.write_bytes(data)
    with pytest.raises(OutputError, match=r"another writer replaced .*nothing committed"):
        export(to, logs, **options)
    assert committed("delta", to) == before


@FORMATS
def test_names_in_directories_are_escaped(kind: str, tmp_path: Path) -> None:
    logs, to = tmp_path / "in", tmp_path / "a b/to"
    shutil.copytree(ORDERS.parent, logs / "or é%41-0")
    export(to, logs, table=kind, partition_by="topic,date")
    assert sum(committed(kind, to).values()) == 1500
    shutil.rmtree(logs / "or é%41-0")
    shutil.copytree(ORDERS.parent, logs / "others-0")
    export(to, logs, table=kind, partition_by="topic,date", mode="replace")
    assert set(TABLE_READERS[kind](to)["topic"].to_pylist()) == {"others"}


@pytest.fixture
def served_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket of a server in a process of its own: deltalake holds the interpreter's lock while it
    waits for an answer."""
    pytest.importorskip("moto.server")
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        wait_for(lambda: answers(port))
        yield new_bucket(tmp_path)
        server.terminate()


def test_a_table_in_a_bucket(served_bucket: Bucket, logs: Path) -> None:
    to = served_bucket.file("table")
    export(to, logs, table="delta")
    segment(logs, 0).unlink()
    os.utime(segment(logs, 1440))
    export(to, logs, table="delta")
    options = object_store_options(f"{to}/") or {}
    options |= {"allow_http": "true"}
    exported = deltalake.DeltaTable(f"{to}/records", storage_options=options).to_pyarrow_table()
    assert sorted(exported["offset"].to_pylist()) == list(range(1500))
    with pytest.raises(UsageError, match=r"tables in a store need --catalog CATALOG\.NAMESPACE"):
        export(served_bucket.file("other"), logs, table="iceberg")


def test_a_configured_catalog(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"sqlite:///{tmp_path}/shared.db"
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # read at the import
    options: dict[str, Any] = {"table": "iceberg", "catalog": "lake.kafka.raw"}
    export(tmp_path / "to", logs, **options)
    table = SqlCatalog("lake", uri=uri).load_table("kafka.raw.records")
    assert table.scan().to_arrow().num_rows == 1500
    with pytest.raises(UsageError, match=r"table kafka.raw.records of the catalog is at file://"):
        export(tmp_path / "other", logs, **options)
    with pytest.raises(UsageError, match=r"--catalog 'lake' is not CATALOG.NAMESPACE"):
        export(tmp_path / "third", logs, table="iceberg", catalog="lake")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--table", "delta", "--format", "json"], "--table delta needs --format parquet"),
        (["--table", "delta", "--catalog", "a.b"], "--table delta has no --catalog"),
        (["--catalog", "a.b"], "--catalog needs --table iceberg"),
    ],
)
def test_options_that_do_not_belong_together(
    options: list[str], message: str, tmp_path: Path
) -> None:
    result = kfmt("pipeline", "export", ORDERS.parent, "--to", tmp_path / "to", *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert not (tmp_path / "to").exists()


def test_a_delta_table_keeps_bounds_for_readers(logs: Path, tmp_path: Path) -> None:
    export(tmp_path / "to", logs, table="delta")
    (log,) = (tmp_path / "to/records/_delta_log").glob("*1.json")
    actions = map(json.loads, log.read_text().splitlines())
    (added,) = (json.loads(action["add"]["stats"]) for action in actions if "add" in action)
    assert added["numRecords"] == 1500
    assert (added["minValues"]["offset"], added["maxValues"]["offset"]) == (0, 1499)
