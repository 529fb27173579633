"""The documented tables as Spark schemas."""

from __future__ import annotations

from collections.abc import Iterable

from kfmt_cli.core.layout.field import MILLISECONDS
from kfmt_cli.rows.column import Column, ColumnKind

_TYPES = {
    ColumnKind.REAL: "double",
    ColumnKind.FLAG: "boolean",
    ColumnKind.CHOICE: "string",
    ColumnKind.BYTES: "binary",
    ColumnKind.TEXT: "string",
    ColumnKind.JSON: "string",
    ColumnKind.TEXTS: "array<string>",
    ColumnKind.HEADERS: "array<struct<key:string,value:binary,key_bytes:binary>>",
}


def type_name(column: Column) -> str:
    """The Spark type of a column."""
    if column.unit == MILLISECONDS:
        return "timestamp"
    if column.kind is ColumnKind.NUMBER:
        return "bigint" if column.bits > 32 else "int"
    return _TYPES[column.kind]


def ddl(columns: Iterable[Column]) -> str:
    """The schema in Spark's DDL."""
    return ", ".join(f"`{column.name}` {type_name(column)}" for column in columns)
