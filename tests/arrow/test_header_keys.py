"""A header's key is text for a consumer; bytes that are not UTF-8 are next to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kfmt_cli
from tests.support.samples import kfmt

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

INVALID_UTF8 = b"\xff\xfe"
HEADERS: list[dict[str, str | None]] = [
    {"key": "plain", "value": "1"},
    {"key": "//4=", "key_encoding": "base64", "value": None},
    {"key": "\ufffd", "value": ""},
]
WRITTEN_HEADERS: tuple[list[dict[str, str | None]], ...] = (HEADERS, [], HEADERS[:1])
READ_HEADERS = [
    {"key": "plain", "value": b"1", "key_bytes": None},
    {"key": "\ufffd\ufffd", "value": None, "key_bytes": INVALID_UTF8},
    {"key": "\ufffd", "value": b"", "key_bytes": None},
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Records with all headers, with none, and with the first one."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text(
        "".join(
            json.dumps({"value": "v", "headers": headers}) + "\n" for headers in WRITTEN_HEADERS
        )
    )
    path = tmp_path / "odd-0/00000000000000000000.log"
    path.parent.mkdir()
    assert kfmt("build", lines, path).code == 0
    return path


def test_no_byte_of_a_key_is_lost(log: Path) -> None:
    rows = pa.table(kfmt_cli.read_records(log, columns=["headers"]))
    assert rows.column("headers").to_pylist() == [READ_HEADERS, [], READ_HEADERS[:1]]


@pytest.mark.parametrize("schema", ["kfmt", "kafka-headers"])
def test_exported_headers_are_those_that_the_schema_has(
    schema: str, log: Path, tmp_path: Path
) -> None:
    to = tmp_path / "out"
    assert kfmt("export", log.parent, "--to", to, "--schema", schema).code == 0
    (file,) = to.glob("records/*.parquet")
    consumed = [{name: row[name] for name in ("key", "value")} for row in READ_HEADERS]
    expected = READ_HEADERS if schema == "kfmt" else consumed
    assert pq.ParquetFile(file).read().column("headers").to_pylist() == [
        expected,
        [],
        expected[:1],
    ]


@pytest.mark.parametrize("tables", ["records", "records,batches"])
@pytest.mark.usefixtures("log")
def test_a_log_built_of_an_export_has_the_same_keys(tables: str, tmp_path: Path) -> None:
    built = tmp_path / "built-0"
    assert kfmt("build", tmp_path / "lines.jsonl", built).code == 0
    assert kfmt("export", built, "--to", tmp_path / "out", "--tables", tables).code == 0
    assert kfmt("build", tmp_path / "out", tmp_path / "again").code == 0
    again = tmp_path / "again"
    built_rows, rebuilt_rows = (
        kfmt("dump", path, "--records", "--json").of("record") for path in (built, again)
    )
    assert [row["headers"] for row in built_rows] == [row["headers"] for row in rebuilt_rows]
    assert "//4=" in str(built_rows)
