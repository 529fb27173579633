"""What a job does with pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kfmt_cli.sharing.bundles import Bundling
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request

Result = dict[str, Any]
Work = Callable[[Request, Sequence[Piece], str], list[Result]]


@dataclass(frozen=True, slots=True)
class Job:
    """What is done with pieces."""

    name: str
    work: Work
    """Called in a task with the request, its pieces and the directory; a result of JSON for each.
    """
    options: dict[str, object]
    """What the results depend on."""
    bundling: Bundling | None = None
    """Which pieces are done together, where the files that are made are of those."""


def about(piece: Piece) -> list[int]:
    """What must be the same for the result of a piece to be one of it."""
    return [piece.size, piece.modified, piece.start, piece.end]
