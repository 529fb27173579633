"""Converts lines of JSON to the writers' columns: the inverse of `dump --records`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, cast

import numpy as np

from kfmt_cli.core.layout.layout import IntArray, Layout
from kfmt_cli.core.layout.versions import at_version
from kfmt_cli.formats.batch import TIMESTAMP_TYPES
from kfmt_cli.formats.control import (
    CONTROL_RECORD_KEY,
    CONTROL_TYPES,
    END_TXN_MARKER,
)
from kfmt_cli.formats.kraft import KRAFT_MESSAGES
from kfmt_cli.log.records import Records
from kfmt_cli.rows.log_tables import RECORD_COLUMNS, RecordTable
from kfmt_cli.writing.build.jsonl import Batch, ControlOfLine, Record, wrong

# line: the record's line number.
COLUMNS = (*RECORD_COLUMNS, "header_bytes", "line")
HEADER_OVERHEAD = 10


def records_of(
    lines: Sequence[Record], offsets: IntArray, timestamps: IntArray, default_type: int
) -> Records:
    """The records as columns; raises LineError. default_type: for lines without a type."""
    rows = RecordTable.empty(COLUMNS, len(lines))
    rows["line"] = np.array(field_of(lines, "number"), np.int64)
    rows.offset = offsets
    rows.timestamp = timestamps
    rows.has_timestamp = 1
    rows.timestamp_type = _types(lines, default_type)
    pool = _Pool()
    keys = _values(lines, "key")
    values = _values(lines, "value")
    for i, control in enumerate(field_of(lines, "control")):
        if control is not None and keys[i] is None:
            keys[i], values[i] = _control(lines[i], control)
    rows.key, rows.key_size = pool.put(keys)
    rows.value, rows.value_size = pool.put(values)
    headers: IntArray = np.zeros((4, 0), np.int64)
    if any(field_of(lines, "headers")):
        headers = _headers(lines, rows, pool)
    return Records(pool.data(), rows, headers, np.zeros(0, np.int64))


class _Pool:
    """A buffer of consecutive values."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def put(self, values: Sequence[bytes | None]) -> tuple[IntArray, IntArray]:
        """Append values; returns their starts and sizes, -1 for null."""
        null = [i for i, value in enumerate(values) if value is None] if None in values else []
        pieces = [value or b"" for value in values] if null else cast(Sequence[bytes], values)
        sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
        ends = np.cumsum(sizes) + self._size
        starts = ends - sizes
        self._pieces += pieces
        self._size = int(ends[-1]) if len(ends) else self._size
        sizes[null] = -1
        return starts, sizes

    def data(self) -> bytes:
        return b"".join(self._pieces)


def field_of(lines: Sequence[Record | Batch], name: str) -> list[Any]:
    """A field of every line."""
    return list(map(attrgetter(name), lines))


def _values(lines: Sequence[Record], name: str) -> list[bytes | None]:
    """Keys or values as bytes."""
    texts, encodings = field_of(lines, name), field_of(lines, f"{name}_encoding")
    try:
        if not any(encodings):
            if None not in texts:
                return list(map(str.encode, texts))
            return [None if text is None else text.encode() for text in texts]
    except UnicodeEncodeError:
        pass  # reported below, with its record
    done = []
    for i, (text, encoding) in enumerate(zip(texts, encodings, strict=True)):
        done.append(_octets(lines[i], name, text, encoding))
    return done


def octets(text: str | None, encoding: str | None) -> bytes | None:
    """The bytes that a string of the dump represents; raises ValueError."""
    if text is None:
        return None
    if encoding is None:
        return text.encode()
    if encoding == "base64":
        try:
            done = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"not base64: {error}") from None
        if base64.b64encode(done).decode() != text:
            raise ValueError("non-canonical base64: its last bits are not 0")
        return done
    if encoding == "hex":
        done = bytes.fromhex(text)
        if 2 * len(done) != len(text):
            raise ValueError("hexadecimal digits must not contain spaces")
        return done
    raise ValueError(f"cannot be converted back to bytes: its encoding is {encoding!r}")


def _octets(line: Record, name: str, text: str | None, encoding: str | None) -> bytes | None:
    try:
        return octets(text, encoding)
    except ValueError as error:
        raise wrong(line, f"{name}: {error}") from None


def _types(lines: Sequence[Record], default: int) -> IntArray:
    known = {name: number for number, name in enumerate(TIMESTAMP_TYPES)}
    known["NoTimestampType"] = 0
    numbers: dict[str | None, int] = {None: default}
    numbers.update(known)
    try:
        return np.array([numbers[name] for name in field_of(lines, "timestamp_type")], np.int64)
    except KeyError as error:
        line = next(line for line in lines if line.timestamp_type not in numbers)
        words = f"timestamp_type {line.timestamp_type!r}: choose from {', '.join(known)}"
        raise wrong(line, words) from error


def _control(line: Record, control: ControlOfLine) -> tuple[bytes, bytes | None]:
    """The key and value of a control record described by its content."""
    kind = control.type
    if isinstance(kind, str):
        if kind not in CONTROL_TYPES:
            raise wrong(line, f"control type {kind!r}: choose from {', '.join(CONTROL_TYPES)}")
        kind = CONTROL_TYPES.index(kind)
    try:
        key = CONTROL_RECORD_KEY.write({"version": control.version, "type": kind})
        if line.value is None and control.data is not None and kind in KRAFT_MESSAGES:
            return key, _kraft(line, KRAFT_MESSAGES[kind], control.data)
        if line.value is not None or kind > 1:
            return key, _octets(line, "value", line.value, line.value_encoding)
        epoch = control.coordinator_epoch or 0
        return key, END_TXN_MARKER.write({"version": 0, "coordinator_epoch": epoch})
    except OverflowError:
        raise wrong(line, "a number in its control is too large") from None


def _kraft(line: Record, message: Layout, data: dict[str, Any]) -> bytes:
    """The value of a KRaft control record described by its content."""
    version = data.get("version", 0)
    try:
        return at_version(message, version).write(data)
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        words = f"the data of its control is not a {message.name} of version {version!r}: {error!r}"
        raise wrong(line, words) from None


def _headers(lines: Sequence[Record], rows: RecordTable, pool: _Pool) -> IntArray:
    """The headers of all records: start and size of each key and value."""
    counts = np.array([len(line.headers or ()) for line in lines], np.int64)
    rows.headers = counts
    rows.headers_first = np.cumsum(counts) - counts
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    for line in lines:
        for header in line.headers or ():
            keys.append(_octets(line, "header key", header.key, header.key_encoding))
            values.append(_octets(line, "header value", header.value, header.value_encoding))
    headers = np.array([*pool.put(keys), *pool.put(values)])
    sizes = headers[1] + headers[3].clip(0) + HEADER_OVERHEAD
    ends = np.concatenate([[0], np.cumsum(sizes)])
    firsts = rows.headers_first
    rows["header_bytes"] = ends[firsts + counts] - ends[firsts]
    return headers


def integers(
    lines: Sequence[Record | Batch],
    name: str,
    missing: Callable[[int], int] | int,
    bits: int = 64,
) -> IntArray:
    """A field of every line; `missing` is the value, or returns it, for a line i without one."""
    values = field_of(lines, name)
    if None in values:
        values = [
            (missing(i) if callable(missing) else missing) if value is None else value
            for i, value in enumerate(values)
        ]
    most = 1 << (bits - 1)
    try:
        done = np.array(values, np.int64)
        fits = bits == 64 or not len(done) or -most <= done.min() <= done.max() < most
    except OverflowError:
        fits = False
    if not fits:
        i = next(i for i, value in enumerate(values) if not -most <= value < most)
        raise wrong(lines[i], f"{name} {values[i]} does not fit in {bits} bits")
    return done
