"""The table for row types that have no table of their own: one column per leaf of the type."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import numpy as np

from kfmt_cli.core.layout.field import BYTE_UNIT, BYTES_UNIT, MS_UNIT, OFFSET_UNIT
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import Table
from kfmt_cli.core.times import YEAR_10000_MS
from kfmt_cli.render.tables.batch_table import TIME_WIDTH
from kfmt_cli.render.tables.columns import StreamedColumn, number_width, write_when_equal_or_dash
from kfmt_cli.render.template import TemplateBuilder
from kfmt_cli.rows.column import Column, ColumnKind, RowType

LONG_TIME_WIDTH = 32
# Style of numbers, by unit.
STYLE_BY_UNIT = {BYTE_UNIT: "dim", OFFSET_UNIT: "offset"}
GROUPED_UNITS = (BYTE_UNIT, BYTES_UNIT)
MAX_TEXT_WIDTH = 60


def generic_columns(row_type: RowType, table: Table) -> list[StreamedColumn]:
    """The columns to show: not the hidden ones, whose content another column shows in a readable
    form, such as absolute instead of relative offsets.

    Columns that only some rows have are omitted if no row has them.
    """
    visible_columns = [
        leaf
        for leaf in row_type.leaves
        if not leaf.is_hidden
        and (leaf.present_if is None or (table[leaf.present_if[0]] == leaf.present_if[1]).any())
    ]
    return [
        _streamed_column(column, column_index + column.is_minor * len(visible_columns))
        for column_index, column in enumerate(visible_columns)
    ]


def _streamed_column(column: Column, hide_rank: int) -> StreamedColumn:
    heading = column.heading or column.name.replace("_", " ")
    is_time = column.unit == MS_UNIT
    return StreamedColumn(
        column.name,
        f"{heading} (UTC)" if is_time else heading,
        partial(_cell_width, column),
        partial(_write_cell, column),
        hide_rank,
        align_right=not is_time and column.kind in (ColumnKind.NUMBER, ColumnKind.REAL),
        style=STYLE_BY_UNIT.get(column.unit or "", ""),
    )


def _write_cell(column: Column, builder: TemplateBuilder) -> None:
    presence_condition = column.present_if or (
        (column.presence_column, 1) if column.presence_column else None
    )
    null_value = -1 if column.unit == MS_UNIT else column.null_value
    with ExitStack() as condition_stack:
        if presence_condition is not None:
            condition_stack.enter_context(write_when_equal_or_dash(builder, *presence_condition))
        if null_value is not None:
            condition_stack.enter_context(builder.unless_null(column.table_column, null_value))
        _write_column_value(builder, column)


def _write_column_value(builder: TemplateBuilder, column: Column) -> None:
    if column.unit == MS_UNIT:
        builder.write_time(column.table_column)
    elif column.kind is ColumnKind.FLAG:
        builder.write_choice(column.table_column, ["no", "yes"], ("", ""))
    elif column.kind is ColumnKind.CHOICE:
        builder.write_choice(column.table_column, list(column.choices), ("unknown-", ""))
    elif column.kind.is_byte_range:
        bytes_mode = "auto" if column.kind is ColumnKind.BYTES else "utf8"
        with builder.unless_null(f"{column.table_column}_size", -1, "null"):
            builder.write_text_preview(column.table_column, bytes_mode, MAX_TEXT_WIDTH)
    elif column.unit in GROUPED_UNITS:
        builder.write_grouped_number(column.table_column)
    else:
        builder.write_number(column.table_column)


def _cell_width(column: Column, table: Table) -> int:
    """The width that the column needs for these rows."""
    if column.unit == MS_UNIT:
        absolute_times_ms: IntArray = np.abs(table[column.table_column])
        return LONG_TIME_WIDTH if (absolute_times_ms >= YEAR_10000_MS).any() else TIME_WIDTH
    if column.kind is ColumnKind.FLAG:
        return len("yes")
    if column.kind is ColumnKind.CHOICE:
        return max(map(len, column.choices), default=0)
    if not column.kind.is_byte_range:
        return number_width(table[column.table_column], column.unit in GROUPED_UNITS)
    max_bytes = int(table[f"{column.table_column}_size"].max()) if len(table) else 0
    return max(min(max_bytes, MAX_TEXT_WIDTH), len("null"))
