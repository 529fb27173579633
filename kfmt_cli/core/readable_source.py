"""Reads around bytes that are lost, such as those of bad sectors, as `salvage` does."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.source import Source
from kfmt_cli.errors import LostBytesError

FILLER = b"\xff"  # zeros would look like the preallocated end of a file; no batch begins like this

Lost = dict[int, tuple[int, LostBytesError]]
"""The first lost byte of each unit that has one, with the reason. The rest of the unit is lost."""


class ReadableSource(Source):
    """A source with filler in place of lost bytes.

    lost: is added to; what it has is not read again, as a failing disk takes seconds for each
    attempt.
    """

    def __init__(self, source: Source, lost: Lost) -> None:
        self.name, self.size = source.name, source.size
        self.largest, self.unit = source.largest, source.unit
        self.lost = lost
        self._source = source

    def block(self, position: int, length: int, least: int) -> bytes:
        least = max(least, 1)
        next_lost = min(self._lost_after(position), default=position + length)
        if next_lost >= position + least:
            try:
                return self._source.block(position, min(length, next_lost - position), least)
            except LostBytesError:
                pass
        found = bytearray()
        while len(found) < least and (piece := self._piece(position + len(found))):
            found += piece
        return bytes(found[:length])

    def _lost_after(self, position: int) -> Iterator[int]:
        """The first lost byte of each unit that does not end before a position."""
        lost = list(self.lost.items())  # other threads may add to it
        return (first for start, (first, _) in lost if start + self.unit > position)

    def _piece(self, at: int) -> bytes:
        """Bytes of the unit at a position: those that can be read next, or filler."""
        start = at - at % self.unit
        end = start + self.unit
        first, _ = self.lost.get(start, (end, None))
        if at < first:
            try:
                return self._source.block(at, first - at, 1)
            except LostBytesError as error:
                self.lost[start] = at, error
        return FILLER * ((end if self.size is None else min(end, max(at, self.size))) - at)

    def end_of_data(self) -> int:
        return self._source.end_of_data()

    def prefetch(self, position: int, length: int) -> None:
        self._source.prefetch(position, length)

    def release(self, position: int) -> None:
        self._source.release(position)

    def close(self) -> None:
        self._source.close()
