"""The formats of exported files. JSON and CSV have the text of `kfmt dump`.

The process that reads pieces also writes their files: Spark's own writer would first make a JVM
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

from kfmt_cli.arrow.columns.record_schemas import SCHEMAS, are_for_consumers, as_spark, needed_for
from kfmt_cli.arrow.columns.schema import schema_of, with_field_ids
from kfmt_cli.arrow.columns.tables import PieceRead, rows_in, rows_of
from kfmt_cli.arrow.export.lake import Files, FileWriter
from kfmt_cli.arrow.export.output import PIECE
from kfmt_cli.arrow.inputs import reader_of
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.render.csv_text import csv_line
from kfmt_cli.render.sinks.csv_rows import CsvRows
from kfmt_cli.render.sinks.json_rows import JsonRows
from kfmt_cli.render.sinks.sink import RowWriter
from kfmt_cli.render.templates import csv_names
from kfmt_cli.render.write import recycle
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.section import Rows
from kfmt_cli.rows.table_types import chosen, has_records
from kfmt_cli.rows.types.batch import BATCH
from kfmt_cli.rows.types.record import DECODED_RECORD, RECORD
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request
from kfmt_cli.topics.decoder import NOTHING, Decoder

ROW_GROUP = 32 << 20  # bytes of Arrow, or
MOST_ROWS = 1 << 19
# Columns with few different values, which a dictionary makes small; it only slows down others.
FEW_VALUES = ["topic", "file", "timestamp_type", "compression", "code", "severity", "advice"]
# Columns whose values are close to the preceding ones.
IN_STEPS = [
    *("offset", "timestamp", "position", "batch_position", "sequence"),
    *("base_offset", "last_offset", "base_timestamp", "max_timestamp", "size", "batch_length"),
]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A file format for exports."""

    suffix: str
    write: Callable[[Files, Request, Sequence[Piece], Sequence[PieceRead]], None]
    """Write the rows of pieces, and store the result for each piece."""
    table: Callable[[BinaryIO, pa.Schema], FileWriter]
    """Open a writer for a small table."""
    copy: Callable[[BinaryIO, BinaryIO, Sequence[tuple[int, int]]], None]
    """Copy stretches of a file, from and to a row or byte, to a new one."""
    below: Callable[[BinaryIO, tuple[int, int], int, str], tuple[int, int]]
    """The length, and the rows, of a stretch before the first row at or above an offset. The column
    of offsets is named."""
    takes_columns: bool = False
    """Whether record columns, schema and partitioning can be chosen."""


class _Parquet:
    """A Parquet file: zstd, delta encoding, a page index and field ids."""

    counts_bytes = False

    def __init__(self, out: BinaryIO, schema: pa.Schema) -> None:
        names = schema.names
        self._writer = pq.ParquetWriter(
            out,
            schema,
            compression="zstd",
            use_dictionary=[name for name in FEW_VALUES if name in names],
            column_encoding={name: "DELTA_BINARY_PACKED" for name in IN_STEPS if name in names},
            write_page_index=True,
        )
        self._held: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        n_rows = sum(map(len, self._held))
        if n_rows >= MOST_ROWS or sum(batch.nbytes for batch in self._held) >= ROW_GROUP:
            self._group()

    def _group(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held), row_group_size=MOST_ROWS)
            self._held = []

    def close(self) -> None:
        self._group()
        self._writer.close()

    def abandon(self) -> None:
        self._writer.is_open = False  # or it would write its footer when it is freed


def _parquet(
    files: Files, request: Request, pieces: Sequence[Piece], read: Sequence[PieceRead]
) -> None:
    spark = SCHEMAS[files.lake.schema] if has_records(files.table) else None
    names = request.columns if spark is None else needed_for(spark)
    columns = chosen(files.table, names if has_records(files.table) else ())
    schema = with_field_ids(schema_of(columns) if spark is None else spark)
    named = replace(request, table=files.table, columns=tuple(leaf.name for leaf in columns))
    by_date, above = files.lake.bundling.by_date, _above(files, pieces)
    time = "timestamp" if has_records(files.table) else "max_timestamp"
    keeps = None if spark is None else are_for_consumers
    counted = [0] * len(pieces)
    for batch in rows_of(named, pieces, read, keeps):
        owner = _owners(counted, read)
        for date, mask in _by_date(batch, time) if by_date else (("", None),):
            folder = f"{above}by_date={date}/" if by_date else above
            rows = batch if mask is None else batch.filter(mask)
            of_rows = owner if mask is None else owner[mask.to_numpy(zero_copy_only=False)]
            file = files.writer(folder, lambda out: _Parquet(out, schema))
            file.write(rows if spark is None else as_spark(rows, spark), _runs(of_rows))


def _owners(counted: list[int], read: Sequence[PieceRead]) -> IntArray:
    """The number of the piece of each row that was read since the last call; counted is kept for
    the next one."""
    now = [piece.rows for piece in read]
    new = [rows - before for rows, before in zip(now, counted, strict=True)]
    counted[:] = now
    return np.repeat(np.arange(len(new)), new)


def _runs(owner: IntArray) -> Iterator[tuple[int, int]]:
    """Equal numbers in a row: each number, and how many."""
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    lengths = np.diff(starts, append=len(owner))
    yield from zip(owner[starts].tolist(), lengths.tolist(), strict=True)


def _above(files: Files, pieces: Sequence[Piece]) -> str:
    """The directory for the files of some pieces, under the table's directory."""
    if not files.lake.bundling.by_topic:
        return ""
    topic = pieces[0].place[0]
    # The column `topic` is in the files: readers would parse a directory topic=2024 as a number.
    return f"by_topic={quote(os.fsencode(topic or ''), safe='') or 'none'}/"


def _by_date(batch: pa.RecordBatch, name: str) -> Iterator[tuple[str, pa.Array]]:
    """The days of rows in UTC, and a mask of the rows of each; rows without a time are separate."""
    dates = pc.strftime(batch.column(name), format="%Y-%m-%d").fill_null("none")
    for date in pc.unique(dates).to_pylist():
        yield date, pc.equal(dates, date)


class _Text:
    """A text file, which needs no footer."""

    counts_bytes = True

    def __init__(self, out: BinaryIO, head: bytes = b"") -> None:
        self._out = out
        out.write(head)

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass


class _Lines(_Text):
    """Lines as `kfmt dump` prints them."""

    def write(self, rows: tuple[RowWriter, Rows]) -> None:
        writer, part = rows
        for text in writer.text(part, 0, len(part.outer)):
            self._out.write(text)
            recycle(text)


def _json(
    files: Files, request: Request, pieces: Sequence[Piece], read: Sequence[PieceRead]
) -> None:
    inner = RECORD if has_records(files.table) else None
    _write_text(files, request, pieces, read, lambda path: JsonRows([path], "auto", inner))


def _csv(
    files: Files, request: Request, pieces: Sequence[Piece], read: Sequence[PieceRead]
) -> None:
    is_decoded = any(request.decoder_of(piece.place[0]) for piece in pieces)
    of_records = DECODED_RECORD if is_decoded else RECORD
    shown: RowType = of_records if has_records(files.table) else BATCH
    head = csv_line(csv_names(shown)).encode()
    # The rows of a file have the same columns.
    no_decoder = NOTHING if is_decoded else None
    _write_text(
        files, request, pieces, read, lambda path: CsvRows([path], "auto"), head, no_decoder
    )


def _write_text(
    files: Files,
    request: Request,
    pieces: Sequence[Piece],
    read: Sequence[PieceRead],
    writer_of: Callable[[str], RowWriter],
    head: bytes = b"",
    no_decoder: Decoder | None = None,
) -> None:
    """Write the rows of pieces as text. writer_of: for the rows of a path. no_decoder: for topics
    without one."""
    above = _above(files, pieces)
    for i, (piece, result) in enumerate(zip(pieces, read, strict=True)):
        reader, writer = reader_of(request, piece), writer_of(piece.path)
        decoder = request.decoder_of(piece.place[0]) or no_decoder
        for rows in rows_in(files.table, reader, piece, decoder):
            if len(rows):
                inner = (rows.inner or rows.outer).table
                first, last = ("offset", "offset") if rows.inner else ("base_offset", "last_offset")
                result.take(len(rows), int(inner[first].min()), int(inner[last].max()))
                file = files.writer(above, lambda out: _Lines(out, head))
                file.write((writer, rows), [(i, len(rows))])
        result.findings, result.edges = reader.findings, reader.edges


# Small tables.


class _RowLines(_Text):
    """A line per row. line: makes it from the cells, keyed by name."""

    def __init__(self, out: BinaryIO, head: str, line: Callable[[dict[str, object]], str]) -> None:
        super().__init__(out, head.encode())
        self._line = line

    def write(self, rows: pa.RecordBatch) -> None:
        for row in rows.to_pylist():
            self._out.write(self._line(_plain(row)).encode())


def _json_table(out: BinaryIO, schema: pa.Schema) -> FileWriter:
    del schema
    return _RowLines(out, "", lambda row: json_text(row) + "\n")


def _csv_table(out: BinaryIO, schema: pa.Schema) -> FileWriter:
    def line(row: dict[str, object]) -> str:
        return csv_line(
            ["|".join(cell) if isinstance(cell, list) else cell for cell in row.values()]
        )

    return _RowLines(out, csv_line(schema.names), line)


def _plain(row: dict[str, object]) -> dict[str, object]:
    """A row with types that JSON lacks converted to text."""
    return {
        name: value.isoformat() if hasattr(value, "isoformat") else value
        for name, value in row.items()
    }


# Stretches of files.


def _copy_rows(source: BinaryIO, out: BinaryIO, spans: Sequence[tuple[int, int]]) -> None:
    file = pq.ParquetFile(source)
    writer, at = _Parquet(out, file.schema_arrow), 0
    for batch in file.iter_batches():
        for start, end in spans:
            first, after = max(start - at, 0), min(end - at, len(batch))
            if first < after:
                writer.write(batch.slice(first, after - first))
        at += len(batch)
    writer.close()


def _copy_bytes(source: BinaryIO, out: BinaryIO, spans: Sequence[tuple[int, int]]) -> None:
    for start, end in spans:
        source.seek(start)
        left = end - start
        while left and (data := source.read(min(left, PIECE))):
            out.write(data)
            left -= len(data)


def _rows_below(
    source: BinaryIO, span: tuple[int, int], bound: int, column: str
) -> tuple[int, int]:
    offsets = pq.ParquetFile(source).read([column])[column].to_numpy()[slice(*span)]
    reaching = np.flatnonzero(offsets >= bound)
    n_rows = int(reaching[0]) if len(reaching) else len(offsets)
    return n_rows, n_rows


def _json_below(
    source: BinaryIO, span: tuple[int, int], bound: int, column: str
) -> tuple[int, int]:
    source.seek(span[0])
    at = length = n_rows = 0
    while at < span[1] - span[0] and (line := source.readline()):
        at += len(line)
        offset = json.loads(line).get(column)
        if offset is not None and offset >= bound:
            break
        if offset is not None:  # the line of a batch goes with its records
            length, n_rows = at, n_rows + 1
    return length, n_rows


def _csv_below(source: BinaryIO, span: tuple[int, int], bound: int, column: str) -> tuple[int, int]:
    source.seek(0)
    number = source.readline().decode().rstrip("\n").split(",").index(column)
    source.seek(span[0])
    at = length = n_rows = 0

    def lines() -> Iterator[str]:
        nonlocal at
        while at < span[1] - span[0] and (line := source.readline()):
            at += len(line)
            yield line.decode()

    for row in csv.reader(lines()):
        if int(row[number]) >= bound:
            break
        length, n_rows = at, n_rows + 1
    return length, n_rows


FILE_FORMATS = {
    "parquet": FileFormat(
        "parquet", _parquet, _Parquet, _copy_rows, _rows_below, takes_columns=True
    ),
    "json": FileFormat("jsonl", _json, _json_table, _copy_bytes, _json_below),
    "csv": FileFormat("csv", _csv, _csv_table, _copy_bytes, _csv_below),
}
