"""Converts query results to rows for an output: Arrow columns of any type and name."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pa_types

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.field import MS_UNIT
from kfmt_cli.core.table import Table
from kfmt_cli.render.style import escape_unprintable
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.columnar_rows import ColumnarRows
from kfmt_cli.rows.documents import QUERY_ROW


def result_row_type(schema: pa.Schema) -> RowType:
    """The row type for batches of a schema. A duplicate name gets a number, as in "type_1"."""
    used_names = {"type"}
    columns = []
    for column_index, field in enumerate(schema):
        column_kind = _column_kind(field.type)
        column_name, duplicate_number = field.name, 1
        while column_name in used_names:
            column_name, duplicate_number = f"{field.name}_{duplicate_number}", duplicate_number + 1
        used_names.add(column_name)
        unit = MS_UNIT if pa_types.is_timestamp(field.type) else None
        value_source = f"\0{column_index}"
        if column_kind is ColumnKind.BYTES:  # JSON names the encoding after the source
            value_source = column_name
            used_names |= {f"{column_name}_encoding", f"{column_name}_size"}
        presence_source, heading = f"\0{column_index} given", escape_unprintable(column_name)
        columns.append(
            Column(
                column_name,
                column_kind,
                source=value_source,
                presence_column=presence_source,
                unit=unit,
                heading=heading,
            )
        )
    return RowType(QUERY_ROW.name, QUERY_ROW.doc, tuple(columns), QUERY_ROW.location_source)


def result_rows(row_type: RowType, batch: pa.RecordBatch) -> ColumnarRows:
    """The rows of a batch. row_type: the row type of its schema."""
    table = Table.zeros_with_columns(row_type.table_columns, len(batch))
    byte_chunks = []
    total_bytes = 0
    for column, arrow_column in zip(row_type.columns, batch.columns, strict=True):
        table[column.presence_column] = (
            arrow_column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
        )
        if not column.kind.is_byte_range:
            table[column.table_column] = _int_values(column, arrow_column)
            continue
        encoded_texts = _encoded_values(column.kind, arrow_column)
        _, offset_buffer, text_buffer = encoded_texts.buffers()
        text_bounds = np.frombuffer(offset_buffer, np.int64)[
            encoded_texts.offset : encoded_texts.offset + len(encoded_texts) + 1
        ]
        table[column.table_column] = text_bounds[:-1] - text_bounds[0] + total_bytes
        table[f"{column.table_column}_size"] = np.diff(text_bounds)
        byte_chunks.append(
            text_buffer.to_pybytes()[text_bounds[0] : text_bounds[-1]] if text_buffer else b""
        )
        total_bytes += len(byte_chunks[-1])
    return ColumnarRows(row_type, table, b"".join(byte_chunks))


# DuckDB dates, in days.
_INFINITY_TEXT_BY_DAYS = {
    (1 << 31) - 1: "infinity",
    1 - (1 << 31): "-infinity",
}


def _column_kind(type_: pa.DataType) -> ColumnKind:
    if pa_types.is_boolean(type_):
        return ColumnKind.FLAG
    if pa_types.is_timestamp(type_) or (
        pa_types.is_integer(type_) and not pa_types.is_uint64(type_)
    ):
        return ColumnKind.NUMBER
    if pa_types.is_uint64(type_) or pa_types.is_floating(type_) or pa_types.is_decimal(type_):
        return ColumnKind.REAL
    if pa_types.is_binary(type_) or pa_types.is_large_binary(type_):
        return ColumnKind.BYTES
    return ColumnKind.JSON if pa_types.is_nested(type_) else ColumnKind.TEXT


def _int_values(column: Column, arrow_column: pa.Array) -> np.ndarray[Any, Any]:
    """The values as integers: flags as 0 and 1, times in milliseconds, null as 0."""
    if column.unit == MS_UNIT:
        arrow_column = arrow_column.cast(pa.timestamp("ms", arrow_column.type.tz), safe=False)
    integers: np.ndarray[Any, Any] = arrow_column.cast(pa.int64()).fill_null(0).to_numpy()
    return integers


def _encoded_values(column_kind: ColumnKind, arrow_column: pa.Array) -> pa.Array:
    """Each value as the bytes of its text, which is not used for null."""
    if column_kind is ColumnKind.JSON:
        texts = [json_text(_to_json_value(value)) for value in arrow_column.to_pylist()]
    elif pa_types.is_date(arrow_column.type):  # Python's dates have a smaller range
        days = arrow_column.cast(pa.int32()).fill_null(0).to_pylist()
        iso_texts = arrow_column.cast(pa.string()).fill_null("").to_pylist()
        texts = [
            _INFINITY_TEXT_BY_DAYS.get(day, value_text)
            for day, value_text in zip(days, iso_texts, strict=True)
        ]
    elif pa_types.is_floating(arrow_column.type):  # JSON has no NaN
        texts = [json_text(value) for value in arrow_column.to_pylist()]
    else:
        try:
            return pc.fill_null(arrow_column.cast(pa.large_binary()), b"")
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            texts = [_format_unconvertible_value(value) for value in arrow_column.to_pylist()]
    return pa.array([value_text.encode() for value_text in texts], pa.large_binary())


def _format_unconvertible_value(value: Any) -> str:
    """The text of a value that Arrow cannot convert to text, such as an interval."""
    if not isinstance(value, pa.MonthDayNano):
        return "" if value is None else str(value)
    unit_texts = [
        f"{unit_count} {unit_name}"
        for unit_count, unit_name in zip(value, ("months", "days"), strict=False)
    ]
    seconds_text = f"{value.nanoseconds / 10**9:.6f}".rstrip("0").rstrip(".")
    return (
        " ".join(
            unit_text
            for unit_text in (*unit_texts, f"{seconds_text} s")
            if not unit_text.startswith("0 ")
        )
        or "0 s"
    )


def _to_json_value(value: Any) -> Any:
    """A nested value with JSON types: bytes as text or with their encoding."""
    if isinstance(value, Mapping):
        return dict(_json_members(value.items()))
    if isinstance(value, list | tuple):
        return [_to_json_value(item) for item in value]
    if isinstance(value, bytes):
        return next(value for _, value in _json_members([("", value)]))
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _json_members(named_values: Iterable[tuple[Any, Any]]) -> Iterable[tuple[str, Any]]:
    for name, value in named_values:
        if not isinstance(value, bytes):
            yield str(name), _to_json_value(value)
            continue
        try:
            yield str(name), value.decode()
        except UnicodeDecodeError:
            yield str(name), base64.b64encode(value).decode()
            yield f"{name}_encoding", "base64"
