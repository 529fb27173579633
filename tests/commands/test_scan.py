"""`scan` and `dataset` give engines the rows of `read_records`; only needed columns are built."""

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
def built(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The columns of each read."""
    found: list[Any] = []

    def seen(path: Any, records: bool, columns: Any, wanted: Any) -> Any:
        found.append(columns)
        return log_rows(path, records, columns, wanted)

    monkeypatch.setattr(lazy_tables, "log_rows", seen)
    return found


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A 1 for each block that is decoded."""
    found: list[int] = []
    read = LogRowsReader.read_rows

    def seen(self: LogRowsReader, *blocks: Any) -> Any:
        found.append(1)
        return read(self, *blocks)

    monkeypatch.setattr(LogRowsReader, "read_rows", seen)
    return found


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """A partition with a log that can be read, and a link to nothing."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / ORDERS.name).write_bytes(ORDERS.read_bytes())
    (folder / "00000000000000009999.log").symlink_to(tmp_path / "nothing")
    return tmp_path


@pytest.mark.parametrize("table", lazy_tables.TABLES)
@pytest.mark.parametrize("path", [BROKER, DAMAGED, [ORDERS, TXN]], ids=["whole", "damaged", "list"])
def test_rows_are_those_of_reading(table: str, path: Any) -> None:
    pl = pytest.importorskip("polars")
    rows = pa.table(getattr(kfmt_cli, f"read_{table}")(path))
    frame = kfmt_cli.scan(path, table=table)
    assert frame.collect_schema() == pl.DataFrame(rows.schema.empty_table()).schema
    assert frame.collect().equals(pl.DataFrame(rows))
    found = kfmt_cli.dataset(path, table=table)
    assert found.schema == rows.schema
    assert found.to_table().equals(rows)
    assert found.count_rows() == len(rows)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars_passes_columns_rows_and_filters(engine: Any, built: list[Any]) -> None:
    pl = pytest.importorskip("polars")
    rows = pl.DataFrame(pa.table(kfmt_cli.read_records(BROKER)))
    frame = kfmt_cli.scan(BROKER)
    built.clear()  # of the schema
    late = pl.col("offset") > 1490
    asked: Any = (
        (lambda t: t.select("key", "offset"), {"key", "offset"}),
        (lambda t: t.filter(late).select("topic"), {"offset", "topic"}),
        (lambda t: t.filter(late).head(7).select("topic"), {"offset", "topic"}),
        (lambda t: t.head(3000).filter(late).select("offset"), {"offset"}),
        (lambda t: t.slice(100, 5).select("offset"), {"offset"}),
        (lambda t: t.select(pl.len()), None),
        (
            lambda t: t.group_by("topic").agg(pl.col("value").count()).sort("topic"),
            {"topic", "value"},
        ),
    )
    for ask, needed in asked:
        assert ask(frame).collect(engine=engine).equals(ask(rows))
        columns = built.pop()
        assert set(columns) == needed if needed else len(columns) == 1
    assert built == []


def test_the_first_rows_need_only_the_first_log(decoded: list[int]) -> None:
    pytest.importorskip("polars")
    frame = kfmt_cli.scan(BROKER)
    assert decoded == []
    assert len(frame.head(5).collect()) == 5
    assert len(decoded) < 6
    assert len(frame.head(0).collect()) == 0
    assert len(kfmt_cli.dataset(BROKER).head(5)) == 5
    assert len(decoded) < 12
    decoded.clear()
    frame.collect()
    assert len(decoded) > 30


def test_bounds_are_those_of_reading() -> None:
    pytest.importorskip("polars")
    bounds: Any = {"first_offset": 7, "last_offset": 9}
    assert kfmt_cli.scan(ORDERS, **bounds).collect()["offset"].to_list() == [7, 8, 9]
    assert kfmt_cli.dataset(ORDERS, **bounds).to_table(columns=["offset"]).to_pydict() == {
        "offset": [7, 8, 9]
    }


def test_what_cannot_be_read_raises_unless_ignored(lost: Path) -> None:
    pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"00000000000000009999\.log"):
        kfmt_cli.scan(lost).collect()
    with pytest.raises(InputError, match=r"00000000000000009999\.log"):
        kfmt_cli.dataset(lost).to_table()
    rows = pa.table(kfmt_cli.read_records(ORDERS))
    assert len(kfmt_cli.scan(lost, ignore_unreadable=True).collect()) == len(rows)
    assert len(kfmt_cli.dataset(lost, ignore_unreadable=True).to_table()) == len(rows)
    with pytest.raises(InputError, match="No such file"):
        kfmt_cli.scan("/no/such/file").collect()


def test_what_cannot_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for read in (kfmt_cli.scan, kfmt_cli.dataset):
        with pytest.raises(UsageError, match="no table named 'x'; choose from records, batches"):
            read(ORDERS, table="x")
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
def test_duckdb_passes_columns_and_filters(query: str, built: list[Any]) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as engine:
        engine.register("logs", pa.table(kfmt_cli.read_records(BROKER)))
        expected = engine.sql(query).fetchall()
        engine.register("logs", kfmt_cli.dataset(BROKER))
        built.clear()  # of the schema
        assert engine.sql(query).fetchall() == expected
    assert [set(names) for names in built] == [QUERIES[query]]


def test_duckdb_stops_after_a_limit_and_names_what_cannot_be_read(
    decoded: list[int], lost: Path
) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as engine:
        engine.register("logs", kfmt_cli.dataset(BROKER))
        assert len(engine.sql('SELECT "offset" FROM logs LIMIT 5').fetchall()) == 5
        assert 0 < len(decoded) < 30
        engine.register("logs", kfmt_cli.dataset(lost))
        with pytest.raises(Exception, match=r"00000000000000009999\.log"):
            engine.sql('SELECT sum("offset") FROM logs').fetchall()
