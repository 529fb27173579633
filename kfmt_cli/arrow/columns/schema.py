"""Arrow schemas from row types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

import pyarrow as pa

from kfmt_cli.arrow.columns.arrays import CONSUMER_HEADER_TYPE, HEADER_TYPE, TIMESTAMP_TYPE
from kfmt_cli.core.layout.field import MS_UNIT
from kfmt_cli.rows.column import Column, ColumnKind

# List items are named as in Spark, because both schemas must be equal.
_LIST_ITEM_NAME = "element"
HEADERS_TYPE = pa.list_(pa.field(_LIST_ITEM_NAME, HEADER_TYPE))
CONSUMER_HEADERS_TYPE = pa.list_(pa.field(_LIST_ITEM_NAME, CONSUMER_HEADER_TYPE))
_TYPE_BY_KIND = {
    ColumnKind.REAL: pa.float64(),
    ColumnKind.FLAG: pa.bool_(),
    ColumnKind.CHOICE: pa.string(),
    ColumnKind.BYTES: pa.binary(),
    ColumnKind.TEXT: pa.string(),
    ColumnKind.JSON: pa.string(),
    ColumnKind.TEXTS: pa.list_(pa.field(_LIST_ITEM_NAME, pa.string())),
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
    numbered_fields = enumerate(schema, start=1)
    return pa.schema(
        [_with_field_id(field, field_id, child_ids) for field_id, field in numbered_fields]
    )


def _with_field_id(field: pa.Field, field_id: int, child_ids: Iterator[int]) -> pa.Field:
    field_type = field.type
    if pa.types.is_list(field_type):
        field_type = pa.list_(_with_field_id(field_type.value_field, next(child_ids), child_ids))
    elif pa.types.is_struct(field_type):
        field_type = pa.struct(
            [_with_field_id(child, next(child_ids), child_ids) for child in field_type.fields]
        )
    return field.with_type(field_type).with_metadata({"PARQUET:field_id": str(field_id)})
