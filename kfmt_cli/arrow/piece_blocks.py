"""The blocks of pieces, small logs read together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kfmt_cli.arrow.columns.tables import healthy
from kfmt_cli.arrow.inputs import packed, reader_of
from kfmt_cli.log.block import Block
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.read_piece import PieceReader
from kfmt_cli.sharing.request import Request


def blocks_of(
    request: Request, pieces: Sequence[Piece]
) -> Iterator[tuple[Piece, PieceReader, Iterable[Block]]]:
    """The blocks of each piece, with headers and checksums checked, and its reader, which has the
    findings and edges once they are read."""
    for part in packed(pieces):
        pack = healthy(part) if len(part) > 1 else None
        for i, piece in enumerate(part):
            reader = reader_of(request, piece)
            yield piece, reader, reader.blocks(piece) if pack is None else (_block(pack, i, piece),)


def _block(pack: Block, i: int, piece: Piece) -> Block:
    """The batches of one of the logs of a pack, with its bytes only."""
    batches = pack.batches.select(pack.batches.file_number == i)
    first = int(batches.start[0]) if len(batches) else 0
    data = pack.data[first : int(batches.end[-1])] if len(batches) else b""
    batches.start, batches.end = batches.start - first, batches.end - first
    return Block(piece.path, data, 0, batches)
