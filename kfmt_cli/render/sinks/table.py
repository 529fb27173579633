"""Tables for people: aligned columns that fit the screen, findings next to them in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kfmt_cli.render.sinks.sink import Head, RowWriter, Sink
from kfmt_cli.render.style import clip_left, grouped, safe
from kfmt_cli.render.tables.results import ResultTable
from kfmt_cli.rows.result import Result, ResultType, Summary

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType

NO_LIMIT = 1 << 30


class TableSink(Sink):
    """Rows on standard output, findings and what is left out on standard error."""

    for_people = True
    _results: ResultTable | None = None
    _has_heading = False
    _has_rows = False

    def remark(self, words: str, style: str = "dim") -> None:
        self.put(self.out.theme.paint(style, words) + "\n" if style else words + "\n")

    def rows(self, head: Head, outer: RowType, inner: RowType | None = None) -> RowWriter:
        from kfmt_cli.render.sinks.table_rows import BatchRows, TableRows
        from kfmt_cli.rows.batch import BATCH

        del inner
        self.put(("\n" if self._has_rows else "") + self._title(head))
        self._has_rows = True
        return (BatchRows if outer is BATCH else TableRows)(head, self.look, self.out)

    def _title(self, head: Head) -> str:
        """The line above a file's table."""
        name, screen = safe(head.file), self.out.width
        details = "" if head.size is None else f"   {grouped(head.size)} bytes"
        details += "" if head.base_offset is None else f"   base offset {head.base_offset}"
        details += "".join(f"   {note}" for note in head.notes)
        room = len(name + details) if screen is None else screen
        if len(name + details) > room:
            details = ""
        return self.out.theme.paint("bold", clip_left(name, room)) + details + "\n"

    def results(self, type_: ResultType, names: Iterable[str]) -> None:
        room = (None if self.look.wide else self.out.width) or NO_LIMIT
        width = max([len(type_.noun[0]), *(len(safe(name)) for name in names)])
        self._results = ResultTable(type_, self.out.theme, room, width)

    def result(self, result: Result) -> None:
        if self._results is None:
            self.results(result.type, [result.file])
        assert self._results is not None
        if not self._has_heading:
            self.put(self._results.heading())
            self._has_heading = True
        self.put(self._results.line(result))

    def summary(self, summary: Summary) -> None:
        if self._results is None:
            self.results(summary.type, [])
        assert self._results is not None
        if summary.files or self._has_heading:
            self.put("".join(self._results.last_lines(summary)))

    def document(self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]) -> None:
        del type_, row
        self.put("".join(lines))
