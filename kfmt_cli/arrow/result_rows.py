"""The result of a query as rows for an output: any Arrow columns, under any names."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as of

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.field import MILLISECONDS
from kfmt_cli.core.native.table import Table
from kfmt_cli.render.style import safe
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.documents import QUERY_ROW
from kfmt_cli.rows.section import Section


def rows_of_result(schema: pa.Schema) -> RowType:
    """The rows that the batches of a schema make; a name that is taken gets a number: `type_1`."""
    taken = {"type"}
    columns = []
    for i, field in enumerate(schema):
        kind = _kind(field.type)
        name, n = field.name, 1
        while name in taken:
            name, n = f"{field.name}_{n}", n + 1
        taken.add(name)
        unit = MILLISECONDS if of.is_timestamp(field.type) else None
        at = f"\0{i}"
        if kind is ColumnKind.BYTES:  # JSON names the encoding after the source
            at = name
            taken |= {f"{name}_encoding", f"{name}_size"}
        given, heading = f"\0{i} given", safe(name)
        columns.append(Column(name, kind, source=at, given=given, unit=unit, heading=heading))
    return RowType(QUERY_ROW.name, QUERY_ROW.doc, tuple(columns), QUERY_ROW.placed)


def result_section(rows: RowType, batch: pa.RecordBatch) -> Section:
    """The rows of a batch. rows: of its schema."""
    table, pieces, size = Table.empty(rows.sources, len(batch)), [], 0
    for column, values in zip(rows.columns, batch.columns, strict=True):
        table[column.given] = values.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
        if not column.kind.is_bytes:
            table[column.at] = _numbers(column, values)
            continue
        texts = _texts(column.kind, values)
        _, ends, data = texts.buffers()
        bounds = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        table[column.at] = bounds[:-1] - bounds[0] + size
        table[f"{column.at}_size"] = np.diff(bounds)
        pieces.append(data.to_pybytes()[bounds[0] : bounds[-1]] if data else b"")
        size += len(pieces[-1])
    return Section(rows, table, b"".join(pieces))


_INFINITE = {(1 << 31) - 1: "infinity", 1 - (1 << 31): "-infinity"}  # dates of DuckDB, in days


def _kind(type_: pa.DataType) -> ColumnKind:
    if of.is_boolean(type_):
        return ColumnKind.FLAG
    if of.is_timestamp(type_) or (of.is_integer(type_) and not of.is_uint64(type_)):
        return ColumnKind.NUMBER
    if of.is_uint64(type_) or of.is_floating(type_) or of.is_decimal(type_):
        return ColumnKind.REAL
    if of.is_binary(type_) or of.is_large_binary(type_):
        return ColumnKind.BYTES
    return ColumnKind.JSON if of.is_nested(type_) else ColumnKind.TEXT


def _numbers(column: Column, values: pa.Array) -> np.ndarray[Any, Any]:
    """Integers; flags as 0 and 1, times in milliseconds."""
    if column.unit == MILLISECONDS:
        values = values.cast(pa.timestamp("ms", values.type.tz), safe=False)
    made: np.ndarray[Any, Any] = values.cast(pa.int64()).fill_null(0).to_numpy()
    return made


def _texts(kind: ColumnKind, values: pa.Array) -> pa.Array:
    """Each value as bytes, empty for null."""
    if kind is ColumnKind.JSON:
        texts = [json_text(_plain(value)) for value in values.to_pylist()]
    elif of.is_date(values.type):  # Python has fewer days
        days = values.cast(pa.int32()).fill_null(0).to_pylist()
        shown = values.cast(pa.string()).fill_null("").to_pylist()
        texts = [_INFINITE.get(day, text) for day, text in zip(days, shown, strict=True)]
    elif of.is_floating(values.type):  # JSON has no NaN
        texts = [json_text(value) for value in values.to_pylist()]
    else:
        try:
            return pc.fill_null(values.cast(pa.large_binary()), b"")
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            texts = [_words(value) for value in values.to_pylist()]
    return pa.array([text.encode() for text in texts], pa.large_binary())


def _words(value: Any) -> str:
    """A value that Arrow has no text for, such as an interval."""
    if not isinstance(value, pa.MonthDayNano):
        return "" if value is None else str(value)
    parts = [f"{number} {name}" for number, name in zip(value, ("months", "days"), strict=False)]
    seconds = f"{value.nanoseconds / 10**9:.6f}".rstrip("0").rstrip(".")
    return " ".join(part for part in (*parts, f"{seconds} s") if not part.startswith("0 ")) or "0 s"


def _plain(value: Any) -> Any:
    """A value of lists and structs as JSON has it: bytes as text or with their encoding."""
    if isinstance(value, Mapping):
        return dict(_members(value.items()))
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return next(value for _, value in _members([("", value)]))
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _members(pairs: Iterable[tuple[Any, Any]]) -> Iterable[tuple[str, Any]]:
    for name, value in pairs:
        if not isinstance(value, bytes):
            yield str(name), _plain(value)
            continue
        try:
            yield str(name), value.decode()
        except UnicodeDecodeError:
            yield str(name), base64.b64encode(value).decode()
            yield f"{name}_encoding", "base64"
