"""What a task reads of the data source."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kfmt_cli.arrow.tables import MAKERS, batches_of
from kfmt_cli.rows.table_types import BATCHES
from kfmt_cli.sharing.piece import telling
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.plan import Split


def read_split(request: Request, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a split; raises KfmtError, which names the file, where they cannot be made."""
    if request.table == BATCHES.name:
        yield from batches_of(request, split.pieces)
        return
    committed = dict(split.committed)
    for piece in split.pieces:
        known = committed.get(piece.path.rpartition("/")[0])
        with telling(piece):
            yield from MAKERS[request.table](request, piece, known)
