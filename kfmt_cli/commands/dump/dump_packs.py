"""The text of many small logs, decoded as one block and written by one template."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kfmt_cli.checks.log.packs import checked_pack
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.decompress import decompress_ahead
from kfmt_cli.log.derived_columns import complete, record_rows
from kfmt_cli.log.pack import Pack
from kfmt_cli.log.reading import RowsReading
from kfmt_cli.render.sinks.sink import Head, Sink
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.section import Rows, Section
from kfmt_cli.rows.types.batch import BATCH
from kfmt_cli.rows.types.record import RECORD
from kfmt_cli.topics.decoder import Decoder

MOST_PARTS = 2  # a pack that decompresses to more is read file by file

Piece = Input | memoryview


def written(
    sink: Sink,
    reading: RowsReading,
    decoder_of: Callable[[Input], Decoder | None],
    files: list[Input],
) -> list[Piece]:
    """The text of the files in order; a file that must be read individually is returned itself."""
    pack = checked_pack(files)
    for i, file in enumerate(files):
        if reading.records and decoder_of(file) is not None:
            pack.good[i] = False
    pack.batches.file_number = pack.owner
    parts = list(_parts(pack, reading))
    if len(parts) > MOST_PARTS or not pack.good.any():
        return [*files]
    head = Head("", files=tuple(file.name for file in files))
    writer = sink.rows(head, BATCH, RECORD if reading.records else None)
    made: list[Piece] = []
    edges = np.flatnonzero(np.diff(pack.good.astype(np.int8), prepend=0, append=0)).tolist()
    at = 0
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        made += files[at:first]
        for rows in parts:
            owner = rows.outer.table.typed(BatchTable).file_number
            a, b = np.searchsorted(owner, [first, end]).tolist()
            made += writer.text(rows, a, b)
        at = end
    made += files[at:]
    return made


def _parts(pack: Pack, reading: RowsReading) -> Iterator[Rows]:
    """The rows of the good files; marks files with findings as no longer good."""
    block = pack.healthy()
    if not reading.records:
        yield Rows(Section(BATCH, block.batches))
        return
    for part in decompress_ahead(block, reading.limit):
        records = read_records(part, reading.limit)
        complete(part, records)
        pack.refuse([*part.findings, *records.findings])
        yield record_rows(part, records)
