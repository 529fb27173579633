"""The batches of pieces as columns in a file, for tasks that compare whole partitions.

A batch takes some tens of bytes, however large it is, so that a later task can take the batches of
a partition whose segments were read by many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(slots=True)
class KeptBatches(KeptRows):
    """The batches of a piece."""

    offsets: tuple[int, int] | None = None
    """The first and the last; None without batches."""
    has_holes: bool = False
    """Whether compaction has removed records."""

    def take(self, batches: BatchTable) -> None:
        """Count batches."""
        first, last = int(batches.base_offset.min()), int(batches.last_offset.max())
        known = self.offsets or (first, last)
        self.offsets = min(first, known[0]), max(last, known[1])
        span = batches.last_offset - batches.base_offset + 1
        self.has_holes |= bool(((batches.is_v2 == 1) & (batches.records_count < span)).any())
        self.rows += len(batches)

    def result(self, file: str) -> dict[str, Any]:
        """These as the result of a piece, as JSON."""
        more = {"offsets": self.offsets, "has_holes": self.has_holes}
        return {**KeptRows.result(self, file), **more}


def keep_batches(request: Request, pieces: Sequence[Piece], path: str) -> list[KeptBatches]:
    """Write the batches of pieces to a file, and check them; raises OutputError, WorkError."""
    found: list[KeptBatches] = []
    with part_file(path, _SCHEMA) as out:
        for read in blocks_of(request, pieces):
            kept = KeptBatches(out.n)
            with telling(read.piece):
                for block in read.blocks:
                    for run in _complete(block, request.limit):
                        columns = [pa.array(run.batches[name]) for name in NAMES]
                        out.write(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
                        kept.take(run.batches)
            kept.ended(out, read)
            found.append(kept)
    return found


def _complete(block: Block, limit: Limit) -> Iterator[Block]:
    """The batches of a block, run by run, with the base offsets of wrappers."""
    for run in runs(block):
        if is_legacy(run) and run.batches.compression.any():
            read_records(run, limit)
        if len(run.batches):
            yield run


def kept_batches(path: str, first: int, end: int) -> Iterator[BatchTable]:
    """Batches in a file, in parts: the columns `NAMES`; raises InputError."""
    for batch in parts_of(path, first, end):
        data = np.array([column.to_numpy() for column in batch.columns])
        yield BatchTable(_NUMBERS, data)
