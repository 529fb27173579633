"""The tables: what each column holds, made of the columns of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from kfmt_cli.arrow import arrays
from kfmt_cli.arrow.checking import check_piece, finding_row
from kfmt_cli.arrow.inputs import input_of, packed, reader_of
from kfmt_cli.arrow.schema import schema_of
from kfmt_cli.arrow.sections import ArrowPart, part_of, record_batch, slices
from kfmt_cli.checks.log.packs import read_pack
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.disk.kinds.fixed import read_rows
from kfmt_cli.disk.names import partition_of
from kfmt_cli.disk.tree import as_given, classify
from kfmt_cli.errors import InputError
from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.complete import batch_rows, complete, record_rows
from kfmt_cli.log.records import Records
from kfmt_cli.rows.section import Rows
from kfmt_cli.rows.table_types import BATCHES, RECORDS
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.read_piece import PieceReader
from kfmt_cli.sharing.request import Request
from kfmt_cli.topics import decoder_for

Batches = Iterator[pa.RecordBatch]


def shared_by(piece: Piece) -> Callable[[str, int], pa.Array | None]:
    """Gives the columns that all rows of a piece share."""
    return shared_by_file(piece.path, piece.kind.name)


def shared_by_file(path: str, kind: str) -> Callable[[str, int], pa.Array | None]:
    """Gives the columns that all rows of a file share."""
    topic, partition = partition_of(path)

    def column(name: str, n: int) -> pa.Array | None:
        if name == "file":
            return arrays.constant(as_given(path), n)
        if name == "kind":
            return arrays.constant(kind, n)
        if name == "topic":
            return arrays.constant(topic, n)
        if name == "partition":
            if partition is None:
                return pa.nulls(n, pa.int32())
            return arrays.ints(np.full(n, partition))
        return None

    return column


def record_batches(request: Request, reader: PieceReader, piece: Piece) -> Batches:
    """The records of a piece that are wanted."""
    columns = request.shown_of(RECORDS)
    shared = shared_by(piece)
    for rows in wanted_records(reader, piece):
        for part in slices(part_of(rows), request.batch_rows):
            yield record_batch(part, columns, shared)


def wanted_records(reader: PieceReader, piece: Piece, decode: bool = True) -> Iterator[Rows]:
    """The records of a piece that are wanted, below their batches.

    decode: with what the topic's decoder makes of them.
    """
    decoder = decoder_for(piece.place[0]) if decode else None
    for run, records in reader.records(piece):
        complete(run, records)
        keep = reader.wanted.of_records(run, records) if reader.wanted else None
        chosen = select(records, keep)
        yield record_rows(run, chosen, decoder)


def select(records: Records, keep: BoolArray | None) -> Records:
    """Some of the records, below the same batches; all where there is no mask."""
    if keep is None or keep.all():
        return records
    kept = np.concatenate([[0], np.cumsum(keep)])
    return replace(records, rows=records.rows.select(keep), ends=kept[records.ends])


def batch_batches(request: Request, reader: PieceReader, piece: Piece) -> Batches:
    """The batches of a piece."""
    columns = request.shown_of(BATCHES)
    shared = shared_by(piece)
    for block in reader.blocks(piece):
        chosen = reader.wanted.batches(block, reader.limit)
        if len(chosen.batches):
            yield record_batch(part_of(batch_rows(chosen)), columns, shared)


def batches_of(request: Request, pieces: Sequence[Piece]) -> Batches:
    """The batches of pieces, those of small local logs together."""
    for part in packed(pieces):
        # What is wanted of a pack must be the same for all of its logs.
        packs = len(part) > 1 and not request.in_folders
        known = _batches_of_pack(request, part) if packs else None
        if known is None:
            for piece in part:
                yield from _batches(request, piece)
        else:
            yield known


def _batches_of_pack(request: Request, pieces: Sequence[Piece]) -> pa.RecordBatch | None:
    """The batches of healthy logs as one Arrow batch; None where one is to be read by itself."""
    pack = read_pack([input_of(piece) for piece in pieces])
    if not pack.good.all() or (pack.sizes != np.array([piece.size for piece in pieces])).any():
        return None
    pack.batches.file_number = pack.owner
    chosen = request.asked.wanted.batches(pack.healthy(), request.limit)
    owner = chosen.batches["file_number"]
    places = [piece.place for piece in pieces]
    values: dict[str, pa.Array] = {
        "file": pa.array([as_given(piece.path) for piece in pieces], pa.string()),
        "topic": pa.array([topic for topic, _ in places], pa.string()),
        "partition": pa.array([number for _, number in places], pa.int32()),
    }

    def shared(name: str, n: int) -> pa.Array | None:
        del n
        return values[name].take(pa.array(owner)) if name in values else None

    return record_batch(part_of(batch_rows(chosen)), request.shown, shared)


def _records(request: Request, piece: Piece) -> Batches:
    return record_batches(request, reader_of(request, piece), piece)


def _batches(request: Request, piece: Piece) -> Batches:
    return batch_batches(request, reader_of(request, piece), piece)


def _segments(request: Request, piece: Piece) -> Batches:
    if not reader_of(request, piece).is_troubled(piece):
        checked = check_piece(request, piece)
        yield _of_objects(request, [checked.summary.as_row()])


def _findings(request: Request, piece: Piece) -> Batches:
    if findings := check_piece(request, piece).findings:
        yield _of_objects(request, [finding_row(piece, finding) for finding in findings])


def _of_objects(request: Request, rows: list[dict[str, object]]) -> pa.RecordBatch:
    schema = schema_of(request.shown)
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _index_entries(request: Request, piece: Piece) -> Batches:
    reader = reader_of(request, piece)
    if reader.is_troubled(piece):
        return
    try:
        contents = read_rows(classify(piece.path, piece.path))
    except InputError as error:
        reader.found(Finding(piece.path, codes.FILE_VANISHED, None, str(error)))
        return
    for finding in contents.findings:
        reader.found(finding)
    if len(contents.table):
        yield record_batch(ArrowPart(contents.sections[0]), request.shown, shared_by(piece))


MAKERS: dict[str, Callable[[Request, Piece], Batches]] = {
    "records": _records,
    "batches": _batches,
    "findings": _findings,
    "segments": _segments,
    "index_entries": _index_entries,
}
