"""Which pieces are small local logs that can be read together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kfmt_cli.arrow.storage import is_local, local
from kfmt_cli.core.parallel import together
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.sharing.piece import Piece


def packed(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """The pieces in their order, small local logs together, others alone."""

    def size(it: Piece) -> int | None:
        whole_log = it.kind is LOG and it.is_whole and not it.trouble
        return it.size if whole_log and is_local(it.path) else None

    return together(pieces, size)


def input_of(piece: Piece) -> Input:
    """The file of a piece."""
    return Input(local(piece.path), piece.path, piece.kind, piece.base_offset)
