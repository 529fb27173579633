"""The blocks of pieces, small logs read together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kfmt_cli.arrow.columns.tables import healthy
from kfmt_cli.arrow.inputs import packed, reader_of
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.read_piece import Edges
from kfmt_cli.sharing.request import Request


@dataclass(slots=True)
class BlocksRead:
    """The blocks of a piece. Findings and edges are complete once the blocks are read."""

    piece: Piece
    blocks: Iterator[Block] = field(init=False)
    findings: list[Finding] = field(default_factory=list)
    edges: Edges | None = None

    def alone(self, request: Request) -> Iterator[Block]:
        """Read the piece alone."""
        reader = reader_of(request, self.piece)
        yield from reader.blocks(self.piece)
        self.findings, self.edges = reader.findings, reader.edges


def blocks_of(request: Request, pieces: Sequence[Piece]) -> Iterator[BlocksRead]:
    """The blocks of each piece, with headers and checksums checked."""
    for part in packed(pieces):
        pack = healthy(part) if len(part) > 1 else None
        for i, piece in enumerate(part):
            read = BlocksRead(piece)
            read.blocks = read.alone(request) if pack is None else iter((_block(pack, i, piece),))
            yield read


def _block(pack: Block, i: int, piece: Piece) -> Block:
    """The batches of one of the logs of a pack, with its bytes only."""
    batches = pack.batches.select(pack.batches.file_number == i)
    first = int(batches.start[0]) if len(batches) else 0
    data = pack.data[first : int(batches.end[-1])] if len(batches) else b""
    batches.start, batches.end = batches.start - first, batches.end - first
    return Block(piece.path, data, 0, batches)
