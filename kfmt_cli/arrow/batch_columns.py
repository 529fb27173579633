"""The batches of pieces as columns in a file, for tasks that compare whole partitions.

A batch takes some tens of bytes, however large it is, so that a later task can take the batches of
a partition whose segments were read by many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa

from kfmt_cli.arrow.inputs import packed, reader_of
from kfmt_cli.arrow.output import appearing, read_whole
from kfmt_cli.arrow.tables import healthy
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block, is_legacy, runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.sharing.piece import Piece, telling
from kfmt_cli.sharing.read_piece import Edges
from kfmt_cli.sharing.request import Request

NAMES = (
    *("position", "size", "is_v2", "base_offset", "last_offset", "partition_leader_epoch"),
    *("crc", "crc_valid", "records_count"),
)
_NUMBERS = {name: i for i, name in enumerate(NAMES)}
_SCHEMA = pa.schema([(name, pa.int64()) for name in NAMES])
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(slots=True)
class KeptBatches:
    """Where the batches of a piece are in the file, and what was found."""

    first: int
    """Number of its first part of the file."""
    end: int = 0
    """Exclusive end of its parts."""
    batches: int = 0
    findings: list[Finding] = field(default_factory=list)
    edges: Edges | None = None


def keep_batches(request: Request, pieces: Sequence[Piece], path: str) -> list[KeptBatches]:
    """Write the batches of pieces to a file, and check them; raises OutputError, WorkError."""
    found: list[KeptBatches] = []
    with appearing(path) as out, pa.ipc.new_file(out, _SCHEMA, options=_LZ4) as writer:
        n = 0
        for piece, blocks, kept in _read(request, pieces):
            kept.first = n
            with telling(piece):
                for block in blocks:
                    for batch in _batches_of(block, request.limit):
                        writer.write(batch)
                        kept.batches += len(batch)
                        n += 1
            kept.end = n
            found.append(kept)
    return found


def _read(
    request: Request, pieces: Sequence[Piece]
) -> Iterator[tuple[Piece, Iterator[Block], KeptBatches]]:
    """The blocks of each piece, small logs read together. Findings and edges are complete once the
    blocks are read."""
    for part in packed(pieces):
        pack = healthy(part) if len(part) > 1 else None
        for i, piece in enumerate(part):
            kept = KeptBatches(0)
            if pack is None:
                yield piece, _checked(request, piece, kept), kept
                continue
            mine = pack.batches.select(pack.batches.file_number == i)
            block = Block(piece.path, pack.data, pack.position, mine)
            yield piece, iter((block,)), kept


def _checked(request: Request, piece: Piece, kept: KeptBatches) -> Iterator[Block]:
    reader = reader_of(request, piece)
    yield from reader.blocks(piece)
    kept.findings, kept.edges = reader.findings, reader.edges


def _batches_of(block: Block, limit: Limit) -> Iterator[pa.RecordBatch]:
    for run in runs(block):
        if is_legacy(run) and run.batches.compression.any():
            read_records(run, limit)  # sets the base offsets of wrappers
        if len(run.batches):
            columns = [pa.array(run.batches[name]) for name in NAMES]
            yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def kept_batches(path: str, first: int, end: int) -> Iterator[BatchTable]:
    """Batches in a file, in parts: the columns `NAMES`; raises InputError."""
    if first == end:
        return
    reader = _opened(path)
    for i in range(first, end):
        batch = reader.get_batch(i)
        data = np.array([column.to_numpy() for column in batch.columns])
        yield BatchTable(_NUMBERS, data)


@lru_cache(maxsize=8)
def _opened(path: str) -> pa.ipc.RecordBatchFileReader:
    if is_local(path):
        return pa.ipc.open_file(pa.memory_map(local(path)))
    data = read_whole(path)
    if data is None:
        raise InputError(f"{path}: not found")
    return pa.ipc.open_file(pa.BufferReader(data))
