"""The tables: what stands in each column, made of the columns of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from kfmt_cli.core.finding import Finding
from kfmt_cli.core.layout import IntArray
from kfmt_cli.core.table import BoolArray, Table
from kfmt_cli.errors import InputError
from kfmt_cli.files import codes
from kfmt_cli.files.block import Block, sequence
from kfmt_cli.files.discover import classify
from kfmt_cli.files.fixed import read_rows
from kfmt_cli.files.records import Records, is_legacy
from kfmt_cli.render.shown import BATCH, TIMESTAMPS, Kind, Shown
from kfmt_cli.spark import arrow
from kfmt_cli.spark.checking import check_piece, finding_row
from kfmt_cli.spark.failure import telling
from kfmt_cli.spark.plan import Piece, Split, Transactions
from kfmt_cli.spark.reading import Reading
from kfmt_cli.spark.request import Request
from kfmt_cli.spark.storage import local
from kfmt_cli.spark.tables import Column, Type, arrow_schema

MOST_BYTES = 64 << 20  # of keys, values and headers in an Arrow batch


def read_split(request: Request, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a split; raises KfmtError, which names the file, where they cannot be made."""
    transactions = dict(split.transactions)
    for piece in split.pieces:
        known = transactions.get(piece.path.rpartition("/")[0])
        with telling(piece):
            yield from _read_piece(request, piece, known)


def _read_piece(
    request: Request, piece: Piece, known: Transactions | None
) -> Iterator[pa.RecordBatch]:
    if request.table == "records":
        return record_batches(Reading(request), piece, known)
    if request.table == "batches":
        return batch_batches(Reading(request), piece)
    make = {"findings": _findings, "segments": _segments, "index_entries": _index_entries}
    return make[request.table](request, piece)


def batch_of(request: Request, make: Callable[[Column], pa.Array]) -> pa.RecordBatch:
    """The wanted columns as an Arrow batch."""
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


def record_batches(
    reading: Reading, piece: Piece, known: Transactions | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of a piece; without aborted and open transactions where they are known."""
    request = replace(reading.request, table="records")
    for run, records in reading.records(piece):
        counts = np.diff(records.ends, prepend=0)
        owner = np.repeat(np.arange(len(run.batches)), counts)
        part = _Part(run, records, records.rows, owner)
        keep = _wanted(request, part, known)
        if keep is not None and not keep.all():
            part = _Part(run, records, records.rows.select(keep), owner[keep])
        for first, last in _slices(request, part.rows):
            rows = part.rows
            if (first, last) != (0, len(rows)):
                rows = rows.select(slice(first, last))
            here = _Part(run, records, rows, part.owner[first:last])
            yield batch_of(request, partial(_record, piece, here))


def select_wanted(request: Request, run: Block, records: Records) -> Records:
    """The wanted records of a run, beneath the same batches."""
    owner = np.repeat(np.arange(len(run.batches)), np.diff(records.ends, prepend=0))
    keep = _wanted(request, _Part(run, records, records.rows, owner), None)
    if keep is None or keep.all():
        return records
    kept = np.concatenate([[0], np.cumsum(keep)])
    return replace(records, rows=records.rows.select(keep), ends=kept[records.ends])


def _wanted(request: Request, part: _Part, known: Transactions | None) -> BoolArray | None:
    """Which records are; None for all."""
    keep: BoolArray | None = None

    def also(mask: BoolArray) -> None:
        nonlocal keep
        keep = mask if keep is None else keep & mask

    if request.wanted:
        also(request.wanted.of_records(part.records))
    if known is not None:
        also(part.of_batch("control") == 0)
        if known.stable is not None:
            also(part.rows["offset"] < known.stable)
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


def _record(piece: Piece, part: _Part, column: Column) -> pa.Array:
    name = column.name
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
        numbers = sequence(part.of_batch("base_sequence"), rows["offset_delta"])
        return arrow.ints(numbers, (numbers >= 0) & v2)
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


def batch_batches(reading: Reading, piece: Piece) -> Iterator[pa.RecordBatch]:
    """The batches of a piece."""
    request = replace(reading.request, table="batches")
    for block in reading.blocks(piece):
        chosen = request.wanted.batches(block, request.limit).batches
        if len(chosen):
            yield batch_of(request, partial(_batch, piece, chosen))


def _batch(piece: Piece, table: Table, column: Column) -> pa.Array:
    shared = of_file(piece, column.name, len(table))
    if shared is not None:
        return shared
    shown: Shown = _MEMBERS[column.name]
    values = table[shown.source]
    given = table[shown.given] == 1 if shown.given else None
    if column.name in _ONLY:
        name, value = _ONLY[column.name]
        given = table[name] == value
    if column.name.startswith(("producer_", "base_sequence", "last_sequence")):
        given = (values >= 0) & (table["is_v2"] == 1)
    if shown.kind is Kind.CHOICE:
        return arrow.words(values, shown.words, given)
    if column.type is Type.FLAG:
        return arrow.flags(values, given)
    return arrow.times(values, given) if column.type is Type.TIME else arrow.longs(values, given)


# findings, segments, index entries


def _segments(request: Request, piece: Piece) -> Iterator[pa.RecordBatch]:
    if Reading(request).is_troubled(piece):
        return
    summary, _, _ = check_piece(request, piece)
    schema, row = arrow_schema(request.shown), summary.as_row()
    yield batch_of(request, lambda it: pa.array([row[it.name]], schema.field(it.name).type))


def _findings(request: Request, piece: Piece) -> Iterator[pa.RecordBatch]:
    _, findings, _ = check_piece(request, piece)
    if findings:
        rows = [finding_row(piece, it) for it in findings]
        schema = arrow_schema(request.shown)
        yield batch_of(
            request,
            lambda it: pa.array([row[it.name] for row in rows], schema.field(it.name).type),
        )


def _index_entries(request: Request, piece: Piece) -> Iterator[pa.RecordBatch]:
    file = classify(local(piece.path), piece.path)
    reading = Reading(request)
    if reading.is_troubled(piece):
        return
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
        yield batch_of(request, column)
