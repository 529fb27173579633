"""Varints as Kafka writes them: base-128 groups, lowest first, with ZigZag for signed ones.

Follows `org.apache.kafka.common.utils.ByteUtils`: a 32-bit varint has at most 5 bytes, a 64-bit one
at most 10. Bits of the last byte beyond 32 or 64 are dropped, and overlong encodings accepted.
"""

from __future__ import annotations

VARINT_MASKS = {32: 0xFFFFFFFF, 64: 0xFFFFFFFFFFFFFFFF}
MAX_VARINT_BYTES = {32: 5, 64: 10}


class VarintError(ValueError):
    """Bytes that are not a varint. status: the kernel's name for the error."""

    def __init__(self, reason: str, status: str) -> None:
        super().__init__(reason)
        self.status = status


def zigzag_encode(value: int, bits: int) -> int:
    """Map 0, -1, 1, -2, … to 0, 1, 2, 3, …: (n << 1) ^ (n >> bits - 1), as an unsigned number."""
    return ((value << 1) ^ (value >> (bits - 1))) & VARINT_MASKS[bits]


def zigzag_decode(raw: int) -> int:
    """The inverse of `zigzag_encode`."""
    return (raw >> 1) ^ -(raw & 1)


def varint_groups(raw: int) -> list[int]:
    """The 7-bit groups of an unsigned number, lowest first; one group for 0."""
    groups = [raw & 0x7F]
    while raw := raw >> 7:
        groups.append(raw & 0x7F)
    return groups


def encode_uvarint(raw: int) -> bytes:
    """Encode an unsigned number as a varint."""
    *leading, last = varint_groups(raw)
    return bytes([*(group | 0x80 for group in leading), last])


def decode_uvarint(data: bytes | memoryview, position: int, end: int, bits: int) -> tuple[int, int]:
    """Decode the unsigned varint at byte `position`; also returns the position after it.

    Raises VarintError. bits: 32 or 64.
    """
    raw = 0
    for i in range(MAX_VARINT_BYTES[bits]):
        if position + i >= end:
            raise VarintError(f"truncated varint: ends after {i} byte{'s' * (i != 1)}", "EXHAUSTED")
        byte = data[position + i]
        raw |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return raw & VARINT_MASKS[bits], position + i + 1
    raise VarintError(
        f"a {bits}-bit varint has at most {MAX_VARINT_BYTES[bits]} bytes, but this one continues",
        "VARINT_TOO_LONG",
    )
