"""`kfmt sql` reads only the files that a query needs, and writes every format."""

from __future__ import annotations

import csv
import gzip
import io
import os
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support import warm
from tests.support.samples import ORDERS, environment, kfmt
from tools.kafka import ROOT, SAMPLES

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
BROKER = SAMPLES / "kafka-3.9.1-broker1"
DAMAGED = ROOT / "damaged_segments"
TABLES = ("batches", "findings", "index_entries", "records", "segments", "snapshot_records")


def select_rows(query: str, *paths: str | Path) -> list[dict[str, Any]]:
    """The rows of a query, without their type."""
    result = kfmt("sql", query, *(paths or (BROKER,)), "--json")
    assert (result.code, result.err) == (0, "")
    rows = result.rows
    assert {row.pop("type") for row in rows} <= {"row"}
    return rows


@pytest.fixture
def opened_logs(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The logs that are opened, as directory/file."""
    logs: set[str] = set()
    original_open = os.open

    def recording_open(path: Any, *arguments: Any, **keywords: Any) -> int:
        if str(path).endswith((".log", ".index", ".timeindex")):
            logs.add("/".join(Path(path).parts[-2:]))
        return original_open(path, *arguments, **keywords)

    monkeypatch.setattr(os, "open", recording_open)
    return logs


def test_an_answer_is_that_of_dump() -> None:
    records = kfmt("dump", BROKER, "--records", "--json").of("record")
    # The first snapshot is not in the directory of the topic.
    expected = Counter(row["topic"] or "__cluster_metadata" for row in records)
    # The metadata log also has records of snapshots, in a table of their own.
    rows = select_rows("select topic, count(*) as n from records group by 1")
    snapshots = select_rows("select topic, count(*) as n from snapshot_records group by 1")
    counts = {row["topic"]: row["n"] for row in rows}
    for row in snapshots:
        counts[row["topic"]] += row["n"]
    assert counts == expected


@pytest.mark.parametrize("table", TABLES)
def test_every_table_answers(table: str) -> None:
    path = DAMAGED if table == "findings" else BROKER
    result = kfmt("sql", f"select * from {table}", path, "--json")
    assert result.code == 0
    (count_row,) = kfmt("sql", f"select count(*) as n from {table}", path, "--json").rows
    assert len(result.rows) == count_row["n"] > 0


def test_only_needed_files_are_opened(opened_logs: set[str]) -> None:
    query = "select count(*) as n from records where topic = 'orders' and partition = 0"
    assert select_rows(query) == [{"n": 1500}]
    assert len(opened_logs) == 7
    assert {name.split("/")[0] for name in opened_logs} == {"orders-0"}
    opened_logs.clear()
    assert select_rows(f'{query} and "offset" between 900 and 905') == [{"n": 6}]
    assert len(opened_logs) == 1
    opened_logs.clear()
    assert select_rows(
        "select count(*) as n from records where topic in ('codec-gzip', 'codec-lz4')"
    ) == [{"n": 2400}]
    assert {name.split("/")[0].startswith("codec-") for name in opened_logs} == {True}
    opened_logs.clear()
    assert select_rows(
        "select count(*) as n from batches where last_offset < 100 and topic = 'orders'"
    )
    assert len(opened_logs) == 1
    opened_logs.clear()
    assert select_rows("select 1 as n from records where topic = 'nothing'") == []
    assert select_rows("select 1 as n") == [{"n": 1}]
    assert not opened_logs


@pytest.mark.parametrize(
    "where",
    [
        '"offset" > 5',
        '"offset" in (3, 400, 1200)',
        '"offset" < 10 or "offset" > 1490',
        'not ("offset" > 7)',
        '"offset" > 9 and "offset" < 3',
        "timestamp > '2026-11-20 15:24:10'",
        "timestamp <= '2023-11-14 22:13:20.5'",
        "timestamp is null or timestamp > '2026-11-20'",
        "timestamp_ms >= 1700000000000",
        "topic is null",
        "topic <> 'orders' and partition = 0",
        "topic >= 'c' and topic < 'd'",
        "file like '%orders-0/%'",
        "key is null",
    ],
)
def test_a_filter_that_is_pushed_down_changes_no_row(where: str) -> None:
    # DuckDB itself filters a materialized table.
    select = 'select file, "offset", timestamp_ms from'
    pushed = select_rows(f"{select} records where {where} order by all")
    materialized = "with all_of_it as materialized (select * from records)"
    assert pushed == select_rows(f"{materialized} {select} all_of_it where {where} order by all")


def test_values_in_every_format() -> None:
    query = (
        "select null as n, '' as e, 'x' as type, true as b, 1.5::decimal(9,2) as d,"
        " 7::hugeint as h, 'nan'::double as f, '\\xFF'::blob as bytes, date '2026-01-02' as day,"
        " [1, null] as l, timestamptz '1970-01-01 00:00:01Z' as t, 1 as a,"
        " 2 as a, interval 3 days as i"
    )
    result = kfmt("sql", query, BROKER, "--json")
    assert '"d":1.50' in result.out
    assert result.rows == [
        {"type": "row", "n": None, "e": "", "type_1": "x", "b": True, "d": 1.5, "h": 7}
        | {"f": "NaN", "bytes": "/w==", "bytes_encoding": "base64", "day": "2026-01-02"}
        | {"l": [1, None], "t": 1000, "a": 1, "a_1": 2, "i": "3 days"}
    ]
    text = kfmt("sql", query, BROKER, "--format", "csv").out
    names, cells = csv.reader(io.StringIO(text))
    assert names[:2] + names[7:9] == ["n", "e", "bytes", "bytes_encoding"]
    assert cells[2:7] == ["x", "true", "1.50", "7", "NaN"]
    assert text.splitlines()[1].startswith(',"",')
    heading, line, last = kfmt("sql", query, BROKER).out.splitlines()
    assert "t (UTC)" in heading
    assert line.split()[:3] == ["–", '""', "x"]
    assert "1970-01-01 00:00:01.000" in line
    assert last == "1 row shown"


def test_an_empty_answer() -> None:
    query = "select topic, key from records where 1 = 2"
    assert kfmt("sql", query, BROKER, "--json").out == ""
    assert kfmt("sql", query, BROKER, "--format", "csv").out == "topic,key,key_encoding\n"
    result = kfmt("sql", query, BROKER)
    assert (result.code, result.out.split()) == (0, ["topic", "key", "0", "rows", "shown"])


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("selct 1 ", 2, 'kfmt: Parser Error: syntax error at or near "selct" (line 1, column 1)'),
        ("select 1\n from batches limt 1", 2, "(line 2, column 20)"),
        ("select * from recrds", 2, 'did you mean "records"'),
        ("select offset from records", 2, "offset needs double quotes"),
        ('select "offset" frm records', 2, "Parser Error"),
        ("select offset_of x y z from records", 2, "Parser Error"),
        ("select 1 from records limit 1 offset 'x'", 2, "Conversion Error"),
        ("select 1; select 'x'::int", 2, "Could not convert string 'x' to INT32"),
        ("select * from 'https://example.com/x.csv'", 2, "requires the extension httpfs"),
        ("copy (select 1) to '/nowhere/x.csv'", 3, "/nowhere/x.csv"),
    ],
)
def test_a_mistake_is_one_line(query: str, code: int, message: str) -> None:
    result = kfmt("sql", query, BROKER)
    assert result.code == code
    assert message.lower() in result.err.lower()
    assert ("needs double quotes" in result.err) == ("needs double quotes" in message)
    assert len(result.err.splitlines()) == 1


def test_damage_is_reported_and_its_rows_are_findings() -> None:
    result = kfmt("sql", "select count(*) as n from records", DAMAGED, "--json")
    assert result.code == 1
    assert "see the table findings" in result.err
    checked = kfmt("verify-crc", "--deep", DAMAGED, "--json").of("finding")
    rows = select_rows("select code, message from findings where severity = 'error'", DAMAGED)
    errors = [row for row in checked if row["severity"] == "error"]
    assert sorted(row["code"] for row in rows) == sorted(row["code"] for row in errors)


def test_unreadable_inputs_are_reported(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / ORDERS.name).write_bytes(ORDERS.read_bytes())
    (tmp_path / "orders-0/00000000000000009999.log").symlink_to(tmp_path / "nothing")
    query = "select count(*) as n from records"
    result = kfmt("sql", query, tmp_path, tmp_path / "none", "--json")
    assert result.code == 3
    assert result.rows[0]["n"] == len(kfmt("dump", ORDERS, "--records", "--json").of("record"))
    assert "none: No such file or directory" in result.err
    assert "00000000000000009999.log" in result.err
    missing = kfmt("sql", query, tmp_path / "none")
    assert (missing.code, missing.out, len(missing.err.splitlines())) == (3, "", 1)


def test_arguments() -> None:
    assert kfmt("sql", "select 1").code == 2
    assert "cannot read standard input" in kfmt("sql", "select 1", "-").err
    mistyped = kfmt("sql", "no/such/directory")
    assert (mistyped.code, mistyped.err) == (
        3,
        "kfmt: no/such/directory: No such file or directory\n",
    )


def test_statements_from_standard_input() -> None:
    text = b".tables\nselect 1 as a;\nselect ';\n' as b\n;select 2 as c"
    result = kfmt("sql", BROKER, "--json", stdin=text)
    names, (first, second, third) = result.rows[:6], result.rows[6:]
    assert tuple(row["name"] for row in names) == TABLES
    assert (first["a"], second["b"], third["c"]) == (1, ";\n", 2)
    assert kfmt("sql", BROKER, stdin=b"select nothing;\nselect 1;").code == 2


def test_a_file_of_parquet_is_written(tmp_path: Path) -> None:
    output = tmp_path / "x.parquet"
    select_rows(f"copy (select topic from records limit 3) to '{output}'")
    assert select_rows(f"select count(*) as n from '{output}'") == [{"n": 3}]


def test_without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    original_find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *arguments: None if name == "duckdb" else original_find_spec(name),
    )
    result = kfmt("sql", "select 1", BROKER)
    assert (result.code, result.err) == (
        2,
        "kfmt: kfmt sql needs duckdb: pip install 'kfmt-cli[sql]'\n",
    )


def test_a_long_answer_takes_no_more_memory(tmp_path: Path) -> None:
    def peak(n: int) -> int:
        with (tmp_path / "out").open("wb") as out:
            arguments = [
                "sql",
                f"select range as n, 'x' || range as t from range({n})",
                str(BROKER),
            ]
            running = warm.start(
                [*arguments, "--json"],
                cwd=ROOT,
                env=environment(),
                stdin=out,
                stdout=out,
                stderr=out,
            )
            largest = 0
            status = Path(f"/proc/{running.pid}/status")
            while status.exists() and (text := status.read_text()) and "VmHWM" in text:
                largest = max(largest, int(text.split("VmHWM:")[1].split()[0]))
                time.sleep(0.01)
            assert running.wait() == 0
        assert (tmp_path / "out").read_bytes().count(b"\n") == n
        return largest

    assert peak(2_000_000) < peak(100_000) + 40_000  # kilobytes


def test_ctrl_c_ends_a_query(tmp_path: Path) -> None:
    endless = "select a.range from range(10000000) a, range(1000000) b where a.range * b.range = -1"
    with (tmp_path / "out").open("wb") as out:
        running = warm.start(
            ["sql", f"select 1 as n; {endless}", str(BROKER), "--json"],
            cwd=ROOT,
            env=environment(),
            stdin=out,
            stdout=out,
            stderr=out,
        )
        while b'"n":1' not in (tmp_path / "out").read_bytes():
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
    assert (tmp_path / "out").read_bytes().strip().splitlines() == [b'{"type":"row","n":1}']


def test_compressed_logs_are_read_like_uncompressed_ones(tmp_path: Path) -> None:
    directory = tmp_path / "logs/orders-0"
    shutil.copytree(BROKER / "orders-0", directory)
    for log in directory.glob("*.log"):
        log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
    assert select_rows("select count(*) as n from records", tmp_path / "logs") == [{"n": 1500}]


def test_a_log_at_two_paths_is_read_once(tmp_path: Path) -> None:
    shutil.copytree(ORDERS.parent, tmp_path / "orders-0")
    query = "select count(*) as n, count(distinct file) as files from records"
    paths = (tmp_path / "orders-0", f"{tmp_path}/./orders-0", tmp_path)
    assert select_rows(query, *paths) == [{"n": 1500, "files": 7}]


def test_damage_of_an_index_is_reported(tmp_path: Path) -> None:
    shutil.copytree(ORDERS.parent, tmp_path / "orders-0")
    with (tmp_path / "orders-0" / f"{0:020}.index").open("ab") as index:
        index.write(b"abc")
    result = kfmt("sql", "select count(*) as n from index_entries", tmp_path, "--json")
    assert result.code == 1
    assert "1 error in 1 file" in result.err


def test_a_log_alone_has_no_index_entries() -> None:
    assert select_rows("select count(*) as n from index_entries", ORDERS) == [{"n": 0}]
    (row,) = select_rows(
        "select count(*) as n from index_entries", ORDERS, ORDERS.with_suffix(".index")
    )
    assert row["n"] > 0


def test_a_day_that_python_does_not_have() -> None:
    rows = select_rows(
        "select 'infinity'::date as never, date '12345-01-02' as late, null::date as none"
    )
    assert rows == [{"never": "infinity", "late": "12345-01-02", "none": None}]
