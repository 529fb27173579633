"""Damage in a log: what is wrong, and where the next undamaged batch begins.

The next batch begins at a byte with a plausible header and a matching checksum. The checksum covers
neither the length nor the magic. If a batch's checksum matches up to the next batch, only these are
damaged; with a damaged length, the batch is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kfmt_cli.core.native import scan
from kfmt_cli.core.source import Source
from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import FindingCode
from kfmt_cli.log.block import BATCH_HEADER_BYTES, CRC_OFFSET_BY_MAGIC, LOG_OVERHEAD_BYTES
from kfmt_cli.log.damage.batch_candidates import (
    BYTES_UP_TO_MAGIC,
    MIN_LENGTH_BY_MAGIC,
    BatchCandidate,
    PossibleOffsets,
)
from kfmt_cli.log.damage.search import MAX_LOOKAHEAD_BYTES, WINDOW_BYTES, BatchSearch
from kfmt_cli.log.damage.verdict import DamageVerdict, VerdictBuilder

OFFSET_BYTES = 8
CRC_BYTES = 4
LENGTH_FIELD = slice(OFFSET_BYTES, LOG_OVERHEAD_BYTES)
MIN_SIMILARITY = 0.9  # the least fraction of a partial batch's bytes that match
NEEDS_MORE, INVALID_LENGTH, INVALID_MAGIC = (
    scan.WALK_STOP_REASONS[name] for name in ("MORE", "SIZE", "MAGIC")
)


class DamageAnalyzer(BatchSearch):
    """Finds what is wrong with a damaged part of a log, and where reading continues."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._verdict_builder = VerdictBuilder(source.name)

    def classify_length(
        self, position: int, size: int, is_followed: bool, min_offset: int | None
    ) -> DamageVerdict | None:
        """Classify the length of a batch that fails its checksum; None if the length is credible.

        is_followed: a batch, perhaps damaged, begins where its length ends. min_offset: the lowest
        offset that the batch can have.
        """
        end = position + size
        header = self._read_header(position)
        possible_offsets = PossibleOffsets.after_damage(
            header, min_offset, None, self.may_have_compressed_sets
        )
        search_start = position + BYTES_UP_TO_MAGIC
        possible_ends = (
            start
            for start in self._iter_possible_ends(search_start, end, header)
            if possible_offsets.allows(self._read_header(start))
        )
        proven_end = self._find_proven_end(header, possible_ends)
        if proven_end is not None and proven_end < end:
            return self._wrong_length_verdict(header, codes.LENGTH_TOO_BIG, proven_end)
        repeated_start = self._find_repeated_write(header, end)
        if repeated_start is not None:
            return self._wrong_length_verdict(header, codes.LENGTH_TOO_BIG, repeated_start)
        header_at_end = self._read_header(end)
        is_batch_at_end = self.is_batch_start(end)
        if (
            is_batch_at_end
            and header.magic == 2
            and header_at_end.base_offset == header.next_offset
        ):
            return None  # any batch inside is part of a record
        if is_batch_at_end and possible_offsets.allows(header_at_end):
            possible_offsets = replace(
                possible_offsets, max_last_offset=header_at_end.base_offset - 1
            )
        is_credible = not self._source.read_block(end, 1, 1)
        inner_start = self._find_batch_inside(header, possible_offsets, end, is_credible)
        if inner_start is not None:
            # A value may contain a complete batch: then the checksum shows where this one ends.
            proven_end = self._find_proven_end(
                header, self._iter_possible_ends(end, end + MAX_LOOKAHEAD_BYTES, header)
            )
            if proven_end is not None and proven_end > end:
                return self._wrong_length_verdict(header, codes.LENGTH_TOO_SMALL, proven_end)
            inner_start = self._find_next_start(header, inner_start)
            return self._wrong_length_verdict(header, codes.LENGTH_TOO_BIG, inner_start)
        if is_followed or is_batch_at_end or not self._source.read_block(end, 1, 1):
            return None
        proven_end = self._find_proven_end(
            header, self._iter_possible_ends(end, end + MAX_LOOKAHEAD_BYTES, header)
        )
        if proven_end is None or proven_end == end:
            return None
        return self._wrong_length_verdict(header, codes.LENGTH_TOO_SMALL, proven_end)

    def _find_batch_inside(
        self, header: BatchCandidate, possible_offsets: PossibleOffsets, end: int, is_credible: bool
    ) -> int | None:
        """The first batch of the log inside the declared bytes of a damaged batch.

        is_credible: its length leads to the end of the file. Then a batch inside must have the next
        offset, be followed by a batch with the next offset, or lead to that end batch by batch. A
        batch in a value does none of these, because a record ends with its headers; nor does it end
        outside.
        """
        for start in self.iter_batch_starts(header.position + 1, end):
            batch = self._read_header(start)
            is_repeated = start + batch.size > end and _have_same_offset(header, batch)
            if not (
                is_repeated
                or self._belongs_to_log(start, possible_offsets)
                or possible_offsets.follows_truncated_set(batch, end)
            ):
                continue
            next_header = self._read_header(start + batch.size)
            is_continued = header.magic == 2 and batch.base_offset == header.next_offset
            is_continued |= next_header.magic == 2 and next_header.base_offset == batch.next_offset
            is_continued |= possible_offsets.follows_truncated_set(batch, end)
            if not is_credible or is_continued or self._leads_exactly_to(start, end):
                return start
        return None

    def _leads_exactly_to(self, position: int, end: int) -> bool:
        """Whether batches, perhaps damaged, lead from `position` exactly to `end`."""
        while position < end:
            header = self._read_header(position)
            if header.magic not in (0, 1, 2) or header.length < MIN_LENGTH_BY_MAGIC[header.magic]:
                return False
            position += header.size
        return position == end

    def _find_repeated_write(self, header: BatchCandidate, stop: int) -> int | None:
        """The position of the complete batch that repeats a partial one: an interrupted write,
        repeated right after it, perhaps more than once. None if there is none before `stop`."""
        stop = min(stop, header.position + MAX_LOOKAHEAD_BYTES)
        partial_headers = list(self._iter_partial_headers(header))
        for matches, partials in (
            (self._stores_same_crc, partial_headers),
            (self._is_similar, [header]),
        ):
            for position in self._iter_starts_ahead(header.position + 1, stop):
                candidate = self._read_header(position)
                if not _have_same_offset(header, candidate):
                    continue
                earlier_partials = (partial for partial in partials if partial.position < position)
                if any(
                    matches(partial, candidate) for partial in earlier_partials
                ) and self.is_batch_start(position, self._lookahead_budget):
                    return position
        return None

    def _iter_partial_headers(self, header: BatchCandidate) -> Iterator[BatchCandidate]:
        """A partial batch, and the ones with its offset that begin before its header would end:
        they cannot be part of its records."""
        encoded_offset = header.data[:OFFSET_BYTES]
        data = self._source.read_block(header.position, BATCH_HEADER_BYTES + OFFSET_BYTES, 1)
        yield header
        index = data.find(encoded_offset, 1)
        while index > 0:
            yield self._read_header(header.position + index)
            index = data.find(encoded_offset, index + 1)

    @staticmethod
    def _stores_same_crc(partial: BatchCandidate, complete: BatchCandidate) -> bool:
        """Whether a partial batch stores the same checksum as a complete one."""
        crc_start = CRC_OFFSET_BY_MAGIC[min(max(complete.magic, 0), 2)]
        has_crc = complete.position - partial.position >= crc_start + CRC_BYTES
        return (
            has_crc
            and partial.data[crc_start : crc_start + CRC_BYTES]
            == complete.data[crc_start : crc_start + CRC_BYTES]
        )

    def _is_similar(self, partial: BatchCandidate, complete: BatchCandidate) -> bool:
        """Whether nearly all bytes of a partial batch match the complete one.

        Length and checksum do not count, as they may be damaged.
        """
        size = min(complete.position - partial.position, WINDOW_BYTES)
        left, right = (
            np.frombuffer(self._source.read_block(candidate.position, size, size), np.uint8)
            for candidate in (partial, complete)
        )
        n_common = min(len(left), len(right))
        is_equal = left[:n_common] == right[:n_common]
        crc_start = CRC_OFFSET_BY_MAGIC[min(max(complete.magic, 0), 2)]
        is_equal[LENGTH_FIELD] = is_equal[crc_start : crc_start + CRC_BYTES] = True
        return n_common > 0 and int(is_equal.sum()) >= MIN_SIMILARITY * n_common

    def _find_next_start(self, header: BatchCandidate, max_start: int) -> int:
        """Where the next batch after a damaged one begins: at `max_start`, or earlier if a damaged
        batch begins there.

        For magic 2 its offset shows this, and for any magic the damaged batch's checksum.
        """
        search_start = header.position + BYTES_UP_TO_MAGIC
        for end in self._iter_possible_ends(search_start, max_start, header):
            is_continued = (
                header.magic == 2 and self._read_header(end).base_offset == header.next_offset
            )
            if is_continued or self._checksum_matches(header, end, header.magic):
                return end
        return max_start

    def _wrong_length_verdict(
        self, header: BatchCandidate, code: FindingCode, end: int
    ) -> DamageVerdict:
        is_intact = end - header.position <= MAX_LOOKAHEAD_BYTES and self._checksum_matches(
            header, end, header.magic
        )
        return self._verdict_builder.wrong_length(header, code, end, is_intact)

    def _iter_possible_ends(self, start: int, stop: int, header: BatchCandidate) -> Iterator[int]:
        """Where a batch may end: at an undamaged batch, at one whose offset continues from it, or
        at the end of the file."""
        for position in self._iter_starts_ahead(start, stop):
            base_offset = self._read_header(position).base_offset
            if base_offset == header.next_offset or self.is_batch_start(
                position, self._lookahead_budget
            ):
                yield position
        if not self._lookahead_budget.is_spent and not self._source.read_block(stop, 1, 1):
            yield self._find_end_of_file(start)

    def classify_damage(
        self, position: int, stop_reason: int, min_offset: int | None
    ) -> DamageVerdict:
        """Classify a byte where no complete batch begins; `stop_reason` is why the walk stopped.

        min_offset: the lowest offset that the next batch can have.
        """
        if (start := self._find_overlapping_start(position)) is not None:
            return self._verdict_builder.overlapping(position, start)
        header = self._read_header(position)
        zeros_end = self._find_end_of_zeros(position)
        if not self._source.read_block(zeros_end, 1, 1):
            # Fewer zeros may be the start of a truncated batch: its offset and length.
            is_too_short = zeros_end - position < LOG_OVERHEAD_BYTES
            return (
                self._verdict_builder.truncated(header, zeros_end)
                if is_too_short
                else self._verdict_builder.zero_tail(position, zeros_end)
            )
        is_plausible = header.can_follow(min_offset) and zeros_end - position < BYTES_UP_TO_MAGIC
        if is_plausible and (verdict := self._verdict_by_checksum(header, stop_reason)):
            return verdict
        if stop_reason != NEEDS_MORE or is_plausible:
            max_partial_bytes = max(
                partial.position - position + partial.size
                for partial in self._iter_partial_headers(header)
            )
            stop = position + (
                MAX_LOOKAHEAD_BYTES
                if stop_reason == INVALID_LENGTH
                else max(BATCH_HEADER_BYTES, max_partial_bytes)
            )
            if (repeated_start := self._find_repeated_write(header, stop)) is not None:
                return self._verdict_builder.garbage(header, repeated_start, repeated_start)
        # A header's first bytes may be zeros themselves, up to its length field.
        possible_offsets = PossibleOffsets.after_damage(
            header if is_plausible else None, min_offset, None, self.may_have_compressed_sets
        )
        batch_starts = self.iter_batch_starts(
            max(position + 1, zeros_end - LOG_OVERHEAD_BYTES), None
        )
        next_start = next(
            (start for start in batch_starts if self._belongs_to_log(start, possible_offsets)), None
        )
        if next_start is not None and is_plausible and stop_reason != INVALID_MAGIC:
            next_start = self._find_next_start(header, next_start)
        end = self._find_end_of_file(position) if next_start is None else next_start
        if zeros_end - position >= BYTES_UP_TO_MAGIC or end <= zeros_end:
            return self._verdict_builder.zero_hole(position, min(zeros_end, end), end, next_start)
        if is_plausible and stop_reason == INVALID_MAGIC:
            return self._verdict_builder.unknown_magic(header, end, next_start, None)
        if is_plausible and (stop_reason == INVALID_LENGTH or next_start is not None):
            return self._verdict_builder.invalid_length(
                header, self._length_code(header, stop_reason), end, next_start
            )
        is_truncated = is_plausible or len(header.data) < BYTES_UP_TO_MAGIC
        if is_truncated and next_start is None and stop_reason == NEEDS_MORE:
            return self._verdict_builder.truncated(header, end)
        return self._verdict_builder.garbage(header, end, next_start)

    def _find_overlapping_start(self, position: int) -> int | None:
        """Where a batch begins whose first bytes are also the last bytes of the batch before
        `position`, or None. If that batch lost its last zeros, the zeros of the next batch's offset
        complete it."""
        window_start = max(position - OFFSET_BYTES + 1, 0)
        preceding_bytes = self._source.read_block(
            window_start, position - window_start, position - window_start
        )
        for start in range(
            position - 1,
            position - 1 - len(preceding_bytes) + len(preceding_bytes.rstrip(b"\0")),
            -1,
        ):
            if self._read_header(start).can_follow(None) and self.is_batch_start(start):
                return start
        return None

    def _verdict_by_checksum(
        self, header: BatchCandidate, stop_reason: int
    ) -> DamageVerdict | None:
        """The verdict, by checksum, on a batch with an impossible length or magic, or None."""
        if len(header.data) < BATCH_HEADER_BYTES:
            return None
        if stop_reason == INVALID_MAGIC:
            end = header.position + header.size
            for magic in (2, 1, 0):
                if header.length >= MIN_LENGTH_BY_MAGIC[magic] and self._checksum_matches(
                    header, end, magic
                ):
                    return self._verdict_builder.unknown_magic(header, end, end, magic)
            return None
        start = header.position
        proven_end = self._find_proven_end(
            header,
            self._iter_possible_ends(
                start + BYTES_UP_TO_MAGIC, start + MAX_LOOKAHEAD_BYTES, header
            ),
        )
        if proven_end is None:
            return None
        return self._wrong_length_verdict(
            header, self._length_code(header, stop_reason), proven_end
        )

    @staticmethod
    def _length_code(header: BatchCandidate, stop_reason: int) -> FindingCode:
        """The code for a length field at which a walk stopped."""
        if stop_reason == NEEDS_MORE:
            return codes.LENGTH_TOO_BIG
        return codes.LENGTH_NEGATIVE if header.length < 0 else codes.LENGTH_TOO_SMALL


def _have_same_offset(left: BatchCandidate, right: BatchCandidate) -> bool:
    return left.data[:OFFSET_BYTES] == right.data[:OFFSET_BYTES]
