"""Rows as JSON Lines, by compiled templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from kfmt_cli.core.table import Table
from kfmt_cli.render.row_rendering import render_nested_rows, render_rows
from kfmt_cli.render.row_templates import json_template
from kfmt_cli.render.sinks.sink import RowWriter
from kfmt_cli.render.template import Template, TemplateLiterals
from kfmt_cli.rows.column import ColumnKind, RowType
from kfmt_cli.rows.columnar_rows import NestedRows

ConstantColumns = tuple[tuple[str, int], ...]


class JsonRowWriter(RowWriter):
    """Writes the rows of one file, or of several files that the rows refer to by `file_number`."""

    def __init__(self, files: Sequence[str], bytes_mode: str, inner_type: RowType | None) -> None:
        self._files = files
        self._bytes_mode = bytes_mode
        self._often_constant_names = (
            () if inner_type is None else often_constant_columns(inner_type)
        )
        self._cached_templates = cache(self._build_templates)

    def _build_templates(
        self,
        outer_type: RowType,
        inner_type: RowType | None,
        constant_columns: ConstantColumns,
        column_names: tuple[tuple[str, ...], ...],
    ) -> tuple[Template, Template | None]:
        literals = TemplateLiterals()
        column_indexes = [{name: i for i, name in enumerate(columns)} for columns in column_names]
        outer_template = json_template(
            outer_type, self._files, column_indexes[0], self._bytes_mode, literals
        )
        if inner_type is None:
            return outer_template, None
        inner_template = json_template(
            inner_type,
            self._files,
            column_indexes[1],
            self._bytes_mode,
            literals,
            dict(constant_columns),
        )
        return outer_template, inner_template

    def render(self, rows: NestedRows, first_row: int, end_row: int) -> Iterator[memoryview]:
        outer_rows, inner_rows = rows.outer, rows.inner
        if inner_rows is None:
            template, _ = self._cached_templates(
                outer_rows.type, None, (), (tuple(outer_rows.table.index_by_name),)
            )
            return render_rows(template, outer_rows, first_row, end_row)
        column_names = tuple(outer_rows.table.index_by_name), tuple(inner_rows.table.index_by_name)
        constant_columns = find_constant_columns(inner_rows.table, self._often_constant_names)
        outer_template, inner_template = self._cached_templates(
            outer_rows.type, inner_rows.type, constant_columns, column_names
        )
        assert inner_template is not None
        return render_nested_rows(
            (outer_template, outer_rows),
            (inner_template, inner_rows),
            rows.inner_ends,
            first_row,
            end_row,
        )


def often_constant_columns(row_type: RowType) -> tuple[str, ...]:
    """Columns whose value is usually constant within a block, so that a template is built for that
    value."""
    column_names: dict[str, None] = {}
    for leaf in row_type.leaves:
        if leaf.presence_column:
            column_names[leaf.presence_column] = None
        if leaf.present_if:
            column_names[leaf.present_if[0]] = None
        if leaf.kind in (ColumnKind.CHOICE, ColumnKind.HEADERS) or leaf.null_value is not None:
            column_names[leaf.table_column] = None
    return tuple(column_names)


def find_constant_columns(table: Table, column_names: tuple[str, ...]) -> ConstantColumns:
    """The columns among `column_names` that contain a single value, each with that value.

    Only values from -1 to 2 count: with others, almost every block would need its own templates.
    """
    if not len(table):
        return ()
    constant_columns = []
    for column_name in column_names:
        column_values = table[column_name]
        constant_value = int(column_values[0])
        if (
            -1 <= constant_value <= 2
            and column_values[-1] == constant_value
            and (column_values == constant_value).all()
        ):
            constant_columns.append((column_name, constant_value))
    return tuple(constant_columns)
