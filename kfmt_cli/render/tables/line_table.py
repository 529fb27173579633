"""A table whose rows are all known before the first is shown: a name and some cells per row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kfmt_cli.render.style import COLUMN_GAP, Theme, escape_unprintable

RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class LineColumn(Generic[RowT]):
    """A column of a LineTable."""

    heading: str
    format_cell: Callable[[RowT], str]
    hide_rank: int = 0
    """Columns with higher numbers are hidden first on a narrow screen; 0 is always shown."""
    align_right: bool = True
    cell_style: Callable[[RowT], str] | None = None
    """The style of a row's cell."""


class LineTable(Generic[RowT]):
    """Aligned lines with as many columns as fit the screen.

    noun: heading of the names. max_width: columns of the screen, None if unlimited.
    min_name_width: width reserved for the name before columns are hidden; None for the full width
    of the longest name.
    """

    def __init__(
        self,
        name_heading: str,
        named_rows: Sequence[tuple[str, RowT]],
        columns: Sequence[LineColumn[RowT]],
        theme: Theme,
        max_width: int | None,
        min_name_width: int | None = None,
    ) -> None:
        self._name_heading = name_heading
        self._theme = theme
        full_name_width = max(
            [len(name_heading), *(len(escape_unprintable(name)) for name, _ in named_rows)]
        )
        self._columns_and_widths = [
            (
                column,
                max(
                    [len(column.heading), *(len(column.format_cell(row)) for _, row in named_rows)]
                ),
            )
            for column in columns
        ]
        min_width = (
            full_name_width if min_name_width is None else min(full_name_width, min_name_width)
        )
        self.n_hidden_columns = 0
        """Number of columns that do not fit the screen."""
        while max_width is not None and self._cells_width() + min_width > max_width:
            least_important_column = max(
                self._columns_and_widths, key=lambda pair: pair[0].hide_rank
            )
            if not least_important_column[0].hide_rank:
                break
            self._columns_and_widths.remove(least_important_column)
            self.n_hidden_columns += 1
        remaining_width = full_name_width if max_width is None else max_width - self._cells_width()
        self._name_width = min(full_name_width, max(remaining_width, min_name_width or 8))

    def _cells_width(self) -> int:
        """The width of a line without the name."""
        return 1 + sum(width + COLUMN_GAP for _, width in self._columns_and_widths)

    def format_heading(self) -> str:
        """The line above the rows."""
        cells = [
            self._pad_cell(column.heading, width, column.align_right)
            for column, width in self._columns_and_widths
        ]
        return self._theme.paint("bold", self._join_cells(self._name_heading, cells)) + "\n"

    def format_line(self, row_name: str, row: RowT) -> str:
        """A row's line."""
        cells = []
        for column, width in self._columns_and_widths:
            cell_text = column.format_cell(row)
            padded_cell = self._pad_cell(cell_text, width, column.align_right)
            if column.cell_style is not None and cell_text:
                padded_cell = padded_cell.replace(
                    cell_text, self._theme.paint(column.cell_style(row), cell_text)
                )
            cells.append(padded_cell)
        return self._join_cells(escape_unprintable(row_name), cells) + "\n"

    def _join_cells(self, row_name: str, cells: list[str]) -> str:
        """The name and the cells on one line; a name that is too long is on a line of its own, so
        that users can copy it."""
        name_width = self._name_width
        name_line = f" {row_name}\n" if len(row_name) > name_width else ""
        return (
            name_line
            + (" " * COLUMN_GAP)
            .join([f" {'' if name_line else row_name:<{name_width}}", *cells])
            .rstrip()
        )

    @staticmethod
    def _pad_cell(cell_text: str, width: int, align_right: bool) -> str:
        return cell_text.rjust(width) if align_right else cell_text.ljust(width)
