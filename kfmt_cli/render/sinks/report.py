"""The base of formats that are about findings only: rows and documents are left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kfmt_cli.render.sinks.sink import Head, RowWriter, Sink

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType
    from kfmt_cli.rows.section import Rows


class ReportSink(Sink):
    """A format of findings; each comes behind the result of its partition."""

    is_report = True

    def rows(self, head: Head, outer: RowType, inner: RowType | None = None) -> RowWriter:
        del head, outer, inner
        return _Nothing()

    def document(self, type_: str, row: dict[str, object], lines: Iterable[str]) -> None:
        del type_, row, lines


class _Nothing(RowWriter):
    def text(self, rows: Rows, first: int, last: int) -> Iterator[memoryview]:
        del rows, first, last
        return iter(())
