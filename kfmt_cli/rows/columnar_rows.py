"""Sections: rows of one type as columns, and the same rows as plain objects.

Every reader produces sections and every output accepts them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray, Table
from kfmt_cli.formats.batch import RECORD
from kfmt_cli.rows.column import Column, ColumnKind, RowType

NO_CHILDREN: IntArray = np.zeros((4, 0), np.int64)
NO_ENDS: IntArray = np.zeros(0, np.int64)
HEADER_NAMES = RECORD.child_index_by_name
JsonObject = dict[str, Any]
ROWS_PER_CHUNK = 1024
_ABSENT = object()


@dataclass(slots=True)
class ColumnarRows:
    """Rows of one type."""

    type: RowType
    table: Table
    """The table columns of the row type, and others."""
    data: bytes = b""
    """The bytes that bytes columns refer to."""
    children: IntArray = field(default_factory=lambda: NO_CHILDREN)
    """(4, n), the rows of HEADERS columns."""
    note: str = ""
    """Text below the rows, for people."""

    def __len__(self) -> int:
        return len(self.table)

    def slice_rows(self, first: int, end: int) -> ColumnarRows:
        """Rows first..end-1."""
        rows = self.table.select_rows(slice(first, end))
        return ColumnarRows(self.type, rows, self.data, self.children, self.note)


@dataclass(frozen=True, slots=True)
class NestedRows:
    """Rows of a file: a single section, or a section with rows of another below each row."""

    outer: ColumnarRows
    inner: ColumnarRows | None = None
    inner_ends: IntArray = field(default_factory=lambda: NO_ENDS)
    """`inner_ends[i]` is the exclusive end of outer row i's inner rows."""

    def inner_bounds(self, first: int, end: int) -> tuple[int, int]:
        """The range of inner rows of outer rows first..end-1: the first, and the exclusive end."""
        start = int(self.inner_ends[first - 1]) if first else 0
        return start, int(self.inner_ends[end - 1]) if end else 0

    def __len__(self) -> int:
        """Number of rows: of inner ones if there are any, else of outer ones."""
        return len(self.outer if self.inner is None else self.inner)

    def first_rows(self, n: int) -> NestedRows:
        """The first n rows; if nested, with the outer rows that they need."""
        if len(self) <= n:
            return self
        if self.inner is None:
            return NestedRows(self.outer.slice_rows(0, n))
        n_outer = int(np.searchsorted(self.inner_ends, n)) + 1
        inner_ends = self.inner_ends[:n_outer].clip(0, n)
        return NestedRows(
            self.outer.slice_rows(0, n_outer), self.inner.slice_rows(0, n), inner_ends
        )


def build_columnar_rows(
    row_type: RowType, rows: Sequence[Sequence[str | bytes | int | None]]
) -> ColumnarRows:
    """Build a section from rows of numbers, text and bytes, each a list of cells.

    JSON is passed as text; None only in a column of bytes, or one that marks which rows have a
    value.
    """
    table = Table.zeros_with_columns(row_type.table_columns, len(rows))
    table_columns = {leaf.table_column for leaf in row_type.leaves}
    data = b""
    for index, column in enumerate(row_type.leaves):
        cells = [row[index] for row in rows]
        presence_column = column.present_if[0] if column.present_if else column.presence_column
        if presence_column and presence_column not in table_columns:
            table[presence_column] = np.array([cell is not None for cell in cells], np.int64)
        if not column.kind.is_bytes:
            table[column.table_column] = np.array([cell or 0 for cell in cells], np.int64)
            continue
        encoded_cells = [cell if isinstance(cell, bytes) else _encode_cell(cell) for cell in cells]
        sizes = np.array([len(encoded) for encoded in encoded_cells], np.int64)
        table[column.table_column] = np.cumsum(sizes) - sizes + len(data)
        if column.kind is ColumnKind.BYTES:
            sizes[[cell is None for cell in cells]] = -1
        table[f"{column.table_column}_size"] = sizes
        data += b"".join(encoded_cells)
    return ColumnarRows(row_type, table, data)


def _encode_cell(cell: str | int | None) -> bytes:
    return b"" if cell is None else str(cell).encode()


def iter_objects(rows: ColumnarRows, bytes_mode: str = "auto") -> Iterator[JsonObject]:
    """The rows as objects of the JSON contract, without `type` and `file`.

    bytes_mode: how bytes become text; `bytes` leaves them as they are.
    """
    for first in range(0, len(rows), ROWS_PER_CHUNK):
        yield from _iter_objects(
            rows.slice_rows(first, first + ROWS_PER_CHUNK), rows.type.columns, bytes_mode
        )


def _iter_objects(
    rows: ColumnarRows, columns: tuple[Column, ...], bytes_mode: str
) -> Iterator[JsonObject]:
    members = [member for column in columns for member in _iter_members(rows, column, bytes_mode)]
    names = [name for name, _ in members]
    for row in zip(*(values for _, values in members), strict=True):
        pairs = zip(names, row, strict=True)
        yield {name: value for name, value in pairs if value is not _ABSENT}


def _iter_members(
    rows: ColumnarRows, column: Column, bytes_mode: str
) -> Iterator[tuple[str, list[Any]]]:
    """Member names, each with its values in all rows: the column, then the encodings of bytes."""
    values = _column_values(rows, column, bytes_mode)
    if column.kind is not ColumnKind.BYTES or bytes_mode == "bytes":
        yield column.name, values
        return
    encoded_texts = [
        encode_text(value, bytes_mode) if isinstance(value, bytes) else (value, "")
        for value in values
    ]
    yield column.name, [text for text, _ in encoded_texts]
    if any(encoding for _, encoding in encoded_texts):
        yield f"{column.name}_encoding", [encoding or _ABSENT for _, encoding in encoded_texts]


def _column_values(rows: ColumnarRows, column: Column, bytes_mode: str) -> list[Any]:
    """A column's value in each row: None without a value, `_ABSENT` without such a member."""
    has_member, has_value = _presence_masks(rows, column)
    if has_value.all():
        return _present_values(rows, column, bytes_mode)
    values: list[Any] = [
        None if row_has_member else _ABSENT for row_has_member in has_member.tolist()
    ]
    _fill_values(values, rows, has_value, column, bytes_mode)
    return values


def _presence_masks(rows: ColumnarRows, column: Column) -> tuple[BoolArray, BoolArray]:
    """Masks of the rows that have a column, and of the rows in which it has a value."""
    has_member = np.ones(len(rows), np.bool_)
    if column.present_if:
        has_member = rows.table[column.present_if[0]] == column.present_if[1]
    return has_member, has_member & (
        rows.table[column.presence_column] == 1
    ) if column.presence_column else has_member


def _fill_values(
    values: Any, rows: ColumnarRows, has_value: BoolArray, column: Column, bytes_mode: str
) -> None:
    """Store the values of a column for the rows that have one."""
    present_rows = rows
    if not has_value.all():
        present_rows = ColumnarRows(
            rows.type, rows.table.select_rows(has_value), rows.data, rows.children
        )
    row_indexes = np.flatnonzero(has_value).tolist()
    for row, value in zip(
        row_indexes, _present_values(present_rows, column, bytes_mode), strict=True
    ):
        values[row] = value


def _present_values(rows: ColumnarRows, column: Column, bytes_mode: str) -> list[Any]:
    """A column's value in each row, if all rows have one; bytes are converted in headers only."""
    if column.kind is ColumnKind.GROUP:
        return list(_iter_objects(rows, column.members, bytes_mode))
    numbers: list[int] = rows.table[column.table_column].tolist()
    if column.kind is ColumnKind.HEADERS:
        return _build_headers(
            rows, rows.table[f"{column.table_column}_first"].tolist(), numbers, bytes_mode
        )
    if column.kind is ColumnKind.FLAG:
        return list(map(bool, numbers))
    if column.kind is ColumnKind.CHOICE:
        choice_by_number = dict(enumerate(column.choices))
        return [choice_by_number.get(number) or f"UNKNOWN-{number}" for number in numbers]
    if not column.kind.is_bytes:
        return numbers
    sizes, data = rows.table[f"{column.table_column}_size"].tolist(), rows.data
    values = [
        None if size < 0 else data[start : start + size]
        for start, size in zip(numbers, sizes, strict=True)
    ]
    if column.kind is ColumnKind.BYTES:
        return values
    parse: Callable[[bytes], Any] = partial(bytes.decode, errors="replace")
    if column.kind is ColumnKind.JSON:
        import json

        parse = json.loads
    return [None if value is None else parse(value) for value in values]


def _build_headers(
    rows: ColumnarRows, first_headers: list[int], counts: list[int], bytes_mode: str
) -> list[list[JsonObject]]:
    """The headers of each row. first_headers, counts: the first header of each row, as a column of
    the section's children, and the number of its headers."""
    data, header_ranges = rows.data, list(zip(first_headers, counts, strict=True))
    first_header = min((first for first, n in header_ranges if n), default=0)
    end_header = max((first + n for first, n in header_ranges if n), default=0)
    headers = []
    for key_start, key_size, value_start, value_size in rows.children[
        :, first_header:end_header
    ].T.tolist():
        header = dict(
            _iter_bytes_members("key", data[key_start : key_start + key_size], bytes_mode)
        )
        content = None if value_size < 0 else data[value_start : value_start + value_size]
        header.update(_iter_bytes_members("value", content, bytes_mode))
        headers.append(header)
    return [headers[first - first_header : first - first_header + n] for first, n in header_ranges]


def _iter_bytes_members(
    name: str, data: bytes | None, bytes_mode: str
) -> Iterator[tuple[str, Any]]:
    """A value of bytes as text, and its encoding if it is not UTF-8."""
    if data is None or bytes_mode == "bytes":
        yield name, data
        return
    text, encoding = encode_text(data, bytes_mode)
    yield name, text
    if encoding:
        yield f"{name}_encoding", encoding


def encode_text(data: bytes, bytes_mode: str) -> tuple[str, str]:
    """Bytes as text, and the name of the encoding if it is not plain UTF-8."""
    if bytes_mode == "hex":
        return data.hex(), bytes_mode
    if bytes_mode != "base64":
        try:
            return data.decode(), ""
        except UnicodeDecodeError:
            if bytes_mode == "utf8":
                return data.decode(errors="replace"), "utf8-replaced"
    return base64.b64encode(data).decode(), "base64"


def numpy_columns(
    rows: ColumnarRows, names: Collection[str] = ()
) -> dict[str, np.ndarray[Any, Any]]:
    """The rows as NumPy columns, masked in rows without a value. Bytes and text are objects.

    names: the names of the columns; empty for all.
    """
    columns: dict[str, np.ndarray[Any, Any]] = {}
    for leaf in (leaf for leaf in rows.type.leaves if not names or leaf.name in names):
        mask = ~_presence_masks(rows, leaf)[1]
        values: np.ndarray[Any, Any] = rows.table[leaf.table_column].copy()
        if leaf.kind is not ColumnKind.NUMBER:
            values = np.empty(len(rows), object)
            _fill_values(values, rows, ~mask, leaf, "bytes")
            mask |= np.fromiter((value is None for value in values), np.bool_, len(values))
        columns[leaf.name] = np.ma.masked_array(values, mask) if mask.any() else values
    return columns
