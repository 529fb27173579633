"""Converts JSON lines to the columns that writers encode: the inverse of `dump --records`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, cast

import numpy as np

from kfmt_cli.core.layout.layout import IntArray, Layout
from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.formats.batch import TIMESTAMP_TYPES
from kfmt_cli.formats.control import (
    CONTROL_RECORD_KEY,
    CONTROL_TYPES,
    END_TXN_MARKER,
)
from kfmt_cli.formats.kraft import KRAFT_LAYOUT_BY_TYPE
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.rows.log_tables import RECORD_COLUMNS, RecordTable
from kfmt_cli.writers.build.jsonl import BatchLine, ControlJson, RecordLine, line_error

# The additional columns: encoded size of the headers, and the record's line number.
BUILD_COLUMNS = (*RECORD_COLUMNS, "header_bytes", "line")
HEADER_OVERHEAD_BYTES = 10


def parse_records(
    lines: Sequence[RecordLine],
    offsets: IntArray,
    timestamps: IntArray,
    default_timestamp_type: int,
) -> RecordColumns:
    """The records as columns; raises LineError. default_timestamp_type: timestamp type of lines
    without."""
    rows = RecordTable.zeros_with_columns(BUILD_COLUMNS, len(lines))
    rows["line"] = np.array(field_values(lines, "number"), np.int64)
    rows.offset = offsets
    rows.timestamp = timestamps
    rows.has_timestamp = 1
    rows.timestamp_type = _parse_timestamp_types(lines, default_timestamp_type)
    value_buffer = _ValueBuffer()
    keys = _decode_values(lines, "key")
    values = _decode_values(lines, "value")
    for row, control in enumerate(field_values(lines, "control")):
        if control is not None and keys[row] is None:
            keys[row], values[row] = _encode_control_record(lines[row], control)
    rows.key, rows.key_size = value_buffer.append_values(keys)
    rows.value, rows.value_size = value_buffer.append_values(values)
    headers: IntArray = np.zeros((4, 0), np.int64)
    if any(field_values(lines, "headers")):
        headers = _encode_headers(lines, rows, value_buffer)
    return RecordColumns(value_buffer.to_bytes(), rows, headers, np.zeros(0, np.int64))


class _ValueBuffer:
    """A buffer of consecutive values."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._n_bytes = 0

    def append_values(self, values: Sequence[bytes | None]) -> tuple[IntArray, IntArray]:
        """Append values; returns their starts and sizes, -1 for null."""
        null_rows = [i for i, value in enumerate(values) if value is None] if None in values else []
        chunks = [value or b"" for value in values] if null_rows else cast(Sequence[bytes], values)
        sizes = np.fromiter(map(len, chunks), np.int64, len(chunks))
        ends = np.cumsum(sizes) + self._n_bytes
        starts = ends - sizes
        self._chunks += chunks
        self._n_bytes = int(ends[-1]) if len(ends) else self._n_bytes
        sizes[null_rows] = -1
        return starts, sizes

    def to_bytes(self) -> bytes:
        return b"".join(self._chunks)


def field_values(lines: Sequence[RecordLine | BatchLine], field_name: str) -> list[Any]:
    """A field of every line."""
    return list(map(attrgetter(field_name), lines))


def _decode_values(lines: Sequence[RecordLine], field_name: str) -> list[bytes | None]:
    """Keys or values as bytes."""
    texts, encodings = (
        field_values(lines, field_name),
        field_values(lines, f"{field_name}_encoding"),
    )
    try:
        if not any(encodings):
            if None not in texts:
                return list(map(str.encode, texts))
            return [None if text is None else text.encode() for text in texts]
    except UnicodeEncodeError:
        pass  # decoded again below, to report the line
    decoded_values = []
    for row, (text, encoding) in enumerate(zip(texts, encodings, strict=True)):
        decoded_values.append(_decode_field(lines[row], field_name, text, encoding))
    return decoded_values


def decode_text_to_bytes(text: str | None, encoding: str | None) -> bytes | None:
    """The bytes that a string of the dump represents; raises ValueError."""
    if text is None:
        return None
    if encoding is None:
        return text.encode()
    if encoding == "base64":
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"not base64: {error}") from None
        if base64.b64encode(data).decode() != text:
            raise ValueError("non-canonical base64: its last bits are not 0")
        return data
    if encoding == "hex":
        data = bytes.fromhex(text)
        if 2 * len(data) != len(text):
            raise ValueError("hexadecimal digits must not contain spaces")
        return data
    raise ValueError(f"cannot be converted back to bytes: its encoding is {encoding!r}")


def _decode_field(
    line: RecordLine, field_name: str, text: str | None, encoding: str | None
) -> bytes | None:
    try:
        return decode_text_to_bytes(text, encoding)
    except ValueError as error:
        raise line_error(line, f"{field_name}: {error}") from None


def _parse_timestamp_types(lines: Sequence[RecordLine], default_type: int) -> IntArray:
    number_by_name = {name: i for i, name in enumerate(TIMESTAMP_TYPES)}
    number_by_name["NoTimestampType"] = 0
    number_or_default_by_name: dict[str | None, int] = {None: default_type}
    number_or_default_by_name.update(number_by_name)
    try:
        return np.array(
            [number_or_default_by_name[name] for name in field_values(lines, "timestamp_type")],
            np.int64,
        )
    except KeyError as error:
        line = next(line for line in lines if line.timestamp_type not in number_or_default_by_name)
        message = f"timestamp_type {line.timestamp_type!r}: choose from {', '.join(number_by_name)}"
        raise line_error(line, message) from error


def _encode_control_record(line: RecordLine, control: ControlJson) -> tuple[bytes, bytes | None]:
    """The key and value of a control record described by its content."""
    control_type = control.type
    if isinstance(control_type, str):
        if control_type not in CONTROL_TYPES:
            raise line_error(
                line, f"control type {control_type!r}: choose from {', '.join(CONTROL_TYPES)}"
            )
        control_type = CONTROL_TYPES.index(control_type)
    try:
        key = CONTROL_RECORD_KEY.encode_row({"version": control.version, "type": control_type})
        if line.value is None and control.data is not None and control_type in KRAFT_LAYOUT_BY_TYPE:
            return key, _encode_kraft_value(line, KRAFT_LAYOUT_BY_TYPE[control_type], control.data)
        if line.value is not None or control_type > 1:
            return key, _decode_field(line, "value", line.value, line.value_encoding)
        epoch = control.coordinator_epoch or 0
        return key, END_TXN_MARKER.encode_row({"version": 0, "coordinator_epoch": epoch})
    except OverflowError:
        raise line_error(line, "a number in its control is too large") from None


def _encode_kraft_value(
    line: RecordLine, message_layout: Layout, data_members: dict[str, Any]
) -> bytes:
    """The value of a KRaft control record described by its content."""
    version = data_members.get("version", 0)
    try:
        return layout_at_version(message_layout, version).encode_row(data_members)
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        error_text = (
            f"the data of its control is not a {message_layout.name} of version "
            f"{version!r}: {error!r}"
        )
        raise line_error(line, error_text) from None


def _encode_headers(
    lines: Sequence[RecordLine], rows: RecordTable, buffer: _ValueBuffer
) -> IntArray:
    """The headers of all records: start and size of each key and value."""
    header_counts = np.array([len(line.headers or ()) for line in lines], np.int64)
    rows.headers = header_counts
    rows.headers_first = np.cumsum(header_counts) - header_counts
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    for line in lines:
        for header in line.headers or ():
            keys.append(_decode_field(line, "header key", header.key, header.key_encoding))
            values.append(_decode_field(line, "header value", header.value, header.value_encoding))
    headers = np.array([*buffer.append_values(keys), *buffer.append_values(values)])
    header_sizes = headers[1] + headers[3].clip(0) + HEADER_OVERHEAD_BYTES
    cumulative_bytes = np.concatenate([[0], np.cumsum(header_sizes)])
    first_headers = rows.headers_first
    rows["header_bytes"] = (
        cumulative_bytes[first_headers + header_counts] - cumulative_bytes[first_headers]
    )
    return headers


def integer_column(
    lines: Sequence[RecordLine | BatchLine],
    field_name: str,
    default_value: Callable[[int], int] | int,
    n_bits: int = 64,
) -> IntArray:
    """An integer field of every line as a column; raises LineError if a value exceeds `n_bits`.

    default_value: the value for lines without one, or a function that returns it for a line's
    index.
    """
    column_values = field_values(lines, field_name)
    if None in column_values:
        column_values = [
            (default_value(i) if callable(default_value) else default_value)
            if value is None
            else value
            for i, value in enumerate(column_values)
        ]
    value_bound = 1 << (n_bits - 1)
    try:
        column = np.array(column_values, np.int64)
        has_valid_values = (
            n_bits == 64
            or not len(column)
            or -value_bound <= column.min() <= column.max() < value_bound
        )
    except OverflowError:
        has_valid_values = False
    if not has_valid_values:
        i = next(
            i for i, value in enumerate(column_values) if not -value_bound <= value < value_bound
        )
        raise line_error(lines[i], f"{field_name} {column_values[i]} does not fit in {n_bits} bits")
    return column
