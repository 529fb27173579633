"""Tables for people: aligned columns that fit the screen, with findings in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.render.finding_groups import FindingGroups
from kfmt_cli.render.sinks.sink import Head, RowWriter, Sink
from kfmt_cli.render.style import after, fitted, grouped, safe
from kfmt_cli.render.tables.results import ResultTable
from kfmt_cli.rows.result import Result, ResultType, Summary

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType


class TableSink(Sink):
    """Rows on standard output. Findings are grouped there too if the command was asked for them;
    otherwise they go to standard error as they arrive."""

    for_people = True
    _results: ResultTable | None = None
    _groups: FindingGroups | None = None
    _has_rows = False

    def remark(self, words: str, style: str = "dim") -> None:
        self.put(self.out.theme.paint(style, words) + "\n")

    def rows(self, head: Head, outer: RowType, inner: RowType | None = None) -> RowWriter:
        from kfmt_cli.render.sinks.table_rows import BatchRows, TableRows
        from kfmt_cli.rows.types.batch import BATCH

        del inner
        self.put(("\n" if self._has_rows else "") + self._title(head))
        self._has_rows = True
        return (BatchRows if outer is BATCH else TableRows)(head, self.look, self.out)

    def _title(self, head: Head) -> str:
        """The lines above a table; never shortens the file's path, as people paste it."""
        if not head.file:
            return ""
        names = [safe(line) for line in head.title or (head.file,)]
        details = "" if head.size is None else f"   {grouped(head.size)} bytes"
        details += "" if head.base_offset is None else f"   base offset {head.base_offset}"
        details += "".join(f"   {note}" for note in head.notes)
        lines = "\n".join(self.out.theme.paint("bold", name) for name in names)
        return f"{lines}{after(names[-1], details, self.out.width)}\n"

    def results(self, type_: ResultType) -> None:
        self._results = ResultTable(type_, self.look.lists_all)
        self._groups = FindingGroups(self.look.places, self.look.shows_notes)

    def finding(self, finding: Finding) -> None:
        if self._groups is None:
            self.note_finding(finding)
        else:
            self._groups.add(finding)

    def left_out(self, file: str, code: Code, number: int) -> None:
        del file
        if self._groups is None:
            self.note_left_out(code, number)
        else:
            self._groups.left_out(code, number)

    def end_findings(self) -> None:
        if self._groups is None:
            return
        if self.look.finds:
            self.put("".join(self._groups.lines(self.out.theme, self.out.width)))
        else:
            self.note("".join(self._groups.lines(self.out.err_theme, self.out.err_width)))

    def result(self, result: Result) -> None:
        self._table(result.type).add(result)

    def _table(self, type_: ResultType) -> ResultTable:
        if self._results is None:
            self.results(type_)
        assert self._results is not None
        return self._results

    def summary(self, summary: Summary) -> None:
        self.end_findings()
        width = None if self.look.wide else self.out.width
        self.put("".join(self._table(summary.type).lines(summary, self.out.theme, width)))

    def document(self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]) -> None:
        del type_, row
        self.put(fitted("".join(lines), None if self.look.wide else self.out.width))
