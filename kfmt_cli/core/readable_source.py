"""Reads around bytes that are lost, such as those of bad sectors, as `salvage` does."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from kfmt_cli.core.source import Source
from kfmt_cli.errors import LostBytesError

FILLER = b"\xff"  # zeros would look like the preallocated end of a file; no batch begins like this
_END = attrgetter("end")


@dataclass(frozen=True, slots=True)
class LostRange:
    """Lost bytes, from the first to the end."""

    first: int
    end: int
    error: LostBytesError


@dataclass(slots=True)
class Lost:
    """The lost bytes of a file that are known."""

    ranges: list[LostRange] = field(default_factory=list)
    """In order, without overlaps. Other threads may add to them."""

    def add(self, first: int, end: int, error: LostBytesError) -> None:
        """A range, up to the next one that is known. Its first byte is in none."""
        following = next(self.after(first), None)
        if following is not None:
            end = min(end, following.first)
        insort(self.ranges, LostRange(first, end, error), key=_END)

    def after(self, position: int) -> Iterator[LostRange]:
        """The ranges that end after a position, in order."""
        return iter(self.ranges[bisect_right(self.ranges, position, key=_END) :])

    def first_in(self, position: int, size: int) -> int | None:
        """The first lost byte of `size` bytes at a position; None if none is lost."""
        found = next(self.after(position), None)
        if found is None or found.first >= position + size:
            return None
        return max(found.first, position)

    def bytes_in(self, position: int, size: int) -> int:
        """The number of lost bytes among `size` bytes at a position."""
        found = 0
        for each in self.after(position):
            found += max(0, min(each.end, position + size) - max(each.first, position))
        return found


class ReadableSource(Source):
    """A source with filler in place of lost bytes.

    lost: is added to; what it has is not read again, as a failing disk takes seconds for each
    attempt.
    """

    def __init__(self, source: Source, lost: Lost) -> None:
        self.name, self.size = source.name, source.size
        self.largest, self.unit = source.largest, source.unit
        self._source, self._lost = source, lost

    def block(self, position: int, length: int, least: int) -> bytes:
        end, needed = position + length, position + max(least, 1)
        found = bytearray()
        while (at := position + len(found)) < min(needed, end):
            lost = self._lost.first_in(at, end - at)
            if lost == at:
                stop = min(end, next(self._lost.after(at)).end)
                stop = stop if self.size is None else min(stop, self.size)
                if stop <= at:
                    break
                found += FILLER * (stop - at)
                continue
            stop = end if lost is None else lost
            try:
                data = self._source.block(at, stop - at, min(needed, stop) - at)
            except LostBytesError as error:
                first = max(at, error.at)
                self._lost.add(first, first - first % self.unit + self.unit, error)
                continue
            if not data:
                break
            found += data
        return bytes(found)

    def end_of_data(self) -> int:
        return self._source.end_of_data()

    def prefetch(self, position: int, length: int) -> None:
        self._source.prefetch(position, length)

    def release(self, position: int) -> None:
        self._source.release(position)

    def close(self) -> None:
        self._source.close()
