"""Records that match a condition, found in columns: rows are made of the matches only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kfmt_cli.arrow.columns.schema import schema_of
from kfmt_cli.arrow.columns.sections import ArrowPart, record_batch
from kfmt_cli.arrow.columns.tables import shared_by
from kfmt_cli.arrow.part_files import keep_rows
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import Table
from kfmt_cli.log.block import Block
from kfmt_cli.log.records import Records
from kfmt_cli.log.selection.record_match import Match
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.rows.section import Section
from kfmt_cli.rows.table_types import FOUND_RECORDS
from kfmt_cli.rows.types.found import FOUND
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request

_VIA = b"scan"
_OF_BATCH = ("position", "size", "base_offset", "has_base_offset", "last_offset")


def keep_found(
    request: Request, pieces: Sequence[Piece], to: str, name: str
) -> list[dict[str, Any]]:
    """Write the wanted records of pieces to a file; see `keep_rows`."""
    columns = FOUND_RECORDS.leaves

    def rows_in(piece: Piece, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        wanted, shared = request.wanted_of(piece), shared_by(piece)
        for block in blocks:
            for table in matches(wanted, block, request.limit):
                yield record_batch(ArrowPart(Section(FOUND, table, _VIA)), columns, shared)

    return keep_rows(request, pieces, to, name, schema_of(columns), rows_in)


def matches(wanted: Selection, block: Block, limit: Limit) -> Iterator[Table]:
    """The columns of `FOUND` of the wanted records of a block, or of its batches if only a producer
    is asked for."""
    if wanted == Selection(match=Match(producer_id=wanted.match.producer_id)):
        chosen = np.flatnonzero(wanted.match.batches(block.batches))
        if len(chosen):
            yield _of_batches(block, chosen)
        return
    for run, records in wanted.near(block, limit):
        rows = np.flatnonzero(wanted.of_records(run, records))
        if len(rows):
            yield _of_records(run, records, rows)


def _of_batches(block: Block, chosen: IntArray) -> Table:
    table = Table.empty(FOUND.sources, len(chosen))
    for name in _OF_BATCH:
        table[name] = block.batches[name][chosen]
    table["timestamp"] = block.batches.max_timestamp[chosen]
    table["has_timestamp"] = block.batches.has_timestamp[chosen]
    table["via_size"] = len(_VIA)
    return table


def _of_records(run: Block, records: Records, chosen: IntArray) -> Table:
    table = _of_batches(run, np.searchsorted(records.ends, chosen, side="right"))
    rows = records.rows
    table["offset"], table["has_offset"] = rows.offset[chosen], 1
    table["record_position"] = rows.position[chosen]
    table["has_record_position"] = rows.has_position[chosen]
    table["timestamp"], table["has_timestamp"] = rows.timestamp[chosen], rows.has_timestamp[chosen]
    return table
