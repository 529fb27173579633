"""Reads files with unreadable bytes, such as bad sectors, for `salvage`."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from kfmt_cli.core.source import Source
from kfmt_cli.errors import UnreadableBytesError

# Zeros would look like the preallocated end of a file; no batch begins like this.
FILLER_BYTE = b"\xff"
_GET_RANGE_END = attrgetter("end")


@dataclass(frozen=True, slots=True)
class UnreadableRange:
    """Unreadable bytes, from `start` up to `end`, and the error on reading them."""

    start: int
    end: int
    error: UnreadableBytesError


@dataclass(slots=True)
class UnreadableRanges:
    """The unreadable ranges found so far in a file."""

    ranges: list[UnreadableRange] = field(default_factory=list)
    """In order, without overlaps. Other threads may add to them."""

    def add_range(self, start: int, end: int, error: UnreadableBytesError) -> None:
        """Add a range, which ends before the next known one; no known one may contain its start."""
        next_range = next(self.ranges_ending_after(start), None)
        if next_range is not None:
            end = min(end, next_range.start)
        insort(self.ranges, UnreadableRange(start, end, error), key=_GET_RANGE_END)

    def ranges_ending_after(self, position: int) -> Iterator[UnreadableRange]:
        """The ranges that end after a position, in order."""
        return iter(self.ranges[bisect_right(self.ranges, position, key=_GET_RANGE_END) :])

    def first_unreadable_position(self, position: int, n_bytes: int) -> int | None:
        """The first unreadable byte among `n_bytes` bytes at a position, or None."""
        next_range = next(self.ranges_ending_after(position), None)
        if next_range is None or next_range.start >= position + n_bytes:
            return None
        return max(next_range.start, position)

    def count_unreadable_bytes(self, position: int, size: int) -> int:
        """The number of unreadable bytes among `size` bytes at a position."""
        n_unreadable_bytes = 0
        for unreadable_range in self.ranges_ending_after(position):
            n_unreadable_bytes += max(
                0,
                min(unreadable_range.end, position + size) - max(unreadable_range.start, position),
            )
        return n_unreadable_bytes


class FilledSource(Source):
    """A source with `FILLER_BYTE` in place of unreadable bytes.

    unreadable: the known ranges, to which reads add. They are not read again, because each attempt
    takes seconds on a failing disk.
    """

    def __init__(self, source: Source, unreadable_ranges: UnreadableRanges) -> None:
        self.name, self.size = source.name, source.size
        self.max_block_bytes = source.max_block_bytes
        self.unreadable_block_bytes = source.unreadable_block_bytes
        self._source, self._unreadable_ranges = source, unreadable_ranges

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        block_end, min_block_end = position + length, position + max(min_length, 1)
        filled_data = bytearray()
        while (next_position := position + len(filled_data)) < min(min_block_end, block_end):
            unreadable_start = self._unreadable_ranges.first_unreadable_position(
                next_position, block_end - next_position
            )
            if unreadable_start == next_position:
                read_end = min(
                    block_end, next(self._unreadable_ranges.ranges_ending_after(next_position)).end
                )
                read_end = read_end if self.size is None else min(read_end, self.size)
                if read_end <= next_position:
                    break
                filled_data += FILLER_BYTE * (read_end - next_position)
                continue
            read_end = block_end if unreadable_start is None else unreadable_start
            try:
                data = self._source.read_block(
                    next_position,
                    read_end - next_position,
                    min(min_block_end, read_end) - next_position,
                )
            except UnreadableBytesError as error:
                error_position = max(next_position, error.position)
                self._unreadable_ranges.add_range(
                    error_position,
                    error_position
                    - error_position % self.unreadable_block_bytes
                    + self.unreadable_block_bytes,
                    error,
                )
                continue
            if not data:
                break
            filled_data += data
        return bytes(filled_data)

    def has_grown(self, seen_size: int) -> bool:
        return self._source.has_grown(seen_size)

    def iter_holes(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        return self._source.iter_holes(start, end)

    def prefetch_block(self, position: int, length: int) -> None:
        self._source.prefetch_block(position, length)

    def release_bytes_before(self, position: int) -> None:
        self._source.release_bytes_before(position)

    def close(self) -> None:
        self._source.close()
