"""The batches of pieces as columns in a file, for tasks that compare whole partitions.

A batch takes some tens of bytes, however large it is, so that a later task can take the batches of
a partition whose segments were read by many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from kfmt_cli.arrow.part_files import KeptRows, part_file, parts_of
from kfmt_cli.arrow.piece_blocks import blocks_of
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.log.block import Block, is_legacy, runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.sharing.piece import Piece, telling
from kfmt_cli.sharing.request import Request

NAMES = (
    *("position", "size", "is_v2", "base_offset", "last_offset", "partition_leader_epoch"),
    *("crc", "crc_valid", "records_count"),
)
_NUMBERS = {name: i for i, name in enumerate(NAMES)}
_SCHEMA = pa.schema([(name, pa.int64()) for name in NAMES])


def keep_batches(request: Request, pieces: Sequence[Piece], path: str) -> list[KeptRows]:
    """Write the batches of pieces to a file, and check them; raises OutputError, WorkError."""
    found: list[KeptRows] = []
    with part_file(path, _SCHEMA) as out:
        for read in blocks_of(request, pieces):
            kept = KeptRows(out.n)
            with telling(read.piece):
                for block in read.blocks:
                    for batch in _batches_of(block, request.limit):
                        out.write(batch)
                        kept.rows += len(batch)
            found.append(kept.ended(out, read))
    return found


def _batches_of(block: Block, limit: Limit) -> Iterator[pa.RecordBatch]:
    for run in runs(block):
        if is_legacy(run) and run.batches.compression.any():
            read_records(run, limit)  # sets the base offsets of wrappers
        if len(run.batches):
            columns = [pa.array(run.batches[name]) for name in NAMES]
            yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def kept_batches(path: str, first: int, end: int) -> Iterator[BatchTable]:
    """Batches in a file, in parts: the columns `NAMES`; raises InputError."""
    for batch in parts_of(path, first, end):
        data = np.array([column.to_numpy() for column in batch.columns])
        yield BatchTable(_NUMBERS, data)
