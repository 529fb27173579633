"""Row types: the columns of the output, with kind, words, unit and conditions for null.

A row type is made from a Layout plus derived columns. JSON, CSV, tables, Arrow and Spark schemas,
the names that `build` reads, and the docs all use it. A row is a row of a `Table`; a column of
bytes or text has its length in the table's next column.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from kfmt_cli.core.layout.field import MILLISECONDS, Field
from kfmt_cli.core.layout.wire import Array, Bytes

_NO_ATTRIBUTE = object()


class ColumnKind(enum.Enum):
    """The kind of a column's values.

    NUMBER: an integer. REAL: a number with a fraction or of any size, as text. FLAG: 0 for no, 1
    for yes. CHOICE: the number of a word. BYTES: any bytes. TEXT: UTF-8 bytes. JSON: bytes of a
    JSON value. HEADERS: a list of rows with two bytes fields. GROUP: columns that JSON puts into a
    nested object.
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
        """Whether a value is a start and a length in the section's data."""
        return self in (ColumnKind.BYTES, ColumnKind.TEXT, ColumnKind.JSON, ColumnKind.REAL)


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    kind: ColumnKind = ColumnKind.NUMBER
    doc: str = ""
    source: str = ""
    """The column of the table; by default the name."""
    given: str = ""
    """The column that is 1 in rows with a value; in other rows the value is null."""
    only: tuple[str, int] | None = None
    """(column, value): in rows where the column differs from the value, JSON omits the name."""
    none: int | None = None
    """The number that means "no value"."""
    words: tuple[str, ...] = ()
    """The words of a CHOICE, by number."""
    unit: str | None = None
    """The unit of a number."""
    bits: int = 64
    """The bits that a number takes."""
    of: tuple[Column, ...] = ()
    """The members of a GROUP."""
    flat: str = ""
    """The name if groups are flattened."""
    minor: bool = False
    """A narrow screen hides it first."""
    heading: str = ""
    """Its heading in a table; by default the name."""
    hidden: bool = False
    """Tables do not show it: another column shows the same in a readable form."""

    @property
    def at(self) -> str:
        """Its column in the table."""
        return self.source or self.name

    @property
    def flat_name(self) -> str:
        """Its name once groups are flattened."""
        return self.flat or self.name


class Placed(enum.Enum):
    """Whether objects of a type name their topic, partition and log directory.

    NO_FILE: no, nor a file. NOWHERE: no. FILE: by the directory of their file. PARTITION: their
    file may be that directory.
    """

    NO_FILE = enum.auto()
    NOWHERE = enum.auto()
    FILE = enum.auto()
    PARTITION = enum.auto()

    @property
    def has_place(self) -> bool:
        """Whether objects have the members of `PLACE`."""
        return self in (Placed.FILE, Placed.PARTITION)


# Members of such an object after `file`.
PLACE = {
    "topic": "Topic, from the directory name; null if it is not a partition directory.",
    "partition": "Partition, from the directory name.",
    "log_dir": "Log directory that contains the partition.",
}


@dataclass(frozen=True, eq=False)
class RowType:
    """The columns of a kind of row.

    Row types are compared by identity, so that templates can be cached by row type.
    """

    name: str
    """The `type` of its objects in JSON."""
    doc: str
    columns: tuple[Column, ...]
    placed: Placed = Placed.NOWHERE
    """Whether its objects have `PLACE`."""
    n_key: int = 0
    """Of a topic's state: the number of leading columns that identify a row."""

    @cached_property
    def leaves(self) -> tuple[Column, ...]:
        """The columns with groups flattened, each under its flat name."""
        return tuple(_leaves(self.columns))

    @cached_property
    def by_name(self) -> Mapping[str, Column]:
        """The leaves by their flat names."""
        return {leaf.name: leaf for leaf in self.leaves}

    @cached_property
    def front(self) -> tuple[str, ...]:
        """The first members of an object from a file, after its type."""
        if self.placed is Placed.NO_FILE:
            return ()
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
        """The table columns that it uses, each once; lengths after their starts."""
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

    def members_of(self, *things: object) -> dict[str, object]:
        """The members of an object that things have as attributes of the same names."""
        return {
            column.name: value
            for thing in things
            for column in self.columns
            if (value := getattr(thing, column.name, _NO_ATTRIBUTE)) is not _NO_ATTRIBUTE
        }


def _leaves(columns: Iterable[Column]) -> Iterator[Column]:
    for column in columns:
        if column.kind is not ColumnKind.GROUP:
            yield replace(column, name=column.flat_name, source=column.at)
            continue
        for member in column.of:
            only, given = column.only or member.only, member.given
            if column.only and member.only:
                given = member.only[0]  # of two conditions, one omits and the other makes null
            yield replace(member, name=member.flat_name, source=member.at, only=only, given=given)


def _column(
    kind: ColumnKind,
    name: str,
    doc: str,
    *,
    null: bool = False,
    only: bool = False,
    **more: Any,
) -> Column:
    """A column. null: a row may have no value; only: JSON then omits the name; more: other
    attributes."""
    given = f"has_{name}"
    only_if = (given, 1) if only else None
    return Column(name, kind, doc, given=given if null else "", only=only_if, **more)


number = partial(_column, ColumnKind.NUMBER)
"""A column of integers."""
real = partial(_column, ColumnKind.REAL)
"""A column of numbers with a fraction."""
milliseconds = partial(number, unit=MILLISECONDS, none=-1)
"""A column of times, in milliseconds since 1970; -1 for none."""
text = partial(_column, ColumnKind.TEXT)
"""A column of text."""
flag = partial(_column, ColumnKind.FLAG)
"""A column of flags."""
json_value = partial(_column, ColumnKind.JSON)
"""A column of values of any shape, as JSON."""


def column_of(field: Field, **changes: Any) -> Column:
    """The column of a Layout's field. changes: attributes that the field does not define."""
    kind = ColumnKind.NUMBER
    words: tuple[str, ...] = field.symbols or ()
    if isinstance(field.type, Bytes):
        kind = ColumnKind.BYTES
    elif isinstance(field.type, Array):
        kind = ColumnKind.HEADERS
    elif field.symbols:
        kind = ColumnKind.CHOICE
    size = field.type.size
    bits = 64 if size is None else 8 * size
    made = Column(
        field.name, kind, field.doc, none=field.none, words=words, unit=field.unit, bits=bits
    )
    return replace(made, **changes)
