"""Derives from a query engine's filter which files can have matching rows, and within which bounds.

Arrow cannot take an expression apart. But it prunes the files of a dataset by an expression that is
true for all their rows. Given one imaginary file, it shows whether any such row can match.
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

from kfmt_cli.arrow.columns.arrays import TIMESTAMP_TYPE
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.rows.table_types import BATCHES_TABLE, has_records

_IPC_FORMAT = ds.IpcFileFormat()
_MAX_TIME_US = 1 << 60  # microseconds from 1970, either way


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A filter on the rows of a table."""

    schema: pa.Schema
    expression: Any = None
    """Arrow's expression; None for all rows."""

    @property
    def referenced_columns(self) -> frozenset[str]:
        """The columns that the expression may use: its text contains their names."""
        identifiers = set(re.findall(r"\w+", str(self.expression)))
        return frozenset(name for name in self.schema.names if name in identifiers)

    def may_match_values(self, **values: object) -> bool:
        """Whether a row with these column values can match."""
        return self._may_match_premise(
            reduce(and_, (_equality_expression(name, value) for name, value in values.items()))
        )

    def bounding_selection(self, table_name: str) -> Selection:
        """The offset and time bounds of all matching rows of a table."""
        if has_records(table_name):
            first_us, last_us = self._value_interval(
                "timestamp", TIMESTAMP_TYPE, -_MAX_TIME_US, _MAX_TIME_US
            )
            first_time = None if first_us is None else first_us // 1000
            last_time = None if last_us is None else -(-last_us // 1000)
            return Selection(*self._offset_interval("offset"), first_time, last_time)
        if table_name == BATCHES_TABLE.name:
            base_selection, last_selection = (
                Selection(*self._offset_interval(f"{prefix}_offset")) for prefix in ("base", "last")
            )
            return base_selection.intersect(last_selection)
        return Selection()

    def _offset_interval(self, column_name: str) -> tuple[int | None, int | None]:
        return self._value_interval(column_name, pa.int64(), 0, MAX_OFFSET)

    def _value_interval(
        self, column_name: str, type_: pa.DataType, min_value: int, max_value: int
    ) -> tuple[int | None, int | None]:
        """The minimum and maximum of a column in matching rows; None for one without a limit."""
        if not self._constrains_column(column_name):
            return None, None
        column_field, create_scalar = pc.field(column_name), partial(pa.scalar, type=type_)
        min_match = _find_lowest(
            lambda value: self._may_match_premise(column_field <= create_scalar(value)),
            min_value,
            max_value,
        )
        end_match = _find_lowest(
            lambda value: not self._may_match_premise(column_field >= create_scalar(value)),
            -max_value,
            max_value,
        )
        return (
            None if min_match == min_value else min_match,
            None if end_match == max_value else end_match - 1,
        )

    def _constrains_column(self, column_name: str) -> bool:
        """Whether the expression uses a column, and rejects rows with null in it."""
        return column_name in self.referenced_columns and not self.may_match_values(
            **{column_name: None}
        )

    def _may_match_premise(self, premise: Any) -> bool:
        """Whether a row can match for which an Arrow expression, the premise, is true."""
        if self.expression is None:
            return True
        fragment = _IPC_FORMAT.make_fragment("any", LocalFileSystem(), partition_expression=premise)
        fragment_dataset = ds.FileSystemDataset(
            [fragment], self.schema, _IPC_FORMAT, LocalFileSystem()
        )
        return next(fragment_dataset.get_fragments(self.expression), None) is not None


def _equality_expression(column_name: str, value: object) -> Any:
    column_field = pc.field(column_name)
    return column_field.is_null() if value is None else column_field == value


def _find_lowest(predicate: Callable[[int], bool], min_number: int, max_number: int) -> int:
    """The lowest number in [low, high] for which a monotonic predicate is true; else
    `max_number`."""
    while min_number < max_number:
        midpoint = (min_number + max_number) // 2
        min_number, max_number = (
            (min_number, midpoint) if predicate(midpoint) else (midpoint + 1, max_number)
        )
    return min_number
