"""What the tasks of a trigger read: the parts of logs between two positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from kfmt_cli.log.selection.select import Selection
from kfmt_cli.sharing.piece import Piece, cut, pack
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request, share_of
from kfmt_cli.spark.following.copies import BASE
from kfmt_cli.spark.following.positions import Position
from kfmt_cli.spark.plan import Split
from kfmt_cli.spark.wanted import in_these


def splits_of(
    request: Request,
    pieces: Sequence[Piece],
    wanted: Mapping[str, Selection],
    ends: Mapping[str, int],
) -> list[Split]:
    """Distribute the parts of logs to splits. wanted: the selection per directory. ends: see
    `ends_of`."""
    share = share_of(request, Pieces(pieces))
    parts = (
        part
        for piece in pieces
        for part in (cut([replace(piece, is_exact=False)], share) if piece.is_whole else [piece])
    )
    shares = map(Pieces, pack(parts, share))
    return [
        Split(some, in_these(some, wanted), tuple(ends[piece.path] for piece in some))
        for some in shares
    ]


def ends_of(logs: Sequence[Piece], end: int) -> dict[str, int]:
    """The offset at which each segment of a log ends, by path: where the next one begins, or the
    end of the log."""
    following = [*map(BASE, logs[1:]), end]
    return {log.path: until for log, until in zip(logs, following, strict=True)}


def selections(
    asked: Selection, logs: Sequence[Piece], first: int, last: int
) -> dict[str, Selection]:
    """The selections for the directories of a log, each up to where the next one's segments begin.
    first, last: offsets, the last one excluded."""
    folders = [(folder, next(its).base) for folder, its in groupby(logs, key=attrgetter("folder"))]
    following = [*(base for _, base in folders[1:]), last]
    return {
        folder: asked.within(Selection(first, min(last, until) - 1))
        for (folder, _), until in zip(folders, following, strict=True)
    }


def between(
    logs: Sequence[Piece],
    first: Position,
    last: Position,
    begins_at: Callable[[Piece, Position], bool],
) -> Iterator[Piece]:
    """The parts of segments between two positions."""
    for i, log in enumerate(logs):
        following = logs[i + 1].base if i + 1 < len(logs) else None
        if log.base >= last.offset or (following is not None and following <= first.offset):
            continue
        start = first.byte if begins_at(log, first) else 0
        end = last.byte if begins_at(log, last) and last.byte > start else log.size
        if end > start:
            yield replace(log.part(start, end), is_exact=True)
