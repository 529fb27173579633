"""The documented tables as Spark schemas."""

from __future__ import annotations

from collections.abc import Iterable

from kfmt_cli.core.layout.field import MS_UNIT
from kfmt_cli.rows.column import Column, ColumnKind

_SPARK_TYPE_BY_KIND = {
    ColumnKind.REAL: "double",
    ColumnKind.FLAG: "boolean",
    ColumnKind.CHOICE: "string",
    ColumnKind.BYTES: "binary",
    ColumnKind.TEXT: "string",
    ColumnKind.JSON: "string",
    ColumnKind.TEXTS: "array<string>",
    ColumnKind.HEADERS: "array<struct<key:string,value:binary,key_bytes:binary>>",
}


def spark_type(column: Column) -> str:
    """The Spark type of a column."""
    if column.unit == MS_UNIT:
        return "timestamp"
    if column.kind is ColumnKind.NUMBER:
        return "bigint" if column.n_bits > 32 else "int"
    return _SPARK_TYPE_BY_KIND[column.kind]


def spark_schema(columns: Iterable[Column]) -> str:
    """The schema in Spark's DDL."""
    return ", ".join(f"`{column.name}` {spark_type(column)}" for column in columns)
