"""CSV: rows with a heading, which stands again where rows of another type follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kfmt_cli.core.json_text import json_text
from kfmt_cli.render.csv_text import csv_line
from kfmt_cli.render.sinks.sink import Head, RowWriter, Sink
from kfmt_cli.rows.result import Result

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType


class Csv(Sink):
    """CSV on standard output, findings on standard error."""

    writes_packs = True
    mixes_types = False
    _heading = ""

    def _head(self, names: Iterable[str]) -> None:
        """The line above rows, where it is not that of the rows before them."""
        line = csv_line(names)
        if line != self._heading:
            self.put(line)
            self._heading = line

    def rows(self, head: Head, outer: RowType, inner: RowType | None = None) -> RowWriter:
        return self.rows_of_files([head.file], outer, inner)

    def rows_of_files(
        self, files: Sequence[str], outer: RowType, inner: RowType | None = None
    ) -> RowWriter:
        from kfmt_cli.render.sinks.csv_rows import CsvRows
        from kfmt_cli.render.templates import csv_names

        self._head(csv_names(inner or outer))
        return CsvRows(files, self.look.mode)

    def result(self, result: Result) -> None:
        self._head(result.type.names)
        self.put(csv_line(result.row().values()))

    def document(self, type_: str, row: dict[str, object], lines: Iterable[str]) -> None:
        del type_, lines
        self._head(row)
        self.put(csv_line(map(_cell, row.values())))


def _cell(value: object) -> object:
    """A value as one cell; what has parts becomes JSON."""
    return value if value is None or isinstance(value, str | int) else json_text(value)
