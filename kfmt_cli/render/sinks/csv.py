"""CSV: one table with a heading. Rows of other types are omitted, with a note naming the type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kfmt_cli.disk.partition_path import with_place
from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.render.csv_text import csv_line
from kfmt_cli.render.sinks.sink import Head, Look, NoRows, Out, RowWriter, Sink
from kfmt_cli.rows.column import Placed
from kfmt_cli.rows.documents import FINDING, FINDINGS_LEFT_OUT, members
from kfmt_cli.rows.result import Result, ResultType
from kfmt_cli.rows.types.finding_row import finding_row, left_out_row

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType

OF_RESULTS = "file"  # the type of a file's result


class Csv(Sink):
    """CSV on standard output, findings on standard error unless they are the table.

    The table is the one named by --table, or the type of the first row.
    """

    writes_packs = True
    mixes_types = False

    def __init__(self, out: Out, look: Look | None = None) -> None:
        super().__init__(out, look)
        self._table = self.look.table
        self._heading = ""
        self._left_out: set[str] = set()

    def _holds(self, name: str) -> bool:
        """Whether the table contains rows of this type; notes each omitted type once."""
        self._table = self._table or name
        if name != self._table and name not in self._left_out:
            self._left_out.add(name)
            if not self.look.table:
                words = f"{name} omitted; use --table {name} to write it"
                self.note(f"kfmt: CSV holds one table: {words}\n")
        return name == self._table

    def _head(self, names: Iterable[str]) -> None:
        """Write the heading unless it repeats the last one."""
        line = csv_line(names)
        if line != self._heading:
            self.put(line)
            self._heading = line

    def rows(self, head: Head, outer: RowType, inner: RowType | None = None) -> RowWriter:
        from kfmt_cli.render.sinks.csv_rows import CsvRows
        from kfmt_cli.render.templates import csv_names

        only_outer = self.look.table == outer.name
        type_ = outer if only_outer or inner is None else inner
        if not self._holds(type_.name):
            return NoRows()
        self._head(csv_names(type_))
        files = head.files or (head.file,)
        return CsvRows(files, self.look.mode, only_outer=only_outer)

    def finding(self, finding: Finding) -> None:
        if self._table == FINDING.name:
            self.document(FINDING, finding_row(finding), ())
        else:
            self.note_finding(finding)

    def left_out(self, file: str, code: Code, number: int) -> None:
        if self._table == FINDINGS_LEFT_OUT.name:
            self.document(FINDINGS_LEFT_OUT, left_out_row(file, code, number), ())
        else:
            self.note_left_out(code, number)

    def results(self, type_: ResultType) -> None:
        del type_
        self._table = self._table or OF_RESULTS

    def result(self, result: Result) -> None:
        if self._holds(OF_RESULTS):
            row = with_place(result.row(), Placed.FILE)
            self._head(row)
            self.put(csv_line(row.values()))

    def document(self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]) -> None:
        del lines
        if self._holds(type_.name):
            cells = with_place(members(type_, row), type_.placed)
            self._head(type_.names)
            self.put(csv_line(map(cells.get, type_.names)))
