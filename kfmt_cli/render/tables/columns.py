"""Columns of a streamed table: widths, contents, and the choice of columns that fit the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.render.style import COLUMN_GAP, Theme
from kfmt_cli.render.template import TemplateBuilder


@dataclass(frozen=True, slots=True)
class StreamedColumn:
    """A column of a table."""

    name: str
    heading: str
    compute_width: Callable[[Any], int]
    """The width that the column needs for some rows. Called with the rows' Table."""
    write_cell: Callable[[TemplateBuilder], None]
    """Adds the cell of a row to a template."""
    hide_rank: int
    """Columns with higher ranks are hidden first on a narrow screen."""
    align_right: bool = False
    style: str = ""
    """The style of heading and cell."""
    may_truncate: bool = False
    """A cell may be shortened to the width of the column; False if its colour changes inside."""
    hide_if_zero: str = ""
    """The name of a column of the rows; where it is 0, nothing is written, not even spaces."""


@contextmanager
def write_when_equal_or_dash(
    builder: TemplateBuilder, column_name: str, expected_value: int = 1
) -> Iterator[None]:
    """Write the block in rows where a column is `expected_value`, a dash in others."""
    with builder.when_equal(column_name, expected_value):
        yield
    with builder.unless_equal(column_name, expected_value):
        builder.write_literal("–")


def number_width(numbers: IntArray, is_grouped: bool = False) -> int:
    """Width of the widest of these numbers. is_grouped: with separated thousands."""
    if not len(numbers):
        return 1
    max_width = max(len(str(int(value))) for value in (numbers.max(), numbers.min()))
    if is_grouped:
        max_width = max(len(f"{int(value):,}") for value in (numbers.max(), numbers.min()))
    return max_width


def fit_columns(
    columns: Sequence[StreamedColumn], column_widths: Sequence[int], max_width: int | None
) -> list[tuple[StreamedColumn, int]]:
    """The columns that fit the screen, with their widths; those with the highest hide rank are
    dropped first."""
    fitting_columns = list(zip(columns, column_widths, strict=True))
    if max_width is None:
        return fitting_columns
    while len(fitting_columns) > 1 and line_width(fitting_columns) > max_width:
        fitting_columns.remove(max(fitting_columns, key=lambda pair: pair[0].hide_rank))
    return fitting_columns


def line_width(columns: Sequence[tuple[StreamedColumn, int]]) -> int:
    """The width of a complete line."""
    return 1 + sum(width for _, width in columns) + COLUMN_GAP * (len(columns) - 1)


def format_heading(columns: Sequence[tuple[StreamedColumn, int]], theme: Theme) -> str:
    """The line above the rows."""
    cells = [
        column.heading.rjust(width) if column.align_right else column.heading.ljust(width)
        for column, width in columns
    ]
    return theme.paint("bold", (" " + (" " * COLUMN_GAP).join(cells)).rstrip()) + "\n"


def write_row_line(
    builder: TemplateBuilder, columns: Sequence[tuple[StreamedColumn, int]], may_truncate: bool
) -> None:
    """Write a row: its cells side by side, the last without trailing spaces."""
    for column_index, (column, width) in enumerate(columns):
        with ExitStack() as condition_stack:
            if column.hide_if_zero:
                condition_stack.enter_context(builder.unless_equal(column.hide_if_zero, 0))
            builder.write_literal(" " * (COLUMN_GAP if column_index else 1))
            style_sequence = builder.theme.escape_sequence(column.style)
            builder.write_literal(style_sequence, 0)
            is_padded = (
                column.align_right
                or column_index < len(columns) - 1
                or (may_truncate and column.may_truncate)
            )
            with builder.fit_cell(
                width if is_padded else 0,
                align_right=column.align_right,
                may_truncate=may_truncate and column.may_truncate,
            ):
                column.write_cell(builder)
            builder.write_literal(builder.theme.reset if style_sequence else "", 0)
    builder.write_literal("\n", 0)
