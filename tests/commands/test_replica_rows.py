"""Commands show each record once, whatever replicas of a partition are under their paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import in_process
from tests.support.samples import environment, kfmt
from tools.kafka import SAMPLES

BROKERS = tuple(SAMPLES / f"kafka-3.9.1-broker{number}/replicated-0" for number in (1, 2))
ALL = ("--all-replicas",)


def n_records(*arguments: str | Path) -> int:
    result = kfmt("stat", *BROKERS, "--by", "topic", "--json", *arguments)
    assert result.code == 0, result.err
    rows = map(json.loads, result.out.splitlines())
    return sum(row["records"] for row in rows if row["type"] == "stat")


def test_stat_counts_each_record_once() -> None:
    assert n_records() == 4000
    assert n_records(*ALL) == 8000


def test_find_shows_each_record_once() -> None:
    for options, n_places in (((), 1), (ALL, 2)):
        result = kfmt("find", *BROKERS, "--offset", "100", "--json", *options)
        rows = map(json.loads, result.out.splitlines())
        assert sum(row["type"] == "found" for row in rows) == n_places
        assert ("1 partition with several replicas" in result.err) is (n_places == 1)


def test_sql_counts_each_record_once() -> None:
    pytest.importorskip("duckdb")
    for options, count in (((), "4000"), (ALL, "8000")):
        query = "select count(*) from records"
        result = kfmt("sql", *options, query, *BROKERS, "--format", "csv")
        assert result.out.splitlines()[-1] == count


def test_export_of_all_replicas_tells_them_apart(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    for options, n_rows in (((), 4000), (ALL, 8000)):
        to = tmp_path / str(n_rows)
        arguments = ["export", *map(str, BROKERS), "--to", str(to), "--jobs", "1", *options]
        assert in_process.run(arguments, b"", tmp_path, environment())[0] == 0
        (file,) = to.glob("records/*.parquet")
        table = pq.read_table(file)
        assert table.num_rows == n_rows
        assert ("broker_id" in table.column_names) is bool(options)
    counts = {row["values"]: row["counts"] for row in table["broker_id"].value_counts().to_pylist()}
    assert counts == {1: 4000, 2: 4000}
    assert set(table["log_dir"].to_pylist()) == {str(path.parent) for path in BROKERS}
