"""The work that a job does on pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.urls import is_local
from kfmt_cli.sharing.bundles import Bundling
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.wanted import digest

Result = dict[str, Any]
Stored = Fields
"""A result that was stored."""
Work = Callable[[Request, Sequence[Piece], str], list[Result]]


@dataclass(frozen=True, slots=True)
class Job:
    """A job's work on pieces."""

    name: str
    work: Work
    """Called in a task with request, pieces and directory; returns a JSON result per piece."""
    options: dict[str, object]
    """The options that the results depend on."""
    bundling: Bundling | None = None
    """How pieces are bundled, if several pieces share output files."""

    def folder(self, to: str) -> str:
        """The directory in which tasks write outputs, which a commit moves to `to`. In a store they
        write below `to` at once, as objects cannot be renamed."""
        return f"{to}/_kfmt/staged" if is_local(to) else to


def about(piece: Piece, request: Request) -> list[object]:
    """The identity of a piece: a stored result is valid only if it is the same."""
    known = request.in_folders.get(piece.folder)
    selected = [] if known is None else [digest({piece.folder: known})]
    return [piece.size, piece.modified, piece.start, piece.end, *selected]
