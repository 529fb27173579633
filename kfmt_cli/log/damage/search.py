"""The search for undamaged batches in a log, within a budget of checksums.

A batch begins at a byte with a plausible header and a matching checksum. Bytes of a pipe far before
the current position may no longer be available.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.codecs.checksum import compute_crc
from kfmt_cli.core.native import scan
from kfmt_cli.core.source import Source
from kfmt_cli.log.block import (
    BATCH_HEADER_BYTES,
    CRC_OFFSET_BY_MAGIC,
    CRC_START_BY_MAGIC,
    LOG_OVERHEAD_BYTES,
    POLYNOMIAL_BY_MAGIC,
)
from kfmt_cli.log.damage.batch_candidates import (
    ALWAYS_ZERO_BITS,
    BYTES_UP_TO_MAGIC,
    MAX_OFFSET_JUMP,
    MIN_LENGTH_BY_MAGIC,
    BatchCandidate,
    PossibleOffsets,
)

WINDOW_BYTES = 1 << 20
# How far back a pipe's bytes are kept, and how far ahead a batch's checksum is searched.
MAX_LOOKAHEAD_BYTES = 64 << 20
# What the search for the next batch may spend on checksums: this many bytes, plus this many for
# each byte searched. After that, only checksums of small batches are computed.
CHECKSUM_BUDGET_BYTES = 1 << 30
BUDGET_PER_BYTE = 16
# What looking ahead may spend on bytes passed, headers and checksums: this much, plus
# BUDGET_PER_BYTE for each byte searched. After that, it reaches only nearby bytes.
LOOKAHEAD_BUDGET_BYTES = 128 << 20
HEADER_COST_BYTES = 512
NEARBY_BYTES = 1 << 15
# This many batches in a row are neither chance nor the contents of a record.
MIN_CHAIN_BATCHES = 3


class SearchBudget:
    """The bytes that a search may spend on one file; it grows with the bytes searched."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._spent = 0
        self.bytes_searched = 0

    def spend(self, cost: int) -> None:
        self._spent += cost

    @property
    def is_spent(self) -> bool:
        return self._spent > self._limit + BUDGET_PER_BYTE * self.bytes_searched


class BatchSearch:
    """Searches for batches in a log."""

    def __init__(self, source: Source) -> None:
        self._source = source
        # Whether there may be compressed message sets of magic 0 and 1.
        self.may_have_compressed_sets = True
        self._checksum_budget = SearchBudget(CHECKSUM_BUDGET_BYTES)
        self._lookahead_budget = SearchBudget(LOOKAHEAD_BUDGET_BYTES)
        self._searched_end = 0  # how far a search got; a pipe may have dropped bytes far before it

    def is_batch_start(self, position: int, budget: SearchBudget | None = None) -> bool:
        """Whether a complete batch with a matching checksum begins at `position`."""
        header = self._read_header(position)
        magic = header.magic
        if magic not in (0, 1, 2) or header.length < MIN_LENGTH_BY_MAGIC[magic]:
            return False
        return self._checksum_matches(header, position + header.size, magic, budget)

    def _read_header(self, position: int) -> BatchCandidate:
        return BatchCandidate(
            position, self._source.read_block(position, BATCH_HEADER_BYTES, BATCH_HEADER_BYTES)
        )

    def _checksum_matches(
        self, header: BatchCandidate, end: int, magic: int, budget: SearchBudget | None = None
    ) -> bool:
        """Whether the bytes up to `end` match the header's checksum."""
        size = self._source.size
        if (
            end - header.position < LOG_OVERHEAD_BYTES + MIN_LENGTH_BY_MAGIC[magic]
            or end - header.position > self._source.max_block_bytes
        ):
            return False
        if size is not None and end > size and not self._source.read_block(end - 1, 1, 1):
            return False
        start = header.position + CRC_START_BY_MAGIC[magic]
        crc = self._extend_checksum(
            POLYNOMIAL_BY_MAGIC[magic], 0, start, end, budget or self._checksum_budget
        )
        return crc == _stored_checksum(header, magic)

    def _belongs_to_log(self, position: int, possible_offsets: PossibleOffsets) -> bool:
        """Whether the confirmed batch at `position` is part of the log, and not inside a record.

        A record may contain complete batches, and compressed message sets of magic 0 and 1 begin
        with an unchanged message. Their offsets are unrelated to the log's, or make no sense.
        """
        header = self._read_header(position)
        if not possible_offsets.allows(header):
            return possible_offsets.max_last_offset is None and self._starts_chain(
                position, MIN_CHAIN_BATCHES
            )
        is_bounded = (
            possible_offsets.min_base_offset is not None
            and possible_offsets.max_last_offset is not None
        )
        if header.magic == 2 and (
            is_bounded or header.base_offset in possible_offsets.expected_base_offsets
        ):
            return True
        if (
            header.magic < 2
            and not header.is_compressed
            and possible_offsets.may_have_compressed_sets
        ):
            is_followed = self._is_followed(header) and self._starts_chain(position, 2)
            return (
                is_followed
                or possible_offsets.has_offset_outside_set(header)
                or self._precedes_unbatched_message(header)
            )
        return not self._has_earlier_batch_after(header, possible_offsets)

    def _precedes_unbatched_message(self, header: BatchCandidate) -> bool:
        """Whether the next batch that is followed by another is also an uncompressed message."""
        end = header.position + header.size
        for position in self.iter_batch_starts(end, end + WINDOW_BYTES):
            next_header = self._read_header(position)
            if self._is_followed(next_header):
                is_unbatched = next_header.magic < 2 and not next_header.is_compressed
                return is_unbatched and header.base_offset < next_header.base_offset
        return False

    def _has_earlier_batch_after(
        self, header: BatchCandidate, possible_offsets: PossibleOffsets
    ) -> bool:
        """Whether one of the next batches has an offset that belongs before this one."""
        end = header.position + header.size
        n_agreeing = 0
        for position in self.iter_batch_starts(end, end + WINDOW_BYTES):
            next_header = self._read_header(position)
            is_before = next_header.magic == 2 and next_header.base_offset < header.next_offset
            if is_before and next_header.base_offset in possible_offsets.expected_base_offsets:
                return True
            n_agreeing += possible_offsets.allows(next_header)
            if n_agreeing == MIN_CHAIN_BATCHES:
                break
        return False

    def _is_followed(self, header: BatchCandidate) -> bool:
        """Whether the file ends after a batch, or the next one could follow."""
        end = header.position + header.size
        if self._only_zeros_follow(end):
            return True
        next_header = self._read_header(end)
        if next_header.magic in (0, 1, 2):
            return (
                header.next_offset <= next_header.base_offset < header.next_offset + MAX_OFFSET_JUMP
            )
        return False

    def _starts_chain(self, position: int, n_batches: int) -> bool:
        """Whether `n_batches` undamaged batches with increasing offsets begin at `position`, or
        fewer up to the end of the file."""
        previous_offset = -1
        for _ in range(n_batches):
            if self._only_zeros_follow(position):
                return True
            header = self._read_header(position)
            if header.base_offset <= previous_offset or not self.is_batch_start(position):
                return False
            previous_offset = header.base_offset
            position += header.size
        return True

    def _only_zeros_follow(self, position: int) -> bool:
        """Whether only zeros follow up to the end of the file."""
        header_bytes = self._source.read_block(position, BATCH_HEADER_BYTES, BATCH_HEADER_BYTES)
        return not any(header_bytes) and not self._source.read_block(
            self._find_end_of_zeros(position), 1, 1
        )

    def _find_proven_end(self, header: BatchCandidate, ends: Iterator[int]) -> int | None:
        """The first of some increasing ends for which the header's checksum matches, or None."""
        if header.magic not in (0, 1, 2):
            return None
        crc, stored_crc = 0, _stored_checksum(header, header.magic)
        min_end = header.position + LOG_OVERHEAD_BYTES + int(MIN_LENGTH_BY_MAGIC[header.magic])
        start = header.position + CRC_START_BY_MAGIC[header.magic]
        for end in ends:
            if end - header.position > min(MAX_LOOKAHEAD_BYTES, self._source.max_block_bytes):
                return None
            if end < min_end:
                continue
            next_crc = self._extend_checksum(
                POLYNOMIAL_BY_MAGIC[header.magic], crc, start, end, self._lookahead_budget
            )
            if next_crc is None:
                return None
            if next_crc == stored_crc:
                return end
            crc, start = next_crc, end
        return None

    def _extend_checksum(
        self, polynomial: int, crc: int, start: int, end: int, budget: SearchBudget
    ) -> int | None:
        """A checksum that continues with the bytes from `start` to `end`; None if some are missing
        or the budget is spent."""
        is_small = end - start <= NEARBY_BYTES
        while start < end:
            if budget.is_spent and not is_small:
                return None
            chunk = self._source.read_block(
                start, min(WINDOW_BYTES, end - start), min(WINDOW_BYTES, end - start)
            )
            if not chunk:
                return None
            crc = compute_crc(polynomial, chunk, crc)
            start += len(chunk)
            budget.spend(len(chunk))
        return crc

    def iter_batch_starts(self, start: int, stop: int | None) -> Iterator[int]:
        """Positions in [start, stop) where undamaged batches begin."""
        return filter(self.is_batch_start, self._iter_plausible_starts(start, stop))

    def _iter_plausible_starts(self, start: int, stop: int | None) -> Iterator[int]:
        """Positions in [start, stop) with plausible batch headers."""
        while True:
            length = (
                WINDOW_BYTES
                if stop is None
                else min(WINDOW_BYTES, stop - start + BATCH_HEADER_BYTES)
            )
            data = self._source.read_block(start, length, length)
            size = self._source.size
            n_available = (
                self._source.max_block_bytes if size is None else max(size - start, len(data))
            )
            end = (
                len(data) if stop is None else min(len(data), stop - start + BYTES_UP_TO_MAGIC - 1)
            )
            index = -1
            while True:
                index = scan.find_batch_header(
                    data, index + 1, end, MIN_LENGTH_BY_MAGIC, ALWAYS_ZERO_BITS, n_available
                )
                if index < 0:
                    break
                yield start + index
            self._checksum_budget.bytes_searched += len(data)
            self._searched_end = max(self._searched_end, start)
            if len(data) < WINDOW_BYTES or end < len(data):
                return
            start += len(data) - BATCH_HEADER_BYTES
            self._source.release(start - MAX_LOOKAHEAD_BYTES)

    def _iter_starts_ahead(self, start: int, stop: int) -> Iterator[int]:
        """`_iter_plausible_starts`, within the budget for looking ahead in this file."""
        if self._lookahead_budget.is_spent:
            stop = min(stop, start + NEARBY_BYTES)
        previous_position = start
        for position in self._iter_plausible_starts(start, stop):
            self._lookahead_budget.spend(position - previous_position + HEADER_COST_BYTES)
            previous_position = position
            if position - start > NEARBY_BYTES and self._lookahead_budget.is_spent:
                return
            yield position
            self._lookahead_budget.bytes_searched = self._searched_end
        self._lookahead_budget.spend(max(min(stop, self._searched_end) - previous_position, 0))

    def _find_end_of_file(self, position: int) -> int:
        """Where the file ends, at `position` or later."""
        position = max(position, self._searched_end, self._source.size or 0)
        while chunk := self._source.read_block(position, WINDOW_BYTES, 1):
            position += len(chunk)
            self._source.release(position - MAX_LOOKAHEAD_BYTES)
        return position

    def _find_end_of_zeros(self, position: int) -> int:
        """The first non-zero byte at `position` or later, or the end of the file."""
        while chunk := self._source.read_block(position, WINDOW_BYTES, 1):
            first_nonzero: int = scan.find_nonzero(chunk, 0, len(chunk))
            position += first_nonzero
            if first_nonzero < len(chunk):
                break
            self._source.release(position - MAX_LOOKAHEAD_BYTES)
        return position


def _stored_checksum(header: BatchCandidate, magic: int) -> int:
    """The checksum in a header, read as a header of this magic."""
    start = CRC_OFFSET_BY_MAGIC[magic]
    return int.from_bytes(header.data[start : start + 4], "big")
