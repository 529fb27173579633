"""The table of row types without one of their own: one column for each of theirs."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import numpy as np

from kfmt_cli.core.layout.field import BYTE, BYTES, MILLISECONDS, OFFSET
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import Table
from kfmt_cli.core.times import YEAR_10000
from kfmt_cli.render.tables.batch_table import TIME_WIDTH
from kfmt_cli.render.tables.columns import ShownColumn, digits, or_dash
from kfmt_cli.render.template import TemplateBuilder
from kfmt_cli.rows.column import Column, ColumnKind, RowType

LONG_TIME = 32
# Style of numbers, by unit.
STYLES = {BYTE: "dim", OFFSET: "offset"}
GROUPED = (BYTE, BYTES)
MOST_TEXT = 60


def columns_of(rows: RowType, table: Table) -> list[ShownColumn]:
    """The columns to show; offsets relative to the base are shown as absolute offsets.

    Columns that only some rows have are omitted if no row has them.
    """
    chosen = [
        leaf
        for leaf in rows.leaves
        if not leaf.hidden and (leaf.only is None or (table[leaf.only[0]] == leaf.only[1]).any())
    ]
    return [
        _column(column, keep + column.minor * len(chosen)) for keep, column in enumerate(chosen)
    ]


def _column(shown: Column, keep: int) -> ShownColumn:
    title = shown.heading or shown.name.replace("_", " ")
    is_time = shown.unit == MILLISECONDS
    return ShownColumn(
        shown.name,
        f"{title} (UTC)" if is_time else title,
        partial(_width, shown),
        partial(_write, shown),
        keep,
        right=not is_time and shown.kind in (ColumnKind.NUMBER, ColumnKind.REAL),
        style=STYLES.get(shown.unit or "", ""),
    )


def _write(shown: Column, builder: TemplateBuilder) -> None:
    condition = shown.only or ((shown.given, 1) if shown.given else None)
    none = -1 if shown.unit == MILLISECONDS else shown.none
    with ExitStack() as conditions:
        if condition is not None:
            conditions.enter_context(or_dash(builder, *condition))
        if none is not None:
            conditions.enter_context(builder.unless_none(shown.at, none))
        _write_value(builder, shown)


def _write_value(builder: TemplateBuilder, shown: Column) -> None:
    if shown.unit == MILLISECONDS:
        builder.time(shown.at)
    elif shown.kind is ColumnKind.FLAG:
        builder.choice(shown.at, ["no", "yes"], ("", ""))
    elif shown.kind is ColumnKind.CHOICE:
        builder.choice(shown.at, list(shown.words), ("unknown-", ""))
    elif shown.kind.is_bytes:
        mode = "auto" if shown.kind is ColumnKind.BYTES else "utf8"
        with builder.unless_none(f"{shown.at}_size", -1, "null"):
            builder.cell_text(shown.at, mode, MOST_TEXT)
    elif shown.unit in GROUPED:
        builder.grouped(shown.at)
    else:
        builder.number(shown.at)


def _width(shown: Column, table: Table) -> int:
    """Columns that a cell takes in these rows."""
    if shown.unit == MILLISECONDS:
        far: IntArray = np.abs(table[shown.at])
        return LONG_TIME if (far >= YEAR_10000).any() else TIME_WIDTH
    if shown.kind is ColumnKind.FLAG:
        return len("yes")
    if shown.kind is ColumnKind.CHOICE:
        return max(map(len, shown.words), default=0)
    if not shown.kind.is_bytes:
        return digits(table[shown.at], shown.unit in GROUPED)
    longest = int(table[f"{shown.at}_size"].max()) if len(table) else 0
    return max(min(longest, MOST_TEXT), len("null"))
