"""The rows that a task of the data source reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from kfmt_cli.arrow.columns.tables import MAKERS, rows_of
from kfmt_cli.arrow.inputs import at_hand
from kfmt_cli.rows.table_types import BATCHES, has_records
from kfmt_cli.sharing.piece import telling
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.following.cleaned import followed
from kfmt_cli.spark.plan import Split
from kfmt_cli.spark.wanted import has_selections, in_folders


def read_split(request: Request, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a split; raises KfmtError, which names the file, if they cannot be read."""
    known = {**split.wanted}
    if has_selections(request):
        own = split.pieces.those(lambda piece: piece.start == 0 and piece.folder not in known)
        known |= in_folders(request, Pieces(piece.part(0, piece.size) for piece in own))
    request = replace(request, in_folders=known)
    with at_hand(request, split.pieces):
        if split.ends:
            yield from followed(request, split)
            return
        if request.table == BATCHES.name or has_records(request.table):
            yield from rows_of(request, split.pieces)
            return
        for piece in split.pieces:
            with telling(piece):
                yield from MAKERS[request.table](request, piece, [])
