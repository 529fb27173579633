"""Arrow schemas from row types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

import pyarrow as pa

from kfmt_cli.arrow.columns.arrays import CONSUMER_HEADER_TYPE, HEADER_TYPE, TIMESTAMP_TYPE
from kfmt_cli.core.layout.field import MS_UNIT
from kfmt_cli.rows.column import Column, ColumnKind

# List items are named as in Spark, because both schemas must be equal.
_ITEM = "element"
HEADERS_TYPE = pa.list_(pa.field(_ITEM, HEADER_TYPE))
CONSUMER_HEADERS_TYPE = pa.list_(pa.field(_ITEM, CONSUMER_HEADER_TYPE))
_TYPE_BY_KIND = {
    ColumnKind.REAL: pa.float64(),
    ColumnKind.FLAG: pa.bool_(),
    ColumnKind.CHOICE: pa.string(),
    ColumnKind.BYTES: pa.binary(),
    ColumnKind.TEXT: pa.string(),
    ColumnKind.JSON: pa.string(),
    ColumnKind.TEXTS: pa.list_(pa.field(_ITEM, pa.string())),
    ColumnKind.HEADERS: HEADERS_TYPE,
}


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type of a column."""
    if column.unit == MS_UNIT:
        return TIMESTAMP_TYPE
    if column.kind is ColumnKind.NUMBER:
        return pa.int64() if column.n_bits > 32 else pa.int32()
    return _TYPE_BY_KIND[column.kind]


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The schema of some columns."""
    return pa.schema([pa.field(column.name, arrow_type(column)) for column in columns])


def with_field_ids(schema: pa.Schema) -> pa.Schema:
    """The schema with field ids as in a new Iceberg table: from 1, with nested fields of lists
    after all others."""
    child_ids = count(len(schema) + 1)
    numbered = enumerate(schema, start=1)
    return pa.schema([_with_field_id(field, number, child_ids) for number, field in numbered])


def _with_field_id(field: pa.Field, number: int, child_ids: Iterator[int]) -> pa.Field:
    kind = field.type
    if pa.types.is_list(kind):
        kind = pa.list_(_with_field_id(kind.value_field, next(child_ids), child_ids))
    elif pa.types.is_struct(kind):
        kind = pa.struct(
            [_with_field_id(child, next(child_ids), child_ids) for child in kind.fields]
        )
    return field.with_type(kind).with_metadata({"PARQUET:field_id": str(number)})
