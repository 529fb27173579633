"""Row types: the columns of what is shown, with kind, words, unit, and when they are null.

A row type is made out of a Layout and of what follows from it. JSON, CSV, tables, Arrow and Spark
schemas, the names that `build` reads, and the docs all walk it. A row is a row of a `Table`; a
column of bytes or text has its length in the next column of the table.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kfmt_cli.core.layout.field import MILLISECONDS, Field
from kfmt_cli.core.layout.wire import Array, Bytes


class ColumnKind(enum.Enum):
    """What a column holds.

    NUMBER: an integer. REAL: a number with a fraction. FLAG: 0 for no, 1 for yes. CHOICE: the
    number of a word. BYTES: any bytes. TEXT: bytes that are UTF-8. JSON: bytes that are a JSON
    value. HEADERS: a list of rows of two bytes fields. GROUP: columns that JSON puts into an object
    of their own.
    """

    NUMBER = enum.auto()
    REAL = enum.auto()
    FLAG = enum.auto()
    CHOICE = enum.auto()
    BYTES = enum.auto()
    TEXT = enum.auto()
    JSON = enum.auto()
    TEXTS = enum.auto()
    HEADERS = enum.auto()
    GROUP = enum.auto()

    @property
    def is_bytes(self) -> bool:
        """Whether a value is a part of the section's data: a start and a length."""
        return self in (ColumnKind.BYTES, ColumnKind.TEXT, ColumnKind.JSON)


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    kind: ColumnKind = ColumnKind.NUMBER
    doc: str = ""
    source: str = ""
    """The column of the table, the name itself unless given."""
    given: str = ""
    """The column that is 1 where the row has a value, which is null elsewhere."""
    only: tuple[str, int] | None = None
    """(column, value) without which JSON leaves the name out."""
    none: int | None = None
    """The number that means that there is none."""
    words: tuple[str, ...] = ()
    """The words of a CHOICE, by number."""
    unit: str | None = None
    """The unit of a number."""
    bits: int = 64
    """The bits that a number takes."""
    of: tuple[Column, ...] = ()
    """The members of a GROUP."""
    flat: str = ""
    """The name where groups are opened."""
    minor: bool = False
    """A narrow screen does without it first."""
    heading: str = ""
    """What a table calls it, which is its name unless given."""
    hidden: bool = False
    """A table has another column that says the same in the way people want it."""

    @property
    def at(self) -> str:
        """The column of the table that it comes from."""
        return self.source or self.name

    @property
    def flat_name(self) -> str:
        """Its name among columns none of which is a group."""
        return self.flat or self.name


class Placed(enum.Enum):
    """Whether objects of a type say of which topic, partition and log directory they are.

    NOWHERE: no. FILE: by the directory of their file. PARTITION: their file may be that directory.
    """

    NOWHERE = enum.auto()
    FILE = enum.auto()
    PARTITION = enum.auto()


# What such an object has after `file`.
PLACE = {
    "topic": "Topic, from the directory name; null if it is not a partition directory.",
    "partition": "Partition, from the directory name.",
    "log_dir": "Log directory that contains the partition.",
}


@dataclass(frozen=True, eq=False)
class RowType:
    """The columns of a kind of rows.

    Each row type is itself and no other, so that templates can be kept by it.
    """

    name: str
    """The `type` of such an object in JSON."""
    doc: str
    columns: tuple[Column, ...]
    placed: Placed = Placed.NOWHERE
    """Whether objects of it have `PLACE`."""

    @cached_property
    def leaves(self) -> tuple[Column, ...]:
        """The columns, groups opened up, each under its flat name."""
        return tuple(_leaves(self.columns))

    @cached_property
    def by_name(self) -> Mapping[str, Column]:
        """The leaves by their flat names."""
        return {leaf.name: leaf for leaf in self.leaves}

    @cached_property
    def front(self) -> tuple[str, ...]:
        """What an object of rows in a file begins with, after its type."""
        return ("file",) if self.placed is Placed.NOWHERE else ("file", *PLACE)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The members of an object that has its file among its columns."""
        found: list[str] = []
        for column in self.columns:
            found += self.front if column.name == "file" else (column.name,)
        return tuple(found)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The columns of a table that can be shown, each once; lengths after their starts."""
        found: dict[str, None] = {}
        for leaf in self.leaves:
            condition = (leaf.only[0],) if leaf.only else ()
            size = (f"{leaf.at}_size",) if leaf.kind.is_bytes else ()
            headers = (f"{leaf.at}_first",) if leaf.kind is ColumnKind.HEADERS else ()
            for name in (*condition, leaf.given, leaf.at, *size, *headers):
                if name:
                    found[name] = None
        return tuple(found)

    def __getitem__(self, name: str) -> Column:
        return self.by_name[name]


def _leaves(columns: Iterable[Column]) -> Iterator[Column]:
    for column in columns:
        if column.kind is not ColumnKind.GROUP:
            yield replace(column, name=column.flat_name, source=column.at)
            continue
        for member in column.of:
            only, given = column.only or member.only, member.given
            if column.only and member.only:
                given = member.only[0]  # of two conditions one leaves out, the other is null
            yield replace(member, name=member.flat_name, source=member.at, only=only, given=given)


def number(
    name: str,
    doc: str,
    *,
    null: bool = False,
    only: bool = False,
    minor: bool = False,
    unit: str | None = None,
) -> Column:
    """A column of integers. null: a row may have none. only: JSON leaves the name out then."""
    return _column(ColumnKind.NUMBER, name, doc, null, only=only, minor=minor, unit=unit)


def real(name: str, doc: str, *, null: bool = False) -> Column:
    """A column of numbers with a fraction."""
    return _column(ColumnKind.REAL, name, doc, null)


def milliseconds(name: str, doc: str, *, null: bool = False, minor: bool = False) -> Column:
    """A column of times, in milliseconds since 1970; -1 for none."""
    return _column(ColumnKind.NUMBER, name, doc, null, minor=minor, unit=MILLISECONDS, none=-1)


def text(name: str, doc: str, *, null: bool = False, minor: bool = False) -> Column:
    """A column of text."""
    return _column(ColumnKind.TEXT, name, doc, null, minor=minor)


def flag(name: str, doc: str, *, null: bool = False, minor: bool = False) -> Column:
    """A column of yes and no."""
    return _column(ColumnKind.FLAG, name, doc, null, minor=minor)


def json_value(name: str, doc: str, *, null: bool = False, only: bool = False) -> Column:
    """A column of values of any shape, as JSON."""
    return _column(ColumnKind.JSON, name, doc, null, only=only)


def _column(
    kind: ColumnKind,
    name: str,
    doc: str,
    null: bool,
    *,
    only: bool = False,
    minor: bool = False,
    unit: str | None = None,
    none: int | None = None,
) -> Column:
    given = f"has_{name}"
    return Column(
        name,
        kind,
        doc,
        given=given if null else "",
        only=(given, 1) if only else None,
        minor=minor,
        unit=unit,
        none=none,
    )


def column_of(field: Field, **changes: Any) -> Column:
    """The column of a Layout's field. changes: of what the field itself does not say."""
    kind = ColumnKind.NUMBER
    words: tuple[str, ...] = field.symbols or ()
    of: tuple[Column, ...] = ()
    if isinstance(field.type, Bytes):
        kind = ColumnKind.BYTES
    elif isinstance(field.type, Array):
        kind = ColumnKind.HEADERS
    elif field.symbols:
        kind = ColumnKind.CHOICE
    size = field.type.size
    bits = 64 if size is None else 8 * size
    made = Column(
        field.name, kind, field.doc, none=field.none, words=words, unit=field.unit, bits=bits, of=of
    )
    return replace(made, **changes)
