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
HEADER_COLUMN_BY_NAME = RECORD.child_index_by_name
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

    def slice_rows(self, first_row: int, end_row: int) -> ColumnarRows:
        """Rows first..end-1."""
        sliced_table = self.table.select_rows(slice(first_row, end_row))
        return ColumnarRows(self.type, sliced_table, self.data, self.children, self.note)


@dataclass(frozen=True, slots=True)
class NestedRows:
    """Rows of a file: a single section, or a section with rows of another below each row."""

    outer: ColumnarRows
    inner: ColumnarRows | None = None
    inner_ends: IntArray = field(default_factory=lambda: NO_ENDS)
    """`inner_ends[i]` is the exclusive end of outer row i's inner rows."""

    def inner_range(self, first_outer: int, outer_end: int) -> tuple[int, int]:
        """The range of inner rows of outer rows first..end-1: the first, and the exclusive end."""
        first_inner = int(self.inner_ends[first_outer - 1]) if first_outer else 0
        return first_inner, int(self.inner_ends[outer_end - 1]) if outer_end else 0

    def __len__(self) -> int:
        """Number of rows: of inner ones if there are any, else of outer ones."""
        return len(self.outer if self.inner is None else self.inner)

    def first_rows(self, n_rows: int) -> NestedRows:
        """The first n rows; if nested, with the outer rows that they need."""
        if len(self) <= n_rows:
            return self
        if self.inner is None:
            return NestedRows(self.outer.slice_rows(0, n_rows))
        n_outer = int(np.searchsorted(self.inner_ends, n_rows)) + 1
        inner_ends = self.inner_ends[:n_outer].clip(0, n_rows)
        return NestedRows(
            self.outer.slice_rows(0, n_outer), self.inner.slice_rows(0, n_rows), inner_ends
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
    for cell_index, column in enumerate(row_type.leaves):
        cells = [row[cell_index] for row in rows]
        presence_column = column.present_if[0] if column.present_if else column.presence_column
        if presence_column and presence_column not in table_columns:
            table[presence_column] = np.array([cell is not None for cell in cells], np.int64)
        if not column.kind.is_byte_range:
            table[column.table_column] = np.array([cell or 0 for cell in cells], np.int64)
            continue
        encoded_cells = [cell if isinstance(cell, bytes) else _encode_cell(cell) for cell in cells]
        cell_sizes = np.array([len(encoded_cell) for encoded_cell in encoded_cells], np.int64)
        table[column.table_column] = np.cumsum(cell_sizes) - cell_sizes + len(data)
        if column.kind is ColumnKind.BYTES:
            cell_sizes[[cell is None for cell in cells]] = -1
        table[f"{column.table_column}_size"] = cell_sizes
        data += b"".join(encoded_cells)
    return ColumnarRows(row_type, table, data)


def _encode_cell(cell: str | int | None) -> bytes:
    return b"" if cell is None else str(cell).encode()


def iter_json_objects(rows: ColumnarRows, bytes_mode: str = "auto") -> Iterator[JsonObject]:
    """The rows as objects of the JSON contract, without `type` and `file`.

    bytes_mode: how bytes become text; `bytes` leaves them as they are.
    """
    for first_row in range(0, len(rows), ROWS_PER_CHUNK):
        yield from _iter_column_objects(
            rows.slice_rows(first_row, first_row + ROWS_PER_CHUNK), rows.type.columns, bytes_mode
        )


def _iter_column_objects(
    rows: ColumnarRows, columns: tuple[Column, ...], bytes_mode: str
) -> Iterator[JsonObject]:
    names_and_values = [
        name_and_values
        for column in columns
        for name_and_values in _iter_members(rows, column, bytes_mode)
    ]
    names = [name for name, _ in names_and_values]
    for row_values in zip(*(values for _, values in names_and_values), strict=True):
        names_and_row_values = zip(names, row_values, strict=True)
        yield {name: value for name, value in names_and_row_values if value is not _ABSENT}


def _iter_members(
    rows: ColumnarRows, column: Column, bytes_mode: str
) -> Iterator[tuple[str, list[Any]]]:
    """Member names, each with its values in all rows: the column, then the encodings of bytes."""
    values = _column_values(rows, column, bytes_mode)
    if column.kind is not ColumnKind.BYTES or bytes_mode == "bytes":
        yield column.name, values
        return
    texts_and_encodings = [
        text_and_encoding(value, bytes_mode) if isinstance(value, bytes) else (value, "")
        for value in values
    ]
    yield column.name, [text for text, _ in texts_and_encodings]
    if any(encoding for _, encoding in texts_and_encodings):
        yield (
            f"{column.name}_encoding",
            [encoding or _ABSENT for _, encoding in texts_and_encodings],
        )


def _column_values(rows: ColumnarRows, column: Column, bytes_mode: str) -> list[Any]:
    """A column's value in each row: None without a value, `_ABSENT` without such a member."""
    member_mask, value_mask = _presence_masks(rows, column)
    if value_mask.all():
        return _present_values(rows, column, bytes_mode)
    values: list[Any] = [
        None if row_has_member else _ABSENT for row_has_member in member_mask.tolist()
    ]
    _fill_values(values, rows, value_mask, column, bytes_mode)
    return values


def _presence_masks(rows: ColumnarRows, column: Column) -> tuple[BoolArray, BoolArray]:
    """Masks of the rows that have a column, and of the rows in which it has a value."""
    member_mask = np.ones(len(rows), np.bool_)
    if column.present_if:
        member_mask = rows.table[column.present_if[0]] == column.present_if[1]
    return member_mask, member_mask & (
        rows.table[column.presence_column] == 1
    ) if column.presence_column else member_mask


def _fill_values(
    values: Any, rows: ColumnarRows, value_mask: BoolArray, column: Column, bytes_mode: str
) -> None:
    """Store the values of a column for the rows that have one."""
    present_rows = rows
    if not value_mask.all():
        present_rows = ColumnarRows(
            rows.type, rows.table.select_rows(value_mask), rows.data, rows.children
        )
    row_indexes = np.flatnonzero(value_mask).tolist()
    for row, value in zip(
        row_indexes, _present_values(present_rows, column, bytes_mode), strict=True
    ):
        values[row] = value


def _present_values(rows: ColumnarRows, column: Column, bytes_mode: str) -> list[Any]:
    """A column's value in each row, if all rows have one; bytes are converted in headers only."""
    if column.kind is ColumnKind.GROUP:
        return list(_iter_column_objects(rows, column.members, bytes_mode))
    column_numbers: list[int] = rows.table[column.table_column].tolist()
    if column.kind is ColumnKind.HEADERS:
        return _build_headers(
            rows, rows.table[f"{column.table_column}_first"].tolist(), column_numbers, bytes_mode
        )
    if column.kind is ColumnKind.FLAG:
        return list(map(bool, column_numbers))
    if column.kind is ColumnKind.CHOICE:
        choice_by_number = dict(enumerate(column.choices))
        return [choice_by_number.get(number) or f"UNKNOWN-{number}" for number in column_numbers]
    if not column.kind.is_byte_range:
        return column_numbers
    byte_sizes, data = rows.table[f"{column.table_column}_size"].tolist(), rows.data
    values = [
        None if size < 0 else data[start : start + size]
        for start, size in zip(column_numbers, byte_sizes, strict=True)
    ]
    if column.kind is ColumnKind.BYTES:
        return values
    parse_bytes: Callable[[bytes], Any] = partial(bytes.decode, errors="replace")
    if column.kind is ColumnKind.JSON:
        import json

        parse_bytes = json.loads
    return [None if value is None else parse_bytes(value) for value in values]


def _build_headers(
    rows: ColumnarRows, first_headers: list[int], header_counts: list[int], bytes_mode: str
) -> list[list[JsonObject]]:
    """The headers of each row. first_headers, header_counts: the first header of each row, as a
    column of the section's children, and the number of its headers."""
    data, header_ranges = rows.data, list(zip(first_headers, header_counts, strict=True))
    first_header = min(
        (first_of_row for first_of_row, n_headers in header_ranges if n_headers), default=0
    )
    end_header = max(
        (first_of_row + n_headers for first_of_row, n_headers in header_ranges if n_headers),
        default=0,
    )
    headers = []
    for key_start, key_size, value_start, value_size in rows.children[
        :, first_header:end_header
    ].T.tolist():
        header = dict(
            _iter_bytes_members("key", data[key_start : key_start + key_size], bytes_mode)
        )
        header_value = None if value_size < 0 else data[value_start : value_start + value_size]
        header.update(_iter_bytes_members("value", header_value, bytes_mode))
        headers.append(header)
    return [
        headers[first_of_row - first_header : first_of_row - first_header + n_headers]
        for first_of_row, n_headers in header_ranges
    ]


def _iter_bytes_members(
    name: str, data: bytes | None, bytes_mode: str
) -> Iterator[tuple[str, Any]]:
    """A value of bytes as text, and its encoding if it is not UTF-8."""
    if data is None or bytes_mode == "bytes":
        yield name, data
        return
    text, encoding = text_and_encoding(data, bytes_mode)
    yield name, text
    if encoding:
        yield f"{name}_encoding", encoding


def text_and_encoding(data: bytes, bytes_mode: str) -> tuple[str, str]:
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
        null_mask = ~_presence_masks(rows, leaf)[1]
        values: np.ndarray[Any, Any] = rows.table[leaf.table_column].copy()
        if leaf.kind is not ColumnKind.NUMBER:
            values = np.empty(len(rows), object)
            _fill_values(values, rows, ~null_mask, leaf, "bytes")
            null_mask |= np.fromiter((value is None for value in values), np.bool_, len(values))
        columns[leaf.name] = np.ma.masked_array(values, null_mask) if null_mask.any() else values
    return columns
