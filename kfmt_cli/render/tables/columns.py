"""Columns of a streamed table: their widths, contents, and which of them fit the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.render.style import GAP, Theme
from kfmt_cli.render.template import TemplateBuilder


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column of a table."""

    name: str
    heading: str
    width: Callable[[Any], int]
    """Width in columns that the rows of its kind of Table need."""
    write: Callable[[TemplateBuilder], None]
    """Puts one row's cell into a template."""
    keep: int
    """Columns with lower numbers survive longer on a narrow screen."""
    right: bool = False
    style: str = ""
    """The style of heading and cell."""
    cut: bool = False
    """A cell may be shortened to its width (not if it changes colour inside)."""
    unless_zero: str = ""
    """A column of the rows; if it is 0, nothing is written, not even space."""


@contextmanager
def or_dash(builder: TemplateBuilder, name: str, value: int = 1) -> Iterator[None]:
    """Write the block in rows where a column is `value`, a dash in others."""
    with builder.when(name, value):
        yield
    with builder.unless(name, value):
        builder.literal("–")


def digits(values: IntArray, apart: bool = False) -> int:
    """Columns that the widest of these numbers takes."""
    if not len(values):
        return 1
    widest = max(len(str(int(value))) for value in (values.max(), values.min()))
    if apart:
        widest = max(len(f"{int(value):,}") for value in (values.max(), values.min()))
    return widest


def fit(
    columns: Sequence[ShownColumn], widths: Sequence[int], screen: int | None
) -> list[tuple[ShownColumn, int]]:
    """The columns that fit the screen; the least important are dropped first."""
    chosen = list(zip(columns, widths, strict=True))
    if screen is None:
        return chosen
    while len(chosen) > 1 and total_width(chosen) > screen:
        chosen.remove(max(chosen, key=lambda pair: pair[0].keep))
    return chosen


def total_width(chosen: Sequence[tuple[ShownColumn, int]]) -> int:
    """Columns of a complete line."""
    return 1 + sum(width for _, width in chosen) + GAP * (len(chosen) - 1)


def heading(chosen: Sequence[tuple[ShownColumn, int]], theme: Theme) -> str:
    """The line above the rows."""
    cells = [
        column.heading.rjust(width) if column.right else column.heading.ljust(width)
        for column, width in chosen
    ]
    return theme.paint("bold", (" " + (" " * GAP).join(cells)).rstrip()) + "\n"


def write_line(
    builder: TemplateBuilder, chosen: Sequence[tuple[ShownColumn, int]], cut: bool
) -> None:
    """Write a row: its cells side by side, the last without trailing spaces."""
    for i, (column, width) in enumerate(chosen):
        with ExitStack() as condition:
            if column.unless_zero:
                condition.enter_context(builder.unless(column.unless_zero, 0))
            builder.literal(" " * (GAP if i else 1))
            style = builder.theme.code(column.style)
            builder.literal(style, 0)
            padded = column.right or i < len(chosen) - 1 or (cut and column.cut)
            with builder.cell(width if padded else 0, right=column.right, cut=cut and column.cut):
                column.write(builder)
            builder.literal(builder.theme.reset if style else "", 0)
    builder.literal("\n", 0)
