"""The tables: the content of each column, built from the columns of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfmt_cli.arrow.checking import check_piece, finding_row, segment_row
from kfmt_cli.arrow.columns.schema import schema_of
from kfmt_cli.arrow.columns.sections import ArrowPart, part_of, record_batch, slices
from kfmt_cli.arrow.inputs import input_of, packed, reader_of
from kfmt_cli.arrow.topic_ids import TopicIds
from kfmt_cli.checks.log.packs import checked_pack
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.tree import classify
from kfmt_cli.errors import InputError
from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block, runs
from kfmt_cli.log.decompress import decompress_ahead
from kfmt_cli.log.derived_columns import batch_rows, complete, read_complete, record_rows
from kfmt_cli.log.records import Records
from kfmt_cli.rows.section import Rows
from kfmt_cli.rows.table_types import has_records
from kfmt_cli.sharing.piece import Piece, telling
from kfmt_cli.sharing.read_piece import Edges, PieceReader
from kfmt_cli.sharing.request import Request
from kfmt_cli.topics.decoder import Decoder

Batches = Iterator[pa.RecordBatch]
Shared = Callable[[str, int], "pa.Array | None"]
"""Makes a column, by its name and length, that all rows share; None for others."""


def shared_by(piece: Piece, ids: TopicIds | None = None) -> Shared:
    """Return a function for the columns that all rows of a piece share."""
    known = TopicIds() if ids is None else ids
    return shared_by_file(piece.path, piece.kind.name, piece.place, lambda: known.of(piece))


def shared_by_file(
    path: str, kind: str, place: tuple[str | None, int | None], topic_id: Callable[[], str | None]
) -> Shared:
    """Return a function for the columns that all rows of a file share."""
    topic, partition = place
    values: dict[str, Callable[[], pa.Scalar]] = {
        "file": lambda: pa.scalar(name_text(path), pa.string()),
        "kind": lambda: pa.scalar(kind, pa.string()),
        "topic": lambda: pa.scalar(topic and name_text(topic), pa.string()),
        "partition": lambda: pa.scalar(partition, pa.int32()),
        "topic_id": lambda: pa.scalar(topic_id(), pa.string()),
    }
    return lambda name, n: pa.repeat(values[name](), n) if name in values else None


def batches_of_piece(request: Request, reader: PieceReader, piece: Piece, ids: TopicIds) -> Batches:
    """The requested records or batches of a piece. If its topic id is requested but cannot be read,
    a finding says that the piece was not."""
    columns, shared = request.shown, shared_by(piece, ids)
    try:
        if any(column.name == "topic_id" for column in columns):
            shared("topic_id", 0)
    except InputError as error:
        reader.found(Finding(piece.path, codes.FILE_UNREADABLE, None, str(error)))
        return
    for rows in rows_in(request.table, reader, piece, request.decoder_of(piece.place[0])):
        for part in slices(part_of(rows), request.batch_rows):
            yield record_batch(part, columns, shared)


def rows_in(
    table: str, reader: PieceReader, piece: Piece, decoder: Decoder | None
) -> Iterator[Rows]:
    """The requested batches of a piece, or the requested records under their batches, with the
    decoder's text."""
    if not has_records(table):
        for block in reader.blocks(piece):
            chosen = reader.wanted.batches(block, reader.limit)
            if len(chosen.batches):
                yield batch_rows(chosen)
        return
    for run, records in reader.records(piece):
        complete(run, records)
        keep = reader.wanted.of_records(run, records) if reader.wanted else None
        yield record_rows(run, select(records, keep), decoder)


def select(records: Records, keep: BoolArray | None) -> Records:
    """The records selected by a mask, under the same batches; all if there is no mask."""
    if keep is None or keep.all():
        return records
    kept = np.concatenate([[0], np.cumsum(keep)])
    return replace(records, rows=records.rows.select(keep), ends=kept[records.ends])


@dataclass(slots=True)
class PieceRead:
    """The result of reading a piece."""

    rows: int = 0
    first_offset: int | None = None
    """Of its rows; None if there are none, or if no column with offsets was requested."""
    last_offset: int | None = None
    findings: list[Finding] = field(default_factory=list)
    edges: Edges | None = None

    def take(self, n_rows: int, first: int | None, last: int | None) -> None:
        """Count rows."""
        self.rows += n_rows
        if first is not None and last is not None:
            known = self.first_offset, self.last_offset
            self.first_offset = first if known[0] is None else min(known[0], first)
            self.last_offset = last if known[1] is None else max(known[1], last)


def rows_of(
    request: Request,
    pieces: Sequence[Piece],
    read: Sequence[PieceRead] | None = None,
    keeps: Callable[[pa.RecordBatch], pa.Array] | None = None,
    ids: TopicIds | None = None,
) -> Batches:
    """Records or batches of pieces, reading small logs together; raises WorkError.

    read: receives the result for each piece. keeps: returns a mask of the rows to keep. ids: those
    that are known.
    """
    read = [PieceRead() for _ in pieces] if read is None else read
    of_pack = _records_of_pack if has_records(request.table) else _batches_of_pack
    done, ids = 0, TopicIds() if ids is None else ids
    for part in packed(pieces):
        # All logs of a pack must have the same filter.
        packs = len(part) > 1 and not request.in_folders
        known = None
        with suppress(InputError):  # found again when they are read individually
            known = of_pack(request, part, ids) if packs else None
        for made_rows, owners in known or ():
            batch, owner = made_rows, owners
            if keeps is not None:
                mask = keeps(batch)
                batch, owner = batch.filter(mask), owner[mask.to_numpy(zero_copy_only=False)]
            for i, n_rows, first, last in _counted(batch, owner):
                read[done + i].take(n_rows, first, last)
            if len(batch):
                yield batch
        for i, piece in enumerate(part if known is None else ()):
            with telling(piece):
                reader = reader_of(request, piece)
                for made_rows in batches_of_piece(request, reader, piece, ids):
                    batch = made_rows if keeps is None else made_rows.filter(keeps(made_rows))
                    read[done + i].take(len(batch), *_offsets_of(batch))
                    if len(batch):
                        yield batch
                read[done + i].findings, read[done + i].edges = reader.findings, reader.edges
        done += len(part)


def _offsets_of(batch: pa.RecordBatch) -> tuple[int | None, int | None]:
    """First and last offset of the rows."""
    names = batch.schema.names
    first, last = ("offset", "offset") if "offset" in names else ("base_offset", "last_offset")
    if first not in names or last not in names:
        return None, None
    lowest, highest = pc.min(batch.column(first)), pc.max(batch.column(last))
    return lowest.as_py(), highest.as_py()


def _counted(
    batch: pa.RecordBatch, owner: IntArray
) -> Iterator[tuple[int, int, int | None, int | None]]:
    """For each file in the batch: its number, its number of rows, first and last offset."""
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(owner)], strict=True):
        first, last = _offsets_of(batch.slice(start, end - start))
        yield int(owner[start]), end - start, first, last


PackRows = list[tuple[pa.RecordBatch, IntArray]]
"""Arrow batches, and the file number of each row."""
MOST_OF_PACK = 128 << 20  # bytes of Arrow


def _batches_of_pack(request: Request, pieces: Sequence[Piece], ids: TopicIds) -> PackRows | None:
    """The batches of healthy logs; None if one must be read individually."""
    block = healthy(pieces)
    if block is None:
        return None
    chosen = request.asked.wanted.batches(block, request.limit)
    owner = chosen.batches.file_number
    shared = _shared_in(pieces, owner, ids)
    return [(record_batch(part_of(batch_rows(chosen)), request.shown, shared), owner)]


def _records_of_pack(request: Request, pieces: Sequence[Piece], ids: TopicIds) -> PackRows | None:
    """The records of healthy logs; None if one must be read individually."""
    topics = {piece.place[0] for piece in pieces}
    if any(request.decoder_of(topic) is not None for topic in topics):
        return None
    block = healthy(pieces)
    if block is None:
        return None
    columns, wanted = request.shown, request.asked.wanted
    chosen = wanted.batches(block) if wanted else block
    made: PackRows = []
    for part in decompress_ahead(replace(chosen, findings=[]), request.limit):
        for run in runs(part):
            records = read_complete(run, request.limit)
            if part.findings or records.findings:
                return None
            keep = wanted.of_records(run, records) if wanted else None
            rows = part_of(record_rows(run, select(records, keep)))
            for some in slices(rows, request.batch_rows):
                owner = some["file_number"]
                made.append((record_batch(some, columns, _shared_in(pieces, owner, ids)), owner))
            if sum(batch.nbytes for batch, _ in made) > MOST_OF_PACK:
                return None
    return made


def healthy(pieces: Sequence[Piece]) -> Block | None:
    """The batches of logs, each with its file's number; None if any log is not healthy."""
    pack = checked_pack([input_of(piece) for piece in pieces])
    if not pack.good.all() or (pack.sizes != np.array([piece.size for piece in pieces])).any():
        return None
    pack.batches.file_number = pack.owner
    return pack.healthy()


def _shared_in(pieces: Sequence[Piece], owner: IntArray, ids: TopicIds) -> Shared:
    """Return a function for the columns that all rows of a file share."""
    places = [piece.place for piece in pieces]
    values: dict[str, Callable[[], pa.Array]] = {
        "file": lambda: pa.array([name_text(piece.path) for piece in pieces], pa.string()),
        "topic": lambda: pa.array([topic and name_text(topic) for topic, _ in places], pa.string()),
        "partition": lambda: pa.array([number for _, number in places], pa.int32()),
        "topic_id": lambda: pa.array([ids.of(piece) for piece in pieces], pa.string()),
    }

    def shared(name: str, n: int) -> pa.Array | None:
        del n
        return values[name]().take(pa.array(owner)) if name in values else None

    return shared


def _segments(request: Request, piece: Piece, _: list[Finding]) -> Batches:
    if not reader_of(request, piece).is_troubled(piece):
        numbers = check_piece(request, piece).numbers
        yield _of_objects(request, [segment_row(piece, numbers)])


def _findings(request: Request, piece: Piece, _: list[Finding]) -> Batches:
    if findings := check_piece(request, piece).findings:
        yield _of_objects(request, [finding_row(piece, finding) for finding in findings])


def _of_objects(request: Request, rows: list[dict[str, object]]) -> pa.RecordBatch:
    schema = schema_of(request.shown)
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _index_entries(request: Request, piece: Piece, findings: list[Finding]) -> Batches:
    reader = reader_of(request, piece)
    if reader.is_troubled(piece):
        return
    try:
        contents = classify(piece.path, piece.path).contents()
    except InputError as error:
        reader.found(Finding(piece.path, codes.FILE_VANISHED, None, str(error)))
        return
    for finding in contents.findings:
        reader.found(finding)
    findings += contents.findings
    if len(contents.table):
        yield record_batch(ArrowPart(contents.sections[0]), request.shown, shared_by(piece))


# Each adds what it finds to a list, unless its rows say so.
MAKERS: dict[str, Callable[[Request, Piece, list[Finding]], Batches]] = {
    "findings": _findings,
    "segments": _segments,
    "index_entries": _index_entries,
}
