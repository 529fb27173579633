"""A table whose rows are all known before the first is shown: a name, and a cell per column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kfmt_cli.render.style import GAP, Theme, safe

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LineColumn(Generic[R]):
    """A column of a LineTable."""

    heading: str
    cell: Callable[[R], str]
    keep: int = 0
    """Columns with higher numbers are hidden first on a narrow screen; 0 is always shown."""
    right: bool = True
    style: Callable[[R], str] | None = None
    """The style of a row's cell."""


class LineTable(Generic[R]):
    """Aligned lines with as many columns as fit the screen.

    noun: describes a row. room: the screen's columns, None if unlimited. least_name: columns kept
    for the name before others are hidden; without it, all that the name needs.
    """

    def __init__(
        self,
        noun: str,
        rows: Sequence[tuple[str, R]],
        columns: Sequence[LineColumn[R]],
        theme: Theme,
        room: int | None,
        least_name: int | None = None,
    ) -> None:
        self._noun = noun
        self._theme = theme
        names = max([len(noun), *(len(safe(name)) for name, _ in rows)])
        self._columns = [
            (column, max([len(column.heading), *(len(column.cell(row)) for _, row in rows)]))
            for column in columns
        ]
        least = names if least_name is None else min(names, least_name)
        self.n_hidden = 0
        """Number of columns that do not fit the screen."""
        while room is not None and self._width() + least > room:
            last = max(self._columns, key=lambda pair: pair[0].keep)
            if not last[0].keep:
                break
            self._columns.remove(last)
            self.n_hidden += 1
        left = names if room is None else room - self._width()
        self._name_width = min(names, max(left, least_name or 8))

    def _width(self) -> int:
        """Width of a line without the name."""
        return 1 + sum(width + GAP for _, width in self._columns)

    def heading(self) -> str:
        """The line above the rows."""
        cells = [
            self._padded(column.heading, width, column.right) for column, width in self._columns
        ]
        return self._theme.paint("bold", self._line(self._noun, cells)) + "\n"

    def line(self, name: str, row: R) -> str:
        """A row's line."""
        cells = []
        for column, width in self._columns:
            plain = column.cell(row)
            cell = self._padded(plain, width, column.right)
            if column.style is not None and plain:
                cell = cell.replace(plain, self._theme.paint(column.style(row), plain))
            cells.append(cell)
        return self._line(safe(name), cells) + "\n"

    def _line(self, name: str, cells: list[str]) -> str:
        """A line, or two if the name is too long; it then gets its own, so that it can be
        pasted."""
        width = self._name_width
        above = f" {name}\n" if len(name) > width else ""
        return above + (" " * GAP).join([f" {'' if above else name:<{width}}", *cells]).rstrip()

    @staticmethod
    def _padded(text: str, width: int, right: bool) -> str:
        return text.rjust(width) if right else text.ljust(width)
