"""Arrow schemas from row types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

import pyarrow as pa

from kfmt_cli.arrow.columns.arrays import CONSUMED_HEADER, HEADER, TIME
from kfmt_cli.core.layout.field import MILLISECONDS
from kfmt_cli.rows.column import Column, ColumnKind

# Items of lists have Spark's name, because both schemas must be equal.
_ITEM = "element"
HEADERS = pa.list_(pa.field(_ITEM, HEADER))
CONSUMED_HEADERS = pa.list_(pa.field(_ITEM, CONSUMED_HEADER))
_TYPES = {
    ColumnKind.REAL: pa.float64(),
    ColumnKind.FLAG: pa.bool_(),
    ColumnKind.CHOICE: pa.string(),
    ColumnKind.BYTES: pa.binary(),
    ColumnKind.TEXT: pa.string(),
    ColumnKind.JSON: pa.string(),
    ColumnKind.TEXTS: pa.list_(pa.field(_ITEM, pa.string())),
    ColumnKind.HEADERS: HEADERS,
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


def with_field_ids(schema: pa.Schema) -> pa.Schema:
    """The schema with field ids as in a new Iceberg table: from 1, with nested fields of lists
    after all others."""
    inner = count(len(schema) + 1)
    numbered = enumerate(schema, start=1)
    return pa.schema([_with_id(each_field, number, inner) for number, each_field in numbered])


def _with_id(each_field: pa.Field, number: int, inner: Iterator[int]) -> pa.Field:
    kind = each_field.type
    if pa.types.is_list(kind):
        kind = pa.list_(_with_id(kind.value_field, next(inner), inner))
    elif pa.types.is_struct(kind):
        kind = pa.struct([_with_id(each, next(inner), inner) for each in kind.fields])
    return each_field.with_type(kind).with_metadata({"PARQUET:field_id": str(number)})
