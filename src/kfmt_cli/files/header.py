"""The front of what may be a batch, and what a batch's front can look like at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfmt_cli.files.block import HEADER_SIZE, LEGACY_HEADERS, LOG_OVERHEAD
from kfmt_cli.formats.batch import RECORD_BATCH
from kfmt_cli.formats.legacy import MESSAGES

HEADER_UP_TO_MAGIC = RECORD_BATCH.offset_of("magic") + 1
# The least value of the length field, by magic.
MINIMUMS = np.array(
    [*(message.min_size - LOG_OVERHEAD for message in MESSAGES), HEADER_SIZE - LOG_OVERHEAD],
    np.int64,
)
_SIGN = 0x80
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


@dataclass(frozen=True, slots=True)
class Header:
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

    def could_hold(self, offset: int | None) -> bool:
        """Whether a batch that comes after the one before `offset` could begin like this."""
        if offset is None:
            return 0 <= self.base_offset < 1 << 48
        return offset <= self.base_offset < offset + RANGE
