"""The front of what may be a batch, and what a batch's front can look like at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfmt_cli.formats.batch import ATTRIBUTES, RECORD_BATCH
from kfmt_cli.formats.legacy import MESSAGES
from kfmt_cli.log.block import HEADER_SIZE, LEGACY_HEADERS, LOG_OVERHEAD

HEADER_UP_TO_MAGIC = RECORD_BATCH.offset_of("magic") + 1
# The least value of the length field, by magic.
MINIMUMS = np.array(
    [*(message.min_size - LOG_OVERHEAD for message in MESSAGES), HEADER_SIZE - LOG_OVERHEAD],
    np.int64,
)
_SIGN = 0x80
# The byte of the header that has the codec, by magic.
ATTRIBUTES_AT = (
    *(layout.offset_of("attributes") for layout in LEGACY_HEADERS),
    RECORD_BATCH.offset_of("attributes") + 1,
)
# Bits that no header has set, as (magic, byte, mask): what tells headers from payload.
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """The front of what may be a batch."""

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
        """The offset that follows the batch's last."""
        if self.magic < 2:
            return self.base_offset + 1
        at = RECORD_BATCH.offset_of("last_offset_delta")
        return self.base_offset + int.from_bytes(self.data[at : at + 4], "big", signed=True) + 1

    @property
    def compressed(self) -> bool:
        """Whether its records are compressed, by the header."""
        at = ATTRIBUTES_AT[min(max(self.magic, 0), 2)]
        return len(self.data) > at and self.data[at] & ATTRIBUTES["compression"].mask != 0

    def could_hold(self, offset: int | None) -> bool:
        """Whether a batch that comes after the one before `offset` could begin like this."""
        if offset is None:
            return 0 <= self.base_offset < 1 << 48
        return offset <= self.base_offset < offset + RANGE


@dataclass(frozen=True, slots=True)
class OffsetWindow:
    """The offsets that a batch of the log can have at a place."""

    first: int | None
    """The least base offset, None where nothing is known."""
    last: int | None
    """The greatest last offset, None where the next undamaged batch is not known."""
    likely: tuple[int | None, ...] = ()
    """Base offsets that no other batch has by chance."""
    sets: bool = False
    """Compressed message sets of magic 0 and 1 are searched, or may be."""
    behind_set: int | None = None
    """The least offset of a message that is not in the set that is searched."""

    @classmethod
    def after_damage(
        cls, header: Candidate | None, after_offset: int | None, last: int | None, sets: bool
    ) -> OffsetWindow:
        """What may follow a damaged batch, or in what is taken for it.

        after_offset: the least offset that the damaged batch can have. Its own is believed where
        the one continues from the other; a message set has that of its last message.
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
        """Whether a message of magic 1 has an offset that none inside a message set has.

        Inside a set they are counted from 0; what compression makes of their bytes is large.
        """
        first = self.first or 0
        return header.magic == 1 and NEAR <= first <= header.base_offset < first + NEAR

    def holds(self, header: Candidate) -> bool:
        """Whether a batch with this header can be there."""
        loose = header.magic < 2 and not header.compressed
        if loose and self.behind_set is not None and header.base_offset < self.behind_set:
            return False
        if self.first is None:
            return header.could_hold(None)
        if not self.first <= header.base_offset < self.first + RANGE:
            return False
        return self.last is None or header.next_offset <= self.last + 1
