"""The partition to which a producer sends a key.

Source: `org.apache.kafka.common.utils.Utils.murmur2`, `BuiltInPartitioner.partitionForKey`, and
librdkafka's rdmurmur2.c, rdfnv1a.c, rdcrc32.c and rd_kafka_msg_partitioner_consistent.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from kfmt_cli.core.layout.layout import IntArray

_WORD = 0xFFFFFFFF
_SEED, _FACTOR = 0x9747B28C, 0x5BD1E995
_BASIS, _PRIME = 0x811C9DC5, 0x01000193
_LONG = 1024  # bytes of a key from which onward it is hashed on its own


def murmur2(key: bytes) -> int:
    """Kafka's own hash, as a signed 32-bit number."""
    number = _SEED ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        four = int.from_bytes(key[at : at + 4], "little") * _FACTOR & _WORD
        four = (four ^ four >> 24) * _FACTOR & _WORD
        number = number * _FACTOR & _WORD ^ four
    if whole < len(key):
        number = (number ^ int.from_bytes(key[whole:], "little")) * _FACTOR & _WORD
    number = (number ^ number >> 13) * _FACTOR & _WORD
    number ^= number >> 15
    return _signed(number)


def partitions_of_keys(data: bytes, starts: IntArray, sizes: IntArray, partitions: int) -> IntArray:
    """The partitions to which Java's default partitioner sends some keys.

    data: the bytes. starts, sizes: the first byte and the size of each key in them, 0 or more.
    """
    view = np.frombuffer(data, np.uint8)
    number = (_SEED ^ sizes).astype(np.uint32)
    short = np.where(sizes < _LONG, sizes, 0)
    for first in range(0, int(short.max(initial=0)) & ~3, 4):
        rows = np.flatnonzero(short >= first + 4)
        four = _bytes_at(view, starts[rows] + first, np.full(len(rows), 4)) * np.uint32(_FACTOR)
        four = (four ^ four >> np.uint32(24)) * np.uint32(_FACTOR)
        number[rows] = number[rows] * np.uint32(_FACTOR) ^ four
    rows = np.flatnonzero(short & 3)
    rest = _bytes_at(view, starts[rows] + (short[rows] & ~3), short[rows] & 3)
    number[rows] = (number[rows] ^ rest) * np.uint32(_FACTOR)
    number = (number ^ number >> np.uint32(13)) * np.uint32(_FACTOR)
    number ^= number >> np.uint32(15)
    for row in np.flatnonzero(sizes >= _LONG).tolist():
        start, size = int(starts[row]), int(sizes[row])
        number[row] = murmur2(data[start : start + size]) & _WORD
    found: IntArray = (number & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions
    return found


def _bytes_at(
    view: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], starts: IntArray, sizes: IntArray
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    """Up to four bytes at each place, as a little-endian number."""
    number = np.zeros(len(starts), np.uint32)
    for i in range(4):
        rows = np.flatnonzero(sizes > i)
        number[rows] |= view[starts[rows] + i].astype(np.uint32) << np.uint32(8 * i)
    return number


def fnv1a(key: bytes) -> int:
    """The hash of librdkafka's fnv1a and Sarama: the absolute value of FNV-1a as an int."""
    number = _BASIS
    for byte in key:
        number = (number ^ byte) * _PRIME & _WORD
    return abs(_signed(number))


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


# By librdkafka's names; those with _random differ only for records without a key.
PARTITIONERS: dict[str, Callable[[bytes], int]] = {
    "murmur2": murmur2,
    "murmur2_random": murmur2,
    "consistent": zlib.crc32,
    "consistent_random": zlib.crc32,
    "fnv1a": fnv1a,
    "fnv1a_random": fnv1a,
}
EMPTY_IS_RANDOM = "consistent_random"
"""The only partitioner that treats an empty key as none."""


def partition_of_hash(number: int, partitions: int) -> int:
    """The partition of a hash: without its sign bit where it is negative, as `Utils.toPositive`."""
    return (number & 0x7FFFFFFF if number < 0 else number) % partitions
