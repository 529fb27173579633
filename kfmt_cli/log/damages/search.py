"""The search for undamaged batches in a log, within a budget of checksums.

A batch begins at a byte with a plausible header and a matching checksum. Bytes of a pipe far before
the current position may be gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.codecs.checksum import crc_of
from kfmt_cli.core.native import scan
from kfmt_cli.core.source import Source
from kfmt_cli.log.block import CHECKED_FROM, HEADER_SIZE, LOG_OVERHEAD, POLYNOMIALS, STORED_CRC_AT
from kfmt_cli.log.damages.batch_candidates import (
    HEADER_UP_TO_MAGIC,
    MINIMUMS,
    RANGE,
    ZEROS,
    Candidate,
    OffsetWindow,
)

WINDOW = 1 << 20
# How far back a pipe's bytes are kept, and how far ahead a batch's checksum is searched.
REACH = 64 << 20
# What the search for the next batch may spend on checksums: this many bytes, plus this many for
# each byte searched. After that, only checksums of small batches are computed.
BUDGET = 1 << 30
BUDGET_RATIO = 16
# What looking ahead may spend on bytes passed, headers and checksums: this much, plus
# BUDGET_RATIO for each byte searched. After that, it reaches only nearby bytes.
LOOKS = 128 << 20
HEADER_COST = 512
NEARBY = 1 << 15
# This many batches in a row are neither chance nor the contents of a record.
CHAIN = 3


class Budget:
    """What may be spent on one file, in bytes; it grows with the bytes searched."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._spent = 0
        self.covered = 0

    def spend(self, cost: int) -> None:
        self._spent += cost

    @property
    def is_spent(self) -> bool:
        return self._spent > self._limit + BUDGET_RATIO * self.covered


class BatchSearch:
    """Looks for batches in a log."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.sets = True  # whether there may be compressed message sets of magic 0 and 1
        self._search = Budget(BUDGET)
        self._looks = Budget(LOOKS)
        self._seen = 0  # how far a search got; a pipe may have dropped bytes far before it

    def confirmed(self, at: int, budget: Budget | None = None) -> bool:
        """Whether a complete batch with a matching checksum begins at `at`."""
        header = self._header(at)
        magic = header.magic
        if magic not in (0, 1, 2) or header.length < MINIMUMS[magic]:
            return False
        return self._checksum_fits(header, at + header.size, magic, budget)

    def _header(self, at: int) -> Candidate:
        return Candidate(at, self._source.block(at, HEADER_SIZE, HEADER_SIZE))

    def _checksum_fits(
        self, header: Candidate, end: int, magic: int, budget: Budget | None = None
    ) -> bool:
        """Whether the bytes up to `end` match the header's checksum."""
        size = self._source.size
        if (
            end - header.position < LOG_OVERHEAD + MINIMUMS[magic]
            or end - header.position > self._source.largest
        ):
            return False
        if size is not None and end > size and not self._source.block(end - 1, 1, 1):
            return False
        at = header.position + CHECKED_FROM[magic]
        crc = self._checksum(POLYNOMIALS[magic], 0, at, end, budget or self._search)
        return crc == _stored_checksum(header, magic)

    def _belongs(self, at: int, window: OffsetWindow) -> bool:
        """Whether the confirmed batch at `at` is part of the log, and not inside a record.

        A record may contain complete batches, and compressed message sets of magic 0 and 1 begin
        with an unchanged message. Their offsets are unrelated to the log's, or make no sense.
        """
        header = self._header(at)
        if not window.holds(header):
            return window.last is None and self._chain(at, CHAIN)
        bounded = window.first is not None and window.last is not None
        if header.magic == 2 and (bounded or header.base_offset in window.likely):
            return True
        if header.magic < 2 and not header.compressed and window.sets:
            followed = self._is_followed(header) and self._chain(at, 2)
            return followed or window.is_near(header) or self._is_among_loose(header)
        return not self._is_contradicted(header, window)

    def _is_among_loose(self, header: Candidate) -> bool:
        """Whether the next batch that is followed by another is also an uncompressed message."""
        end = header.position + header.size
        for at in self.confirmed_from(end, end + WINDOW):
            after = self._header(at)
            if self._is_followed(after):
                loose = after.magic < 2 and not after.compressed
                return loose and header.base_offset < after.base_offset
        return False

    def _is_contradicted(self, header: Candidate, window: OffsetWindow) -> bool:
        """Whether one of the next batches has an offset that belongs before this one."""
        end = header.position + header.size
        agreeing = 0
        for at in self.confirmed_from(end, end + WINDOW):
            after = self._header(at)
            before = after.magic == 2 and after.base_offset < header.next_offset
            if before and after.base_offset in window.likely:
                return True
            agreeing += window.holds(after)
            if agreeing == CHAIN:
                break
        return False

    def _is_followed(self, header: Candidate) -> bool:
        """Whether the file ends after a batch, or the next one could follow."""
        end = header.position + header.size
        if self._is_end(end):
            return True
        after = self._header(end)
        if after.magic in (0, 1, 2):
            return header.next_offset <= after.base_offset < header.next_offset + RANGE
        return False

    def _chain(self, at: int, n: int) -> bool:
        """Whether n undamaged batches with increasing offsets begin at `at`, or fewer up to the
        end."""
        offset = -1
        for _ in range(n):
            if self._is_end(at):
                return True
            header = self._header(at)
            if header.base_offset <= offset or not self.confirmed(at):
                return False
            offset = header.base_offset
            at += header.size
        return True

    def _is_end(self, at: int) -> bool:
        """Whether nothing but zeros follows."""
        front = self._source.block(at, HEADER_SIZE, HEADER_SIZE)
        return not any(front) and not self._source.block(self._zeros(at), 1, 1)

    def _proven_end(self, header: Candidate, ends: Iterator[int]) -> int | None:
        """The first of some increasing ends for which the header's checksum matches, or None."""
        if header.magic not in (0, 1, 2):
            return None
        crc, stored = 0, _stored_checksum(header, header.magic)
        least = header.position + LOG_OVERHEAD + int(MINIMUMS[header.magic])
        at = header.position + CHECKED_FROM[header.magic]
        for end in ends:
            if end - header.position > min(REACH, self._source.largest):
                return None
            if end < least:
                continue
            found = self._checksum(POLYNOMIALS[header.magic], crc, at, end, self._looks)
            if found is None:
                return None
            if found == stored:
                return end
            crc, at = found, end
        return None

    def _checksum(self, polynomial: int, crc: int, at: int, end: int, budget: Budget) -> int | None:
        """A checksum that continues with the bytes from `at` to `end`; None if some are missing
        or the budget is spent."""
        is_small = end - at <= NEARBY
        while at < end:
            if budget.is_spent and not is_small:
                return None
            piece = self._source.block(at, min(WINDOW, end - at), min(WINDOW, end - at))
            if not piece:
                return None
            crc = crc_of(polynomial, piece, crc)
            at += len(piece)
            budget.spend(len(piece))
        return crc

    def confirmed_from(self, at: int, stop: int | None) -> Iterator[int]:
        """Positions in [at, stop) where undamaged batches begin."""
        return filter(self.confirmed, self._plausible_from(at, stop))

    def _plausible_from(self, at: int, stop: int | None) -> Iterator[int]:
        """Positions in [at, stop) with plausible batch headers."""
        while True:
            length = WINDOW if stop is None else min(WINDOW, stop - at + HEADER_SIZE)
            data = self._source.block(at, length, length)
            size = self._source.size
            available = self._source.largest if size is None else max(size - at, len(data))
            end = len(data) if stop is None else min(len(data), stop - at + HEADER_UP_TO_MAGIC - 1)
            candidate = -1
            while True:
                candidate = scan.find_header(data, candidate + 1, end, MINIMUMS, ZEROS, available)
                if candidate < 0:
                    break
                yield at + candidate
            self._search.covered += len(data)
            self._seen = max(self._seen, at)
            if len(data) < WINDOW or end < len(data):
                return
            at += len(data) - HEADER_SIZE
            self._source.release(at - REACH)

    def _look_ahead(self, at: int, stop: int) -> Iterator[int]:
        """`_plausible_from`, within the budget for looking ahead in this file."""
        if self._looks.is_spent:
            stop = min(stop, at + NEARBY)
        before = at
        for place in self._plausible_from(at, stop):
            self._looks.spend(place - before + HEADER_COST)
            before = place
            if place - at > NEARBY and self._looks.is_spent:
                return
            yield place
            self._looks.covered = self._seen
        self._looks.spend(max(min(stop, self._seen) - before, 0))

    def _end_of_file(self, at: int) -> int:
        """Where the file ends, at `at` or later."""
        at = max(at, self._seen, self._source.size or 0)
        while piece := self._source.block(at, WINDOW, 1):
            at += len(piece)
            self._source.release(at - REACH)
        return at

    def _zeros(self, at: int) -> int:
        """The first non-zero byte at `at` or later, or the end of the file."""
        while piece := self._source.block(at, WINDOW, 1):
            first: int = scan.find_nonzero(piece, 0, len(piece))
            at += first
            if first < len(piece):
                break
            self._source.release(at - REACH)
        return at


def _stored_checksum(header: Candidate, magic: int) -> int:
    """The checksum in a header, read as a header of this magic."""
    at = STORED_CRC_AT[magic]
    return int.from_bytes(header.data[at : at + 4], "big")
