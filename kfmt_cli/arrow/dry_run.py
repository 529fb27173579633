"""The plan of a job: its inputs, its output and the number of requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kfmt_cli.core.small_objects import is_fetched
from kfmt_cli.core.stored_source import WINDOW
from kfmt_cli.core.urls import is_local
from kfmt_cli.render.style import count, grouped
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.pieces import Pieces


def dry_run(files: Pieces, shares: Iterable[Sequence[Piece]], to: str) -> list[str]:
    """The plan, as lines: how much data a job would read, and where it would write. shares: the
    pieces of each task."""
    reads = tasks = 0
    for share in shares:
        tasks += 1
        for piece in share:
            if not is_local(piece.path):
                head = 0 if is_fetched(piece.path, piece.size) else 1
                reads += head + max(-(-(piece.end - piece.start) // WINDOW), 1)
    stored = f", in about {count(reads, 'object store request')}" if reads else ""
    return [
        f"would read {count(len(files), 'file')}, {grouped(files.n_bytes)} bytes{stored}",
        f"would run {count(tasks, 'task')} and write to {to}",
        "dry run: nothing was read or written",
    ]
