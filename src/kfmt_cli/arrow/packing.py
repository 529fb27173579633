"""Which pieces are small local logs that can be read together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kfmt_cli.arrow.storage import is_local, local
from kfmt_cli.checks.log.packs import PACK, SMALL
from kfmt_cli.files.kinds.kind import Input
from kfmt_cli.files.kinds.logs import LOG
from kfmt_cli.pieces.piece import Piece


def packed(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """The pieces in their order, small local logs together, others alone."""
    held: list[Piece] = []
    total = 0
    for it in pieces:
        whole_log = it.kind is LOG and it.is_whole and not it.trouble
        small = whole_log and it.size <= SMALL and is_local(it.path)
        if held and (not small or total + it.size > PACK):
            yield held
            held, total = [], 0
        if not small:
            yield [it]
            continue
        held.append(it)
        total += it.size
    if held:
        yield held


def input_of(piece: Piece) -> Input:
    """The file of a piece."""
    return Input(local(piece.path), piece.path, piece.kind, piece.base_offset)
