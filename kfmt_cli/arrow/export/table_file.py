"""Writes a small table to a file, row by row as data arrives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from kfmt_cli.arrow.export.atomic_files import open_atomic
from kfmt_cli.arrow.export.file_formats import FILE_FORMATS
from kfmt_cli.arrow.export.lake_options import FileWriter

MAX_BUFFERED_ROWS = 4096


@dataclass(slots=True)
class TableFileWriter:
    """A table being written."""

    path: str
    _writer: FileWriter
    _schema: pa.Schema
    n_rows: int = 0
    _buffer: list[Mapping[str, object]] = field(default_factory=list)

    def add(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Write rows; raises OutputError."""
        for row in rows:
            self._buffer.append(row)
            self.n_rows += 1
            if len(self._buffer) >= MAX_BUFFERED_ROWS:
                self.flush()

    def add_batch(self, rows: pa.RecordBatch) -> None:
        """Write rows that are already in columns; raises OutputError."""
        self.flush()
        self._writer.write(rows)
        self.n_rows += len(rows)

    def flush(self) -> None:
        """Write the buffered rows."""
        if self._buffer or not self.n_rows:
            self._writer.write(pa.RecordBatch.from_pylist(self._buffer, schema=self._schema))
            self._buffer = []


@contextmanager
def open_table_file(path: str, schema: pa.Schema, format_: str) -> Iterator[TableFileWriter]:
    """Open a table file that appears, complete, when the block ends; raises OutputError.

    path: without the suffix of the format.
    """
    file_format = FILE_FORMATS[format_]
    file_path = f"{path}.{file_format.suffix}"
    with open_atomic(file_path) as out:
        writer = file_format.open_table_writer(out, schema)
        table = TableFileWriter(file_path, writer, schema)
        try:
            yield table
            table.flush()
        except BaseException:
            writer.abandon()
            raise
        writer.close()
