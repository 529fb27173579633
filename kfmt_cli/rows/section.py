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
from kfmt_cli.core.native.table import BoolArray, Table
from kfmt_cli.formats.batch import RECORD
from kfmt_cli.rows.column import Column, ColumnKind, RowType

NO_CHILDREN: IntArray = np.zeros((4, 0), np.int64)
NO_ENDS: IntArray = np.zeros(0, np.int64)
HEADER_NAMES = RECORD.child_names
Object = dict[str, Any]
AT_ONCE = 1024  # rows
_ABSENT = object()


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


def section_of(rows: RowType, values: Sequence[Sequence[str | bytes | int | None]]) -> Section:
    """Build a section from rows of numbers, text and bytes, each a list of cells.

    JSON is passed as text; None only in a column of bytes, or one that marks which rows have a
    value.
    """
    table = Table.empty(rows.sources, len(values))
    stored = {leaf.at for leaf in rows.leaves}
    data = b""
    for place, column in enumerate(rows.leaves):
        cells = [row[place] for row in values]
        condition = column.only[0] if column.only else column.given
        if condition and condition not in stored:
            table[condition] = np.array([cell is not None for cell in cells], np.int64)
        if not column.kind.is_bytes:
            table[column.at] = np.array([cell or 0 for cell in cells], np.int64)
            continue
        pieces = [cell if isinstance(cell, bytes) else _encoded(cell) for cell in cells]
        sizes = np.array([len(piece) for piece in pieces], np.int64)
        table[column.at] = np.cumsum(sizes) - sizes + len(data)
        if column.kind is ColumnKind.BYTES:
            sizes[[cell is None for cell in cells]] = -1
        table[f"{column.at}_size"] = sizes
        data += b"".join(pieces)
    return Section(rows, table, data)


def _encoded(cell: str | int | None) -> bytes:
    return b"" if cell is None else str(cell).encode()


def objects(section: Section, mode: str = "auto") -> Iterator[Object]:
    """The rows as objects of the JSON contract, without `type` and `file`.

    mode: how bytes become text; `bytes` leaves them as they are.
    """
    for first in range(0, len(section), AT_ONCE):
        yield from _objects(section.part(first, first + AT_ONCE), section.type.columns, mode)


def _objects(section: Section, columns: tuple[Column, ...], mode: str) -> Iterator[Object]:
    members = [member for column in columns for member in _members(section, column, mode)]
    names = [name for name, _ in members]
    for row in zip(*(values for _, values in members), strict=True):
        pairs = zip(names, row, strict=True)
        yield {name: value for name, value in pairs if value is not _ABSENT}


def _members(section: Section, column: Column, mode: str) -> Iterator[tuple[str, list[Any]]]:
    """A column's values in all rows by the member's name, and the encodings of bytes."""
    values = _values(section, column, mode)
    if column.kind is not ColumnKind.BYTES or mode == "bytes":
        yield column.name, values
        return
    texts = [as_text(value, mode) if isinstance(value, bytes) else (value, "") for value in values]
    yield column.name, [text for text, _ in texts]
    if any(encoding for _, encoding in texts):
        yield f"{column.name}_encoding", [encoding or _ABSENT for _, encoding in texts]


def _values(section: Section, column: Column, mode: str) -> list[Any]:
    """A column's value in each row: None without a value, `_ABSENT` without such a member."""
    has, given = _presence(section, column)
    if given.all():
        return _given_values(section, column, mode)
    values: list[Any] = [None if is_there else _ABSENT for is_there in has.tolist()]
    _put(values, section, given, column, mode)
    return values


def _presence(section: Section, column: Column) -> tuple[BoolArray, BoolArray]:
    """The rows that have a column, and those of them in which it has a value."""
    has = np.ones(len(section), np.bool_)
    if column.only:
        has = section.table[column.only[0]] == column.only[1]
    return has, has & (section.table[column.given] == 1) if column.given else has


def _put(values: Any, section: Section, given: BoolArray, column: Column, mode: str) -> None:
    """Put the values of a column into those rows that have one."""
    some = section
    if not given.all():
        some = Section(section.type, section.table.select(given), section.data, section.children)
    rows = np.flatnonzero(given).tolist()
    for row, value in zip(rows, _given_values(some, column, mode), strict=True):
        values[row] = value


def _given_values(section: Section, column: Column, mode: str) -> list[Any]:
    """A column's value in each row, if all rows have one; bytes are converted in headers only."""
    if column.kind is ColumnKind.GROUP:
        return list(_objects(section, column.of, mode))
    numbers: list[int] = section.table[column.at].tolist()
    if column.kind is ColumnKind.HEADERS:
        return _headers(section, section.table[f"{column.at}_first"].tolist(), numbers, mode)
    if column.kind is ColumnKind.FLAG:
        return list(map(bool, numbers))
    if column.kind is ColumnKind.CHOICE:
        known = dict(enumerate(column.words))
        return [known.get(number) or f"UNKNOWN-{number}" for number in numbers]
    if not column.kind.is_bytes:
        return numbers
    sizes, data = section.table[f"{column.at}_size"].tolist(), section.data
    found = [
        None if size < 0 else data[start : start + size]
        for start, size in zip(numbers, sizes, strict=True)
    ]
    if column.kind is ColumnKind.BYTES:
        return found
    read: Callable[[bytes], Any] = partial(bytes.decode, errors="replace")
    if column.kind is ColumnKind.JSON:
        import json

        read = json.loads
    return [None if value is None else read(value) for value in found]


def _headers(
    section: Section, firsts: list[int], counts: list[int], mode: str
) -> list[list[Object]]:
    """The headers of each row. firsts and counts: their columns in the section's children."""
    data, spans = section.data, list(zip(firsts, counts, strict=True))
    low = min((first for first, n in spans if n), default=0)
    high = max((first + n for first, n in spans if n), default=0)
    made = []
    for key, key_size, value, value_size in section.children[:, low:high].T.tolist():
        header = dict(_bytes_members("key", data[key : key + key_size], mode))
        content = None if value_size < 0 else data[value : value + value_size]
        header.update(_bytes_members("value", content, mode))
        made.append(header)
    return [made[first - low : first - low + n] for first, n in spans]


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
    for leaf in (leaf for leaf in section.type.leaves if not wanted or leaf.name in wanted):
        missing = ~_presence(section, leaf)[1]
        values: np.ndarray[Any, Any] = section.table[leaf.at].copy()
        if leaf.kind is not ColumnKind.NUMBER:
            values = np.empty(len(section), object)
            _put(values, section, ~missing, leaf, "bytes")
            missing |= np.fromiter((value is None for value in values), np.bool_, len(values))
        found[leaf.name] = np.ma.masked_array(values, missing) if missing.any() else values
    return found
