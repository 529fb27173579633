"""Segments for tests: the batches of a real one, and ways to damage them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from crc32c import crc32c

NAME = "00000000000000000000.log"


def positions(data: bytes) -> list[int]:
    """The start of each batch of an undamaged log, and the log's end."""
    starts = [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + 12 + struct.unpack_from(">i", data, starts[-1] + 8)[0])
    return starts


def with_broken_checksums(data: bytes) -> bytes:
    """The data of a log of magic 2 with a flipped bit in each batch's checksum."""
    damaged = bytearray(data)
    for start in positions(data)[:-1]:
        damaged[start + 17] ^= 1
    return bytes(damaged)


def undecodable(data: bytes, batch_index: int) -> bytes:
    """The data of a compressed log with a batch, by its index, that has a valid checksum and cannot
    be decompressed."""
    damaged = bytearray(data)
    start, end = positions(data)[batch_index : batch_index + 2]
    damaged[start + 80 : start + 120] = bytes(40)
    struct.pack_into(">I", damaged, start + 17, crc32c(bytes(damaged[start + 21 : end])))
    return bytes(damaged)


def with_bytes(data: bytes, position: int, new: bytes) -> bytes:
    """The data with other bytes at a position."""
    return data[:position] + new + data[position + len(new) :]


def int32(value: int) -> bytes:
    """A big-endian integer of four bytes."""
    return struct.pack(">i", value)


def write(directory: Path, data: bytes, name: str = NAME) -> Path:
    """Write a log file with these bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / name
    file.write_bytes(data)
    return file


Damage = Callable[[bytes, int, int], bytes]
GARBAGE = bytes(range(200, 256)) * 20

# The damage of the batch from `start` to `end`, the finding code that must be reported at `start`,
# and whether the batch's records are still readable.
DAMAGES: dict[str, tuple[Damage, str, bool]] = {
    "a flipped bit": (
        lambda d, start, end: with_bytes(d, start + 100, bytes([d[start + 100] ^ 1])),
        "crc-mismatch",
        True,
    ),
    "a negative length": (
        lambda d, start, end: with_bytes(d, start + 8, int32(-5)),
        "batch-length-negative",
        True,
    ),
    "a length below the header's": (
        lambda d, start, end: with_bytes(d, start + 8, int32(10)),
        "batch-length-too-small",
        True,
    ),
    "a length that ends inside the batch": (
        lambda d, start, end: with_bytes(d, start + 8, int32(500)),
        "batch-length-too-small",
        True,
    ),
    "a length that ends inside the next batch": (
        lambda d, start, end: with_bytes(d, start + 8, int32(end - start + 500)),
        "batch-length-too-big",
        True,
    ),
    "the largest length": (
        lambda d, start, end: with_bytes(d, start + 8, int32((1 << 31) - 1)),
        "batch-length-too-big",
        True,
    ),
    "an unknown magic": (
        lambda d, start, end: with_bytes(d, start + 16, b"\x07"),
        "magic-unknown",
        False,
    ),
    "a negative magic": (
        lambda d, start, end: with_bytes(d, start + 16, b"\xff"),
        "magic-unknown",
        False,
    ),
    "zeros put in": (lambda d, start, end: d[:start] + bytes(4096) + d[start:], "zero-hole", True),
    "zeros over the header": (
        lambda d, start, end: with_bytes(d, start, bytes(500)),
        "zero-hole",
        False,
    ),
    "garbage put in": (lambda d, start, end: d[:start] + GARBAGE + d[start:], "garbage", True),
    "text put in": (
        lambda d, start, end: d[:start] + b"no batch\n" * 50 + d[start:],
        "garbage",
        True,
    ),
    "an offset from before": (
        lambda d, start, end: with_bytes(d, start, bytes(7) + b"\x05"),
        "offsets-backwards",
        True,
    ),
}
