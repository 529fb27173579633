"""JSON Lines, by the contract: one object per line, `type` first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kfmt_cli.core.json_text import json_text
from kfmt_cli.disk.partition_path import with_place
from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.render.sinks.sink import Head, RowWriter, Sink
from kfmt_cli.rows.column import Placed
from kfmt_cli.rows.documents import FINDING, FINDINGS_LEFT_OUT, members
from kfmt_cli.rows.finding_row import finding_row, left_out_row
from kfmt_cli.rows.result import Result, Summary

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType


def _line(type_: str, row: dict[str, object]) -> str:
    return json_text({"type": type_, **row}) + "\n"


class Json(Sink):
    """JSON Lines on standard output, including findings."""

    tells_inline = True
    writes_packs = True

    def rows(self, head: Head, outer: RowType, inner: RowType | None = None) -> RowWriter:
        return self.rows_of_files([head.file], outer, inner)

    def rows_of_files(
        self, files: Sequence[str], outer: RowType, inner: RowType | None = None
    ) -> RowWriter:
        from kfmt_cli.render.sinks.json_rows import JsonRows

        del outer
        return JsonRows(files, self.look.mode, inner)

    def finding(self, finding: Finding) -> None:
        self.document(FINDING, finding_row(finding), ())

    def left_out(self, file: str, code: Code, number: int) -> None:
        self.document(FINDINGS_LEFT_OUT, left_out_row(file, code, number), ())

    def result(self, result: Result) -> None:
        self.put(_line("file", with_place(result.row(), Placed.FILE)))

    def summary(self, summary: Summary) -> None:
        self.put(_line("summary", summary.row()))

    def document(self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]) -> None:
        del lines
        self.put(_line(type_.name, with_place(members(type_, row), type_.placed)))
