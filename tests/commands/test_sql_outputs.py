"""sql: statements that write do not write to an input."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, kfmt

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 1) to '{path}'",
        "COPY\n(select 1) TO '{path}' (format csv)",
        "copy (select 1) to $${path}$$",
        "copy (select 1) to $a${path}$a$",
        "select 1; copy (select 'to ''x''') to '{path}'",
        "attach '{path}'",
        "create table t as select 1 a; export database '{path}'",
    ],
)
@pytest.mark.parametrize("name", [ORDERS.name, "new.csv", "../orders-0/new.csv", "link"])
def test_an_input_is_not_written_to(statement: str, name: str, tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    shutil.copytree(ORDERS.parent, partition)
    before = {path: path.read_bytes() for path in partition.iterdir()}
    (tmp_path / "link").symlink_to(ORDERS.parent)
    path = tmp_path / "link" / ORDERS.name if name == "link" else partition / name
    inputs = [partition, *([ORDERS.parent] if name == "link" else [])]
    result = kfmt("sql", statement.format(path=path), *inputs)
    assert result.code == 2, result.err
    assert "which kfmt never writes to; choose another place" in result.err
    assert {path: path.read_bytes() for path in partition.iterdir()} == before


def test_other_places_are_written_to(tmp_path: Path) -> None:
    output = tmp_path / "it's.csv"
    text = str(output).replace("'", "''")
    result = kfmt("sql", f"copy (select offset_ o from (select 1 offset_)) to '{text}'", ORDERS)
    assert result.code == 0, result.err
    assert output.read_text() == "o\n1\n"
