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
from kfmt_cli.render.style import escape_terminal
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.columnar_rows import ColumnarRows
from kfmt_cli.rows.types.reference_rows import QUERY_ROW


def result_row_type(schema: pa.Schema) -> RowType:
    """The row type for batches of a schema. A duplicate column name gets a number: `type_1`."""
    used_names = {"type"}
    columns = []
    for i, field in enumerate(schema):
        kind = _column_kind(field.type)
        name, n = field.name, 1
        while name in used_names:
            name, n = f"{field.name}_{n}", n + 1
        used_names.add(name)
        unit = MS_UNIT if pa_types.is_timestamp(field.type) else None
        source = f"\0{i}"
        if kind is ColumnKind.BYTES:  # JSON names the encoding after the source
            source = name
            used_names |= {f"{name}_encoding", f"{name}_size"}
        presence_source, heading = f"\0{i} given", escape_terminal(name)
        columns.append(
            Column(
                name,
                kind,
                source=source,
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
    data_size = 0
    for column, values in zip(row_type.columns, batch.columns, strict=True):
        table[column.presence_column] = (
            values.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
        )
        if not column.kind.is_bytes:
            table[column.table_column] = _int_values(column, values)
            continue
        texts = _encoded_values(column.kind, values)
        _, offset_buffer, data = texts.buffers()
        bounds = np.frombuffer(offset_buffer, np.int64)[
            texts.offset : texts.offset + len(texts) + 1
        ]
        table[column.table_column] = bounds[:-1] - bounds[0] + data_size
        table[f"{column.table_column}_size"] = np.diff(bounds)
        byte_chunks.append(data.to_pybytes()[bounds[0] : bounds[-1]] if data else b"")
        data_size += len(byte_chunks[-1])
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


def _int_values(column: Column, values: pa.Array) -> np.ndarray[Any, Any]:
    """The values as integers: flags as 0 and 1, times in milliseconds, null as 0."""
    if column.unit == MS_UNIT:
        values = values.cast(pa.timestamp("ms", values.type.tz), safe=False)
    integers: np.ndarray[Any, Any] = values.cast(pa.int64()).fill_null(0).to_numpy()
    return integers


def _encoded_values(kind: ColumnKind, values: pa.Array) -> pa.Array:
    """Each value as the bytes of its text, which is not used for null."""
    if kind is ColumnKind.JSON:
        texts = [json_text(_to_json_value(value)) for value in values.to_pylist()]
    elif pa_types.is_date(values.type):  # Python's dates have a smaller range
        days = values.cast(pa.int32()).fill_null(0).to_pylist()
        iso_texts = values.cast(pa.string()).fill_null("").to_pylist()
        texts = [
            _INFINITY_TEXT_BY_DAYS.get(day, text) for day, text in zip(days, iso_texts, strict=True)
        ]
    elif pa_types.is_floating(values.type):  # JSON has no NaN
        texts = [json_text(value) for value in values.to_pylist()]
    else:
        try:
            return pc.fill_null(values.cast(pa.large_binary()), b"")
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            texts = [_format_value(value) for value in values.to_pylist()]
    return pa.array([text.encode() for text in texts], pa.large_binary())


def _format_value(value: Any) -> str:
    """The text of a value that Arrow cannot convert to text, such as an interval."""
    if not isinstance(value, pa.MonthDayNano):
        return "" if value is None else str(value)
    units = [f"{n} {name}" for n, name in zip(value, ("months", "days"), strict=False)]
    seconds = f"{value.nanoseconds / 10**9:.6f}".rstrip("0").rstrip(".")
    return " ".join(part for part in (*units, f"{seconds} s") if not part.startswith("0 ")) or "0 s"


def _to_json_value(value: Any) -> Any:
    """A nested value with JSON types: bytes as text or with their encoding."""
    if isinstance(value, Mapping):
        return dict(_json_members(value.items()))
    if isinstance(value, list | tuple):
        return [_to_json_value(item) for item in value]
    if isinstance(value, bytes):
        return next(value for _, value in _json_members([("", value)]))
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _json_members(pairs: Iterable[tuple[Any, Any]]) -> Iterable[tuple[str, Any]]:
    for name, value in pairs:
        if not isinstance(value, bytes):
            yield str(name), _to_json_value(value)
            continue
        try:
            yield str(name), value.decode()
        except UnicodeDecodeError:
            yield str(name), base64.b64encode(value).decode()
            yield f"{name}_encoding", "base64"
