"""Rows as a table: aligned columns that fit the screen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.core.table import Table as Columns
from kfmt_cli.render.row_rendering import render_nested_rows, render_rows
from kfmt_cli.render.sinks.sink import DisplayOptions, FileHeading, OutputStreams, RowWriter
from kfmt_cli.render.style import format_count, format_hidden_columns
from kfmt_cli.render.tables import batch_table, generic_table, record_table
from kfmt_cli.render.tables.attribute_bits import draw_batch_bits
from kfmt_cli.render.tables.batch_table import DisplayedBatches
from kfmt_cli.render.tables.columns import (
    StreamedColumn,
    fit_columns,
    format_heading,
    write_row_line,
)
from kfmt_cli.render.template import TemplateBuilder, TemplateLiterals
from kfmt_cli.rows.columnar_rows import HEADER_COLUMN_BY_NAME, ColumnarRows, NestedRows
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.types.batch import BATCH_ROW


class TableRowWriter(RowWriter):
    """Writes rows of any type as a table, whose columns are as wide as the first rows need."""

    is_stateless = False

    def __init__(
        self, file_heading: FileHeading, display_options: DisplayOptions, streams: OutputStreams
    ) -> None:
        self.file_heading = file_heading
        self.display_options = display_options
        self.theme = streams.theme
        self.max_width = None if display_options.wide else streams.width
        self.columns_and_widths: list[tuple[StreamedColumn, int]] = []
        self.n_hidden_columns = 0
        self.n_outer_rows = 0
        self.n_inner_rows = 0
        self._rows_note = ""

    def render(self, rows: NestedRows, first_row: int, end_row: int) -> Iterator[memoryview]:
        outer_rows = rows.outer
        self._rows_note = outer_rows.note
        self.n_outer_rows += end_row - first_row
        is_first_chunk = not self.columns_and_widths
        if is_first_chunk:
            columns = generic_table.generic_columns(outer_rows.type, outer_rows.table)
            self.choose_columns(columns, outer_rows.table, self.max_width)
            yield memoryview(format_heading(self.columns_and_widths, self.theme).encode())
        builder = TemplateBuilder(outer_rows.table.index_by_name, theme=self.theme)
        write_row_line(builder, self.columns_and_widths, may_truncate=False)
        yield from render_rows(builder.build_template(), outer_rows, first_row, end_row)

    def choose_columns(
        self, columns: list[StreamedColumn], table: Columns, max_width: int | None
    ) -> None:
        """Choose the columns that fit `max_width`, as wide as these rows need and at least as wide
        as before."""
        previous_widths = {column.name: width for column, width in self.columns_and_widths}
        widths = [
            max(
                len(column.heading),
                column.compute_width(table),
                previous_widths.get(column.name, 0),
            )
            for column in columns
        ]
        self.columns_and_widths = fit_columns(columns, widths, max_width)
        self.n_hidden_columns = len(columns) - len(self.columns_and_widths)

    def closing_text(self) -> str:
        count_text = format_count(self.n_outer_rows, *self.file_heading.row_nouns) + " shown"
        if self._rows_note:
            count_text += f", {self._rows_note}"
        return self.format_footer([count_text])

    def format_footer(self, footer_lines: list[str]) -> str:
        """The dim lines below the table, with a note on hidden columns."""
        if self.n_hidden_columns:
            footer_lines.insert(0, format_hidden_columns(self.n_hidden_columns))
        return "".join(self.theme.paint("dim", footer_line) + "\n" for footer_line in footer_lines)


class BatchRowWriter(TableRowWriter):
    """Writes the table of batches, or the table of records with a line for each batch above its
    records."""

    _has_flags = False

    def render(self, rows: NestedRows, first_row: int, end_row: int) -> Iterator[memoryview]:
        if first_row >= end_row:
            return
        self.n_outer_rows += end_row - first_row
        if self.display_options.bits:
            for batch_index in range(first_row, end_row):
                yield memoryview(
                    draw_batch_bits(
                        rows.outer.table.as_type(BatchTable), batch_index, self.theme
                    ).encode()
                )
            return
        batches = batch_table.prepare_batches(rows.outer.table)
        if rows.inner is not None:
            yield from self._render_records(rows, batches, rows.inner, first_row, end_row)
        else:
            yield from self._render_batches(batches, first_row, end_row)

    def _render_batches(
        self, batches: DisplayedBatches, first_row: int, end_row: int
    ) -> Iterator[memoryview]:
        is_first_chunk = not self.columns_and_widths
        if is_first_chunk or self.max_width is None:
            sample_batches = self._with_estimated_last_row(batches) if is_first_chunk else batches
            max_width = self.max_width if not self.display_options.columns else None
            self.choose_columns(self._select_columns(batches), sample_batches, max_width)
        if is_first_chunk:
            yield memoryview(format_heading(self.columns_and_widths, self.theme).encode())
        self._has_flags |= any(
            bool(batches[flag][first_row:end_row].any()) for flag, _, _ in batch_table.BATCH_FLAGS
        )
        builder = TemplateBuilder(batches.index_by_name, theme=self.theme)
        write_row_line(builder, self.columns_and_widths, may_truncate=self.max_width is not None)
        yield from render_rows(
            builder.build_template(), ColumnarRows(BATCH_ROW, batches), first_row, end_row
        )

    def _select_columns(self, batches: DisplayedBatches) -> list[StreamedColumn]:
        columns: list[StreamedColumn] = [*batch_table.DEFAULT_COLUMNS]
        if self.display_options.columns:
            column_by_name = {
                column.name: column
                for column in (*batch_table.DEFAULT_COLUMNS, *batch_table.EXTRA_COLUMNS)
            }
            columns = [column_by_name[column_name] for column_name in self.display_options.columns]
        elif self.display_options.wide:
            columns = [
                *batch_table.DEFAULT_COLUMNS[:-1],
                *batch_table.EXTRA_COLUMNS,
                batch_table.DEFAULT_COLUMNS[-1],
            ]
        if self.max_width is None or batches.control.any():
            crc_column = batch_table.CRC_AND_MARKER_COLUMN
            columns = [
                crc_column if column.name == crc_column.name else column for column in columns
            ]
        return columns

    def _with_estimated_last_row(self, batches: DisplayedBatches) -> DisplayedBatches:
        """The batches plus an estimate of the file's last batch, so that columns stay aligned."""
        last_row = DisplayedBatches(batches.index_by_name, batches.data[:, -1:].copy())
        last_position = int(last_row.position[0])
        if self.file_heading.file_bytes is not None and last_position > 0:
            estimated_offset = int(last_row.last_offset[0]) * max(
                self.file_heading.file_bytes / last_position, 1
            )
            if estimated_offset < 1 << 62:
                last_row.position = self.file_heading.file_bytes
                last_row.base_offset = last_row.last_offset = int(estimated_offset)
        return DisplayedBatches(
            batches.index_by_name, np.concatenate([batches.data, last_row.data], axis=1)
        )

    def _render_records(
        self,
        rows: NestedRows,
        batches: DisplayedBatches,
        record_rows: ColumnarRows,
        first_row: int,
        end_row: int,
    ) -> Iterator[memoryview]:
        inner_start, inner_end = rows.inner_range(first_row, end_row)
        self.n_inner_rows += inner_end - inner_start
        bytes_mode, max_width = self.display_options.bytes_mode, self.max_width
        if not self.columns_and_widths:
            self.columns_and_widths = record_table.record_columns(
                record_rows, bytes_mode, max_width
            )
            yield memoryview(format_heading(self.columns_and_widths, self.theme).encode())
            self.n_hidden_columns = len(
                record_table.record_columns(record_rows, bytes_mode, None)
            ) - len(self.columns_and_widths)
        literals = TemplateLiterals()
        outer_template = record_table.batch_line_template(
            batches.index_by_name, self.theme, literals, max_width
        )
        builder = TemplateBuilder(
            record_rows.table.index_by_name, HEADER_COLUMN_BY_NAME, literals, theme=self.theme
        )
        write_row_line(builder, self.columns_and_widths, may_truncate=max_width is not None)
        template_and_batches = (outer_template, ColumnarRows(BATCH_ROW, batches))
        template_and_records = (builder.build_template(), record_rows)
        yield from render_nested_rows(
            template_and_batches, template_and_records, rows.inner_ends, first_row, end_row
        )

    def closing_text(self) -> str:
        count_text = format_count(self.n_outer_rows, "batch", "batches")
        if self.n_inner_rows:
            count_text += f", {format_count(self.n_inner_rows, 'record')}"
        footer_lines = [f"{count_text} shown"]
        flags_legend = batch_table.FLAGS_LEGEND
        shows_legend = self._has_flags and any(
            column.name == "flags" for column, _ in self.columns_and_widths
        )
        if shows_legend and len(flags_legend) <= (self.max_width or len(flags_legend)):
            footer_lines.insert(0, flags_legend)
        return self.format_footer(footer_lines)
