"""Segments made for tests: the batches of a real one, and what can be done to them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from crc32c import crc32c

NAME = "00000000000000000000.log"


def positions(data: bytes) -> list[int]:
    """Where the batches of an undamaged log begin, and where the last one ends."""
    found = [0]
    while found[-1] < len(data):
        found.append(found[-1] + 12 + struct.unpack_from(">i", data, found[-1] + 8)[0])
    return found


def with_broken_checksums(data: bytes) -> bytes:
    """The data of a log of magic 2 with a bit of each batch's checksum changed."""
    made = bytearray(data)
    for at in positions(data)[:-1]:
        made[at + 17] ^= 1
    return bytes(made)


def undecodable(data: bytes, number: int) -> bytes:
    """The data of a compressed log with a batch, by number, that has a valid checksum and cannot
    be decompressed."""
    made = bytearray(data)
    at, end = positions(data)[number : number + 2]
    made[at + 80 : at + 120] = bytes(40)
    struct.pack_into(">I", made, at + 17, crc32c(bytes(made[at + 21 : end])))
    return bytes(made)


def with_bytes(data: bytes, at: int, new: bytes) -> bytes:
    """The data with other bytes at a place."""
    return data[:at] + new + data[at + len(new) :]


def int32(value: int) -> bytes:
    """Four bytes."""
    return struct.pack(">i", value)


def write(folder: Path, data: bytes, name: str = NAME) -> Path:
    """A log file with these bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_bytes(data)
    return file


Damage = Callable[[bytes, int, int], bytes]
GARBAGE = bytes(range(200, 256)) * 20

# What is done to the batch at `at`..`end`, the code that must be found at `at`, and whether the
# batch's records can still be shown.
DAMAGES: dict[str, tuple[Damage, str, bool]] = {
    "a flipped bit": (
        lambda d, at, end: with_bytes(d, at + 100, bytes([d[at + 100] ^ 1])),
        "crc-mismatch",
        True,
    ),
    "a negative length": (
        lambda d, at, end: with_bytes(d, at + 8, int32(-5)),
        "batch-length-negative",
        True,
    ),
    "a length below the header's": (
        lambda d, at, end: with_bytes(d, at + 8, int32(10)),
        "batch-length-too-small",
        True,
    ),
    "a length that ends inside the batch": (
        lambda d, at, end: with_bytes(d, at + 8, int32(500)),
        "batch-length-too-small",
        True,
    ),
    "a length that ends inside the next batch": (
        lambda d, at, end: with_bytes(d, at + 8, int32(end - at + 500)),
        "batch-length-too-big",
        True,
    ),
    "the largest length": (
        lambda d, at, end: with_bytes(d, at + 8, int32((1 << 31) - 1)),
        "batch-length-too-big",
        True,
    ),
    "an unknown magic": (
        lambda d, at, end: with_bytes(d, at + 16, b"\x07"),
        "magic-unknown",
        False,
    ),
    "a negative magic": (
        lambda d, at, end: with_bytes(d, at + 16, b"\xff"),
        "magic-unknown",
        False,
    ),
    "zeros put in": (lambda d, at, end: d[:at] + bytes(4096) + d[at:], "zero-hole", True),
    "zeros over the header": (lambda d, at, end: with_bytes(d, at, bytes(500)), "zero-hole", False),
    "garbage put in": (lambda d, at, end: d[:at] + GARBAGE + d[at:], "garbage", True),
    "text put in": (lambda d, at, end: d[:at] + b"no batch\n" * 50 + d[at:], "garbage", True),
    "an offset from before": (
        lambda d, at, end: with_bytes(d, at, bytes(7) + b"\x05"),
        "offsets-backwards",
        True,
    ),
}
