"""What a filter of a query engine implies: the places and the bounds of the rows that pass.

Arrow prunes the files of a dataset by what is known of all their rows. Asked about one imaginary
file, it says whether any such row can pass; an expression itself cannot be taken apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds
from pyarrow.fs import LocalFileSystem

from kfmt_cli.arrow.columns.arrays import TIME
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.rows.table_types import BATCHES, has_records

_FORMAT = ds.IpcFileFormat()
_MOST_OFFSET = (1 << 63) - 1
_MOST_TIME = 1 << 60  # microseconds from 1970, either way


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter on the rows of a table."""

    schema: pa.Schema
    expression: Any = None
    """Arrow's expression; None for all rows."""

    @property
    def names(self) -> frozenset[str]:
        """The columns that it may need: its text contains their names."""
        words = set(re.findall(r"\w+", str(self.expression)))
        return frozenset(name for name in self.schema.names if name in words)

    def allows(self, **values: object) -> bool:
        """Whether a row with these values of columns can pass."""
        return self._can_pass(reduce(and_, (_is(name, value) for name, value in values.items())))

    def selection(self, table: str) -> Selection:
        """The bounds that all rows of a table have if they pass."""
        if has_records(table):
            since, until = self._range("timestamp", TIME, -_MOST_TIME, _MOST_TIME)
            first_time = None if since is None else since // 1000
            last_time = None if until is None else -(-until // 1000)
            return Selection(*self._offsets("offset"), first_time, last_time)
        if table == BATCHES.name:
            first, last = (Selection(*self._offsets(f"{end}_offset")) for end in ("base", "last"))
            return first.within(last)
        return Selection()

    def _offsets(self, name: str) -> tuple[int | None, int | None]:
        return self._range(name, pa.int64(), 0, _MOST_OFFSET)

    def _range(
        self, name: str, type_: pa.DataType, low: int, high: int
    ) -> tuple[int | None, int | None]:
        """The least and the largest value of a column in rows that pass; None if any is
        possible."""
        if not self._bounds(name):
            return None, None
        field, scalar = pc.field(name), partial(pa.scalar, type=type_)
        least = _first(lambda value: self._can_pass(field <= scalar(value)), low, high)
        beyond = _first(lambda value: not self._can_pass(field >= scalar(value)), -high, high)
        return None if least == low else least, None if beyond == high else beyond - 1

    def _bounds(self, name: str) -> bool:
        """Whether it says anything of a column, and fails rows that have no value there."""
        return name in self.names and not self.allows(**{name: None})

    def _can_pass(self, known: Any) -> bool:
        """Whether a row can pass of which an expression is known to be true."""
        if self.expression is None:
            return True
        file = _FORMAT.make_fragment("any", LocalFileSystem(), partition_expression=known)
        files = ds.FileSystemDataset([file], self.schema, _FORMAT, LocalFileSystem())
        return next(files.get_fragments(self.expression), None) is not None


def _is(name: str, value: object) -> Any:
    field = pc.field(name)
    return field.is_null() if value is None else field == value


def _first(is_true: Callable[[int], bool], low: int, high: int) -> int:
    """The lowest number, from low to high, for which something is true; it stays true above."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_true(middle) else (middle + 1, high)
    return low
