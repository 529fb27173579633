"""Tables of records that kfmt has not written, or with other columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.samples import TXN, kfmt

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

N_ROWS = 40


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """A table of records."""
    output = tmp_path_factory.mktemp("exported")
    assert kfmt("export", TXN.parent, "--to", output, "--tables", "records").code == 0
    (file,) = (output / "records").glob("*.parquet")
    return pq.read_table(file).slice(0, N_ROWS)


def foreign(table: pa.Table, tmp_path: Path, **changes: pa.Array) -> Path:
    """The file of a table with other columns."""
    for name, column in changes.items():
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, column)
    pq.write_table(table, tmp_path / "foreign.parquet")
    return tmp_path / "foreign.parquet"


FOREIGN_COLUMNS: dict[str, tuple[Callable[[], pa.Array], str]] = {
    "partition": (lambda: pa.array(["0"] * N_ROWS), "of type string, not int32"),
    "topic": (
        lambda: pa.array([b"a"] * N_ROWS, pa.large_binary()),
        "of type large_binary, not string",
    ),
    "offset": (lambda: pa.array([0.5] * N_ROWS), "of type double, not int64"),
    "headers": (lambda: pa.array([1] * N_ROWS), "of type int64, not list<"),
}


@pytest.mark.parametrize("name", FOREIGN_COLUMNS)
def test_a_column_of_another_type_is_named(name: str, exported: pa.Table, tmp_path: Path) -> None:
    create_column, problem = FOREIGN_COLUMNS[name]
    path = foreign(exported, tmp_path, **{name: create_column()})
    result = kfmt("build", path, tmp_path / "built")
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith(f"kfmt: {path}: the column {name} is {problem}")


def test_a_column_that_occurs_twice_is_named(exported: pa.Table, tmp_path: Path) -> None:
    path = foreign(exported, tmp_path)
    table = pq.read_table(path)
    pq.write_table(table.append_column("key", table["key"]), path)
    result = kfmt("build", path, tmp_path / "built")
    assert (result.code, result.err) == (3, f"kfmt: {path}: has the column key 2 times\n")


def test_a_topic_that_is_not_utf_8_is_refused(exported: pa.Table, tmp_path: Path) -> None:
    names = pa.Array.from_buffers(
        pa.string(), N_ROWS, [None, *pa.array([b"\xff"] * N_ROWS, pa.binary()).buffers()[1:]]
    )
    path = foreign(exported, tmp_path, topic=names)
    result = kfmt("build", path, tmp_path / "built")
    assert result.code == 3
    assert "Traceback" not in result.err


def test_integers_and_text_of_other_sizes_are_converted(exported: pa.Table, tmp_path: Path) -> None:
    columns = {
        "partition": pa.array([0] * N_ROWS, pa.int8()),
        "topic": pa.array(["txn"] * N_ROWS, pa.large_string()).dictionary_encode(),
    }
    result = kfmt("build", foreign(exported, tmp_path, **columns), tmp_path / "built")
    assert result.code == 0, result.err
    assert result.out.endswith("40 records\n")


def test_control_records_without_a_key_are_counted(exported: pa.Table, tmp_path: Path) -> None:
    path = foreign(exported, tmp_path, key=pa.nulls(N_ROWS, pa.binary()))
    result = kfmt("build", path, tmp_path / "built")
    assert result.code == 1
    assert "control records without key or value" in result.err
