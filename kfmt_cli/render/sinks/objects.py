"""The base of formats that write a sequence of plain objects.

Such a format only defines how an object becomes text; rows of every type, findings, results and the
summary reach it as objects of the JSON contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kfmt_cli.disk.partition_path import with_place
from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.render.sinks.sink import Head, RowWriter, Sink
from kfmt_cli.rows.column import Placed, RowType
from kfmt_cli.rows.documents import FINDING, FINDINGS_LEFT_OUT, members
from kfmt_cli.rows.result import Result, Summary
from kfmt_cli.rows.types.finding_row import finding_row, left_out_row

if TYPE_CHECKING:
    from kfmt_cli.rows.section import Object, Rows, Section


class ObjectSink(Sink, ABC):
    """A format of plain objects, including findings."""

    @abstractmethod
    def line(self, row: Object) -> str:
        """An object, whose first member is `type`, as text with its line end."""

    def rows(self, head: Head, outer: RowType, inner: RowType | None = None) -> RowWriter:
        del outer, inner
        return ObjectRows(self, head.file)

    def finding(self, finding: Finding) -> None:
        self.document(FINDING, finding_row(finding), ())

    def left_out(self, file: str, code: Code, number: int) -> None:
        self.document(FINDINGS_LEFT_OUT, left_out_row(file, code, number), ())

    def result(self, result: Result) -> None:
        self.put(self.line({"type": "file", **with_place(result.row(), Placed.FILE)}))

    def summary(self, summary: Summary) -> None:
        self.put(self.line({"type": "summary", **summary.row()}))

    def document(self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]) -> None:
        del lines
        self.put(self.line(_object(type_, members(type_, row))))


def _object(type_: RowType, members: Object) -> Object:
    return {"type": type_.name, **with_place(members, type_.placed)}


class ObjectRows(RowWriter):
    """The rows of one file."""

    def __init__(self, sink: ObjectSink, file: str) -> None:
        self._sink = sink
        self._file = file

    def text(self, rows: Rows, first: int, last: int) -> Iterator[memoryview]:
        for i, outer in enumerate(self._objects(rows.outer.part(first, last)), first):
            yield memoryview(self._sink.line(outer).encode())
            if rows.inner is not None:
                start, end = rows.bounds(i, i + 1)
                for inner in self._objects(rows.inner.part(start, end)):
                    yield memoryview(self._sink.line(inner).encode())

    def _objects(self, section: Section) -> Iterator[Object]:
        from kfmt_cli.rows.section import objects

        for row in objects(section, self._sink.look.mode):
            yield _object(section.type, {"file": self._file, **row})
