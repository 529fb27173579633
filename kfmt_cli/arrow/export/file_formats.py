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

    file_suffix: str
    write_splits: Callable[
        [TableFilesWriter, ReadRequest, Sequence[FileSplit], Sequence[SplitReadResult]], None
    ]
    """Write the rows of splits, and update the result for each split."""
    open_table_writer: Callable[[BinaryIO, pa.Schema], FileWriter]
    """Open a writer for a small table."""
    copy_ranges: Callable[[BinaryIO, BinaryIO, Sequence[tuple[int, int]]], None]
    """Copy ranges of a file to a new one: start and exclusive end, in rows or bytes."""
    measure_rows_below: Callable[[BinaryIO, tuple[int, int], int, str], tuple[int, int]]
    """Measure a range of a file up to the first row at or above an offset, given the name of the
    offset column; returns its length, in rows or bytes, and its number of rows."""
    supports_columns: bool = False
    """Whether record columns, schema and partitioning can be chosen."""


class _ParquetWriter:
    """A Parquet file: zstd, delta encoding, a page index and field ids."""

    counts_bytes = False

    def __init__(self, out: BinaryIO, schema: pa.Schema) -> None:
        column_names = schema.names
        self._parquet_writer = pq.ParquetWriter(
            out,
            schema,
            compression="zstd",
            use_dictionary=[
                column_name for column_name in DICTIONARY_COLUMNS if column_name in column_names
            ],
            column_encoding={
                column_name: "DELTA_BINARY_PACKED"
                for column_name in DELTA_COLUMNS
                if column_name in column_names
            },
            write_page_index=True,
        )
        self._buffered_batches: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        self._buffered_batches.append(rows)
        n_rows = sum(map(len, self._buffered_batches))
        if (
            n_rows >= MAX_ROW_GROUP_ROWS
            or sum(batch.nbytes for batch in self._buffered_batches) >= MAX_ROW_GROUP_BYTES
        ):
            self._write_row_group()

    def _write_row_group(self) -> None:
        if self._buffered_batches:
            self._parquet_writer.write_table(
                pa.Table.from_batches(self._buffered_batches), row_group_size=MAX_ROW_GROUP_ROWS
            )
            self._buffered_batches = []

    def close(self) -> None:
        self._write_row_group()
        self._parquet_writer.close()

    def abandon(self) -> None:
        self._parquet_writer.is_open = False  # else it writes its footer when it is freed


def _write_parquet(
    table_files: TableFilesWriter,
    request: ReadRequest,
    splits: Sequence[FileSplit],
    split_results: Sequence[SplitReadResult],
) -> None:
    kafka_schema = (
        RECORD_SCHEMAS[table_files.lake_options.schema_name]
        if has_records(table_files.table_name)
        else None
    )
    column_names = request.columns if kafka_schema is None else source_columns(kafka_schema)
    columns = select_columns(
        table_files.table_name, column_names if has_records(table_files.table_name) else ()
    )
    output_schema = with_field_ids(arrow_schema(columns) if kafka_schema is None else kafka_schema)
    table_request = replace(
        request, table=table_files.table_name, columns=tuple(leaf.name for leaf in columns)
    )
    has_date_directories = table_files.lake_options.file_grouping.by_date
    topic_directory = _topic_directory(table_files, splits)
    time_column = "timestamp" if has_records(table_files.table_name) else "max_timestamp"
    create_row_mask = None if kafka_schema is None else data_record_mask
    previous_row_counts = [0] * len(splits)
    for batch in read_table_rows(table_request, splits, split_results, create_row_mask):
        split_indexes = _new_row_split_indexes(previous_row_counts, split_results)
        for date, date_mask in (
            _iter_date_masks(batch, time_column) if has_date_directories else (("", None),)
        ):
            directory = (
                f"{topic_directory}by_date={date}/" if has_date_directories else topic_directory
            )
            date_rows = batch if date_mask is None else batch.filter(date_mask)
            date_split_indexes = (
                split_indexes
                if date_mask is None
                else split_indexes[date_mask.to_numpy(zero_copy_only=False)]
            )
            export_file = table_files.open_file(
                directory, lambda out: _ParquetWriter(out, output_schema)
            )
            export_file.write_rows(
                date_rows
                if kafka_schema is None
                else to_spark_kafka_columns(date_rows, kafka_schema),
                _run_lengths(date_split_indexes),
            )


def _new_row_split_indexes(
    previous_row_counts: list[int], split_results: Sequence[SplitReadResult]
) -> IntArray:
    """The index of the split of each row that was read since the last call. previous_row_counts:
    the rows of each split until then; updated for the next call."""
    row_counts = [result.n_rows for result in split_results]
    new_row_counts = [
        row_count - previous_row_count
        for row_count, previous_row_count in zip(row_counts, previous_row_counts, strict=True)
    ]
    previous_row_counts[:] = row_counts
    return np.repeat(np.arange(len(new_row_counts)), new_row_counts)


def _run_lengths(split_indexes: IntArray) -> Iterator[tuple[int, int]]:
    """Runs of equal split indexes: each index, and the length of its run."""
    run_starts = np.flatnonzero(np.diff(split_indexes, prepend=-1))
    run_lengths = np.diff(run_starts, append=len(split_indexes))
    yield from zip(split_indexes[run_starts].tolist(), run_lengths.tolist(), strict=True)


def _topic_directory(table_files: TableFilesWriter, splits: Sequence[FileSplit]) -> str:
    """The directory for the files of a group of splits, relative to the table's directory."""
    if not table_files.lake_options.file_grouping.by_topic:
        return ""
    topic = splits[0].topic_partition[0]
    # Not topic=…: files have a column `topic`, and readers would parse topic=2024 as a number.
    return f"by_topic={quote(os.fsencode(topic or ''), safe='') or 'none'}/"


def _iter_date_masks(batch: pa.RecordBatch, time_column: str) -> Iterator[tuple[str, pa.Array]]:
    """The UTC dates of rows, each with a mask of its rows; "none" for rows without a time."""
    dates = pc.strftime(batch.column(time_column), format="%Y-%m-%d").fill_null("none")
    for date in pc.unique(dates).to_pylist():
        yield date, pc.equal(dates, date)


class _TextFileWriter:
    """A text file, which has no footer."""

    counts_bytes = True

    def __init__(self, out: BinaryIO, header: bytes = b"") -> None:
        self._output_stream = out
        out.write(header)

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass


class _DumpLineWriter(_TextFileWriter):
    """Lines as `kfmt dump` prints them."""

    def write(self, rows: tuple[RowWriter, NestedRows]) -> None:
        row_writer, nested_rows = rows
        for rendered_text in row_writer.render(nested_rows, 0, len(nested_rows.outer)):
            self._output_stream.write(rendered_text)
            recycle_buffer(rendered_text)


def _write_json(
    table_files: TableFilesWriter,
    request: ReadRequest,
    splits: Sequence[FileSplit],
    split_results: Sequence[SplitReadResult],
) -> None:
    inner_row_type = RECORD_ROW if has_records(table_files.table_name) else None
    _write_text(
        table_files,
        request,
        splits,
        split_results,
        lambda path: JsonRowWriter([path], "auto", inner_row_type),
    )


def _write_csv(
    table_files: TableFilesWriter,
    request: ReadRequest,
    splits: Sequence[FileSplit],
    split_results: Sequence[SplitReadResult],
) -> None:
    is_decoded = any(request.find_decoder(split.topic_partition[0]) for split in splits)
    record_type = DECODED_RECORD_ROW if is_decoded else RECORD_ROW
    row_type: RowType = record_type if has_records(table_files.table_name) else BATCH_ROW
    header_line = format_csv_line(csv_column_names(row_type)).encode()
    # All rows of a file must have the same columns.
    default_decoder = NO_DECODER if is_decoded else None
    _write_text(
        table_files,
        request,
        splits,
        split_results,
        lambda path: CsvRowWriter([path], "auto"),
        header_line,
        default_decoder,
    )


def _write_text(
    table_files: TableFilesWriter,
    request: ReadRequest,
    splits: Sequence[FileSplit],
    split_results: Sequence[SplitReadResult],
    create_row_writer: Callable[[str], RowWriter],
    header_line: bytes = b"",
    default_decoder: Decoder | None = None,
) -> None:
    """Write the rows of splits as text. create_row_writer: returns the writer for the rows of a
    path. default_decoder: the decoder for topics without one."""
    topic_directory = _topic_directory(table_files, splits)
    for split_index, (split, split_result) in enumerate(zip(splits, split_results, strict=True)):
        reader, row_writer = create_split_reader(request, split), create_row_writer(split.path)
        decoder = request.find_decoder(split.topic_partition[0]) or default_decoder
        with name_file_in_errors(split):
            for rows in iter_split_rows(table_files.table_name, reader, split, decoder):
                if not len(rows):
                    continue
                rows_table = (rows.inner or rows.outer).table
                first_column, last_column = (
                    ("offset", "offset") if rows.inner else ("base_offset", "last_offset")
                )
                split_result.count_rows(
                    len(rows),
                    int(rows_table[first_column].min()),
                    int(rows_table[last_column].max()),
                )
                export_file = table_files.open_file(
                    topic_directory, lambda out: _DumpLineWriter(out, header_line)
                )
                export_file.write_rows((row_writer, rows), [(split_index, len(rows))])
        split_result.findings, split_result.boundary = reader.findings, reader.boundary


class _RowLineWriter(_TextFileWriter):
    """Writes a line per row. format_row: returns the line for the row's values by column name."""

    def __init__(
        self, out: BinaryIO, header: str, format_row: Callable[[dict[str, object]], str]
    ) -> None:
        super().__init__(out, header.encode())
        self._format_row = format_row

    def write(self, rows: pa.RecordBatch) -> None:
        for row in rows.to_pylist():
            self._output_stream.write(self._format_row(_to_json_values(row)).encode())


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


def _copy_parquet_rows(
    source: BinaryIO, out: BinaryIO, row_ranges: Sequence[tuple[int, int]]
) -> None:
    parquet_file = pq.ParquetFile(source)
    parquet_writer, batch_start_row = _ParquetWriter(out, parquet_file.schema_arrow), 0
    for batch in parquet_file.iter_batches():
        for range_start, range_end in row_ranges:
            start_in_batch = max(range_start - batch_start_row, 0)
            end_in_batch = min(range_end - batch_start_row, len(batch))
            if start_in_batch < end_in_batch:
                parquet_writer.write(batch.slice(start_in_batch, end_in_batch - start_in_batch))
        batch_start_row += len(batch)
    parquet_writer.close()


def _copy_bytes(source: BinaryIO, out: BinaryIO, byte_ranges: Sequence[tuple[int, int]]) -> None:
    for range_start, range_end in byte_ranges:
        source.seek(range_start)
        remaining_bytes = range_end - range_start
        while remaining_bytes and (chunk := source.read(min(remaining_bytes, COPY_BUFFER_BYTES))):
            out.write(chunk)
            remaining_bytes -= len(chunk)


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
    bytes_read = measured_bytes = n_rows = 0
    while bytes_read < byte_range[1] - byte_range[0] and (line := source.readline()):
        bytes_read += len(line)
        offset = json.loads(line).get(offset_column)
        if offset is not None and offset >= end_offset:
            break
        if offset is not None:  # the line of a batch belongs to its records
            measured_bytes, n_rows = bytes_read, n_rows + 1
    return measured_bytes, n_rows


def _measure_csv_below(
    source: BinaryIO, byte_range: tuple[int, int], end_offset: int, offset_column: str
) -> tuple[int, int]:
    source.seek(0)
    column_index = source.readline().decode().rstrip("\n").split(",").index(offset_column)
    source.seek(byte_range[0])
    bytes_read = measured_bytes = n_rows = 0

    def iter_lines() -> Iterator[str]:
        nonlocal bytes_read
        while bytes_read < byte_range[1] - byte_range[0] and (line := source.readline()):
            bytes_read += len(line)
            yield line.decode()

    # A value may be longer than the fields that the module takes by default.
    default_field_limit = csv.field_size_limit(
        max(byte_range[1] - byte_range[0], csv.field_size_limit())
    )
    try:
        for row in csv.reader(iter_lines()):
            if int(row[column_index]) >= end_offset:
                break
            measured_bytes, n_rows = bytes_read, n_rows + 1
    finally:
        csv.field_size_limit(default_field_limit)
    return measured_bytes, n_rows


FILE_FORMATS = {
    "parquet": FileFormat(
        "parquet",
        _write_parquet,
        _ParquetWriter,
        _copy_parquet_rows,
        _measure_parquet_below,
        supports_columns=True,
    ),
    "json": FileFormat("jsonl", _write_json, _open_json_table, _copy_bytes, _measure_json_below),
    "csv": FileFormat("csv", _write_csv, _open_csv_table, _copy_bytes, _measure_csv_below),
}
