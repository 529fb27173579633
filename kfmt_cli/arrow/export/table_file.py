"""A small table as a file, written row by row as data arrives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from kfmt_cli.arrow.export.file_formats import FILE_FORMATS
from kfmt_cli.arrow.export.lake import FileWriter
from kfmt_cli.arrow.export.output import appearing

TOGETHER = 4096  # rows per write


@dataclass(slots=True)
class TableFile:
    """A table being written."""

    path: str
    _writer: FileWriter
    _schema: pa.Schema
    rows: int = 0
    """Number of rows."""
    _held: list[Mapping[str, object]] = field(default_factory=list)

    def add(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Write rows; raises OutputError."""
        for row in rows:
            self._held.append(row)
            self.rows += 1
            if len(self._held) >= TOGETHER:
                self.flush()

    def add_batch(self, rows: pa.RecordBatch) -> None:
        """Write rows that are columns already."""
        self.flush()
        self._writer.write(rows)
        self.rows += len(rows)

    def flush(self) -> None:
        """Write the buffered rows."""
        if self._held or not self.rows:
            self._writer.write(pa.RecordBatch.from_pylist(self._held, schema=self._schema))
            self._held = []


@contextmanager
def table_file(path: str, schema: pa.Schema, format_: str) -> Iterator[TableFile]:
    """A table in a file that appears, complete, when the block ends; raises OutputError.

    path: without the suffix of the format.
    """
    made = FILE_FORMATS[format_]
    place = f"{path}.{made.suffix}"
    with appearing(place) as out:
        writer = made.table(out, schema)
        table = TableFile(place, writer, schema)
        try:
            yield table
            table.flush()
        except BaseException:
            writer.abandon()
            raise
        writer.close()
