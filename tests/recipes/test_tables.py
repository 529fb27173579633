"""Other things that a contributor adds: a payload format, a table for Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.rows import table_types
from kfmt_cli.rows.column import Column, ColumnKind, RowType, number_column
from kfmt_cli.topics import payloads
from kfmt_cli.topics.payloads import PayloadFormat
from tests.recipes.test_recipes import Ran, rows, run
from tests.support.samples import ORDERS
from tools import make_docs

__all__ = ["run"]
MODULE = __name__

# A payload format: a function from bytes to a value.


def read_roman(data: bytes) -> int:
    """A number of Roman digits; raises ValueError."""
    values = [{"I": 1, "V": 5, "X": 10}[chr(digit)] for digit in data if chr(digit) in "IVX"]
    if len(values) != len(data):
        raise ValueError("not all of it is I, V and X")
    return sum(
        -value if value < next_value else value for value, next_value in pairwise([*values, 0])
    )


def test_a_payload_format(run: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roman = PayloadFormat("roman", "Roman digits", read_roman)
    monkeypatch.setitem(payloads.PAYLOAD_FORMATS, "roman", roman)
    lines = [{"type": "record", "offset": i, "value": text} for i, text in enumerate(("XIV", "A"))]
    (tmp_path / "lines").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run("build", tmp_path / "lines", tmp_path / "years-0")
    assert run("cat", tmp_path / "years-0", "--value-format", "roman") == "14\nA\n"
    assert "offset 1: cannot be decoded as roman: not all of it is I, V and X" in run.err
    output = run("dump", tmp_path / "years-0", "--records", "--json", "--value-format", "roman")
    decoded = [row["decoded_value"] for row in rows(output, "record")]
    assert decoded[0] == {"format": "roman", "value": 14}
    assert decoded[1]["note"].startswith("cannot be decoded")
    assert "roman" in run("cat", "--help")


# A table for Spark: its columns, and the function that reads its rows.

SIZES = RowType(
    "sizes",
    "A row a file.",
    (Column("file", ColumnKind.TEXT, "The file's path."), number_column("bytes", "Its size.")),
)


def test_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    arrow = pytest.importorskip("pyarrow")
    from kfmt_cli.arrow.columns import tables
    from kfmt_cli.arrow.columns.schema import arrow_schema
    from kfmt_cli.spark.partition_reader import read_input_partition
    from kfmt_cli.spark.selections import plan_input_partitions
    from kfmt_cli.spark.source_options import parse_request

    def sizes(request: Any, file_split: Any, _: object) -> Iterator[Any]:
        row = {"file": file_split.path, "bytes": file_split.end - file_split.start}
        yield arrow.RecordBatch.from_pylist([row], arrow_schema(request.output_columns))

    monkeypatch.setitem(table_types.TABLES, "sizes", SIZES)
    monkeypatch.setitem(tables.READER_BY_TABLE, "sizes", sizes)
    request = parse_request({"table": "sizes", "path": str(ORDERS), "columns": "bytes"})
    batches = [
        batch
        for split in plan_input_partitions(request)
        for batch in read_input_partition(request, split)
    ]
    assert [row for batch in batches for row in batch.to_pylist()] == [
        {"bytes": ORDERS.stat().st_size}
    ]
    assert "Its size." in make_docs.spark_tables()
