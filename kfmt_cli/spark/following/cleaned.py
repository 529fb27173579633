"""The logs of a trigger that a broker has cleaned since they were planned.

The cleaner replaces segments by a smaller one with the name of the first. A task then reads the
offsets of its piece from the segments that are there now. Source: `kafka.log.Cleaner`,
`kafka.log.LocalLog.replaceSegments`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from kfmt_cli.arrow.columns.tables import PieceRead, rows_of
from kfmt_cli.arrow.inputs import files_of
from kfmt_cli.arrow.topic_ids import TopicIds
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.kinds.kind import SWAP
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.tree import listing
from kfmt_cli.errors import InputError
from kfmt_cli.findings.damage import FILE_SHRANK
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.read_piece import UnreadError
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.following.triggers import ends_of
from kfmt_cli.spark.plan import Split

PAUSES = 0.1, 0.5, 2.0  # seconds for a broker to complete a swap


def followed(request: Request, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a split of a stream, each piece within its offsets; raises UnreadError for a log
    that was cleaned while it was read, which a repeated task reads again."""
    ids = TopicIds()
    for piece, end in zip(split.pieces, split.ends, strict=True):
        own = Selection(first_offset=piece.base, last_offset=end - 1)
        wanted = request.wanted_of(piece).within(own)
        narrowed = replace(request, in_folders={piece.folder: wanted})
        for log in _as_it_is(request, piece, end):
            read = [PieceRead()]
            yield from rows_of(narrowed, Pieces([log]), read, ids=ids)
            if any(finding.code is FILE_SHRANK for finding in read[0].findings):
                raise UnreadError(f"{log.path}: was cleaned while it was read")


def _as_it_is(request: Request, piece: Piece, end: int) -> list[Piece]:
    """The piece, or the logs that have its offsets now; raises UnreadError."""
    if piece.trouble or piece.tiered or not is_local(piece.path) or not _is_cleaned(piece):
        return [piece]
    if not (piece.is_whole or piece.is_exact):
        words = "was cleaned while it was read in parts; start the query again"
        raise UnreadError(f"{piece.path}: {words}")
    logs = _logs_in(request, piece.folder)
    if not logs or logs[0].base > piece.base:
        return [piece]  # deleted, which is an error of its own
    ends = ends_of(logs, end)
    return [log for log in logs if log.base < end and ends[log.path] > piece.base]


def _is_cleaned(piece: Piece) -> bool:
    try:
        return os.stat(piece.path).st_size < piece.size  # noqa: PTH116 (many)
    except OSError:
        return True


def _logs_in(request: Request, folder: str) -> list[Piece]:
    """The logs in a directory, in order, once no swap is under way."""
    for pause in (*PAUSES, None):
        try:
            if not is_swapping(listing(folder).files):
                found = files_of(replace(request, paths=(folder,)))
                return [log for log in found if log.kind is LOG and log.base_offset is not None]
        except InputError:
            return []
        if pause is not None:
            time.sleep(pause)
    raise UnreadError(f"{folder}: a broker has not finished replacing segments")


def is_swapping(names: Iterable[str]) -> bool:
    """Whether a broker is replacing segments: for a moment, neither the old ones nor the new one
    have names of logs."""
    return any(name.endswith(f"{LOG.suffix}{SWAP}") for name in names)
