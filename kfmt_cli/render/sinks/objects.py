"""The base of formats that write a sequence of plain objects.

Such a format only defines how an object becomes text; it receives rows of every type, findings,
results and the summary as the objects documented in docs/json.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kfmt_cli.disk.partition_path import with_location
from kfmt_cli.findings.finding import Finding, FindingCode
from kfmt_cli.render.sinks.sink import FileHeading, RowWriter, Sink
from kfmt_cli.rows.column import LocationSource, RowType
from kfmt_cli.rows.documents import FINDING_ROW, SUPPRESSED_FINDINGS_ROW, build_members
from kfmt_cli.rows.file_result import FileResult, RunSummary
from kfmt_cli.rows.types.finding_row import finding_row, suppressed_findings_row

if TYPE_CHECKING:
    from kfmt_cli.rows.columnar_rows import ColumnarRows, JsonObject, NestedRows


class ObjectSink(Sink, ABC):
    """A format that writes plain objects, including findings."""

    @abstractmethod
    def format_object(self, row: JsonObject) -> str:
        """An object, whose first member is `type`, as text with a line end."""

    def begin_rows(
        self, file_heading: FileHeading, outer_type: RowType, inner_type: RowType | None = None
    ) -> RowWriter:
        del outer_type, inner_type
        return ObjectRowWriter(self, file_heading.file)

    def write_finding(self, finding: Finding) -> None:
        self.write_document(FINDING_ROW, finding_row(finding), ())

    def write_suppressed(self, file: str, code: FindingCode, n_suppressed: int) -> None:
        self.write_document(
            SUPPRESSED_FINDINGS_ROW, suppressed_findings_row(file, code, n_suppressed), ()
        )

    def write_result(self, result: FileResult) -> None:
        self.write_line(
            self.format_object(
                {"type": "file", **with_location(result.to_row(), LocationSource.FILE)}
            )
        )

    def write_summary(self, summary: RunSummary) -> None:
        self.write_line(self.format_object({"type": "summary", **summary.to_row()}))

    def write_document(
        self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]
    ) -> None:
        del lines
        self.write_line(self.format_object(_build_typed_object(type_, build_members(type_, row))))


def _build_typed_object(type_: RowType, member_values: JsonObject) -> JsonObject:
    return {"type": type_.name, **with_location(member_values, type_.location_source)}


class ObjectRowWriter(RowWriter):
    """Writes the rows of one file."""

    def __init__(self, sink: ObjectSink, file_name: str) -> None:
        self._sink = sink
        self._file_name = file_name

    def render(self, rows: NestedRows, first_row: int, end_row: int) -> Iterator[memoryview]:
        for outer_row_index, outer_row in enumerate(
            self._iter_objects(rows.outer.slice_rows(first_row, end_row)), first_row
        ):
            yield memoryview(self._sink.format_object(outer_row).encode())
            if rows.inner is not None:
                inner_start, inner_end = rows.inner_range(outer_row_index, outer_row_index + 1)
                for inner_row in self._iter_objects(rows.inner.slice_rows(inner_start, inner_end)):
                    yield memoryview(self._sink.format_object(inner_row).encode())

    def _iter_objects(self, columnar_rows: ColumnarRows) -> Iterator[JsonObject]:
        from kfmt_cli.rows.columnar_rows import iter_json_objects

        for row in iter_json_objects(columnar_rows, self._sink.display_options.bytes_mode):
            yield _build_typed_object(columnar_rows.type, {"file": self._file_name, **row})
