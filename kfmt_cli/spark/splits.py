"""The rows that a task of the data source reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from kfmt_cli.arrow.inputs import at_hand
from kfmt_cli.arrow.tables import MAKERS, rows_of
from kfmt_cli.rows.table_types import BATCHES, has_records
from kfmt_cli.sharing.piece import telling
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.plan import Split


def read_split(request: Request, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a split; raises KfmtError, which names the file, if they cannot be read."""
    request = replace(request, in_folders=dict(split.wanted))
    with at_hand(request, split.pieces):
        if request.table == BATCHES.name or has_records(request.table):
            yield from rows_of(request, request.table, split.pieces)
            return
        for piece in split.pieces:
            with telling(piece):
                yield from MAKERS[request.table](request, piece)
