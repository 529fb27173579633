"""The tables: what stands in each column, made of the columns of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kfmt_cli.checks.records import check_records
from kfmt_cli.core.finding import Finding, Severity
from kfmt_cli.core.layout import IntArray
from kfmt_cli.core.table import BoolArray, Table
from kfmt_cli.errors import InputError
from kfmt_cli.files import codes
from kfmt_cli.files.block import Block
from kfmt_cli.files.control import read_control
from kfmt_cli.files.discover import classify
from kfmt_cli.files.fixed import read_rows
from kfmt_cli.files.records import Records, is_legacy
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.render.shown import BATCH, TIMESTAMPS, Kind, Shown
from kfmt_cli.spark import arrow
from kfmt_cli.spark.plan import Piece, Split, Transactions
from kfmt_cli.spark.reading import Reading
from kfmt_cli.spark.request import Request
from kfmt_cli.spark.storage import local
from kfmt_cli.spark.tables import Column, Type, arrow_schema

MOST_BYTES = 64 << 20  # of keys, values and headers in an Arrow batch
MAX_SEQUENCE = (1 << 31) - 1


def read_split(request: Request, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a split."""
    transactions = dict(split.transactions)
    make = {
        "records": _records,
        "batches": _batches,
        "findings": _findings,
        "segments": _segments,
        "index_entries": _index_entries,
    }[request.table]
    for piece in split.pieces:
        yield from make(request, piece, transactions)


def batch_of(request: Request, n: int, make: Callable[[Column], pa.Array]) -> pa.RecordBatch:
    """The wanted columns as an Arrow batch of n rows."""
    columns = request.shown
    return pa.RecordBatch.from_arrays(
        [make(column) for column in columns], schema=arrow_schema(columns)
    )


def of_file(piece: Piece, name: str, n: int) -> pa.Array | None:
    """A column that all rows of a file share."""
    if name == "file":
        return arrow.constant(piece.path, n)
    topic, partition = piece.place
    if name == "topic":
        return arrow.constant(topic, n)
    if name == "partition":
        if partition is None:
            return pa.nulls(n, pa.int32())
        return arrow.ints(np.full(n, partition))
    return None


# records


@dataclass(slots=True)
class _Part:
    """Some records of a run."""

    run: Block
    records: Records
    rows: Table
    owner: IntArray

    def of_batch(self, name: str) -> IntArray:
        """A column of the records' batches."""
        column: IntArray = self.run.batches[name][self.owner]
        return column


def _records(
    request: Request, piece: Piece, transactions: dict[str, Transactions]
) -> Iterator[pa.RecordBatch]:
    reading = Reading(request)
    known = transactions.get(piece.path.rpartition("/")[0])
    for run, records in reading.records(piece):
        counts = np.diff(records.ends, prepend=0)
        owner = np.repeat(np.arange(len(run.batches)), counts)
        part = _Part(run, records, records.rows, owner)
        keep = _wanted(request, part, known if request.committed else None)
        if keep is not None and not keep.all():
            part = _Part(run, records, records.rows.select(keep), owner[keep])
        for first, last in _slices(request, part.rows):
            rows = part.rows
            if (first, last) != (0, len(rows)):
                rows = rows.select(slice(first, last))
            here = _Part(run, records, rows, part.owner[first:last])
            yield batch_of(request, last - first, lambda it, p=here: _record(piece, p, it.name))


def _wanted(request: Request, part: _Part, known: Transactions | None) -> BoolArray | None:
    """Which records are; None for all."""
    rows = part.rows
    keep: BoolArray | None = None

    def also(mask: BoolArray) -> None:
        nonlocal keep
        keep = mask if keep is None else keep & mask

    if request.start_offset is not None:
        also(rows["offset"] >= request.start_offset)
    if request.end_offset is not None:
        also(rows["offset"] <= request.end_offset)
    if request.start_time is not None:
        also((rows["timestamp"] >= request.start_time) & (rows["has_timestamp"] == 1))
    if request.end_time is not None:
        also((rows["timestamp"] <= request.end_time) & (rows["has_timestamp"] == 1))
    if known is not None:
        also(part.of_batch("control") == 0)
        if known.stable is not None:
            also(rows["offset"] < known.stable)
        gone = np.zeros(len(part.run.batches), np.bool_)
        batches = part.run.batches
        transactional = batches["transactional"] == 1
        for producer, first, last in known.aborted:
            gone |= (
                transactional
                & (batches["producer_id"] == producer)
                & (batches["base_offset"] >= first)
                & (batches["last_offset"] <= last)
            )
        also(~gone[part.owner])
    return keep


def _slices(request: Request, rows: Table) -> Iterator[tuple[int, int]]:
    """Rows in parts, none with more bytes than Arrow's offsets and a worker's memory take."""
    sizes = rows["key_size"].clip(0) + rows["value_size"].clip(0) + 64 * rows["headers"]
    ends = np.cumsum(sizes)
    first = 0
    while first < len(rows):
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + MOST_BYTES, "right"))
        last = min(max(last, first + 1), first + request.batch_rows, len(rows))
        yield first, last
        first = last


def _record(piece: Piece, part: _Part, name: str) -> pa.Array:
    rows, v2 = part.rows, not is_legacy(part.run)
    n = len(rows)
    shared = of_file(piece, name, n)
    if shared is not None:
        return shared
    has_producer = part.of_batch("producer_id") >= 0 if v2 else np.zeros(n, np.bool_)
    if name == "offset":
        return arrow.longs(rows["offset"])
    if name == "timestamp":
        timed = rows["has_timestamp"] == 1
        return arrow.times(rows["timestamp"], None if timed.all() else timed)
    if name == "timestamp_type":
        types = part.of_batch("timestamp_type") if v2 else rows["timestamp_type"]
        return arrow.words(types, TIMESTAMPS)
    if name in ("key", "value"):
        return arrow.octets(part.records.data, rows[name], rows[f"{name}_size"])
    if name == "headers":
        given = np.full(n, v2)
        children = part.records.headers
        return arrow.headers(
            part.records.data, children, rows["headers_first"], rows["headers"], given
        )
    if name == "producer_id":
        return arrow.longs(part.of_batch(name), has_producer)
    if name == "producer_epoch":
        return arrow.ints(part.of_batch(name), has_producer)
    if name == "sequence":
        base = part.of_batch("base_sequence")
        return arrow.ints((base + rows["offset_delta"]) & MAX_SEQUENCE, (base >= 0) & v2)
    if name in ("transactional", "control"):
        return arrow.flags(part.of_batch(name), None if v2 else np.zeros(n, np.bool_))
    if name == "batch_position":
        return arrow.longs(part.of_batch("position"))
    assert name == "position"
    if not v2:
        return arrow.longs(rows["position"], rows["has_position"] == 1)
    plain = part.of_batch("compression") == 0
    return arrow.longs(part.of_batch("records_position") + rows["at"], plain)


# batches

_MEMBERS = {
    ("attributes" if member.name == "raw" else member.name): member
    for it in BATCH
    for member in (it.of or (it,))
}
_ONLY = {it.name: it.only for it in BATCH if it.only}


def _batches(
    request: Request, piece: Piece, transactions: dict[str, Transactions]
) -> Iterator[pa.RecordBatch]:
    del transactions
    for block in Reading(request).blocks(piece):
        batches = block.batches
        keep = np.ones(len(batches), np.bool_)
        if request.start_offset is not None:
            keep &= batches["last_offset"] >= request.start_offset
        if request.end_offset is not None:
            keep &= batches["base_offset"] <= request.end_offset
        if request.start_time is not None:
            keep &= batches["max_timestamp"] >= request.start_time
        if request.end_time is not None:
            keep &= batches["max_timestamp"] <= request.end_time
        chosen = batches if keep.all() else batches.select(keep)
        if len(chosen):
            yield batch_of(request, len(chosen), lambda it, t=chosen: _batch(piece, t, it))


def _batch(piece: Piece, table: Table, column: Column) -> pa.Array:
    shared = of_file(piece, column.name, len(table))
    if shared is not None:
        return shared
    shown: Shown = _MEMBERS[column.name]
    values = table[shown.source]
    given = table[shown.given] == 1 if shown.given else None
    if column.name in _ONLY:
        name, value = _ONLY[column.name] or ("", 0)
        given = table[name] == value
    if column.name.startswith(("producer_", "base_sequence", "last_sequence")):
        given = (values >= 0) & (table["is_v2"] == 1)
    if shown.kind is Kind.CHOICE:
        return arrow.words(values, shown.words, given)
    if column.type is Type.FLAG:
        return arrow.flags(values, given)
    return arrow.times(values, given) if column.type is Type.TIME else arrow.longs(values, given)


# findings, segments


@dataclass(slots=True)
class Summary:
    """What a whole file holds."""

    piece: Piece
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    least: int | None = None
    largest: int | None = None
    magics: int = 0
    codecs: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0

    def take(self, block: Block) -> None:
        """Add the batches of a block."""
        table = block.batches
        if not len(table):
            return
        self.batches += len(table)
        counts = np.where(table["is_v2"] == 1, table["records_count"].clip(0), 1)
        self.records += int(counts.sum())
        if self.first_offset is None:
            self.first_offset = int(table["base_offset"][0])
        self.last_offset = int(table["last_offset"][-1])
        times = table["max_timestamp"][(table["has_timestamp"] == 1) & (table["max_timestamp"] >= 0)]
        if len(times):
            least, largest = int(times.min()), int(times.max())
            self.least = least if self.least is None else min(self.least, least)
            self.largest = largest if self.largest is None else max(self.largest, largest)
        self.magics |= int(np.bitwise_or.reduce(1 << table["magic"].clip(0, 2)))
        self.codecs |= int(np.bitwise_or.reduce(1 << table["compression"]))

    def count(self, findings: Iterable[Finding]) -> None:
        """Add findings."""
        for finding in findings:
            self.errors += finding.code.severity is Severity.ERROR
            self.warnings += finding.code.severity is Severity.WARNING
            self.notes += finding.code.severity is Severity.NOTE

    def value(self, name: str) -> object:
        """A column of the table `segments`."""
        topic, partition = self.piece.place
        special = {
            "file": self.piece.path,
            "topic": topic,
            "partition": partition,
            "base_offset": self.piece.base_offset,
            "bytes": self.piece.size,
            "min_timestamp": _micros(self.least),
            "max_timestamp": _micros(self.largest),
            "magics": [str(it) for it in range(3) if self.magics >> it & 1],
            "codecs": [name for it, name in enumerate(CODECS) if self.codecs >> it & 1],
        }
        return special[name] if name in special else getattr(self, name)


def _micros(milliseconds: int | None) -> int | None:
    far = milliseconds is None or abs(milliseconds) > arrow.MOST_MILLISECONDS
    return None if far or milliseconds is None else milliseconds * 1000


def check_piece(request: Request, piece: Piece) -> tuple[Summary, list[Finding]]:
    """What a piece holds and what is wrong with it; every record too when that is asked for."""
    reading, summary = Reading(request), Summary(piece)
    if not request.deep:
        for block in reading.blocks(piece):
            summary.take(block)
            if not block.batches["is_v2"].all():
                _count_wrapped(request, summary, block)
    else:
        for run, records in reading.records(piece):
            summary.take(run)
            if is_legacy(run):
                summary.records += len(records.rows) - len(run.batches)
            for finding in [*check_records(run, records), *read_control(run, records)]:
                reading.found(finding)
    findings = sorted(reading.findings, key=lambda it: it.position or 0)
    summary.count(findings)
    return summary, findings


def _count_wrapped(request: Request, summary: Summary, block: Block) -> None:
    """Messages inside wrappers can only be counted when they are decompressed."""
    from kfmt_cli.files.records import read_records, runs

    for run in runs(block):
        if is_legacy(run) and run.batches["compression"].any():
            records = read_records(run, request.limit)
            summary.records += len(records.rows) - len(run.batches)


def _segments(
    request: Request, piece: Piece, transactions: dict[str, Transactions]
) -> Iterator[pa.RecordBatch]:
    del transactions
    summary, _ = check_piece(request, piece)
    schema = arrow_schema(request.shown)
    yield batch_of(
        request, 1, lambda it: pa.array([summary.value(it.name)], schema.field(it.name).type)
    )


def finding_rows(request: Request, piece: Piece, findings: list[Finding]) -> pa.RecordBatch:
    """Findings of a piece as rows."""
    topic, partition = piece.place
    rows = [{**it.row(), "topic": topic, "partition": partition} for it in findings]
    schema = arrow_schema(request.shown)

    def column(it: Column) -> pa.Array:
        values = [row[it.name] for row in rows]
        if it.type is Type.TEXT:
            values = [None if value is None else str(value) for value in values]
        return pa.array(values, schema.field(it.name).type)

    return batch_of(request, len(rows), column)


def _findings(
    request: Request, piece: Piece, transactions: dict[str, Transactions]
) -> Iterator[pa.RecordBatch]:
    del transactions
    _, findings = check_piece(request, piece)
    if findings:
        yield finding_rows(request, piece, findings)


def _index_entries(
    request: Request, piece: Piece, transactions: dict[str, Transactions]
) -> Iterator[pa.RecordBatch]:
    del transactions
    file = classify(local(piece.path), piece.path)
    reading = Reading(request)
    try:
        rows = read_rows(file)
    except InputError as error:
        reading.found(Finding(piece.path, codes.FILE_VANISHED, None, str(error)))
        return
    for finding in rows.findings:
        reading.found(finding)
    table = rows.table
    n = len(table)

    def column(it: Column) -> pa.Array:
        shared = of_file(piece, it.name, n)
        if shared is not None:
            return shared
        if it.name == "kind":
            return arrow.constant(piece.kind.value, n)
        if it.name not in table.names:
            return pa.nulls(n, arrow_schema(request.shown).field(it.name).type)
        values = table[it.name]
        return arrow.times(values) if it.type is Type.TIME else arrow.longs(values)

    if n:
        yield batch_of(request, n, column)
