"""Row types: the columns of the output, with kind, description, unit and conditions for null.

A row type has the fields of a Layout and derived columns. JSON, CSV, tables, Arrow and Spark
schemas, the names that `build` reads, and the docs all use it. The values are in a `Table`, where a
column of bytes or text has its length in the next column.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from kfmt_cli.core.layout.field import MS_UNIT, Field
from kfmt_cli.core.layout.wire_types import ArrayWireType, BytesWireType

_NO_ATTRIBUTE = object()


class ColumnKind(enum.Enum):
    """The kind of a column's values.

    NUMBER: an integer. REAL: a number with a fraction or of any size, as text. FLAG: 0 for no, 1
    for yes. CHOICE: an index of `Column.choices`. BYTES: any bytes. TEXT: UTF-8 bytes. JSON: bytes
    of a JSON value. TEXTS: a list of texts. HEADERS: a list of rows with two bytes fields. GROUP:
    columns that JSON puts into a nested object.
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
    def is_byte_range(self) -> bool:
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
    presence_column: str = ""
    """The column that is 1 in rows with a value; in other rows the value is null."""
    present_if: tuple[str, int] | None = None
    """(column, value): in rows where the column differs from the value, JSON omits the name."""
    null_value: int | None = None
    """The number that means "no value"."""
    choices: tuple[str, ...] = ()
    """The values of a CHOICE, by number."""
    unit: str | None = None
    """The unit of a number."""
    n_bits: int = 64
    """The size of a number in bits."""
    members: tuple[Column, ...] = ()
    """The members of a GROUP."""
    explicit_flat_name: str = ""
    """The name if groups are flattened."""
    is_minor: bool = False
    """Whether a narrow screen hides it first."""
    heading: str = ""
    """Its heading in a table; by default the name."""
    is_hidden: bool = False
    """Whether tables omit it, because another column shows the same in a readable form."""

    @property
    def table_column(self) -> str:
        """The name of its column in a `Table`."""
        return self.source or self.name

    @property
    def flat_name(self) -> str:
        """Its name once groups are flattened."""
        return self.explicit_flat_name or self.name


class LocationSource(enum.Enum):
    """The source of the topic, partition and log directory of a type's objects.

    NO_FILE: nowhere; the objects have no file either. NO_LOCATION: nowhere. FILE: the directory of
    the file. PARTITION: the file if it is a partition directory, else its directory.
    """

    NO_FILE = enum.auto()
    NO_LOCATION = enum.auto()
    FILE = enum.auto()
    PARTITION = enum.auto()

    @property
    def has_location(self) -> bool:
        """Whether objects have the members of `LOCATION_COLUMNS`."""
        return self in (LocationSource.FILE, LocationSource.PARTITION)


# The members after `file` in objects with a location, and their descriptions.
LOCATION_COLUMNS = {
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
    location_source: LocationSource = LocationSource.NO_LOCATION
    """Whether its objects have `LOCATION_COLUMNS`."""
    n_key_columns: int = 0
    """For a topic's state, the number of leading columns that identify a row."""

    @cached_property
    def leaves(self) -> tuple[Column, ...]:
        """The columns with groups flattened, each under its flat name."""
        return tuple(_flatten_columns(self.columns))

    @cached_property
    def leaf_by_name(self) -> Mapping[str, Column]:
        """The leaves by their flat names."""
        return {leaf.name: leaf for leaf in self.leaves}

    @cached_property
    def leading_members(self) -> tuple[str, ...]:
        """The first members of an object from a file, after its type."""
        if self.location_source is LocationSource.NO_FILE:
            return ()
        return (
            ("file",)
            if self.location_source is LocationSource.NO_LOCATION
            else ("file", *LOCATION_COLUMNS)
        )

    @cached_property
    def member_names(self) -> tuple[str, ...]:
        """The members of an object whose type has a column `file`, in order."""
        member_names: list[str] = []
        for column in self.columns:
            member_names += self.leading_members if column.name == "file" else (column.name,)
        return tuple(member_names)

    @cached_property
    def table_columns(self) -> tuple[str, ...]:
        """The table columns that it uses, each once; lengths after their starts."""
        column_names: dict[str, None] = {}
        for leaf in self.leaves:
            condition_columns = (leaf.present_if[0],) if leaf.present_if else ()
            size_columns = (f"{leaf.table_column}_size",) if leaf.kind.is_byte_range else ()
            first_header_columns = (
                (f"{leaf.table_column}_first",) if leaf.kind is ColumnKind.HEADERS else ()
            )
            for name in (
                *condition_columns,
                leaf.presence_column,
                leaf.table_column,
                *size_columns,
                *first_header_columns,
            ):
                if name:
                    column_names[name] = None
        return tuple(column_names)

    def __getitem__(self, name: str) -> Column:
        return self.leaf_by_name[name]

    def members_from(self, *objects: object) -> dict[str, object]:
        """The members that the objects have as attributes of the same names; later objects win."""
        return {
            column.name: value
            for member_source in objects
            for column in self.columns
            if (value := getattr(member_source, column.name, _NO_ATTRIBUTE)) is not _NO_ATTRIBUTE
        }


def _flatten_columns(columns: Iterable[Column]) -> Iterator[Column]:
    for column in columns:
        if column.kind is not ColumnKind.GROUP:
            yield replace(column, name=column.flat_name, source=column.table_column)
            continue
        for member in column.members:
            present_if = column.present_if or member.present_if
            presence_column = member.presence_column
            if column.present_if and member.present_if:
                # The group's condition omits the member; the member's own makes it null.
                presence_column = member.present_if[0]
            yield replace(
                member,
                name=member.flat_name,
                source=member.table_column,
                present_if=present_if,
                presence_column=presence_column,
            )


def _create_column(
    kind: ColumnKind,
    name: str,
    doc: str,
    *,
    can_be_null: bool = False,
    can_be_absent: bool = False,
    **attributes: Any,
) -> Column:
    """A column. can_be_null: a row may have no value; can_be_absent: JSON then omits the name;
    attributes: other attributes."""
    presence_column = f"has_{name}"
    present_if = (presence_column, 1) if can_be_absent else None
    return Column(
        name,
        kind,
        doc,
        presence_column=presence_column if can_be_null else "",
        present_if=present_if,
        **attributes,
    )


number_column = partial(_create_column, ColumnKind.NUMBER)
"""A column of integers."""
real_column = partial(_create_column, ColumnKind.REAL)
"""A column of numbers with a fraction."""
milliseconds_column = partial(number_column, unit=MS_UNIT, null_value=-1)
"""A column of times, in milliseconds since 1970; -1 for none."""
text_column = partial(_create_column, ColumnKind.TEXT)
"""A column of text."""
flag_column = partial(_create_column, ColumnKind.FLAG)
"""A column of flags."""
json_column = partial(_create_column, ColumnKind.JSON)
"""A column of values of any shape, as JSON."""


def field_column(field: Field, **attributes: Any) -> Column:
    """The column of a Layout's field. attributes: attributes to set or replace."""
    kind = ColumnKind.NUMBER
    choices: tuple[str, ...] = field.symbols or ()
    if isinstance(field.type, BytesWireType):
        kind = ColumnKind.BYTES
    elif isinstance(field.type, ArrayWireType):
        kind = ColumnKind.HEADERS
    elif field.symbols:
        kind = ColumnKind.CHOICE
    field_size = field.type.size
    n_bits = 64 if field_size is None else 8 * field_size
    column = Column(
        field.name,
        kind,
        field.doc,
        null_value=field.none_value,
        choices=choices,
        unit=field.unit,
        n_bits=n_bits,
    )
    return replace(column, **attributes)
