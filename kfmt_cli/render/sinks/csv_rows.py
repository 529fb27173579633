"""Rows as CSV, by compiled templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from kfmt_cli.render.sinks.sink import RowWriter
from kfmt_cli.render.template import Template
from kfmt_cli.render.templates import csv_template
from kfmt_cli.render.write import write_rows
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.section import Rows


class CsvRows(RowWriter):
    """The rows of one or more files; inner rows only, if there are any.

    only_outer: the outer rows instead.
    """

    def __init__(self, files: Sequence[str], mode: str, *, only_outer: bool = False) -> None:
        self._files = files
        self._only_outer = only_outer
        self._mode = mode
        self._templates = cache(self._make_template)

    def _make_template(self, rows: RowType, names: tuple[str, ...]) -> Template:
        places = {name: i for i, name in enumerate(names)}
        return csv_template(rows, self._files, places, self._mode)

    def text(self, rows: Rows, first: int, last: int) -> Iterator[memoryview]:
        section = rows.outer
        if rows.inner is not None and not self._only_outer:
            section = rows.inner
            first, last = rows.bounds(first, last)
        template = self._templates(section.type, tuple(section.table.names))
        return write_rows(template, section, first, last)
