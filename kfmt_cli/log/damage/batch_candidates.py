"""Candidate batch headers, and the limits of a plausible header."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfmt_cli.formats.batch import COMPRESSION, RECORD_BATCH
from kfmt_cli.formats.legacy import MESSAGE_LAYOUTS
from kfmt_cli.log.block import BATCH_HEADER_BYTES, LEGACY_HEADER_LAYOUTS, LOG_OVERHEAD_BYTES

BYTES_UP_TO_MAGIC = RECORD_BATCH.field_start("magic") + 1
# The smallest value of the length field, by magic.
MIN_LENGTH_BY_MAGIC = np.array(
    [
        *(message.min_size - LOG_OVERHEAD_BYTES for message in MESSAGE_LAYOUTS),
        BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES,
    ],
    np.int64,
)
_SIGN_BIT = 0x80
# The header byte with the codec, by magic.
CODEC_POSITION_BY_MAGIC = (
    *(layout.field_start("attributes") for layout in LEGACY_HEADER_LAYOUTS),
    RECORD_BATCH.field_start("attributes") + 1,
)
# Bits that no header has set, as (magic, byte, mask); they distinguish headers from payload.
ALWAYS_ZERO_BITS = np.array(
    [
        *((magic, 0, 0xFF) for magic in range(3)),  # an offset of 2^56 and more
        (0, LEGACY_HEADER_LAYOUTS[0].field_start("attributes"), 0xF8),
        (1, LEGACY_HEADER_LAYOUTS[1].field_start("attributes"), 0xF0),
        (2, RECORD_BATCH.field_start("attributes"), 0xFF),
        (2, RECORD_BATCH.field_start("attributes") + 1, 0x80),
        (2, RECORD_BATCH.field_start("last_offset_delta"), _SIGN_BIT),
        (2, RECORD_BATCH.field_start("records_count"), _SIGN_BIT),
    ],
    np.int64,
)
NO_MESSAGE_SET = -1  # instead of the offset of a compressed message set
MAX_OFFSET_JUMP = 1 << 31
MAX_MESSAGE_OFFSET_JUMP = 100
MAX_MESSAGE_SET_OFFSET_JUMP = (
    1 << 16
)  # offsets of a compressed set, whose own offset is its last message's


@dataclass(frozen=True, slots=True)
class BatchCandidate:
    """The start of a possible batch."""

    position: int
    header_bytes: bytes

    @property
    def base_offset(self) -> int:
        return int.from_bytes(self.header_bytes[:8], "big", signed=True)

    @property
    def declared_length(self) -> int:
        return int.from_bytes(self.header_bytes[8:12], "big", signed=True)

    @property
    def declared_size(self) -> int:
        return LOG_OVERHEAD_BYTES + self.declared_length

    @property
    def magic(self) -> int:
        if len(self.header_bytes) < BYTES_UP_TO_MAGIC:
            return -1
        return int.from_bytes(self.header_bytes[16:17], "big", signed=True)

    @property
    def next_offset(self) -> int:
        """The batch's last offset plus one."""
        if self.magic < 2:
            return self.base_offset + 1
        delta_position = RECORD_BATCH.field_start("last_offset_delta")
        return (
            self.base_offset
            + int.from_bytes(
                self.header_bytes[delta_position : delta_position + 4], "big", signed=True
            )
            + 1
        )

    @property
    def is_compressed(self) -> bool:
        """Whether its records are compressed, according to the header."""
        codec_position = CODEC_POSITION_BY_MAGIC[min(max(self.magic, 0), 2)]
        return (
            len(self.header_bytes) > codec_position
            and self.header_bytes[codec_position] & COMPRESSION.mask != 0
        )

    def has_possible_offset(self, min_offset: int | None) -> bool:
        """Whether a batch can have this offset if `min_offset` is the lowest possible one."""
        if min_offset is None:
            return 0 <= self.base_offset < 1 << 48
        return min_offset <= self.base_offset < min_offset + MAX_OFFSET_JUMP


def is_message_after(header: BatchCandidate, min_offset: int) -> bool:
    """Whether a message of magic 1 continues the log from `min_offset`, and is in no set: there,
    offsets count from 0."""
    return (
        header.magic == 1
        and MAX_MESSAGE_OFFSET_JUMP
        <= min_offset
        <= header.base_offset
        < min_offset + MAX_MESSAGE_OFFSET_JUMP
    )


@dataclass(frozen=True, slots=True)
class PossibleOffsets:
    """The offsets that a batch of the log can have at a position."""

    min_base_offset: int | None
    """The lowest base offset, None if unknown."""
    max_last_offset: int | None
    """The highest last offset, None if the next undamaged batch is unknown."""
    expected_base_offsets: tuple[int | None, ...] = ()
    """Base offsets that prove a batch: unrelated bytes do not have them by chance."""
    may_have_compressed_sets: bool = False
    """Whether the search covers, or may cover, compressed message sets of magic 0 and 1."""
    min_offset_after_message_set: int | None = None
    """The lowest offset of a message outside the set being searched."""

    @classmethod
    def after_damage(
        cls,
        header: BatchCandidate | None,
        min_offset: int | None,
        max_last_offset: int | None,
        may_have_compressed_sets: bool,
    ) -> PossibleOffsets:
        """The possible offsets of batches after a damaged batch, or inside its declared bytes.

        min_offset: the lowest offset that the damaged batch can have. Its own offset is trusted if
        it continues from `min_offset`; a message set has its last message's offset.
        """
        if header is None or not header.has_possible_offset(min_offset):
            return cls(min_offset, max_last_offset, (min_offset,), may_have_compressed_sets)
        has_known_magic = header.magic in (0, 1, 2)
        if has_known_magic:
            may_have_compressed_sets = header.magic < 2 and header.is_compressed
        min_base_offset = min_offset
        if header.base_offset == min_offset:
            min_base_offset = header.base_offset + 1
        min_offset_after_message_set = (
            header.base_offset + 1 if has_known_magic and may_have_compressed_sets else None
        )
        return cls(
            min_base_offset,
            max_last_offset,
            (min_offset, header.next_offset),
            may_have_compressed_sets,
            min_offset_after_message_set,
        )

    def has_offset_outside_message_set(self, header: BatchCandidate) -> bool:
        """Whether a message has an offset that no message inside a set has.

        Inside a set of magic 1, offsets count from 0; offsets read from compressed bytes are large.
        No message of the set being searched has a higher offset than the set.
        """
        if (
            self.min_offset_after_message_set is not None
            and header.base_offset < self.min_offset_after_message_set + MAX_MESSAGE_OFFSET_JUMP
        ):
            return self.allows_header(header)
        return is_message_after(header, self.min_base_offset or 0)

    def follows_truncated_message_set(self, header: BatchCandidate, message_set_end: int) -> bool:
        """Whether a message, or another set, follows a truncated compressed set.

        No message of a set ends outside it, and no set is in a set. message_set_end: where the set
        would end.
        """
        if (
            self.min_offset_after_message_set is None
            or header.magic > 1
            or not self.allows_header(header)
        ):
            return False
        ends_outside_set = header.position + header.declared_size > message_set_end
        max_offset_jump = (
            MAX_MESSAGE_SET_OFFSET_JUMP if header.is_compressed else MAX_MESSAGE_OFFSET_JUMP
        )
        return (
            ends_outside_set
            or header.base_offset < self.min_offset_after_message_set + max_offset_jump
        )

    def allows_header(self, header: BatchCandidate) -> bool:
        """Whether a batch with this header has possible offsets."""
        is_unbatched = header.magic < 2 and not header.is_compressed
        if (
            is_unbatched
            and self.min_offset_after_message_set is not None
            and header.base_offset < self.min_offset_after_message_set
        ):
            return False
        if self.min_base_offset is None:
            return header.has_possible_offset(None)
        if not self.min_base_offset <= header.base_offset < self.min_base_offset + MAX_OFFSET_JUMP:
            return False
        return self.max_last_offset is None or header.next_offset <= self.max_last_offset + 1
