"""The batches of pieces as columns in a file, for tasks that compare whole partitions.

A batch takes some tens of bytes, however large it is, so that a later task can take the batches of
a partition whose segments were read by many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kfmt_cli.arrow.part_files import keep_rows, parts_of
from kfmt_cli.log.block import Block
from kfmt_cli.log.decoding import placed_runs
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request

NAMES = (
    *("position", "size", "is_v2", "base_offset", "last_offset", "partition_leader_epoch"),
    *("crc", "crc_valid", "records_count"),
)
_NUMBERS = {name: i for i, name in enumerate(NAMES)}
_SCHEMA = pa.schema([(name, pa.int64()) for name in NAMES])


@dataclass(slots=True)
class _Extent:
    """What a result says of the batches of a piece."""

    offsets: tuple[int, int] | None = None
    """The first and the last; None without batches."""
    has_holes: bool = False
    """Whether compaction has removed records."""

    def take(self, batches: BatchTable) -> None:
        """Add batches."""
        first, last = int(batches.base_offset.min()), int(batches.last_offset.max())
        known = self.offsets or (first, last)
        self.offsets = min(first, known[0]), max(last, known[1])
        span = batches.last_offset - batches.base_offset + 1
        self.has_holes |= bool(((batches.is_v2 == 1) & (batches.records_count < span)).any())


def keep_batches(
    request: Request, pieces: Sequence[Piece], to: str, name: str
) -> list[dict[str, Any]]:
    """Write the batches of pieces to a file, and check them; see `keep_rows`. A result has their
    extent, too."""
    extents: list[_Extent] = []

    def rows_in(_: Piece, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        extents.append(extent := _Extent())
        for run in (run for block in blocks for run in placed_runs(block, request.limit)):
            if not len(run.batches):
                continue
            extent.take(run.batches)
            columns = [pa.array(run.batches[name]) for name in NAMES]
            yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    results = keep_rows(request, pieces, to, name, _SCHEMA, rows_in)
    return [{**result, **asdict(its)} for result, its in zip(results, extents, strict=True)]


def kept_batches(path: str, first: int, end: int) -> Iterator[BatchTable]:
    """Batches in a file, in parts: the columns `NAMES`; raises InputError."""
    for batch in parts_of(path, first, end):
        data = np.array([column.to_numpy() for column in batch.columns])
        yield BatchTable(_NUMBERS, data)
