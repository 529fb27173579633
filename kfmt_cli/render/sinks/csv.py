"""CSV: one table with a heading. Rows of other types are omitted, with a note naming the type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kfmt_cli.disk.partition_path import with_location
from kfmt_cli.findings.finding import Finding, FindingCode
from kfmt_cli.render.csv_text import format_csv_line
from kfmt_cli.render.sinks.sink import (
    DisplayOptions,
    FileHeading,
    NullRowWriter,
    OutputStreams,
    RowWriter,
    Sink,
)
from kfmt_cli.rows.column import LocationSource
from kfmt_cli.rows.documents import FINDING_ROW, SUPPRESSED_FINDINGS_ROW, build_members
from kfmt_cli.rows.file_result import FileResult, FileResultType
from kfmt_cli.rows.types.finding_row import finding_row, suppressed_findings_row

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType

RESULT_TYPE_NAME = "file"  # the type of a file's result


class CsvSink(Sink):
    """CSV on standard output, with findings on standard error unless they are the table.

    The table contains rows of the type named by --table, or of the first row's type.
    """

    writes_small_logs = True
    mixes_types = False

    def __init__(
        self, streams: OutputStreams, display_options: DisplayOptions | None = None
    ) -> None:
        super().__init__(streams, display_options)
        self._table_name = self.display_options.table
        self._last_heading = ""
        self._omitted_types: set[str] = set()

    def _accepts_type(self, type_name: str) -> bool:
        """Whether the table contains rows of this type; notes each omitted type once."""
        self._table_name = self._table_name or type_name
        if type_name != self._table_name and type_name not in self._omitted_types:
            self._omitted_types.add(type_name)
            if not self.display_options.table:
                omission_text = f"{type_name} omitted; use --table {type_name} to write it"
                self.write_to_stderr(f"kfmt: CSV holds one table: {omission_text}\n")
        return type_name == self._table_name

    def _write_heading(self, column_names: Iterable[str]) -> None:
        """Write the heading unless it repeats the last one."""
        heading_line = format_csv_line(column_names)
        if heading_line != self._last_heading:
            self.write_line(heading_line)
            self._last_heading = heading_line

    def begin_rows(
        self, file_heading: FileHeading, outer_type: RowType, inner_type: RowType | None = None
    ) -> RowWriter:
        from kfmt_cli.render.row_templates import csv_column_names
        from kfmt_cli.render.sinks.csv_rows import CsvRowWriter

        writes_only_outer = self.display_options.table == outer_type.name
        row_type = outer_type if writes_only_outer or inner_type is None else inner_type
        if not self._accepts_type(row_type.name):
            return NullRowWriter()
        self._write_heading(csv_column_names(row_type))
        file_names = file_heading.files or (file_heading.file,)
        return CsvRowWriter(
            file_names, self.display_options.bytes_mode, writes_only_outer=writes_only_outer
        )

    def write_finding(self, finding: Finding) -> None:
        if self._table_name == FINDING_ROW.name:
            self.write_document(FINDING_ROW, finding_row(finding), ())
        else:
            self.write_finding_to_stderr(finding)

    def write_suppressed(self, file: str, code: FindingCode, n_suppressed: int) -> None:
        if self._table_name == SUPPRESSED_FINDINGS_ROW.name:
            self.write_document(
                SUPPRESSED_FINDINGS_ROW, suppressed_findings_row(file, code, n_suppressed), ()
            )
        else:
            self.write_suppressed_to_stderr(code, n_suppressed)

    def begin_results(self, type_: FileResultType) -> None:
        del type_
        self._table_name = self._table_name or RESULT_TYPE_NAME

    def write_result(self, result: FileResult) -> None:
        if self._accepts_type(RESULT_TYPE_NAME):
            result_members = with_location(result.to_row(), LocationSource.FILE)
            self._write_heading(result_members)
            self.write_line(format_csv_line(result_members.values()))

    def write_document(
        self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]
    ) -> None:
        del lines
        if self._accepts_type(type_.name):
            member_values = with_location(build_members(type_, row), type_.location_source)
            self._write_heading(type_.member_names)
            self.write_line(format_csv_line(map(member_values.get, type_.member_names)))
