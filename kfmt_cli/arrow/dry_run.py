"""The plan of a job: its inputs, its output and the number of requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kfmt_cli.core.small_objects import is_fetched
from kfmt_cli.core.stored_source import WINDOW
from kfmt_cli.core.urls import is_local
from kfmt_cli.render.style import count, grouped
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.pieces import Pieces


@dataclass(frozen=True, slots=True)
class DryRun:
    """The amount of data a job would read, and where it would write."""

    inputs: int
    bytes: int
    tasks: int
    reads: int
    """Requests to object stores."""
    to: str

    def lines(self) -> list[str]:
        """The plan as text."""
        stored = f", in about {count(self.reads, 'object store request')}" if self.reads else ""
        return [
            f"would read {count(self.inputs, 'file')}, {grouped(self.bytes)} bytes{stored}",
            f"would run {count(self.tasks, 'task')} and write to {self.to}",
            "dry run: nothing was read or written",
        ]


def dry_run(files: Pieces, shares: Iterable[Sequence[Piece]], to: str) -> DryRun:
    """The plan. shares: the pieces of each task."""
    reads = tasks = 0
    for share in shares:
        tasks += 1
        for piece in share:
            if not is_local(piece.path):
                head = 0 if is_fetched(piece.path, piece.size) else 1
                reads += head + max(-(-(piece.end - piece.start) // WINDOW), 1)
    return DryRun(len(files), files.n_bytes, tasks, reads, to)
