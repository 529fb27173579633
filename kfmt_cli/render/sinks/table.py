"""Tables for people: aligned columns that fit the screen, and findings as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kfmt_cli.findings.finding import Finding, FindingCode
from kfmt_cli.render.finding_groups import FindingGroups
from kfmt_cli.render.sinks.sink import FileHeading, RowWriter, Sink
from kfmt_cli.render.style import (
    details_after_name,
    escape_unprintable,
    format_thousands,
    wrap_long_lines,
)
from kfmt_cli.render.tables.result_table import ResultTable
from kfmt_cli.rows.file_result import FileResult, FileResultType, RunSummary

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType


class TableSink(Sink):
    """Rows on standard output.

    Findings are grouped if the command reports results, and are shown on standard output if they
    are its result. Otherwise they go to standard error as they arrive.
    """

    is_for_people = True
    _result_table: ResultTable | None = None
    _finding_groups: FindingGroups | None = None
    _has_rows = False

    def write_hint(self, text: str, style: str = "dim") -> None:
        if not self.display_options.quiet:
            self.write_line(self.streams.theme.paint(style, text) + "\n")

    def begin_rows(
        self, file_heading: FileHeading, outer_type: RowType, inner_type: RowType | None = None
    ) -> RowWriter:
        from kfmt_cli.render.sinks.table_rows import BatchRowWriter, TableRowWriter
        from kfmt_cli.rows.types.batch import BATCH_ROW

        del inner_type
        self.write_line(("\n" if self._has_rows else "") + self._format_title(file_heading))
        self._has_rows = True
        return (BatchRowWriter if outer_type is BATCH_ROW else TableRowWriter)(
            file_heading, self.display_options, self.streams
        )

    def _format_title(self, file_heading: FileHeading) -> str:
        """The lines above a table; never shortens the file's path, as people paste it."""
        if not file_heading.file:
            return ""
        title_lines = [
            escape_unprintable(line) for line in file_heading.title_lines or (file_heading.file,)
        ]
        details_text = (
            ""
            if file_heading.file_bytes is None
            else f"   {format_thousands(file_heading.file_bytes)} bytes"
        )
        details_text += (
            "" if file_heading.base_offset is None else f"   base offset {file_heading.base_offset}"
        )
        details_text += "".join(f"   {note}" for note in file_heading.notes)
        title_text = "\n".join(
            self.streams.theme.paint("bold", title_line) for title_line in title_lines
        )
        return (
            f"{title_text}{details_after_name(title_lines[-1], details_text, self.streams.width)}\n"
        )

    def begin_results(self, type_: FileResultType) -> None:
        self._result_table = ResultTable(type_, self.display_options.lists_all)
        self._finding_groups = FindingGroups(
            self.display_options.max_locations,
            self.display_options.shows_notes,
            counts_notes=not self.display_options.quiet,
        )

    def write_finding(self, finding: Finding) -> None:
        if self._finding_groups is None:
            self.write_finding_to_stderr(finding)
        else:
            self._finding_groups.add_finding(finding)

    def write_suppressed(self, file: str, code: FindingCode, n_suppressed: int) -> None:
        del file
        if self._finding_groups is None:
            self.write_suppressed_to_stderr(code, n_suppressed)
        else:
            self._finding_groups.add_suppressed_count(code, n_suppressed)

    def end_findings(self) -> None:
        if self._finding_groups is None:
            return
        if self.display_options.shows_findings:
            self.write_line(
                "".join(self._finding_groups.drain_lines(self.streams.theme, self.streams.width))
            )
        else:
            self.write_to_stderr(
                "".join(
                    self._finding_groups.drain_lines(self.streams.err_theme, self.streams.err_width)
                )
            )

    def write_result(self, result: FileResult) -> None:
        self._require_result_table(result.type).add_result(result)

    def _require_result_table(self, type_: FileResultType) -> ResultTable:
        if self._result_table is None:
            self.begin_results(type_)
        assert self._result_table is not None
        return self._result_table

    def write_summary(self, summary: RunSummary) -> None:
        self.end_findings()
        if self.display_options.quiet:
            return
        width = None if self.display_options.wide else self.streams.width
        self.write_line(
            "".join(
                self._require_result_table(summary.type).format_lines(
                    summary, self.streams.theme, width
                )
            )
        )

    def write_document(
        self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]
    ) -> None:
        del type_, row
        self.write_line(
            wrap_long_lines(
                "".join(lines), None if self.display_options.wide else self.streams.width
            )
        )
