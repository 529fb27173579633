"""export: records, batches or both as files, by topic and partition, ready for SQL.

Tasks write Parquet themselves: Spark's own writer turns each row into an object of the JVM first.
JSON and CSV are what `kfmt dump` prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import BinaryIO
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from kfmt_cli.core.finding import Finding
from kfmt_cli.files.block import Block
from kfmt_cli.files.codes import FILE_VANISHED
from kfmt_cli.files.control import complete
from kfmt_cli.files.records import Records
from kfmt_cli.render.dump import CsvDump, JsonDump, Look
from kfmt_cli.render.style import PLAIN
from kfmt_cli.render.write import recycle
from kfmt_cli.spark.checking import count_severities, results_of
from kfmt_cli.spark.jobs.context import (
    FEW_VALUES,
    SUFFIX,
    Context,
    Summary,
    left_out,
    table_of,
    unread_of,
    write_table,
)
from kfmt_cli.spark.output import appearing
from kfmt_cli.spark.plan import Piece
from kfmt_cli.spark.reading import Reading
from kfmt_cli.spark.request import Request
from kfmt_cli.spark.rows import batch_batches, record_batches, select_wanted
from kfmt_cli.spark.seams import Edges
from kfmt_cli.spark.tables import arrow_schema, chosen
from kfmt_cli.spark.work import Job, Ledger, Result, name_of, run

ROW_GROUP = 32 << 20  # bytes of Arrow, or
MOST_ROWS = 1 << 19


def folder_of(table: str, piece: Piece) -> str:
    """Where a piece's rows go: `records/topic=orders/partition=0`."""
    topic, partition = piece.place
    named = "__HIVE_DEFAULT_PARTITION__" if topic is None else quote(topic, safe="")
    number = "__HIVE_DEFAULT_PARTITION__" if partition is None else partition
    return f"{table}/topic={named}/partition={number}"


def export(tables: tuple[str, ...], format_: str) -> Callable[[Request, Piece, str], Result]:
    """The work on a piece."""

    def work(request: Request, piece: Piece, to: str) -> Result:
        outputs: list[str] = []
        rows: dict[str, int] = {}
        findings: list[Finding] = []
        edges: Edges | None = None
        for table in tables:
            reading = Reading(request)
            name = f"{folder_of(table, piece)}/{name_of(piece.path, piece.start)}.{SUFFIX[format_]}"
            with appearing(f"{to}/{name}") as out:
                if format_ == "parquet":
                    rows[table] = _parquet(out, table, reading, piece)
                else:
                    rows[table] = _text(out, table, reading, piece, format_)
            outputs.append(name)
            findings, edges = max(findings, reading.findings, key=len), reading.edges
        return {"outputs": outputs, "rows": rows, **results_of(piece, findings, edges)}

    return work


def _parquet(out: BinaryIO, table: str, reading: Reading, piece: Piece) -> int:
    """Write a piece's rows; how many."""
    schema = _schema(table, reading.request)
    batches = (record_batches if table == "records" else batch_batches)(reading, piece)
    few = [name for name in FEW_VALUES if name in schema.names]
    n = 0
    with pq.ParquetWriter(out, schema, compression="zstd", use_dictionary=few) as writer:
        for group in _groups(batches):
            rows = pa.Table.from_batches(group).select(schema.names)
            writer.write_table(rows, row_group_size=MOST_ROWS)
            n += len(rows)
    return n


def _schema(table: str, request: Request) -> pa.Schema:
    """The table's, without what the directories say."""
    columns = chosen(table, request.columns)
    schema = arrow_schema(columns)
    return pa.schema([it for it in schema if it.name not in ("topic", "partition")])


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


def _text(out: BinaryIO, table: str, reading: Reading, piece: Piece, format_: str) -> int:
    """Write what `kfmt dump` prints; how many rows."""
    look = Look(PLAIN, None)
    writer = (JsonDump if format_ == "json" else CsvDump)(piece.path, look)
    if format_ == "csv":
        out.write(CsvDump.heading(table == "records").encode())
    n = 0
    parts: Iterator[tuple[Block, Records | None]]
    if table == "records":
        parts = ((run, records) for run, records in reading.records(piece))
    else:
        parts = ((block, None) for block in reading.blocks(piece))
    for block, found in parts:
        records = found
        if records is not None:
            complete(block, records)
            records = select_wanted(reading.request, block, records)
        n += len(block.batches) if records is None else len(records.rows)
        for text in writer.text(block, records, 0, len(block.batches)):
            out.write(text)
            recycle(text)
    return n


def run_job(context: Context) -> Summary:
    """Export everything."""
    request = context.request
    options: dict[str, object] = {
        "format": context.format,
        "tables": list(context.tables),
        "columns": list(request.columns),
        "offsets": [request.start_offset, request.end_offset],
        "times": [request.start_time, request.end_time],
    }
    job = Job("export", export(context.tables, context.format), options)
    ledger = Ledger(context.to, job)
    ledger.open()
    pieces = ledger.plan(request, context.inputs())
    summary = Summary(dict.fromkeys(("segments", "bytes", *context.tables, "errors"), 0))
    findings: list[dict[str, object]] = []
    counts: Counter[str] = Counter()
    for piece, result in run(context.spark, request, ledger, pieces, context.advance):
        summary.numbers["segments"] += piece.start == 0
        summary.numbers["bytes"] += piece.end - piece.start
        for table, n in result["rows"].items():
            summary.numbers[table] += n
        findings += result["findings"]
        counts.update(result["codes"])
    summary.errors = summary.numbers["errors"] = count_severities(counts)["errors"]
    summary.vanished = counts[FILE_VANISHED.name]
    summary.lines, summary.unread = left_out(counts, findings), unread_of(findings)
    summary.written = [f"{context.to}/{table}" for table in context.tables]
    place = f"{context.to}/findings/part-0"
    summary.written.append(write_table(place, table_of("findings", findings), context.format))
    return summary
