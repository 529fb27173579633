"""`scan` and `dataset` return the rows of `read_records`; only needed columns are built."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import kfmt_cli
from kfmt_cli.commands.python import lazy_tables
from kfmt_cli.commands.python.read import log_rows
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.log.rows_reader import LogRowsReader
from tests.support.samples import ORDERS, TXN
from tools.kafka import ROOT, SAMPLES

pa = pytest.importorskip("pyarrow")
BROKER = SAMPLES / "kafka-3.9.1-broker1"
DAMAGED = ROOT / "damaged_segments"


@pytest.fixture
def read_columns(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The columns of each read."""
    column_lists: list[Any] = []

    def recording_log_rows(path: Any, reads_records: bool, columns: Any, selection: Any) -> Any:
        column_lists.append(columns)
        return log_rows(path, reads_records, columns, selection)

    monkeypatch.setattr(lazy_tables, "log_rows", recording_log_rows)
    return column_lists


@pytest.fixture
def decoded_blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A 1 for each block that is decoded."""
    marks: list[int] = []
    original_function = LogRowsReader.read_rows

    def recording_function(self: LogRowsReader, *blocks: Any) -> Any:
        marks.append(1)
        return original_function(self, *blocks)

    monkeypatch.setattr(LogRowsReader, "read_rows", recording_function)
    return marks


@pytest.fixture
def partly_unreadable(tmp_path: Path) -> Path:
    """A partition with a log that can be read, and a link to nothing."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / ORDERS.name).write_bytes(ORDERS.read_bytes())
    (directory / "00000000000000009999.log").symlink_to(tmp_path / "nothing")
    return tmp_path


@pytest.mark.parametrize("table", lazy_tables.TABLES)
@pytest.mark.parametrize("path", [BROKER, DAMAGED, [ORDERS, TXN]], ids=["whole", "damaged", "list"])
def test_rows_are_those_of_reading(table: str, path: Any) -> None:
    pl = pytest.importorskip("polars")
    rows = pa.table(getattr(kfmt_cli, f"read_{table}")(path))
    frame = kfmt_cli.scan(path, table=table)
    assert frame.collect_schema() == pl.DataFrame(rows.schema.empty_table()).schema
    assert frame.collect().equals(pl.DataFrame(rows))
    dataset = kfmt_cli.dataset(path, table=table)
    assert dataset.schema == rows.schema
    assert dataset.to_table().equals(rows)
    assert dataset.count_rows() == len(rows)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars_passes_columns_rows_and_filters(engine: Any, read_columns: list[Any]) -> None:
    pl = pytest.importorskip("polars")
    rows = pl.DataFrame(pa.table(kfmt_cli.read_records(BROKER)))
    frame = kfmt_cli.scan(BROKER)
    read_columns.clear()  # of the schema
    condition = pl.col("offset") > 1490
    queries: Any = (
        (lambda t: t.select("key", "offset"), {"key", "offset"}),
        (lambda t: t.filter(condition).select("topic"), {"offset", "topic"}),
        (lambda t: t.filter(condition).head(7).select("topic"), {"offset", "topic"}),
        (lambda t: t.head(3000).filter(condition).select("offset"), {"offset"}),
        (lambda t: t.slice(100, 5).select("offset"), {"offset"}),
        (lambda t: t.select(pl.len()), None),
        (
            lambda t: t.group_by("topic").agg(pl.col("value").count()).sort("topic"),
            {"topic", "value"},
        ),
    )
    for query, needed in queries:
        assert query(frame).collect(engine=engine).equals(query(rows))
        columns = read_columns.pop()
        assert set(columns) == needed if needed else len(columns) == 1
    assert read_columns == []


def test_the_first_rows_need_only_the_first_log(decoded_blocks: list[int]) -> None:
    pytest.importorskip("polars")
    frame = kfmt_cli.scan(BROKER)
    assert decoded_blocks == []
    assert len(frame.head(5).collect()) == 5
    assert len(decoded_blocks) < 6
    assert len(frame.head(0).collect()) == 0
    assert len(kfmt_cli.dataset(BROKER).head(5)) == 5
    assert len(decoded_blocks) < 12
    decoded_blocks.clear()
    frame.collect()
    assert len(decoded_blocks) > 30


def test_bounds_are_those_of_reading() -> None:
    pytest.importorskip("polars")
    bounds: Any = {"from_offset": 7, "to_offset": 9}
    assert kfmt_cli.scan(ORDERS, **bounds).collect()["offset"].to_list() == [7, 8, 9]
    assert kfmt_cli.dataset(ORDERS, **bounds).to_table(columns=["offset"]).to_pydict() == {
        "offset": [7, 8, 9]
    }


def test_what_cannot_be_read_raises_unless_ignored(partly_unreadable: Path) -> None:
    pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"00000000000000009999\.log"):
        kfmt_cli.scan(partly_unreadable).collect()
    with pytest.raises(InputError, match=r"00000000000000009999\.log"):
        kfmt_cli.dataset(partly_unreadable).to_table()
    rows = pa.table(kfmt_cli.read_records(ORDERS))
    assert len(kfmt_cli.scan(partly_unreadable, ignore_unreadable=True).collect()) == len(rows)
    assert len(kfmt_cli.dataset(partly_unreadable, ignore_unreadable=True).to_table()) == len(rows)
    with pytest.raises(InputError, match="No such file"):
        kfmt_cli.scan("/no/such/file").collect()


def test_what_cannot_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in (kfmt_cli.scan, kfmt_cli.dataset):
        with pytest.raises(UsageError, match="no table named 'x'; choose from records, batches"):
            function(ORDERS, table="x")
    with pytest.raises(NotImplementedError, match="no fragments"):
        kfmt_cli.dataset(ORDERS).get_fragments()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pip install 'kfmt-cli"):
        kfmt_cli.dataset(ORDERS)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UsageError, match="pip install polars"):
        kfmt_cli.scan(ORDERS)


QUERIES = {
    "SELECT count(*) FROM logs": {"topic"},
    "SELECT key FROM logs WHERE \"offset\" > 1490 AND topic = 'orders' ORDER BY ALL": {
        "key",
        "offset",
        "topic",
    },
    "SELECT count(*) FROM logs WHERE timestamp > '2023-11-14 22:20:00Z' AND NOT control": {
        "timestamp",
        "control",
    },
    "SELECT headers[1].key, count(*) FROM logs GROUP BY ALL ORDER BY ALL": {"headers"},
    "SELECT count(*) FROM logs WHERE key IS NULL OR topic IN ('txn', 'orders')": {"key", "topic"},
}


@pytest.mark.parametrize("query", QUERIES)
def test_duckdb_passes_columns_and_filters(query: str, read_columns: list[Any]) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as engine:
        engine.register("logs", pa.table(kfmt_cli.read_records(BROKER)))
        expected = engine.sql(query).fetchall()
        engine.register("logs", kfmt_cli.dataset(BROKER))
        read_columns.clear()  # of the schema
        assert engine.sql(query).fetchall() == expected
    assert [set(names) for names in read_columns] == [QUERIES[query]]


def test_duckdb_stops_after_a_limit_and_names_what_cannot_be_read(
    decoded_blocks: list[int], partly_unreadable: Path
) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as engine:
        engine.register("logs", kfmt_cli.dataset(BROKER))
        assert len(engine.sql('SELECT "offset" FROM logs LIMIT 5').fetchall()) == 5
        assert 0 < len(decoded_blocks) < 30
        engine.register("logs", kfmt_cli.dataset(partly_unreadable))
        with pytest.raises(Exception, match=r"00000000000000009999\.log"):
            engine.sql('SELECT sum("offset") FROM logs').fetchall()
