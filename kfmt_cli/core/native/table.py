"""A table of int64 columns: what checks look at and renderers write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar, overload

import numpy as np

from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.layout.layout import IntArray

BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Values = IntArray | BoolArray | int
T = TypeVar("T", bound="Table")


class Table:
    """Columns of integers under names.

    A kind of table whose columns are known says them as attributes, each a `TableColumn`.
    """

    __slots__ = ("data", "names")

    known_columns: ClassVar[tuple[str, ...]] = ()
    """The columns that the kind says, in their order."""
    names: dict[str, int]
    """The row of `data` that each column is."""
    data: IntArray
    """Columns by rows, in C order."""

    def __init_subclass__(cls) -> None:
        every = (member for one in reversed(cls.__mro__) for member in vars(one).items())
        cls.known_columns = tuple(name for name, member in every if isinstance(member, TableColumn))

    def __init__(self, names: dict[str, int], data: IntArray) -> None:
        self.names = names
        self.data = data

    @classmethod
    def empty(cls: type[T], names: Sequence[str], rows: int) -> T:
        """A table of zeros."""
        return cls(
            {name: i for i, name in enumerate(names)}, np.zeros((len(names), rows), np.int64)
        )

    @classmethod
    def zeros(cls: type[T], rows: int) -> T:
        """A table of zeros with the columns that its kind says."""
        return cls.empty(cls.known_columns, rows)

    def typed(self, kind: type[T]) -> T:
        """The same table, where its kind is known."""
        assert isinstance(self, kind)
        return self

    def __len__(self) -> int:
        return self.data.shape[1]

    def __getitem__(self, name: str) -> IntArray:
        column: IntArray = self.data[self.names[name]]
        return column

    def __setitem__(self, name: str, values: Values) -> None:
        self.data[self.names[name]] = values

    def row(self, i: int) -> Fields:
        """The numbers of a row."""
        return Fields(zip(self.names, self.data[:, i].tolist(), strict=True))

    def select(self: T, rows: IntArray | slice | BoolArray) -> T:
        """The table with these rows only."""
        return type(self)(self.names, np.ascontiguousarray(self.data[:, rows]))

    def copy(self: T) -> T:
        """A table with the same values."""
        return type(self)(self.names, self.data.copy())

    def adding(self: T, names: Sequence[str]) -> T:
        """A copy with further columns of zeros."""
        every = (*self.names, *names)
        more = np.zeros((len(names), len(self)), np.int64)
        return type(self)(
            {name: i for i, name in enumerate(every)}, np.concatenate([self.data, more], axis=0)
        )


class TableColumn:
    """A column as an attribute of a kind of table."""

    def __set_name__(self, owner: type[Table], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, table: None, owner: type[Table]) -> TableColumn: ...
    @overload
    def __get__(self, table: Table, owner: type[Table]) -> IntArray: ...
    def __get__(self, table: Table | None, owner: type[Table]) -> TableColumn | IntArray:
        if table is None:
            return self
        column: IntArray = table.data[table.names[self._name]]
        return column

    def __set__(self, table: Table, values: Values) -> None:
        table.data[table.names[self._name]] = values
