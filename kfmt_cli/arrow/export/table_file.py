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
    _file_writer: FileWriter
    _schema: pa.Schema
    n_rows: int = 0
    _buffered_rows: list[Mapping[str, object]] = field(default_factory=list)

    def add_rows(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Write rows; raises OutputError."""
        for row in rows:
            self._buffered_rows.append(row)
            self.n_rows += 1
            if len(self._buffered_rows) >= MAX_BUFFERED_ROWS:
                self.flush_rows()

    def add_arrow_batch(self, rows: pa.RecordBatch) -> None:
        """Write rows that are already in columns; raises OutputError."""
        self.flush_rows()
        self._file_writer.write(rows)
        self.n_rows += len(rows)

    def flush_rows(self) -> None:
        """Write the buffered rows."""
        if self._buffered_rows or not self.n_rows:
            self._file_writer.write(
                pa.RecordBatch.from_pylist(self._buffered_rows, schema=self._schema)
            )
            self._buffered_rows = []


@contextmanager
def open_table_file(path: str, schema: pa.Schema, format_name: str) -> Iterator[TableFileWriter]:
    """Open a table file that appears, complete, when the block ends; raises OutputError.

    path: without the suffix of the format.
    """
    file_format = FILE_FORMATS[format_name]
    file_path = f"{path}.{file_format.file_suffix}"
    with open_atomic(file_path) as out:
        file_writer = file_format.open_table_writer(out, schema)
        table_writer = TableFileWriter(file_path, file_writer, schema)
        try:
            yield table_writer
            table_writer.flush_rows()
        except BaseException:
            file_writer.abandon()
            raise
        file_writer.close()
