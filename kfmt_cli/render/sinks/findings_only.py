"""The base of formats that are about findings only: rows and documents are left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kfmt_cli.render.sinks.sink import Head, NoRows, RowWriter, Sink

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType


class FindingsOnly(Sink):
    """A format of findings; each comes after the result of its partition."""

    only_findings = True

    def rows(self, head: Head, outer: RowType, inner: RowType | None = None) -> RowWriter:
        del head, outer, inner
        return NoRows()

    def document(self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]) -> None:
        del type_, row, lines
