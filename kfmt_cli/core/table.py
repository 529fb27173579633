"""Tables of int64 columns, which checks examine and renderers write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar, overload

import numpy as np

from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.layout.layout import IntArray

BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
ColumnValues = IntArray | BoolArray | int
TableT = TypeVar("TableT", bound="Table")


class Table:
    """Named columns of int64 values.

    Subclasses declare their columns as `TableColumn` attributes.
    """

    __slots__ = ("data", "index_by_name")

    declared_columns: ClassVar[tuple[str, ...]] = ()
    """The names of the declared columns, in order."""
    index_by_name: dict[str, int]
    """The index in `data` of each column."""
    data: IntArray
    """(columns, rows), in C order."""

    def __init_subclass__(cls) -> None:
        members = (member for base in reversed(cls.__mro__) for member in vars(base).items())
        cls.declared_columns = tuple(
            name for name, member in members if isinstance(member, TableColumn)
        )

    def __init__(self, index_by_name: dict[str, int], data: IntArray) -> None:
        self.index_by_name = index_by_name
        self.data = data

    @classmethod
    def zeros_with_columns(cls: type[TableT], column_names: Sequence[str], n_rows: int) -> TableT:
        """A table of zeros with the columns of these names."""
        return cls(
            {name: i for i, name in enumerate(column_names)},
            np.zeros((len(column_names), n_rows), np.int64),
        )

    @classmethod
    def zeros(cls: type[TableT], n_rows: int) -> TableT:
        """A table of zeros with the declared columns."""
        return cls.zeros_with_columns(cls.declared_columns, n_rows)

    def as_type(self, table_class: type[TableT]) -> TableT:
        """This table, for a caller that knows its class."""
        assert isinstance(self, table_class)
        return self

    def __len__(self) -> int:
        return self.data.shape[1]

    def __getitem__(self, name: str) -> IntArray:
        column: IntArray = self.data[self.index_by_name[name]]
        return column

    def __setitem__(self, name: str, values: ColumnValues) -> None:
        self.data[self.index_by_name[name]] = values

    def row(self, row_index: int) -> FieldDict:
        """The values of a row by column name."""
        return FieldDict(zip(self.index_by_name, self.data[:, row_index].tolist(), strict=True))

    def select_rows(self: TableT, row_selection: IntArray | slice | BoolArray) -> TableT:
        """A table with only these rows."""
        return type(self)(self.index_by_name, np.ascontiguousarray(self.data[:, row_selection]))

    def copy(self: TableT) -> TableT:
        """A table with a copy of the values."""
        return type(self)(self.index_by_name, self.data.copy())

    def with_columns(self: TableT, new_names: Sequence[str]) -> TableT:
        """A copy with additional columns of zeros."""
        all_names = (*self.index_by_name, *new_names)
        new_columns = np.zeros((len(new_names), len(self)), np.int64)
        return type(self)(
            {name: i for i, name in enumerate(all_names)},
            np.concatenate([self.data, new_columns], axis=0),
        )


class TableColumn:
    """A descriptor for a column of a table."""

    def __set_name__(self, owner: type[Table], name: str) -> None:
        self._column_name = name

    @overload
    def __get__(self, table: None, owner: type[Table]) -> TableColumn: ...
    @overload
    def __get__(self, table: Table, owner: type[Table]) -> IntArray: ...
    def __get__(self, table: Table | None, owner: type[Table]) -> TableColumn | IntArray:
        if table is None:
            return self
        column: IntArray = table.data[table.index_by_name[self._column_name]]
        return column

    def __set__(self, table: Table, values: ColumnValues) -> None:
        table.data[table.index_by_name[self._column_name]] = values
