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

    columnar_rows: ColumnarRows
    batches: Table | None = None
    batch_row_indexes: IntArray | None = None
    """Each record's row in `batches`."""

    def __len__(self) -> int:
        return len(self.columnar_rows.table)

    def has_column(self, name: str) -> bool:
        """Whether the rows, or their batches, have this column."""
        if name.startswith(BATCH_PREFIX):
            return (
                self.batches is not None
                and name.removeprefix(BATCH_PREFIX) in self.batches.index_by_name
            )
        return name in self.columnar_rows.table.index_by_name

    def __getitem__(self, name: str) -> IntArray:
        if name.startswith(BATCH_PREFIX):
            assert self.batches is not None
            assert self.batch_row_indexes is not None
            column: IntArray = self.batches[name.removeprefix(BATCH_PREFIX)][self.batch_row_indexes]
            return column
        return self.columnar_rows.table[name]

    def slice_rows(self, first_row: int, end_row: int) -> ArrowRows:
        """Rows first..end-1."""
        if (first_row, end_row) == (0, len(self)):
            return self
        batch_row_indexes = (
            None if self.batch_row_indexes is None else self.batch_row_indexes[first_row:end_row]
        )
        return ArrowRows(
            self.columnar_rows.slice_rows(first_row, end_row), self.batches, batch_row_indexes
        )


def arrow_rows(rows: NestedRows) -> ArrowRows:
    """The rows to convert: inner rows with their batches if they exist, else outer rows."""
    if rows.inner is None:
        return ArrowRows(rows.outer)
    batch_row_indexes = np.repeat(np.arange(len(rows.outer)), np.diff(rows.inner_ends, prepend=0))
    return ArrowRows(rows.inner, rows.outer.table, batch_row_indexes)


def split_arrow_rows(rows: ArrowRows, max_rows: int = MAX_BATCH_ROWS) -> Iterator[ArrowRows]:
    """Split rows so that each part fits in Arrow's 32-bit offsets and a worker's memory."""
    table = rows.columnar_rows.table
    byte_counts = [
        table[f"{leaf.table_column}_size"].clip(0)
        for leaf in rows.columnar_rows.type.leaves
        if leaf.kind.is_byte_range
    ]
    byte_counts += [
        64 * table[leaf.table_column]
        for leaf in rows.columnar_rows.type.leaves
        if leaf.kind is ColumnKind.HEADERS
    ]
    cumulative_bytes = np.cumsum(sum(byte_counts, start=np.zeros(len(rows), np.int64)))
    first_row = 0
    while first_row < len(rows):
        previous_bytes = int(cumulative_bytes[first_row - 1]) if first_row else 0
        end_row = int(np.searchsorted(cumulative_bytes, previous_bytes + MAX_BATCH_BYTES, "right"))
        end_row = min(max(end_row, first_row + 1), first_row + max_rows, len(rows))
        yield rows.slice_rows(first_row, end_row)
        first_row = end_row


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
        shared_array = create_shared_column(column.name, len(rows))
        column_arrays.append(column_array(rows, column) if shared_array is None else shared_array)
    return pa.RecordBatch.from_arrays(column_arrays, schema=arrow_schema(selected_columns))


def column_array(rows: ArrowRows, column: Column) -> pa.Array:
    """A column as an array of its kind; null if the rows have no such column."""
    if not rows.has_column(column.table_column):
        return pa.nulls(len(rows), arrow_type(column))
    columnar_rows, column_values = rows.columnar_rows, rows[column.table_column]
    valid_mask = _validity_mask(rows, column, column_values)
    if column.kind.is_byte_range:
        sizes = rows[f"{column.table_column}_size"]
        if valid_mask is not None:
            sizes = np.where(valid_mask, sizes, -1)
        binary_array = arrays.binary_array(columnar_rows.data, column_values, sizes)
        return binary_array if column.kind is ColumnKind.BYTES else arrays.text_array(binary_array)
    if column.unit == MS_UNIT:
        return arrays.timestamp_array(column_values, valid_mask)
    if column.kind is ColumnKind.HEADERS:
        header_mask = np.ones(len(rows), np.bool_) if valid_mask is None else valid_mask
        first_headers = rows[f"{column.table_column}_first"]
        return arrays.header_array(
            columnar_rows.data, columnar_rows.children, first_headers, column_values, header_mask
        )
    if column.kind is ColumnKind.FLAG:
        return arrays.flag_array(column_values, valid_mask)
    if column.kind is ColumnKind.CHOICE:
        return arrays.choice_array(column_values, column.choices, valid_mask)
    return arrays.integer_array(column_values, arrow_type(column), valid_mask)


def _validity_mask(rows: ArrowRows, column: Column, column_values: IntArray) -> BoolArray | None:
    """Mask of rows with a value; None if all have one."""
    masks: list[BoolArray] = []
    if column.presence_column:
        masks.append(rows[column.presence_column] == 1)
    if column.present_if:
        masks.append(rows[column.present_if[0]] == column.present_if[1])
    if column.null_value is not None:
        masks.append(column_values != column.null_value)
    if not masks:
        return None
    valid_mask: BoolArray = np.logical_and.reduce(masks)
    return None if valid_mask.all() else valid_mask
