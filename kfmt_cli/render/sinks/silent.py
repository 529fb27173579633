"""The base of sinks that use little of a command's output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.render.sinks.sink import Head, NoRows, RowWriter, Sink
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.result import Result


class Silent(Sink):
    """Drops everything."""

    def rows(self, head: Head, outer: RowType, inner: RowType | None = None) -> RowWriter:
        del head, outer, inner
        return NoRows()

    def finding(self, finding: Finding) -> None:
        del finding

    def left_out(self, file: str, code: Code, number: int) -> None:
        del file, code, number

    def result(self, result: Result) -> None:
        del result

    def document(self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]) -> None:
        del type_, row, lines
