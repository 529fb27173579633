"""Sections: rows of one type as columns, and the same rows as plain objects.

Every reader produces sections and every output accepts them.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import Table
from kfmt_cli.formats.batch import RECORD
from kfmt_cli.rows.column import Column, ColumnKind, RowType

NO_CHILDREN: IntArray = np.zeros((4, 0), np.int64)
NO_ENDS: IntArray = np.zeros(0, np.int64)
HEADER_NAMES = RECORD.child_names
Object = dict[str, Any]


@dataclass(slots=True)
class Section:
    """Rows of one type."""

    type: RowType
    table: Table
    """The columns that the row type names, and others."""
    data: bytes = b""
    """The bytes that bytes columns refer to."""
    children: IntArray = field(default_factory=lambda: NO_CHILDREN)
    """(4, n), the rows of HEADERS columns."""
    remark: str = ""
    """Text below the rows, for people."""

    def __len__(self) -> int:
        return len(self.table)

    def part(self, first: int, last: int) -> Section:
        """Rows first..last-1."""
        rows = self.table.select(slice(first, last))
        return Section(self.type, rows, self.data, self.children, self.remark)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a file: a single section, or a section with rows of another below each row."""

    outer: Section
    inner: Section | None = None
    ends: IntArray = field(default_factory=lambda: NO_ENDS)
    """`ends[i]` is the exclusive end of outer row i's inner rows."""

    def bounds(self, first: int, last: int) -> tuple[int, int]:
        """The range of inner rows of outer rows first..last-1: the first, and the exclusive end."""
        start = int(self.ends[first - 1]) if first else 0
        return start, int(self.ends[last - 1]) if last else 0

    def __len__(self) -> int:
        """Number of rows: of inner ones if there are any, else of outer ones."""
        return len(self.outer if self.inner is None else self.inner)

    def first(self, n: int) -> Rows:
        """The first n rows; if nested, with the outer rows that they need."""
        if len(self) <= n:
            return self
        if self.inner is None:
            return Rows(self.outer.part(0, n))
        n_outer = int(np.searchsorted(self.ends, n)) + 1
        ends = self.ends[:n_outer].clip(0, n)
        return Rows(self.outer.part(0, n_outer), self.inner.part(0, n), ends)


def section_of(rows: RowType, values: Sequence[Sequence[str | int | None]]) -> Section:
    """Build a section from rows of numbers and text, each a list of cells.

    JSON is passed as text; None only in a column that marks which rows have a value.
    """
    table = Table.empty(rows.sources, len(values))
    data = b""
    for place, column in enumerate(rows.leaves):
        cells = [row[place] for row in values]
        condition = column.only[0] if column.only else column.given
        if condition:
            table[condition] = np.array([cell is not None for cell in cells], np.int64)
        if not column.kind.is_bytes:
            table[column.at] = np.array([cell or 0 for cell in cells], np.int64)
            continue
        pieces = [b"" if cell is None else str(cell).encode() for cell in cells]
        sizes = np.array([len(piece) for piece in pieces], np.int64)
        table[column.at] = np.cumsum(sizes) - sizes + len(data)
        table[f"{column.at}_size"] = sizes
        data += b"".join(pieces)
    return Section(rows, table, data)


def bytes_section(rows: RowType, values: Sequence[Mapping[str, int | bytes | None]]) -> Section:
    """Build a section from rows of numbers and bytes, keyed by the table's column names.

    Fills in the length of bytes, -1 for null.
    """
    table = Table.empty(rows.sources, len(values))
    sized = {leaf.at for leaf in rows.leaves if leaf.kind.is_bytes}
    data = bytearray()
    for i, row in enumerate(values):
        for name, value in row.items():
            if name in sized:
                content = b"" if value is None else value
                assert isinstance(content, bytes)
                table.data[table.names[name], i] = len(data)
                size = -1 if value is None else len(content)
                table.data[table.names[f"{name}_size"], i] = size
                data += content
            elif name in table.names and isinstance(value, int):
                table.data[table.names[name], i] = value
    return Section(rows, table, bytes(data))


def objects(section: Section, mode: str = "auto") -> Iterator[Object]:
    """The rows as objects of the JSON contract, without `type` and `file`.

    mode: how bytes become text; `bytes` leaves them as they are.
    """
    columns = section.type.columns
    names = section.table.names
    for row in section.table.data.T.tolist():
        values = dict(zip(names, row, strict=True))
        yield dict(_members(section, columns, values, mode))


def _members(
    section: Section, columns: tuple[Column, ...], values: dict[str, int], mode: str
) -> Iterator[tuple[str, Any]]:
    for column in columns:
        if column.only and values[column.only[0]] != column.only[1]:
            continue
        if column.given and values[column.given] != 1:
            yield column.name, None
        elif column.kind is ColumnKind.GROUP:
            yield column.name, dict(_members(section, column.of, values, mode))
        elif column.kind is ColumnKind.BYTES:
            yield from _bytes_members(column.name, _bytes(section, column, values), mode)
        elif column.kind is ColumnKind.HEADERS:
            yield column.name, list(_headers(section, column, values, mode))
        else:
            yield column.name, value_of(section, column, values)


def value_of(section: Section, column: Column, values: dict[str, int]) -> Any:
    """A value that is neither a group nor a list; bytes are not converted."""
    number = values[column.at]
    if column.kind is ColumnKind.FLAG:
        return bool(number)
    if column.kind is ColumnKind.CHOICE:
        known = 0 <= number < len(column.words)
        return column.words[number] if known else f"UNKNOWN-{number}"
    if not column.kind.is_bytes:
        return number
    data = _bytes(section, column, values)
    if data is None or column.kind is ColumnKind.BYTES:
        return data
    if column.kind is ColumnKind.TEXT:
        return data.decode(errors="replace")
    import json

    return json.loads(data)


def _bytes(section: Section, column: Column, values: dict[str, int]) -> bytes | None:
    start, size = values[column.at], values[f"{column.at}_size"]
    return None if size < 0 else section.data[start : start + size]


def _headers(
    section: Section, column: Column, values: dict[str, int], mode: str
) -> Iterator[Object]:
    first = values[f"{column.at}_first"]
    for i in range(first, first + values[column.at]):
        key, key_size, value, value_size = section.children[:, i].tolist()
        header: Object = dict(_bytes_members("key", section.data[key : key + key_size], mode))
        data = None if value_size < 0 else section.data[value : value + value_size]
        header.update(_bytes_members("value", data, mode))
        yield header


def _bytes_members(name: str, data: bytes | None, mode: str) -> Iterator[tuple[str, Any]]:
    """A value of bytes as text, and its encoding if it is not UTF-8."""
    if data is None or mode == "bytes":
        yield name, data
        return
    text, encoding = as_text(data, mode)
    yield name, text
    if encoding:
        yield f"{name}_encoding", encoding


def as_text(data: bytes, mode: str) -> tuple[str, str]:
    """Bytes as text, and the name of the encoding if it is not plain UTF-8."""
    if mode == "hex":
        return data.hex(), mode
    if mode != "base64":
        try:
            return data.decode(), ""
        except UnicodeDecodeError:
            if mode == "utf8":
                return data.decode(errors="replace"), "utf8-replaced"
    return base64.b64encode(data).decode(), "base64"


def columns_of(section: Section, wanted: Collection[str] = ()) -> dict[str, np.ndarray[Any, Any]]:
    """The rows as NumPy columns, masked in rows without a value. Bytes and text are objects.

    wanted: the names of the columns; empty for all.
    """
    found: dict[str, np.ndarray[Any, Any]] = {}
    names = section.table.names
    for leaf in (leaf for leaf in section.type.leaves if not wanted or leaf.name in wanted):
        values: np.ndarray[Any, Any] = section.table[leaf.at].copy()
        missing = np.zeros(len(section), np.bool_)
        if leaf.given:
            missing |= section.table[leaf.given] != 1
        if leaf.only:
            missing |= section.table[leaf.only[0]] != leaf.only[1]
        if leaf.kind is not ColumnKind.NUMBER:
            values = np.empty(len(section), object)
            for row, numbers in enumerate(section.table.data.T.tolist()):
                if not missing[row]:
                    values[row] = _value(section, leaf, dict(zip(names, numbers, strict=True)))
        found[leaf.name] = np.ma.masked_array(values, missing) if missing.any() else values
    return found


def _value(section: Section, column: Column, values: dict[str, int]) -> Any:
    if column.kind is ColumnKind.HEADERS:
        return list(_headers(section, column, values, "bytes"))
    return value_of(section, column, values)
