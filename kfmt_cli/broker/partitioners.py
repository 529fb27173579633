"""The partition to which a producer sends a key.

Source: `org.apache.kafka.common.utils.Utils.murmur2`, `BuiltInPartitioner.partitionForKey`, and
librdkafka's rdmurmur2.c, rdfnv1a.c, rdcrc32.c and rd_kafka_msg_partitioner_consistent.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

_WORD = 0xFFFFFFFF
_SEED, _FACTOR = 0x9747B28C, 0x5BD1E995
_BASIS, _PRIME = 0x811C9DC5, 0x01000193


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
