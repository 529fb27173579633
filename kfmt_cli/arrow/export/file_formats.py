"""The formats of exported files. JSON and CSV files contain the same text as `kfmt dump`.

The process that reads splits also writes their files: Spark's own writer would first create a JVM
object for each row.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kfmt_cli.arrow.columns.record_schemas import (
    RECORD_SCHEMAS,
    data_record_mask,
    source_columns,
    to_spark_kafka_columns,
)
from kfmt_cli.arrow.columns.schema import arrow_schema, with_field_ids
from kfmt_cli.arrow.columns.tables import SplitReadResult, iter_split_rows, read_table_rows
from kfmt_cli.arrow.export.atomic_files import COPY_BUFFER_BYTES
from kfmt_cli.arrow.export.lake_options import FileWriter, TableFilesWriter
from kfmt_cli.arrow.input_files import create_split_reader
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.execution.file_split import FileSplit, name_file_in_errors
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.render.csv_text import format_csv_line
from kfmt_cli.render.row_rendering import recycle_buffer
from kfmt_cli.render.row_templates import csv_column_names
from kfmt_cli.render.sinks.csv_rows import CsvRowWriter
from kfmt_cli.render.sinks.json_rows import JsonRowWriter
from kfmt_cli.render.sinks.sink import RowWriter
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.columnar_rows import NestedRows
from kfmt_cli.rows.table_types import has_records, select_columns
from kfmt_cli.rows.types.batch import BATCH_ROW
from kfmt_cli.rows.types.record import DECODED_RECORD_ROW, RECORD_ROW
from kfmt_cli.topics.decoder import NO_DECODER, Decoder

MAX_ROW_GROUP_BYTES = 32 << 20  # bytes of Arrow
MAX_ROW_GROUP_ROWS = 1 << 19
# Columns with few distinct values. A dictionary compresses them well; it only slows down others.
DICTIONARY_COLUMNS = [
    "topic",
    "file",
    "timestamp_type",
    "compression",
    "code",
    "severity",
    "advice",
]
# Columns whose values are close to the previous row's.
DELTA_COLUMNS = [
    *("offset", "timestamp", "position", "batch_position", "sequence"),
    *("base_offset", "last_offset", "base_timestamp", "max_timestamp", "size", "batch_length"),
]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A file format for exports."""

    suffix: str
    write_splits: Callable[
        [TableFilesWriter, ReadRequest, Sequence[FileSplit], Sequence[SplitReadResult]], None
    ]
    """Write the rows of splits, and update the result for each split."""
    open_table_writer: Callable[[BinaryIO, pa.Schema], FileWriter]
    """Open a writer for a small table."""
    copy_ranges: Callable[[BinaryIO, BinaryIO, Sequence[tuple[int, int]]], None]
    """Copy ranges of a file to a new one: start and exclusive end, in rows or bytes."""
    measure_below: Callable[[BinaryIO, tuple[int, int], int, str], tuple[int, int]]
    """Measure a range of a file up to the first row at or above an offset, given the name of the
    offset column; returns its length, in rows or bytes, and its number of rows."""
    supports_columns: bool = False
    """Whether record columns, schema and partitioning can be chosen."""


class _ParquetWriter:
    """A Parquet file: zstd, delta encoding, a page index and field ids."""

    counts_bytes = False

    def __init__(self, out: BinaryIO, schema: pa.Schema) -> None:
        names = schema.names
        self._writer = pq.ParquetWriter(
            out,
            schema,
            compression="zstd",
            use_dictionary=[name for name in DICTIONARY_COLUMNS if name in names],
            column_encoding={
                name: "DELTA_BINARY_PACKED" for name in DELTA_COLUMNS if name in names
            },
            write_page_index=True,
        )
        self._buffer: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        self._buffer.append(rows)
        n_rows = sum(map(len, self._buffer))
        if (
            n_rows >= MAX_ROW_GROUP_ROWS
            or sum(batch.nbytes for batch in self._buffer) >= MAX_ROW_GROUP_BYTES
        ):
            self._write_row_group()

    def _write_row_group(self) -> None:
        if self._buffer:
            self._writer.write_table(
                pa.Table.from_batches(self._buffer), row_group_size=MAX_ROW_GROUP_ROWS
            )
            self._buffer = []

    def close(self) -> None:
        self._write_row_group()
        self._writer.close()

    def abandon(self) -> None:
        self._writer.is_open = False  # else it writes its footer when it is freed


def _write_parquet(
    files: TableFilesWriter,
    request: ReadRequest,
    splits: Sequence[FileSplit],
    results: Sequence[SplitReadResult],
) -> None:
    kafka_schema = RECORD_SCHEMAS[files.options.schema] if has_records(files.table) else None
    column_names = request.columns if kafka_schema is None else source_columns(kafka_schema)
    columns = select_columns(files.table, column_names if has_records(files.table) else ())
    schema = with_field_ids(arrow_schema(columns) if kafka_schema is None else kafka_schema)
    table_request = replace(
        request, table=files.table, columns=tuple(leaf.name for leaf in columns)
    )
    has_date_directories = files.options.grouping.by_date
    topic_directory = _topic_directory(files, splits)
    time_column = "timestamp" if has_records(files.table) else "max_timestamp"
    row_mask = None if kafka_schema is None else data_record_mask
    previous_row_counts = [0] * len(splits)
    for batch in read_table_rows(table_request, splits, results, row_mask):
        split_index = _split_index_of_new_rows(previous_row_counts, results)
        for date, mask in (
            _masks_by_date(batch, time_column) if has_date_directories else (("", None),)
        ):
            directory = (
                f"{topic_directory}by_date={date}/" if has_date_directories else topic_directory
            )
            rows = batch if mask is None else batch.filter(mask)
            rows_split_index = (
                split_index if mask is None else split_index[mask.to_numpy(zero_copy_only=False)]
            )
            file = files.open_file(directory, lambda out: _ParquetWriter(out, schema))
            file.write(
                rows if kafka_schema is None else to_spark_kafka_columns(rows, kafka_schema),
                _run_lengths(rows_split_index),
            )


def _split_index_of_new_rows(
    previous_row_counts: list[int], results: Sequence[SplitReadResult]
) -> IntArray:
    """The index of the split of each row that was read since the last call. previous_row_counts:
    the rows of each split until then; updated for the next call."""
    row_counts = [result.n_rows for result in results]
    new_row_counts = [
        rows - n_before for rows, n_before in zip(row_counts, previous_row_counts, strict=True)
    ]
    previous_row_counts[:] = row_counts
    return np.repeat(np.arange(len(new_row_counts)), new_row_counts)


def _run_lengths(split_index: IntArray) -> Iterator[tuple[int, int]]:
    """Runs of equal split indexes: each index, and the length of its run."""
    starts = np.flatnonzero(np.diff(split_index, prepend=-1))
    lengths = np.diff(starts, append=len(split_index))
    yield from zip(split_index[starts].tolist(), lengths.tolist(), strict=True)


def _topic_directory(files: TableFilesWriter, splits: Sequence[FileSplit]) -> str:
    """The directory for the files of a group of splits, relative to the table's directory."""
    if not files.options.grouping.by_topic:
        return ""
    topic = splits[0].topic_partition[0]
    # Not topic=…: files have a column `topic`, and readers would parse topic=2024 as a number.
    return f"by_topic={quote(os.fsencode(topic or ''), safe='') or 'none'}/"


def _masks_by_date(batch: pa.RecordBatch, time_column: str) -> Iterator[tuple[str, pa.Array]]:
    """The UTC dates of rows, each with a mask of its rows; "none" for rows without a time."""
    dates = pc.strftime(batch.column(time_column), format="%Y-%m-%d").fill_null("none")
    for date in pc.unique(dates).to_pylist():
        yield date, pc.equal(dates, date)


class _TextFileWriter:
    """A text file, which has no footer."""

    counts_bytes = True

    def __init__(self, out: BinaryIO, header: bytes = b"") -> None:
        self._out = out
        out.write(header)

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass


class _DumpLineWriter(_TextFileWriter):
    """Lines as `kfmt dump` prints them."""

    def write(self, rows: tuple[RowWriter, NestedRows]) -> None:
        writer, nested_rows = rows
        for text in writer.render(nested_rows, 0, len(nested_rows.outer)):
            self._out.write(text)
            recycle_buffer(text)


def _write_json(
    files: TableFilesWriter,
    request: ReadRequest,
    splits: Sequence[FileSplit],
    results: Sequence[SplitReadResult],
) -> None:
    inner_row_type = RECORD_ROW if has_records(files.table) else None
    _write_text(
        files, request, splits, results, lambda path: JsonRowWriter([path], "auto", inner_row_type)
    )


def _write_csv(
    files: TableFilesWriter,
    request: ReadRequest,
    splits: Sequence[FileSplit],
    results: Sequence[SplitReadResult],
) -> None:
    is_decoded = any(request.find_decoder(split.topic_partition[0]) for split in splits)
    record_type = DECODED_RECORD_ROW if is_decoded else RECORD_ROW
    row_type: RowType = record_type if has_records(files.table) else BATCH_ROW
    header_line = format_csv_line(csv_column_names(row_type)).encode()
    # All rows of a file must have the same columns.
    no_decoder = NO_DECODER if is_decoded else None
    _write_text(
        files,
        request,
        splits,
        results,
        lambda path: CsvRowWriter([path], "auto"),
        header_line,
        no_decoder,
    )


def _write_text(
    files: TableFilesWriter,
    request: ReadRequest,
    splits: Sequence[FileSplit],
    results: Sequence[SplitReadResult],
    create_row_writer: Callable[[str], RowWriter],
    header_line: bytes = b"",
    no_decoder: Decoder | None = None,
) -> None:
    """Write the rows of splits as text. create_row_writer: returns the writer for the rows of a
    path. no_decoder: the decoder for topics without one."""
    topic_directory = _topic_directory(files, splits)
    for i, (split, result) in enumerate(zip(splits, results, strict=True)):
        reader, writer = create_split_reader(request, split), create_row_writer(split.path)
        decoder = request.find_decoder(split.topic_partition[0]) or no_decoder
        with name_file_in_errors(split):
            for rows in iter_split_rows(files.table, reader, split, decoder):
                if not len(rows):
                    continue
                table = (rows.inner or rows.outer).table
                first_column, last_column = (
                    ("offset", "offset") if rows.inner else ("base_offset", "last_offset")
                )
                result.add_rows(
                    len(rows), int(table[first_column].min()), int(table[last_column].max())
                )
                file = files.open_file(
                    topic_directory, lambda out: _DumpLineWriter(out, header_line)
                )
                file.write((writer, rows), [(i, len(rows))])
        result.findings, result.boundary = reader.findings, reader.boundary


class _RowLineWriter(_TextFileWriter):
    """Writes a line per row. format_row: returns the line for the row's values by column name."""

    def __init__(
        self, out: BinaryIO, header: str, format_row: Callable[[dict[str, object]], str]
    ) -> None:
        super().__init__(out, header.encode())
        self._format_row = format_row

    def write(self, rows: pa.RecordBatch) -> None:
        for row in rows.to_pylist():
            self._out.write(self._format_row(_to_json_values(row)).encode())


def _open_json_table(out: BinaryIO, schema: pa.Schema) -> FileWriter:
    del schema
    return _RowLineWriter(out, "", lambda row: json_text(row) + "\n")


def _open_csv_table(out: BinaryIO, schema: pa.Schema) -> FileWriter:
    def format_row(row: dict[str, object]) -> str:
        return format_csv_line(
            ["|".join(value) if isinstance(value, list) else value for value in row.values()]
        )

    return _RowLineWriter(out, format_csv_line(schema.names), format_row)


def _to_json_values(row: dict[str, object]) -> dict[str, object]:
    """A row with dates and times converted to ISO text."""
    return {
        name: value.isoformat() if hasattr(value, "isoformat") else value
        for name, value in row.items()
    }


def _copy_rows(source: BinaryIO, out: BinaryIO, row_ranges: Sequence[tuple[int, int]]) -> None:
    file = pq.ParquetFile(source)
    writer, batch_start = _ParquetWriter(out, file.schema_arrow), 0
    for batch in file.iter_batches():
        for start, end in row_ranges:
            start_in_batch = max(start - batch_start, 0)
            end_in_batch = min(end - batch_start, len(batch))
            if start_in_batch < end_in_batch:
                writer.write(batch.slice(start_in_batch, end_in_batch - start_in_batch))
        batch_start += len(batch)
    writer.close()


def _copy_bytes(source: BinaryIO, out: BinaryIO, byte_ranges: Sequence[tuple[int, int]]) -> None:
    for start, end in byte_ranges:
        source.seek(start)
        n_remaining = end - start
        while n_remaining and (data := source.read(min(n_remaining, COPY_BUFFER_BYTES))):
            out.write(data)
            n_remaining -= len(data)


def _measure_parquet_below(
    source: BinaryIO, row_range: tuple[int, int], end_offset: int, offset_column: str
) -> tuple[int, int]:
    offsets = (
        pq.ParquetFile(source).read([offset_column])[offset_column].to_numpy()[slice(*row_range)]
    )
    rows_at_or_above = np.flatnonzero(offsets >= end_offset)
    n_rows = int(rows_at_or_above[0]) if len(rows_at_or_above) else len(offsets)
    return n_rows, n_rows


def _measure_json_below(
    source: BinaryIO, byte_range: tuple[int, int], end_offset: int, offset_column: str
) -> tuple[int, int]:
    source.seek(byte_range[0])
    n_read = length = n_rows = 0
    while n_read < byte_range[1] - byte_range[0] and (line := source.readline()):
        n_read += len(line)
        offset = json.loads(line).get(offset_column)
        if offset is not None and offset >= end_offset:
            break
        if offset is not None:  # the line of a batch belongs to its records
            length, n_rows = n_read, n_rows + 1
    return length, n_rows


def _measure_csv_below(
    source: BinaryIO, byte_range: tuple[int, int], end_offset: int, offset_column: str
) -> tuple[int, int]:
    source.seek(0)
    column_index = source.readline().decode().rstrip("\n").split(",").index(offset_column)
    source.seek(byte_range[0])
    n_read = length = n_rows = 0

    def lines() -> Iterator[str]:
        nonlocal n_read
        while n_read < byte_range[1] - byte_range[0] and (line := source.readline()):
            n_read += len(line)
            yield line.decode()

    # A value may be longer than the fields that the module takes by default.
    default_limit = csv.field_size_limit(max(byte_range[1] - byte_range[0], csv.field_size_limit()))
    try:
        for row in csv.reader(lines()):
            if int(row[column_index]) >= end_offset:
                break
            length, n_rows = n_read, n_rows + 1
    finally:
        csv.field_size_limit(default_limit)
    return length, n_rows


FILE_FORMATS = {
    "parquet": FileFormat(
        "parquet",
        _write_parquet,
        _ParquetWriter,
        _copy_rows,
        _measure_parquet_below,
        supports_columns=True,
    ),
    "json": FileFormat("jsonl", _write_json, _open_json_table, _copy_bytes, _measure_json_below),
    "csv": FileFormat("csv", _write_csv, _open_csv_table, _copy_bytes, _measure_csv_below),
}
