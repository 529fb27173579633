"""Rows as CSV, by compiled templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from kfmt_cli.render.row_rendering import render_rows
from kfmt_cli.render.row_templates import csv_template
from kfmt_cli.render.sinks.sink import RowWriter
from kfmt_cli.render.template import Template
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.columnar_rows import NestedRows


class CsvRowWriter(RowWriter):
    """Writes the rows of one or more files: only the inner rows, or the outer rows if there are no
    inner ones.

    only_outer: write the outer rows even if there are inner ones.
    """

    def __init__(
        self, files: Sequence[str], bytes_mode: str, *, writes_only_outer: bool = False
    ) -> None:
        self._files = files
        self._writes_only_outer = writes_only_outer
        self._bytes_mode = bytes_mode
        self._cached_template = cache(self._build_template)

    def _build_template(self, row_type: RowType, column_names: tuple[str, ...]) -> Template:
        column_indexes = {name: i for i, name in enumerate(column_names)}
        return csv_template(row_type, self._files, column_indexes, self._bytes_mode)

    def render(self, rows: NestedRows, first_row: int, end_row: int) -> Iterator[memoryview]:
        selected_rows = rows.outer
        if rows.inner is not None and not self._writes_only_outer:
            selected_rows = rows.inner
            first_row, end_row = rows.inner_range(first_row, end_row)
        template = self._cached_template(
            selected_rows.type, tuple(selected_rows.table.index_by_name)
        )
        return render_rows(template, selected_rows, first_row, end_row)
