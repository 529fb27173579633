"""Candidate batch headers, and the limits of a plausible header."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfmt_cli.formats.batch import COMPRESSION, RECORD_BATCH
from kfmt_cli.formats.legacy import MESSAGES
from kfmt_cli.log.block import HEADER_SIZE, LEGACY_HEADERS, LOG_OVERHEAD

HEADER_UP_TO_MAGIC = RECORD_BATCH.offset_of("magic") + 1
# The smallest value of the length field, by magic.
MINIMUMS = np.array(
    [*(message.min_size - LOG_OVERHEAD for message in MESSAGES), HEADER_SIZE - LOG_OVERHEAD],
    np.int64,
)
_SIGN = 0x80
# The header byte with the codec, by magic.
ATTRIBUTES_AT = (
    *(layout.offset_of("attributes") for layout in LEGACY_HEADERS),
    RECORD_BATCH.offset_of("attributes") + 1,
)
# Bits that no header has set, as (magic, byte, mask); they tell headers from payload.
ZEROS = np.array(
    [
        *((magic, 0, 0xFF) for magic in range(3)),  # an offset of 2^56 and more
        (0, LEGACY_HEADERS[0].offset_of("attributes"), 0xF8),
        (1, LEGACY_HEADERS[1].offset_of("attributes"), 0xF0),
        (2, RECORD_BATCH.offset_of("attributes"), 0xFF),
        (2, RECORD_BATCH.offset_of("attributes") + 1, 0x80),
        (2, RECORD_BATCH.offset_of("last_offset_delta"), _SIGN),
        (2, RECORD_BATCH.offset_of("records_count"), _SIGN),
    ],
    np.int64,
)
RANGE = 1 << 31
NEAR = 100
OF_A_SET = 1 << 16  # offsets of a compressed set, which has that of its last message


@dataclass(frozen=True, slots=True)
class Candidate:
    """The start of a possible batch."""

    position: int
    data: bytes

    @property
    def base_offset(self) -> int:
        return int.from_bytes(self.data[:8], "big", signed=True)

    @property
    def length(self) -> int:
        return int.from_bytes(self.data[8:12], "big", signed=True)

    @property
    def size(self) -> int:
        return LOG_OVERHEAD + self.length

    @property
    def magic(self) -> int:
        if len(self.data) < HEADER_UP_TO_MAGIC:
            return -1
        return int.from_bytes(self.data[16:17], "big", signed=True)

    @property
    def next_offset(self) -> int:
        """The batch's last offset plus one."""
        if self.magic < 2:
            return self.base_offset + 1
        at = RECORD_BATCH.offset_of("last_offset_delta")
        return self.base_offset + int.from_bytes(self.data[at : at + 4], "big", signed=True) + 1

    @property
    def compressed(self) -> bool:
        """Whether its records are compressed, according to the header."""
        at = ATTRIBUTES_AT[min(max(self.magic, 0), 2)]
        return len(self.data) > at and self.data[at] & COMPRESSION.mask != 0

    def could_hold(self, offset: int | None) -> bool:
        """Whether a batch could begin like this if `offset` is the least it can have."""
        if offset is None:
            return 0 <= self.base_offset < 1 << 48
        return offset <= self.base_offset < offset + RANGE


@dataclass(frozen=True, slots=True)
class OffsetWindow:
    """The offsets that a batch of the log can have at a position."""

    first: int | None
    """The lowest base offset, None if unknown."""
    last: int | None
    """The highest last offset, None if the next undamaged batch is unknown."""
    likely: tuple[int | None, ...] = ()
    """Base offsets that no unrelated bytes have by chance."""
    sets: bool = False
    """Whether the search covers, or may cover, compressed message sets of magic 0 and 1."""
    behind_set: int | None = None
    """The lowest offset of a message outside the set being searched."""

    @classmethod
    def after_damage(
        cls, header: Candidate | None, after_offset: int | None, last: int | None, sets: bool
    ) -> OffsetWindow:
        """The window for batches after a damaged batch, or inside its supposed bytes.

        after_offset: the lowest offset that the damaged batch can have. Its own offset is trusted
        if it continues from that one; a message set has its last message's offset.
        """
        if header is None or not header.could_hold(after_offset):
            return cls(after_offset, last, (after_offset,), sets)
        known = header.magic in (0, 1, 2)
        if known:
            sets = header.magic < 2 and header.compressed
        first = after_offset
        if header.base_offset == after_offset:
            first = header.base_offset + 1
        behind_set = header.base_offset + 1 if known and sets else None
        return cls(first, last, (after_offset, header.next_offset), sets, behind_set)

    def is_near(self, header: Candidate) -> bool:
        """Whether a message has an offset that no message inside a set has.

        Inside a set of magic 1, offsets count from 0; offsets read from compressed bytes are large.
        No message of the set being searched has a higher offset than the set.
        """
        if self.behind_set is not None and header.base_offset < self.behind_set + NEAR:
            return self.holds(header)
        first = self.first or 0
        return header.magic == 1 and NEAR <= first <= header.base_offset < first + NEAR

    def is_behind_set(self, header: Candidate, end: int) -> bool:
        """Whether a message, or another set, follows a compressed set that was cut short.

        No message of a set ends outside it, and no set is in a set. end: where the set would end.
        """
        if self.behind_set is None or header.magic > 1 or not self.holds(header):
            return False
        is_outside = header.position + header.size > end
        near = OF_A_SET if header.compressed else NEAR
        return is_outside or header.base_offset < self.behind_set + near

    def holds(self, header: Candidate) -> bool:
        """Whether a batch with this header is possible in the window."""
        loose = header.magic < 2 and not header.compressed
        if loose and self.behind_set is not None and header.base_offset < self.behind_set:
            return False
        if self.first is None:
            return header.could_hold(None)
        if not self.first <= header.base_offset < self.first + RANGE:
            return False
        return self.last is None or header.next_offset <= self.last + 1
