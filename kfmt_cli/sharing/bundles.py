"""Groups the pieces whose rows share a file: few large files, however small the segments.

Consecutive segments of a partition share a file, as do small partitions. The parts of a log that
was cut share no file with other logs, so that the log can be reread as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from kfmt_cli.sharing.piece import Piece, pack


@dataclass(frozen=True, slots=True)
class Bundling:
    """Which pieces may share a file."""

    by_topic: bool = False
    """Only pieces of the same topic."""
    by_date: bool = False
    """Only records of the same day, in UTC."""
    by_partition: bool = False
    """Only pieces of the same partition."""

    def bundles(self, pieces: Iterable[Piece], target: int) -> Iterator[list[Piece]]:
        """The pieces, in order, in bundles of about `target` bytes."""
        for _, alike in groupby(pieces, self._key):
            yield from pack(alike, target, 0)

    def _key(self, piece: Piece) -> tuple[object, ...]:
        topic, partition = piece.place
        apart = piece.path if not piece.is_whole else ""
        if self.by_partition:
            return topic, partition, apart, piece.folder, piece.kind.name
        return (topic if self.by_topic else "", apart, piece.kind.name)
