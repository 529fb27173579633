"""Arrow schemas out of row types."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from kfmt_cli.arrow.arrays import HEADER, TIME
from kfmt_cli.core.layout.field import MILLISECONDS
from kfmt_cli.rows.column import Column, Kind

# Items of lists are named as Spark names them, whose schema must be the same.
_ITEM = "element"
_TYPES = {
    Kind.FLAG: pa.bool_(),
    Kind.CHOICE: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.TEXT: pa.string(),
    Kind.JSON: pa.string(),
    Kind.TEXTS: pa.list_(pa.field(_ITEM, pa.string())),
    Kind.HEADERS: pa.list_(pa.field(_ITEM, HEADER)),
}


def type_of(column: Column) -> pa.DataType:
    """The Arrow type of a column."""
    if column.unit == MILLISECONDS:
        return TIME
    if column.kind is Kind.NUMBER:
        return pa.int64() if column.bits > 32 else pa.int32()
    return _TYPES[column.kind]


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    """The schema of some columns."""
    return pa.schema([pa.field(it.name, type_of(it)) for it in columns])
