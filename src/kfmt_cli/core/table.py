"""A table of int64 columns: what checks look at and renderers write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.layout import IntArray

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
