"""Pieces whose rows go into one file: few good files, whatever the segments are.

Consecutive segments of a partition are together, small partitions share a file. The parts of a log
that was cut are with no other log, so that it can be read anew as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from kfmt_cli.sharing.piece import Piece, pack


@dataclass(frozen=True, slots=True)
class Bundling:
    """What may be in one file."""

    by_topic: bool = False
    """Nothing of another topic."""
    by_date: bool = False
    """Nothing of another day, in UTC."""
    by_partition: bool = False
    """Nothing of another partition."""

    def bundles(self, pieces: Iterable[Piece], target: int) -> Iterator[list[Piece]]:
        """Pieces, in their order, in bundles of about `target` bytes."""
        for _, alike in groupby(pieces, self._key):
            yield from pack(alike, target, 0)

    def _key(self, piece: Piece) -> tuple[object, ...]:
        topic, partition = piece.place
        apart = piece.path if not piece.is_whole else ""
        if self.by_partition:
            return topic, partition, apart, piece.folder
        return (topic if self.by_topic else "", apart)
