"""A table of int64 columns: what checks look at and renderers write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.layout.layout import IntArray

BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Table:
    """names: the columns' names. data: (columns, rows), C order."""

    names: dict[str, int]
    data: IntArray

    @classmethod
    def empty(cls, names: Sequence[str], rows: int) -> Table:
        """A table of zeros."""
        return cls(
            {name: i for i, name in enumerate(names)}, np.zeros((len(names), rows), np.int64)
        )

    def __len__(self) -> int:
        return self.data.shape[1]

    def __getitem__(self, name: str) -> IntArray:
        column: IntArray = self.data[self.names[name]]
        return column

    def __setitem__(self, name: str, values: IntArray | BoolArray | int) -> None:
        self.data[self.names[name]] = values

    def select(self, rows: IntArray | slice | BoolArray) -> Table:
        """The table with these rows only."""
        return Table(self.names, np.ascontiguousarray(self.data[:, rows]))

    def put(self, name: str, rows: IntArray, values: IntArray | BoolArray | int) -> None:
        """Set a column in some of the rows."""
        self.data[self.names[name], rows] = values

    def adding(self, names: Sequence[str]) -> Table:
        """A copy with further columns of zeros."""
        every = (*self.names, *names)
        more = np.zeros((len(names), len(self)), np.int64)
        return Table(
            {name: i for i, name in enumerate(every)}, np.concatenate([self.data, more], axis=0)
        )
