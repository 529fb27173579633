"""Records and batches as files, by topic and partition, ready for SQL.

Whoever works on a piece writes its file: Spark's own writer would make an object of the JVM of each
row first. JSON and CSV are what `kfmt dump` prints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from kfmt_cli.arrow.inputs import reader_of
from kfmt_cli.arrow.output import appearing
from kfmt_cli.arrow.schema import schema_of
from kfmt_cli.arrow.tables import batch_batches, record_batches, wanted_records
from kfmt_cli.core.json_text import json_text
from kfmt_cli.disk.tree import as_given
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.complete import batch_rows
from kfmt_cli.render.csv_text import csv_line
from kfmt_cli.render.sinks.csv_rows import CsvRows
from kfmt_cli.render.sinks.json_rows import JsonRows
from kfmt_cli.render.sinks.sink import RowWriter
from kfmt_cli.render.templates import csv_names
from kfmt_cli.render.write import recycle
from kfmt_cli.rows.batch import BATCH
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.record import RECORD
from kfmt_cli.rows.section import Rows
from kfmt_cli.rows.table_types import BATCHES, RECORDS, chosen
from kfmt_cli.sharing.piece import Piece, name_of
from kfmt_cli.sharing.read_piece import Edges, PieceReader
from kfmt_cli.sharing.request import Request

ROW_GROUP = 32 << 20  # bytes of Arrow, or
MOST_ROWS = 1 << 19
# Columns with few different values, which a dictionary makes small; others it only makes slow.
FEW_VALUES = ["topic", "file", "timestamp_type", "compression", "code", "severity", "advice"]
NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(slots=True)
class Exported:
    """What was made of a piece."""

    outputs: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    """How many, by table."""
    findings: list[Finding] = field(default_factory=list)
    edges: Edges | None = None


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files."""

    suffix: str
    write: Callable[[BinaryIO, str, Request, PieceReader, Piece], int]
    """The rows of a piece into one; gives how many there were."""
    write_table: Callable[[BinaryIO, pa.Table], None]
    """A small table."""
    takes_columns: bool = False
    """Some columns of the records can be chosen."""


def export_piece(
    request: Request, piece: Piece, to: str, tables: tuple[str, ...], format_: str
) -> Exported:
    """Write the tables of a piece below a directory; raises OutputError."""
    done = Exported()
    made = FILE_FORMATS[format_]
    for table in tables:
        reader = reader_of(request, piece)
        name = f"{folder_of(table, piece)}/{name_of(piece.path, piece.start)}.{made.suffix}"
        with appearing(f"{to}/{name}") as out:
            done.rows[table] = made.write(out, table, request, reader, piece)
        done.outputs.append(name)
        done.findings = max(done.findings, reader.findings, key=len)
        done.edges = reader.edges
    return done


def folder_of(table: str, piece: Piece) -> str:
    """Where a piece's rows go: `records/topic=orders/partition=0`."""
    topic, partition = piece.place
    named = NO_PARTITION if topic is None else quote(os.fsencode(topic), safe="")
    return f"{table}/topic={named}/partition={NO_PARTITION if partition is None else partition}"


def _parquet(out: BinaryIO, table: str, request: Request, reader: PieceReader, piece: Piece) -> int:
    # Without what the directories say.
    columns = [
        column
        for column in chosen(table, request.columns)
        if column.name not in ("topic", "partition")
    ]
    schema = schema_of(columns)
    make = record_batches if table == RECORDS.name else batch_batches
    few = [name for name in FEW_VALUES if name in schema.names]
    n = 0
    with pq.ParquetWriter(out, schema, compression="zstd", use_dictionary=few) as writer:
        for group in _groups(make(request, reader, piece)):
            rows = pa.Table.from_batches(group).select(schema.names)
            writer.write_table(rows, row_group_size=MOST_ROWS)
            n += len(rows)
    return n


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Arrow batches in row groups."""
    group: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        group.append(batch)
        size += batch.nbytes
        rows += len(batch)
        if size >= ROW_GROUP or rows >= MOST_ROWS:
            yield group
            group, size, rows = [], 0, 0
    if group:
        yield group


def _json(out: BinaryIO, table: str, request: Request, reader: PieceReader, piece: Piece) -> int:
    del request
    inner = RECORD if table == RECORDS.name else None
    return _rows(out, JsonRows([as_given(piece.path)], "auto", inner), _parts(table, reader, piece))


def _csv(out: BinaryIO, table: str, request: Request, reader: PieceReader, piece: Piece) -> int:
    del request
    shown: RowType = RECORD if table == RECORDS.name else BATCH
    out.write(csv_line(csv_names(shown)).encode())
    return _rows(out, CsvRows([as_given(piece.path)], "auto"), _parts(table, reader, piece))


def _parts(table: str, reader: PieceReader, piece: Piece) -> Iterator[Rows]:
    if table == BATCHES.name:
        return (batch_rows(block) for block in reader.blocks(piece))
    return wanted_records(reader, piece, decode=False)


def _rows(out: BinaryIO, writer: RowWriter, parts: Iterator[Rows]) -> int:
    """Write what `kfmt dump` prints; how many rows."""
    n = 0
    for rows in parts:
        n += len(rows)
        for text in writer.text(rows, 0, len(rows.outer)):
            out.write(text)
            recycle(text)
    return n


# Small tables.


def _parquet_table(out: BinaryIO, table: pa.Table) -> None:
    few = [name for name in FEW_VALUES if name in table.column_names]
    pq.write_table(table, out, compression="zstd", use_dictionary=few)


def _json_table(out: BinaryIO, table: pa.Table) -> None:
    for row in table.to_pylist():
        out.write((json_text(_plain(row)) + "\n").encode())


def _csv_table(out: BinaryIO, table: pa.Table) -> None:
    out.write(csv_line(table.column_names).encode())
    for row in table.to_pylist():
        cells = _plain(row).values()
        words = ["|".join(cell) if isinstance(cell, list) else cell for cell in cells]
        out.write(csv_line(words).encode())


def _plain(row: dict[str, object]) -> dict[str, object]:
    """A row with what JSON has no type for as text."""
    return {
        name: value.isoformat() if hasattr(value, "isoformat") else value
        for name, value in row.items()
    }


FILE_FORMATS = {
    "parquet": FileFormat("parquet", _parquet, _parquet_table, takes_columns=True),
    "json": FileFormat("jsonl", _json, _json_table),
    "csv": FileFormat("csv", _csv, _csv_table),
}
