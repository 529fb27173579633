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


def zigzag_encode(signed: int, n_bits: int) -> int:
    """Map 0, -1, 1, -2, … to 0, 1, 2, 3, …: (n << 1) ^ (n >> bits - 1), as an unsigned number."""
    return ((signed << 1) ^ (signed >> (n_bits - 1))) & VARINT_MASKS[n_bits]


def zigzag_decode(unsigned: int) -> int:
    """The inverse of `zigzag_encode`."""
    return (unsigned >> 1) ^ -(unsigned & 1)


def seven_bit_groups(unsigned: int) -> list[int]:
    """The 7-bit groups of an unsigned number, lowest first; one group for 0."""
    groups = [unsigned & 0x7F]
    while unsigned := unsigned >> 7:
        groups.append(unsigned & 0x7F)
    return groups


def encode_uvarint(unsigned: int) -> bytes:
    """Encode an unsigned number as a varint."""
    *leading_groups, last_group = seven_bit_groups(unsigned)
    return bytes([*(group | 0x80 for group in leading_groups), last_group])


def decode_uvarint(
    data: bytes | memoryview, position: int, end: int, n_bits: int
) -> tuple[int, int]:
    """Decode the unsigned varint at byte `position`; also returns the position after it.

    Raises VarintError. n_bits: 32 or 64.
    """
    unsigned = 0
    for byte_index in range(MAX_VARINT_BYTES[n_bits]):
        if position + byte_index >= end:
            raise VarintError(
                f"truncated varint: ends after {byte_index} byte{'s' * (byte_index != 1)}",
                "EXHAUSTED",
            )
        byte = data[position + byte_index]
        unsigned |= (byte & 0x7F) << (7 * byte_index)
        if byte < 0x80:
            return unsigned & VARINT_MASKS[n_bits], position + byte_index + 1
    raise VarintError(
        (
            f"a {n_bits}-bit varint has at most {MAX_VARINT_BYTES[n_bits]} bytes, but this one "
            "continues"
        ),
        "VARINT_TOO_LONG",
    )
