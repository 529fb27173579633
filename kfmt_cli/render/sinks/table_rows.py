"""Rows as a table: aligned columns that fit the screen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.core.native.table import Table as Columns
from kfmt_cli.render.sinks.sink import Head, Look, Out, RowWriter
from kfmt_cli.render.style import count, hidden_words
from kfmt_cli.render.tables import batch_table, generic, record_table
from kfmt_cli.render.tables.batch_table import ShownBatches
from kfmt_cli.render.tables.bits import batch_bits
from kfmt_cli.render.tables.columns import ShownColumn, fit, heading, write_line
from kfmt_cli.render.template import Literals, TemplateBuilder
from kfmt_cli.render.write import write_nested, write_rows
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.section import HEADER_NAMES, Rows, Section
from kfmt_cli.rows.types.batch import BATCH


class TableRows(RowWriter):
    """A table of rows of any type; its columns are as wide as the first rows need."""

    stateless = False

    def __init__(self, head: Head, look: Look, out: Out) -> None:
        self.head = head
        self.look = look
        self.theme = out.theme
        self.screen = None if look.wide else out.width
        self.columns: list[tuple[ShownColumn, int]] = []
        self.hidden = 0
        self.n_outer = 0
        self.n_inner = 0
        self._remark = ""

    def text(self, rows: Rows, first: int, last: int) -> Iterator[memoryview]:
        section = rows.outer
        self._remark = section.remark
        self.n_outer += last - first
        fresh = not self.columns
        if fresh:
            columns = generic.columns_of(section.type, section.table)
            self.choose(columns, section.table, self.screen)
            yield memoryview(heading(self.columns, self.theme).encode())
        builder = TemplateBuilder(section.table.names, theme=self.theme)
        write_line(builder, self.columns, cut=False)
        yield from write_rows(builder.build(), section, first, last)

    def choose(self, columns: list[ShownColumn], table: Columns, screen: int | None) -> None:
        """Choose the columns that fit, as wide as these rows need and at least as wide as
        before."""
        known = {column.name: width for column, width in self.columns}
        widths = [
            max(len(column.heading), column.width(table), known.get(column.name, 0))
            for column in columns
        ]
        self.columns = fit(columns, widths, screen)
        self.hidden = len(columns) - len(self.columns)

    def end(self) -> str:
        words = count(self.n_outer, *self.head.nouns) + " shown"
        if self._remark:
            words += f", {self._remark}"
        return self.last_lines([words])

    def last_lines(self, lines: list[str]) -> str:
        """Dim lines below the table."""
        if self.hidden:
            lines.insert(0, hidden_words(self.hidden))
        return "".join(self.theme.paint("dim", line) + "\n" for line in lines)


class BatchRows(TableRows):
    """The table of batches, or of records with a dim line above those of each batch."""

    _flags = False

    def text(self, rows: Rows, first: int, last: int) -> Iterator[memoryview]:
        if first >= last:
            return
        self.n_outer += last - first
        if self.look.bits:
            for i in range(first, last):
                yield memoryview(
                    batch_bits(rows.outer.table.typed(BatchTable), i, self.theme).encode()
                )
            return
        batches = batch_table.prepared(rows.outer.table)
        if rows.inner is not None:
            yield from self._records(rows, batches, rows.inner, first, last)
        else:
            yield from self._batches(batches, first, last)

    def _batches(self, batches: ShownBatches, first: int, last: int) -> Iterator[memoryview]:
        fresh = not self.columns
        if fresh or self.screen is None:
            ahead = self._ahead(batches) if fresh else batches
            narrow = self.screen if not self.look.columns else None
            self.choose(self._wanted(batches), ahead, narrow)
        if fresh:
            yield memoryview(heading(self.columns, self.theme).encode())
        self._flags |= any(
            bool(batches[flag][first:last].any()) for flag, _, _ in batch_table.FLAGS
        )
        builder = TemplateBuilder(batches.names, theme=self.theme)
        write_line(builder, self.columns, cut=self.screen is not None)
        yield from write_rows(builder.build(), Section(BATCH, batches), first, last)

    def _wanted(self, batches: ShownBatches) -> list[ShownColumn]:
        columns: list[ShownColumn] = [*batch_table.DEFAULT]
        if self.look.columns:
            every = {
                shown_column.name: shown_column
                for shown_column in (*batch_table.DEFAULT, *batch_table.MORE)
            }
            columns = [every[name] for name in self.look.columns]
        elif self.look.wide:
            columns = [*batch_table.DEFAULT[:-1], *batch_table.MORE, batch_table.DEFAULT[-1]]
        if self.screen is None or batches.control.any():
            marked = batch_table.CRC_AND_MARKER
            columns = [marked if column.name == marked.name else column for column in columns]
        return columns

    def _ahead(self, batches: ShownBatches) -> ShownBatches:
        """The rows plus an estimate of the file's last row, so that columns stay aligned."""
        last = ShownBatches(batches.names, batches.data[:, -1:].copy())
        position = int(last.position[0])
        if self.head.size is not None and position > 0:
            grown = int(last.last_offset[0]) * max(self.head.size / position, 1)
            if grown < 1 << 62:
                last.position = self.head.size
                last.base_offset = last.last_offset = int(grown)
        return ShownBatches(batches.names, np.concatenate([batches.data, last.data], axis=1))

    def _records(
        self, rows: Rows, batches: ShownBatches, inner: Section, first: int, last: int
    ) -> Iterator[memoryview]:
        start, end = rows.bounds(first, last)
        self.n_inner += end - start
        mode, screen = self.look.mode, self.screen
        if not self.columns:
            self.columns = record_table.columns_of(inner, mode, screen)
            yield memoryview(heading(self.columns, self.theme).encode())
            self.hidden = len(record_table.columns_of(inner, mode, None)) - len(self.columns)
        literals = Literals()
        outer = record_table.outer_template(batches.names, self.theme, literals, screen)
        builder = TemplateBuilder(inner.table.names, HEADER_NAMES, literals, theme=self.theme)
        write_line(builder, self.columns, cut=screen is not None)
        above, below = (outer, Section(BATCH, batches)), (builder.build(), inner)
        yield from write_nested(above, below, rows.ends, first, last)

    def end(self) -> str:
        words = count(self.n_outer, "batch", "batches")
        if self.n_inner:
            words += f", {count(self.n_inner, 'record')}"
        lines = [f"{words} shown"]
        legend = batch_table.LEGEND
        with_flags = self._flags and any(column.name == "flags" for column, _ in self.columns)
        if with_flags and len(legend) <= (self.screen or len(legend)):
            lines.insert(0, legend)
        return self.last_lines(lines)
