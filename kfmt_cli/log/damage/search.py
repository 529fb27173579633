"""The search for undamaged batches in a log, within a budget of checksums.

A batch begins at a byte with a plausible header and a matching checksum. Bytes of a pipe far before
the current position may no longer be available.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.codecs.checksum import compute_crc
from kfmt_cli.core.layout.varint import MAX_VARINT_BYTES
from kfmt_cli.core.layout.wire_types import WireError, ZigZag32
from kfmt_cli.core.native import scan
from kfmt_cli.core.source import Source
from kfmt_cli.formats.batch import RECORD
from kfmt_cli.formats.legacy import MESSAGE_LAYOUTS
from kfmt_cli.log.block import (
    BATCH_HEADER_BYTES,
    CHECKSUMMED_START_BY_MAGIC,
    CRC_POSITION_BY_MAGIC,
    LOG_OVERHEAD_BYTES,
    POLYNOMIAL_BY_MAGIC,
)
from kfmt_cli.log.damage.batch_candidates import (
    ALWAYS_ZERO_BITS,
    BYTES_UP_TO_MAGIC,
    MAX_OFFSET_JUMP,
    MIN_LENGTH_BY_MAGIC,
    NO_MESSAGE_SET,
    BatchCandidate,
    PossibleOffsets,
    is_message_after,
)

SEARCH_WINDOW_BYTES = 1 << 20
# How far back a pipe's bytes are kept, and how far ahead a batch's checksum is searched.
MAX_LOOKAHEAD_BYTES = 64 << 20
# What the search for the next batch may spend on checksums: this many bytes, plus this many for
# each byte searched. After that, only checksums of small batches are computed.
CHECKSUM_BUDGET_BYTES = 1 << 30
BUDGET_PER_SEARCHED_BYTE = 16
# What looking ahead may spend on bytes passed, headers and checksums: this much, plus
# BUDGET_PER_BYTE for each byte searched. After that, it reaches only nearby bytes.
LOOKAHEAD_BUDGET_BYTES = 128 << 20
HEADER_COST_BYTES = 512
NEARBY_BYTES = 1 << 15
# This many batches in a row are neither chance nor the contents of a record.
MIN_CHAIN_BATCHES = 3


class SearchBudget:
    """The bytes that a search may spend on one file; it grows with the bytes searched."""

    def __init__(self, base_limit_bytes: int) -> None:
        self._base_limit_bytes = base_limit_bytes
        self._spent_bytes = 0
        self.n_searched_bytes = 0

    def spend_bytes(self, n_bytes: int) -> None:
        self._spent_bytes += n_bytes

    @property
    def is_spent(self) -> bool:
        return (
            self._spent_bytes
            > self._base_limit_bytes + BUDGET_PER_SEARCHED_BYTE * self.n_searched_bytes
        )


class BatchSearch:
    """Searches for batches in a log."""

    def __init__(self, source: Source) -> None:
        self._source = source
        # The last compressed message set of magic 0 and 1: its offset, NO_MESSAGE_SET, or None if
        # unknown.
        self.message_set_offset: int | None = None
        self._checksum_budget = SearchBudget(CHECKSUM_BUDGET_BYTES)
        self._lookahead_budget = SearchBudget(LOOKAHEAD_BUDGET_BYTES)
        # The start of a damaged batch, and of the last record found in it.
        self._last_record = (-1, 0)
        self._searched_end = 0  # how far a search got; a pipe may have dropped bytes far before it

    @property
    def may_have_compressed_sets(self) -> bool:
        """Whether there may be compressed message sets of magic 0 and 1."""
        return self.message_set_offset != NO_MESSAGE_SET

    def is_batch_start(self, position: int, budget: SearchBudget | None = None) -> bool:
        """Whether a complete batch with a matching checksum begins at `position`."""
        header = self._read_header(position)
        magic = header.magic
        if magic not in (0, 1, 2) or header.declared_length < MIN_LENGTH_BY_MAGIC[magic]:
            return False
        return self._checksum_matches(header, position + header.declared_size, magic, budget)

    def _read_header(self, position: int) -> BatchCandidate:
        return BatchCandidate(
            position, self._source.read_block(position, BATCH_HEADER_BYTES, BATCH_HEADER_BYTES)
        )

    def _checksum_matches(
        self, header: BatchCandidate, batch_end: int, magic: int, budget: SearchBudget | None = None
    ) -> bool:
        """Whether the bytes up to `batch_end` match the header's checksum."""
        source_bytes = self._source.size
        if (
            batch_end - header.position < LOG_OVERHEAD_BYTES + MIN_LENGTH_BY_MAGIC[magic]
            or batch_end - header.position > self._source.max_block_bytes
        ):
            return False
        if (
            source_bytes is not None
            and batch_end > source_bytes
            and not self._source.read_block(batch_end - 1, 1, 1)
        ):
            return False
        checksummed_start = header.position + CHECKSUMMED_START_BY_MAGIC[magic]
        computed_crc = self._extend_checksum(
            POLYNOMIAL_BY_MAGIC[magic],
            0,
            checksummed_start,
            batch_end,
            budget or self._checksum_budget,
        )
        return computed_crc == _stored_checksum(header, magic)

    def _belongs_to_log(self, position: int, possible_offsets: PossibleOffsets) -> bool:
        """Whether the confirmed batch at `position` is part of the log, and not inside a record.

        A record may contain complete batches, and compressed message sets of magic 0 and 1 begin
        with an unchanged message. Their offsets are unrelated to the log's, or make no sense.
        """
        header = self._read_header(position)
        if not possible_offsets.allows_header(header):
            return possible_offsets.max_last_offset is None and self._is_chain_start(
                position, MIN_CHAIN_BATCHES
            )
        has_offset_bounds = (
            possible_offsets.min_base_offset is not None
            and possible_offsets.max_last_offset is not None
        )
        if header.magic == 2 and (
            has_offset_bounds or header.base_offset in possible_offsets.expected_base_offsets
        ):
            return True
        if (
            header.magic < 2
            and not header.is_compressed
            and possible_offsets.may_have_compressed_sets
        ):
            starts_short_chain = self._has_valid_successor(header) and self._is_chain_start(
                position, 2
            )
            return (
                starts_short_chain
                or possible_offsets.has_offset_outside_message_set(header)
                or is_message_after(header, (self.message_set_offset or 0) + 1)
                or self._precedes_unbatched_message(header)
            )
        return not self._is_followed_by_lower_offset(header, possible_offsets)

    def _find_batch_of_log(
        self, search_start: int, possible_offsets: PossibleOffsets, damaged: BatchCandidate | None
    ) -> int | None:
        """The first batch of the log at `search_start` or later. damaged: the batch before it."""
        for start in self.iter_batch_starts(search_start, None):
            if self._is_outside_records(start, damaged) or self._belongs_to_log(
                start, possible_offsets
            ):
                return start
        return None

    def _is_outside_records(self, position: int, damaged: BatchCandidate | None) -> bool:
        """Whether the confirmed batch at `position` is in no readable record of a damaged batch
        before it, None if there is none: a write at the wrong place put it there. Compressed sets
        of magic 0 and 1 contain messages, too: where there may be any, one proves nothing."""
        header = self._read_header(position)
        if header.magic < 2 and (
            self.may_have_compressed_sets
            or header.is_compressed
            or (damaged is not None and damaged.is_compressed)
            or not self._has_valid_successor(header)
        ):
            return False
        if damaged is None:
            return True
        batch_end, damaged_end = (
            candidate.position + candidate.declared_size for candidate in (header, damaged)
        )
        if batch_end > damaged_end or (damaged.magic == 2 and damaged.is_compressed):
            return True
        if damaged.magic in (0, 1):
            layout, start, end = MESSAGE_LAYOUTS[damaged.magic], damaged.position, damaged_end
        else:
            layout, (start, end) = RECORD, self._find_record(damaged, position, damaged_end)
        if end < batch_end or end - start > self._source.max_block_bytes:
            return True
        data = self._source.read_block(start, end - start, end - start)
        try:
            layout.read_values(data, 0, len(data))
        except WireError:
            return True
        return False

    def _find_record(
        self, damaged: BatchCandidate, position: int, damaged_end: int
    ) -> tuple[int, int]:
        """Start and end of the record of a damaged batch that has the byte at `position`, by the
        lengths of the records before it; an empty range if a length is impossible."""
        batch_start, record_start = self._last_record
        if batch_start != damaged.position or record_start > position:
            record_start = damaged.position + BATCH_HEADER_BYTES
        while record_start < position:
            self._last_record = damaged.position, record_start
            data = self._source.read_block(record_start, MAX_VARINT_BYTES[32], 1)
            try:
                record_length, n_length_bytes = ZigZag32.read(data, 0, len(data))
            except WireError:
                break
            record_end = record_start + n_length_bytes + record_length
            if record_length < 0 or record_end > damaged_end:
                break
            if record_end > position:
                return record_start, record_end
            record_start = record_end
        return position, position

    def _precedes_unbatched_message(self, header: BatchCandidate) -> bool:
        """Whether the next batch that is followed by another is also an uncompressed message."""
        batch_end = header.position + header.declared_size
        for position in self.iter_batch_starts(batch_end, batch_end + SEARCH_WINDOW_BYTES):
            next_header = self._read_header(position)
            if self._has_valid_successor(next_header):
                is_unbatched = next_header.magic < 2 and not next_header.is_compressed
                return is_unbatched and header.base_offset < next_header.base_offset
        return False

    def _is_followed_by_lower_offset(
        self, header: BatchCandidate, possible_offsets: PossibleOffsets
    ) -> bool:
        """Whether one of the next batches has an offset that belongs before this one."""
        batch_end = header.position + header.declared_size
        n_allowed_batches = 0
        for position in self.iter_batch_starts(batch_end, batch_end + SEARCH_WINDOW_BYTES):
            next_header = self._read_header(position)
            has_lower_offset = (
                next_header.magic == 2 and next_header.base_offset < header.next_offset
            )
            if (
                has_lower_offset
                and next_header.base_offset in possible_offsets.expected_base_offsets
            ):
                return True
            n_allowed_batches += possible_offsets.allows_header(next_header)
            if n_allowed_batches == MIN_CHAIN_BATCHES:
                break
        return False

    def _has_valid_successor(self, header: BatchCandidate) -> bool:
        """Whether the file ends after a batch, or the next one could follow."""
        batch_end = header.position + header.declared_size
        if self._has_only_zeros_after(batch_end):
            return True
        next_header = self._read_header(batch_end)
        if next_header.magic in (0, 1, 2):
            return (
                header.next_offset <= next_header.base_offset < header.next_offset + MAX_OFFSET_JUMP
            )
        return False

    def _is_chain_start(self, position: int, n_batches: int) -> bool:
        """Whether `n_batches` undamaged batches with increasing offsets begin at `position`, or
        fewer up to the end of the file."""
        previous_offset = -1
        for _ in range(n_batches):
            if self._has_only_zeros_after(position):
                return True
            header = self._read_header(position)
            if header.base_offset <= previous_offset or not self.is_batch_start(position):
                return False
            previous_offset = header.base_offset
            position += header.declared_size
        return True

    def _has_only_zeros_after(self, position: int) -> bool:
        """Whether only zeros follow up to the end of the file."""
        header_bytes = self._source.read_block(position, BATCH_HEADER_BYTES, BATCH_HEADER_BYTES)
        return not any(header_bytes) and not self._source.read_block(
            self._find_end_of_zeros(position), 1, 1
        )

    def _find_crc_matching_end(
        self, header: BatchCandidate, possible_ends: Iterator[int]
    ) -> int | None:
        """The first of some increasing ends for which the header's checksum matches, or None."""
        if header.magic not in (0, 1, 2):
            return None
        partial_crc, stored_crc = 0, _stored_checksum(header, header.magic)
        min_end = header.position + LOG_OVERHEAD_BYTES + int(MIN_LENGTH_BY_MAGIC[header.magic])
        crc_position = header.position + CHECKSUMMED_START_BY_MAGIC[header.magic]
        for possible_end in possible_ends:
            if possible_end - header.position > min(
                MAX_LOOKAHEAD_BYTES, self._source.max_block_bytes
            ):
                return None
            if possible_end < min_end:
                continue
            extended_crc = self._extend_checksum(
                POLYNOMIAL_BY_MAGIC[header.magic],
                partial_crc,
                crc_position,
                possible_end,
                self._lookahead_budget,
            )
            if extended_crc is None:
                return None
            if extended_crc == stored_crc:
                return possible_end
            partial_crc, crc_position = extended_crc, possible_end
        return None

    def _extend_checksum(
        self, polynomial: int, crc: int, start: int, end: int, search_budget: SearchBudget
    ) -> int | None:
        """A checksum that continues with the bytes from `start` to `end`; None if some are missing
        or the budget is spent."""
        is_small_range = end - start <= NEARBY_BYTES
        while start < end:
            if search_budget.is_spent and not is_small_range:
                return None
            chunk = self._source.read_block(
                start, min(SEARCH_WINDOW_BYTES, end - start), min(SEARCH_WINDOW_BYTES, end - start)
            )
            if not chunk:
                return None
            crc = compute_crc(polynomial, chunk, crc)
            start += len(chunk)
            search_budget.spend_bytes(len(chunk))
        return crc

    def iter_batch_starts(self, search_start: int, search_end: int | None) -> Iterator[int]:
        """Positions in [start, stop) where undamaged batches begin."""
        return filter(self.is_batch_start, self._iter_plausible_starts(search_start, search_end))

    def _iter_plausible_starts(self, window_start: int, search_end: int | None) -> Iterator[int]:
        """Positions in [start, stop) with plausible batch headers."""
        while True:
            # A header's first bytes may be zeros at the end of a hole.
            window_start = max(
                window_start, self._source.skip_hole(window_start) - BATCH_HEADER_BYTES
            )
            if search_end is not None and window_start >= search_end:
                return
            window_bytes = (
                SEARCH_WINDOW_BYTES
                if search_end is None
                else min(SEARCH_WINDOW_BYTES, search_end - window_start + BATCH_HEADER_BYTES)
            )
            window = self._source.read_block(window_start, window_bytes, window_bytes)
            source_bytes = self._source.size
            n_available_bytes = (
                self._source.max_block_bytes
                if source_bytes is None
                else max(source_bytes - window_start, len(window))
            )
            scan_end = (
                len(window)
                if search_end is None
                else min(len(window), search_end - window_start + BYTES_UP_TO_MAGIC - 1)
            )
            header_index = -1
            while True:
                header_index = scan.find_batch_header(
                    window,
                    header_index + 1,
                    scan_end,
                    MIN_LENGTH_BY_MAGIC,
                    ALWAYS_ZERO_BITS,
                    n_available_bytes,
                )
                if header_index < 0:
                    break
                yield window_start + header_index
            self._checksum_budget.n_searched_bytes += len(window)
            self._searched_end = max(self._searched_end, window_start)
            if len(window) < SEARCH_WINDOW_BYTES or scan_end < len(window):
                return
            window_start += len(window) - BATCH_HEADER_BYTES
            self._source.release_bytes_before(window_start - MAX_LOOKAHEAD_BYTES)

    def _iter_starts_within_budget(self, search_start: int, search_end: int) -> Iterator[int]:
        """`_iter_plausible_starts`, within the budget for looking ahead in this file."""
        if self._lookahead_budget.is_spent:
            search_end = min(search_end, search_start + NEARBY_BYTES)
        previous_position = search_start
        for position in self._iter_plausible_starts(search_start, search_end):
            self._lookahead_budget.spend_bytes(position - previous_position + HEADER_COST_BYTES)
            previous_position = position
            if position - search_start > NEARBY_BYTES and self._lookahead_budget.is_spent:
                return
            yield position
            self._lookahead_budget.n_searched_bytes = self._searched_end
        self._lookahead_budget.spend_bytes(
            max(min(search_end, self._searched_end) - previous_position, 0)
        )

    def _find_end_of_file(self, position: int) -> int:
        """Where the file ends, at `position` or later."""
        position = max(position, self._searched_end, self._source.size or 0)
        while chunk := self._source.read_block(position, SEARCH_WINDOW_BYTES, 1):
            position += len(chunk)
            self._source.release_bytes_before(position - MAX_LOOKAHEAD_BYTES)
        return position

    def _count_hole_bytes(self, start: int, end: int) -> int:
        """The number of bytes between two positions that are in holes of a sparse file."""
        holes = self._source.iter_holes(start, end)
        return sum(hole_end - hole_start for hole_start, hole_end in holes)

    def _find_end_of_zeros(self, position: int) -> int:
        """The first non-zero byte at `position` or later, or the end of the file."""
        while chunk := self._source.read_block(
            position := self._source.skip_hole(position), SEARCH_WINDOW_BYTES, 1
        ):
            nonzero_index: int = scan.find_nonzero(chunk, 0, len(chunk))
            position += nonzero_index
            if nonzero_index < len(chunk):
                break
            self._source.release_bytes_before(position - MAX_LOOKAHEAD_BYTES)
        return position


def _stored_checksum(header: BatchCandidate, magic: int) -> int:
    """The checksum in a header, read as a header of this magic."""
    crc_position = CRC_POSITION_BY_MAGIC[magic]
    return int.from_bytes(header.header_bytes[crc_position : crc_position + 4], "big")
