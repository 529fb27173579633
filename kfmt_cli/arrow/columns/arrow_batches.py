"""Converts columnar rows to Arrow: each column by its kind, null in rows without a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kfmt_cli.arrow.columns import arrays
from kfmt_cli.arrow.columns.schema import arrow_schema, arrow_type
from kfmt_cli.core.layout.field import MS_UNIT
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray, Table
from kfmt_cli.rows.column import Column, ColumnKind
from kfmt_cli.rows.columnar_rows import ColumnarRows, NestedRows
from kfmt_cli.rows.table_types import BATCH_PREFIX

MAX_BATCH_BYTES = 64 << 20  # keys, values and headers per Arrow batch
MAX_BATCH_ROWS = 32768


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows to convert to Arrow."""

    rows: ColumnarRows
    batches: Table | None = None
    batch_index: IntArray | None = None
    """Each record's row in `batches`."""

    def __len__(self) -> int:
        return len(self.rows.table)

    def has_column(self, name: str) -> bool:
        """Whether the rows, or their batches, have this column."""
        if name.startswith(BATCH_PREFIX):
            return (
                self.batches is not None
                and name.removeprefix(BATCH_PREFIX) in self.batches.index_by_name
            )
        return name in self.rows.table.index_by_name

    def __getitem__(self, name: str) -> IntArray:
        if name.startswith(BATCH_PREFIX):
            assert self.batches is not None
            assert self.batch_index is not None
            column: IntArray = self.batches[name.removeprefix(BATCH_PREFIX)][self.batch_index]
            return column
        return self.rows.table[name]

    def slice_rows(self, first: int, end: int) -> ArrowRows:
        """Rows first..end-1."""
        if (first, end) == (0, len(self)):
            return self
        batch_index = None if self.batch_index is None else self.batch_index[first:end]
        return ArrowRows(self.rows.slice_rows(first, end), self.batches, batch_index)


def arrow_rows(rows: NestedRows) -> ArrowRows:
    """The rows to convert: inner rows with their batches if they exist, else outer rows."""
    if rows.inner is None:
        return ArrowRows(rows.outer)
    batch_index = np.repeat(np.arange(len(rows.outer)), np.diff(rows.inner_ends, prepend=0))
    return ArrowRows(rows.inner, rows.outer.table, batch_index)


def split_rows(rows: ArrowRows, max_rows: int = MAX_BATCH_ROWS) -> Iterator[ArrowRows]:
    """Split rows so that each part fits in Arrow's 32-bit offsets and a worker's memory."""
    table = rows.rows.table
    sizes = [
        table[f"{leaf.table_column}_size"].clip(0)
        for leaf in rows.rows.type.leaves
        if leaf.kind.is_bytes
    ]
    sizes += [
        64 * table[leaf.table_column]
        for leaf in rows.rows.type.leaves
        if leaf.kind is ColumnKind.HEADERS
    ]
    ends = np.cumsum(sum(sizes, start=np.zeros(len(rows), np.int64)))
    first = 0
    while first < len(rows):
        previous_bytes = int(ends[first - 1]) if first else 0
        end = int(np.searchsorted(ends, previous_bytes + MAX_BATCH_BYTES, "right"))
        end = min(max(end, first + 1), first + max_rows, len(rows))
        yield rows.slice_rows(first, end)
        first = end


def arrow_batch(
    rows: ArrowRows,
    columns: Iterable[Column],
    create_shared_column: Callable[[str, int], pa.Array | None] = lambda *_: None,
) -> pa.RecordBatch:
    """The columns as an Arrow batch. create_shared_column: returns a column that all rows share, by
    name and length; None for other columns."""
    selected_columns = tuple(columns)
    column_arrays = []
    for column in selected_columns:
        array = create_shared_column(column.name, len(rows))
        column_arrays.append(column_array(rows, column) if array is None else array)
    return pa.RecordBatch.from_arrays(column_arrays, schema=arrow_schema(selected_columns))


def column_array(rows: ArrowRows, column: Column) -> pa.Array:
    """A column as an array of its kind; null if the rows have no such column."""
    if not rows.has_column(column.table_column):
        return pa.nulls(len(rows), arrow_type(column))
    columnar_rows, values = rows.rows, rows[column.table_column]
    is_valid = _validity_mask(rows, column, values)
    if column.kind.is_bytes:
        sizes = rows[f"{column.table_column}_size"]
        if is_valid is not None:
            sizes = np.where(is_valid, sizes, -1)
        binary_array = arrays.binary_array(columnar_rows.data, values, sizes)
        return binary_array if column.kind is ColumnKind.BYTES else arrays.text_array(binary_array)
    if column.unit == MS_UNIT:
        return arrays.timestamp_array(values, is_valid)
    if column.kind is ColumnKind.HEADERS:
        has_headers = np.ones(len(rows), np.bool_) if is_valid is None else is_valid
        first_headers = rows[f"{column.table_column}_first"]
        return arrays.header_array(
            columnar_rows.data, columnar_rows.children, first_headers, values, has_headers
        )
    if column.kind is ColumnKind.FLAG:
        return arrays.flag_array(values, is_valid)
    if column.kind is ColumnKind.CHOICE:
        return arrays.choice_array(values, column.choices, is_valid)
    return arrays.integer_array(values, arrow_type(column), is_valid)


def _validity_mask(rows: ArrowRows, column: Column, values: IntArray) -> BoolArray | None:
    """Mask of rows with a value; None if all have one."""
    masks: list[BoolArray] = []
    if column.presence_column:
        masks.append(rows[column.presence_column] == 1)
    if column.present_if:
        masks.append(rows[column.present_if[0]] == column.present_if[1])
    if column.null_value is not None:
        masks.append(values != column.null_value)
    if not masks:
        return None
    is_valid: BoolArray = np.logical_and.reduce(masks)
    return None if is_valid.all() else is_valid
