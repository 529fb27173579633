"""Arrow schemas out of row types."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from kfmt_cli.arrow.arrays import HEADER, TIME
from kfmt_cli.core.layout.field import MILLISECONDS
from kfmt_cli.rows.column import Column, ColumnKind

# Items of lists are named as Spark names them, whose schema must be the same.
_ITEM = "element"
_TYPES = {
    ColumnKind.FLAG: pa.bool_(),
    ColumnKind.CHOICE: pa.string(),
    ColumnKind.BYTES: pa.binary(),
    ColumnKind.TEXT: pa.string(),
    ColumnKind.JSON: pa.string(),
    ColumnKind.TEXTS: pa.list_(pa.field(_ITEM, pa.string())),
    ColumnKind.HEADERS: pa.list_(pa.field(_ITEM, HEADER)),
}


def type_of(column: Column) -> pa.DataType:
    """The Arrow type of a column."""
    if column.unit == MILLISECONDS:
        return TIME
    if column.kind is ColumnKind.NUMBER:
        return pa.int64() if column.bits > 32 else pa.int32()
    return _TYPES[column.kind]


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    """The schema of some columns."""
    return pa.schema([pa.field(column.name, type_of(column)) for column in columns])
