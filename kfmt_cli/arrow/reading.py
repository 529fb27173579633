"""The reader of pieces for a request."""

from __future__ import annotations

from kfmt_cli.arrow.storage import open_stored
from kfmt_cli.sharing.read_piece import PieceReader
from kfmt_cli.sharing.request import Request


def reader_of(request: Request) -> PieceReader:
    """A reader of pieces, wherever they are stored."""
    return PieceReader(request.wanted, request.limit, open_stored, request.fail_fast)
