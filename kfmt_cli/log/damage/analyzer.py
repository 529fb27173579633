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
from kfmt_cli.findings import codes
from kfmt_cli.findings.codes import BATCH_LENGTH_TOO_BIG, BATCH_LENGTH_TOO_SMALL
from kfmt_cli.findings.finding import FindingCode
from kfmt_cli.log.block import BATCH_HEADER_BYTES, CRC_POSITION_BY_MAGIC, LOG_OVERHEAD_BYTES
from kfmt_cli.log.damage.batch_candidates import (
    BYTES_UP_TO_MAGIC,
    MIN_LENGTH_BY_MAGIC,
    BatchCandidate,
    PossibleOffsets,
)
from kfmt_cli.log.damage.search import MAX_LOOKAHEAD_BYTES, SEARCH_WINDOW_BYTES, BatchSearch
from kfmt_cli.log.damage.verdict import DamageVerdict, VerdictBuilder

OFFSET_BYTES = 8
CRC_BYTES = 4
LENGTH_FIELD_SLICE = slice(OFFSET_BYTES, LOG_OVERHEAD_BYTES)
MIN_MATCHING_FRACTION = 0.9  # the least fraction of a partial batch's bytes that match
NEEDS_MORE_BYTES, INVALID_LENGTH, INVALID_MAGIC = (
    scan.WALK_STOP_REASONS[name] for name in ("MORE", "SIZE", "MAGIC")
)


class DamageAnalyzer(BatchSearch):
    """Finds what is wrong with a damaged part of a log, and where reading continues."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._verdict_builder = VerdictBuilder(source.name)

    def classify_batch_length(
        self, position: int, declared_size: int, has_next_batch: bool, min_offset: int | None
    ) -> DamageVerdict | None:
        """Classify the length of a batch that fails its checksum; None if the length is credible.

        has_next_batch: a batch, perhaps damaged, begins where its length ends. min_offset: the
        lowest offset that the batch can have.
        """
        declared_end = position + declared_size
        header = self._read_header(position)
        possible_offsets = PossibleOffsets.after_damage(
            header, min_offset, None, self.may_have_compressed_sets
        )
        search_start = position + BYTES_UP_TO_MAGIC
        possible_ends = (
            candidate_end
            for candidate_end in self._iter_possible_ends(search_start, declared_end, header)
            if possible_offsets.allows_header(self._read_header(candidate_end))
        )
        crc_matching_end = self._find_crc_matching_end(header, possible_ends)
        if crc_matching_end is not None and crc_matching_end < declared_end:
            return self._create_length_verdict(header, BATCH_LENGTH_TOO_BIG, crc_matching_end)
        repeated_batch_start = self._find_repeated_batch_start(header, declared_end)
        if repeated_batch_start is not None:
            return self._create_length_verdict(header, BATCH_LENGTH_TOO_BIG, repeated_batch_start)
        header_at_end = self._read_header(declared_end)
        is_batch_at_end = self.is_batch_start(declared_end)
        if (
            is_batch_at_end
            and header.magic == 2
            and header_at_end.base_offset == header.next_offset
        ):
            return self._classify_batch_inside(header)
        if is_batch_at_end and possible_offsets.allows_header(header_at_end):
            possible_offsets = replace(
                possible_offsets, max_last_offset=header_at_end.base_offset - 1
            )
        ends_at_file_end = not self._source.read_block(declared_end, 1, 1)
        inner_batch_start = self._find_inner_batch_start(
            header, possible_offsets, declared_end, ends_at_file_end
        )
        if inner_batch_start is not None:
            # A value may contain a complete batch: then the checksum shows where this one ends.
            crc_matching_end = self._find_crc_matching_end(
                header,
                self._iter_possible_ends(declared_end, declared_end + MAX_LOOKAHEAD_BYTES, header),
            )
            if crc_matching_end is not None and crc_matching_end > declared_end:
                return self._create_length_verdict(header, BATCH_LENGTH_TOO_SMALL, crc_matching_end)
            inner_batch_start = self._find_next_batch_start(header, inner_batch_start)
            return self._create_length_verdict(header, BATCH_LENGTH_TOO_BIG, inner_batch_start)
        if has_next_batch or is_batch_at_end or not self._source.read_block(declared_end, 1, 1):
            return None
        crc_matching_end = self._find_crc_matching_end(
            header,
            self._iter_possible_ends(declared_end, declared_end + MAX_LOOKAHEAD_BYTES, header),
        )
        if crc_matching_end is None or crc_matching_end == declared_end:
            return None
        return self._create_length_verdict(header, BATCH_LENGTH_TOO_SMALL, crc_matching_end)

    def _classify_batch_inside(self, header: BatchCandidate) -> DamageVerdict | None:
        """Classify a damaged batch before the next one, by a batch inside that none of its records
        contains; None without one. Records of a compressed batch cannot be told apart."""
        if header.is_compressed:
            return None
        starts = self.iter_batch_starts(header.position + 1, header.position + header.declared_size)
        start = next((start for start in starts if self._is_outside_records(start, header)), None)
        if start is None:
            return None
        return self._create_length_verdict(header, BATCH_LENGTH_TOO_BIG, start)

    def _find_inner_batch_start(
        self,
        header: BatchCandidate,
        possible_offsets: PossibleOffsets,
        declared_end: int,
        ends_at_file_end: bool,
    ) -> int | None:
        """The first batch of the log inside the declared bytes of a damaged batch.

        ends_at_file_end: its length leads to the end of the file. Then a batch inside must have the
        next offset, be followed by a batch with the next offset, or lead to that end batch by
        batch. A batch in a value does none of these, because a record ends with its headers; nor
        does it end outside.
        """
        for inner_start in self.iter_batch_starts(header.position + 1, declared_end):
            inner_header = self._read_header(inner_start)
            repeats_damaged_batch = (
                inner_start + inner_header.declared_size > declared_end
                and _have_same_offset(header, inner_header)
            )
            if not (
                repeats_damaged_batch
                or self._belongs_to_log(inner_start, possible_offsets)
                or self._is_outside_records(inner_start, header)
                or possible_offsets.follows_truncated_message_set(inner_header, declared_end)
            ):
                continue
            next_header = self._read_header(inner_start + inner_header.declared_size)
            is_in_sequence = header.magic == 2 and inner_header.base_offset == header.next_offset
            is_in_sequence |= self._is_outside_records(inner_start, header)
            is_in_sequence |= (
                next_header.magic == 2 and next_header.base_offset == inner_header.next_offset
            )
            is_in_sequence |= possible_offsets.follows_truncated_message_set(
                inner_header, declared_end
            )
            if (
                not ends_at_file_end
                or is_in_sequence
                or self._is_batch_sequence_to(inner_start, declared_end)
            ):
                return inner_start
        return None

    def _is_batch_sequence_to(self, position: int, end: int) -> bool:
        """Whether batches, perhaps damaged, lead from `position` exactly to `end`."""
        while position < end:
            header = self._read_header(position)
            if (
                header.magic not in (0, 1, 2)
                or header.declared_length < MIN_LENGTH_BY_MAGIC[header.magic]
            ):
                return False
            position += header.declared_size
        return position == end

    def _find_repeated_batch_start(self, header: BatchCandidate, search_end: int) -> int | None:
        """The position of the complete batch that repeats a partial one: an interrupted write,
        repeated right after it, perhaps more than once. None if there is none before
        `search_end`."""
        search_end = min(search_end, header.position + MAX_LOOKAHEAD_BYTES)
        partial_headers = list(self._iter_partial_headers(header))
        for is_same_batch, compared_headers in (
            (self._stores_same_crc, partial_headers),
            (self._has_similar_bytes, [header]),
        ):
            for position in self._iter_starts_within_budget(header.position + 1, search_end):
                candidate = self._read_header(position)
                if not _have_same_offset(header, candidate):
                    continue
                earlier_headers = (
                    partial_header
                    for partial_header in compared_headers
                    if partial_header.position < position
                )
                if any(
                    is_same_batch(partial_header, candidate) for partial_header in earlier_headers
                ) and self.is_batch_start(position, self._lookahead_budget):
                    return position
        return None

    def _iter_partial_headers(self, header: BatchCandidate) -> Iterator[BatchCandidate]:
        """A partial batch, and the ones with its offset that begin before its header would end:
        they cannot be part of its records."""
        encoded_offset = header.header_bytes[:OFFSET_BYTES]
        searched_bytes = self._source.read_block(
            header.position, BATCH_HEADER_BYTES + OFFSET_BYTES, 1
        )
        yield header
        match_index = searched_bytes.find(encoded_offset, 1)
        while match_index > 0:
            yield self._read_header(header.position + match_index)
            match_index = searched_bytes.find(encoded_offset, match_index + 1)

    @staticmethod
    def _stores_same_crc(partial_header: BatchCandidate, complete_header: BatchCandidate) -> bool:
        """Whether a partial batch stores the same checksum as a complete one."""
        crc_position = CRC_POSITION_BY_MAGIC[min(max(complete_header.magic, 0), 2)]
        has_crc = complete_header.position - partial_header.position >= crc_position + CRC_BYTES
        return (
            has_crc
            and partial_header.header_bytes[crc_position : crc_position + CRC_BYTES]
            == complete_header.header_bytes[crc_position : crc_position + CRC_BYTES]
        )

    def _has_similar_bytes(
        self, partial_header: BatchCandidate, complete_header: BatchCandidate
    ) -> bool:
        """Whether nearly all bytes of a partial batch match the complete one.

        Length and checksum do not count, as they may be damaged.
        """
        max_compared_bytes = min(
            complete_header.position - partial_header.position, SEARCH_WINDOW_BYTES
        )
        partial_bytes, complete_bytes = (
            np.frombuffer(
                self._source.read_block(candidate.position, max_compared_bytes, max_compared_bytes),
                np.uint8,
            )
            for candidate in (partial_header, complete_header)
        )
        n_compared_bytes = min(len(partial_bytes), len(complete_bytes))
        is_equal_byte = partial_bytes[:n_compared_bytes] == complete_bytes[:n_compared_bytes]
        crc_position = CRC_POSITION_BY_MAGIC[min(max(complete_header.magic, 0), 2)]
        is_equal_byte[LENGTH_FIELD_SLICE] = is_equal_byte[
            crc_position : crc_position + CRC_BYTES
        ] = True
        return (
            n_compared_bytes > 0
            and int(is_equal_byte.sum()) >= MIN_MATCHING_FRACTION * n_compared_bytes
        )

    def _find_next_batch_start(self, header: BatchCandidate, max_start: int) -> int:
        """Where the next batch after a damaged one begins: at `max_start`, or earlier if a damaged
        batch begins there.

        For magic 2 its offset shows this, and for any magic the damaged batch's checksum.
        """
        search_start = header.position + BYTES_UP_TO_MAGIC
        for possible_end in self._iter_possible_ends(search_start, max_start, header):
            has_next_offset = (
                header.magic == 2
                and self._read_header(possible_end).base_offset == header.next_offset
            )
            if has_next_offset or self._checksum_matches(header, possible_end, header.magic):
                return possible_end
        return max_start

    def _create_length_verdict(
        self, header: BatchCandidate, code: FindingCode, batch_end: int
    ) -> DamageVerdict:
        is_intact = batch_end - header.position <= MAX_LOOKAHEAD_BYTES and self._checksum_matches(
            header, batch_end, header.magic
        )
        return self._verdict_builder.wrong_length_verdict(header, code, batch_end, is_intact)

    def _iter_possible_ends(
        self, search_start: int, search_end: int, header: BatchCandidate
    ) -> Iterator[int]:
        """Where a batch may end: at an undamaged batch, at one whose offset continues from it, or
        at the end of the file."""
        for position in self._iter_starts_within_budget(search_start, search_end):
            base_offset = self._read_header(position).base_offset
            if base_offset == header.next_offset or self.is_batch_start(
                position, self._lookahead_budget
            ):
                yield position
        if not self._lookahead_budget.is_spent and not self._source.read_block(search_end, 1, 1):
            yield self._find_end_of_file(search_start)

    def classify_damage(
        self, position: int, stop_reason: int, min_offset: int | None
    ) -> DamageVerdict:
        """Classify a byte where no complete batch begins; `stop_reason` is why the walk stopped.

        min_offset: the lowest offset that the next batch can have.
        """
        if (start := self._find_overlapping_batch_start(position)) is not None:
            return self._verdict_builder.overlapping_batch_verdict(position, start)
        header = self._read_header(position)
        zeros_end = self._find_end_of_zeros(position)
        if not self._source.read_block(zeros_end, 1, 1):
            # Fewer zeros may be the start of a truncated batch: its offset and length.
            if zeros_end - position < LOG_OVERHEAD_BYTES:
                return self._verdict_builder.truncated_batch_verdict(header, zeros_end)
            return self._verdict_builder.zero_tail_verdict(
                *(position, zeros_end), self._count_hole_bytes(position, zeros_end)
            )
        is_plausible_header = (
            header.has_possible_offset(min_offset) and zeros_end - position < BYTES_UP_TO_MAGIC
        )
        if is_plausible_header and (verdict := self._find_checksum_verdict(header, stop_reason)):
            return verdict
        if stop_reason != NEEDS_MORE_BYTES or is_plausible_header:
            search_end = self._repetition_search_end(header, stop_reason)
            repeated_start = self._find_repeated_batch_start(header, search_end)
            if repeated_start is not None:
                return self._verdict_builder.garbage_verdict(header, repeated_start, repeated_start)
        # A header's first bytes may be zeros themselves, up to its length field.
        possible_offsets = PossibleOffsets.after_damage(
            header if is_plausible_header else None, min_offset, None, self.may_have_compressed_sets
        )
        next_batch_start = self._find_batch_of_log(
            max(position + 1, zeros_end - LOG_OVERHEAD_BYTES),
            possible_offsets,
            header if is_plausible_header else None,
        )
        if next_batch_start is not None and is_plausible_header and stop_reason != INVALID_MAGIC:
            next_batch_start = self._find_next_batch_start(header, next_batch_start)
        damage_end = (
            self._find_end_of_file(position) if next_batch_start is None else next_batch_start
        )
        if zeros_end - position >= BYTES_UP_TO_MAGIC or damage_end <= zeros_end:
            zeros_end = min(zeros_end, damage_end)
            return self._verdict_builder.zero_hole_verdict(
                *(position, zeros_end, damage_end, next_batch_start),
                self._count_hole_bytes(position, zeros_end),
            )
        if is_plausible_header and stop_reason == INVALID_MAGIC:
            return self._verdict_builder.unknown_magic_verdict(
                header, damage_end, next_batch_start, None
            )
        if is_plausible_header and (stop_reason == INVALID_LENGTH or next_batch_start is not None):
            return self._verdict_builder.invalid_length_verdict(
                header, self._length_finding_code(header, stop_reason), damage_end, next_batch_start
            )
        is_truncated = is_plausible_header or len(header.header_bytes) < BYTES_UP_TO_MAGIC
        if is_truncated and next_batch_start is None and stop_reason == NEEDS_MORE_BYTES:
            return self._verdict_builder.truncated_batch_verdict(header, damage_end)
        return self._verdict_builder.garbage_verdict(header, damage_end, next_batch_start)

    def _repetition_search_end(self, header: BatchCandidate, stop_reason: int) -> int:
        """Where the search for a repetition of a truncated batch ends."""
        if stop_reason == INVALID_LENGTH:
            return header.position + MAX_LOOKAHEAD_BYTES
        partial_headers = self._iter_partial_headers(header)
        max_end = max(partial.position + partial.declared_size for partial in partial_headers)
        return max(header.position + BATCH_HEADER_BYTES, max_end)

    def _find_overlapping_batch_start(self, position: int) -> int | None:
        """Where a batch begins whose first bytes are also the last bytes of the batch before
        `position`, or None. If that batch lost its last zeros, the zeros of the next batch's offset
        complete it."""
        window_start = max(position - OFFSET_BYTES + 1, 0)
        preceding_bytes = self._source.read_block(
            window_start, position - window_start, position - window_start
        )
        for candidate_start in range(
            position - 1,
            position - 1 - len(preceding_bytes) + len(preceding_bytes.rstrip(b"\0")),
            -1,
        ):
            if self._read_header(candidate_start).has_possible_offset(None) and self.is_batch_start(
                candidate_start
            ):
                return candidate_start
        return None

    def _find_checksum_verdict(
        self, header: BatchCandidate, stop_reason: int
    ) -> DamageVerdict | None:
        """The verdict, by checksum, on a batch with an impossible length or magic, or None."""
        if len(header.header_bytes) < BATCH_HEADER_BYTES:
            return None
        if stop_reason == INVALID_MAGIC:
            declared_end = header.position + header.declared_size
            for magic in (2, 1, 0):
                if header.declared_length >= MIN_LENGTH_BY_MAGIC[magic] and self._checksum_matches(
                    header, declared_end, magic
                ):
                    return self._verdict_builder.unknown_magic_verdict(
                        header, declared_end, declared_end, magic
                    )
            return None
        batch_start = header.position
        crc_matching_end = self._find_crc_matching_end(
            header,
            self._iter_possible_ends(
                batch_start + BYTES_UP_TO_MAGIC, batch_start + MAX_LOOKAHEAD_BYTES, header
            ),
        )
        if crc_matching_end is None:
            return None
        return self._create_length_verdict(
            header, self._length_finding_code(header, stop_reason), crc_matching_end
        )

    @staticmethod
    def _length_finding_code(header: BatchCandidate, stop_reason: int) -> FindingCode:
        """The code for a length field at which a walk stopped."""
        if stop_reason == NEEDS_MORE_BYTES:
            return BATCH_LENGTH_TOO_BIG
        return codes.BATCH_LENGTH_NEGATIVE if header.declared_length < 0 else BATCH_LENGTH_TOO_SMALL


def _have_same_offset(left: BatchCandidate, right: BatchCandidate) -> bool:
    return left.header_bytes[:OFFSET_BYTES] == right.header_bytes[:OFFSET_BYTES]
