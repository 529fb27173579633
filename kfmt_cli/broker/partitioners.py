"""The partition to which a producer sends a key, and the partition of a group or a transactional
id.

Source: `org.apache.kafka.common.utils.Utils.murmur2`, `BuiltInPartitioner.partitionForKey`, and
librdkafka's rdmurmur2.c, rdfnv1a.c, rdcrc32.c and rd_kafka_msg_partitioner_consistent;
`kafka.coordinator.group.GroupMetadataManager.partitionFor`, `TransactionStateManager.partitionFor`,
`org.apache.kafka.common.utils.Utils.abs`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from kfmt_cli.core.layout.layout import IntArray

GROUPS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
MIN_INT32 = -(1 << 31)  # its absolute value does not fit an int
# offsets.topic.num.partitions and transaction.state.log.num.partitions.
DEFAULT_INTERNAL_PARTITIONS = 50
_UINT32_MASK = 0xFFFFFFFF
_MURMUR2_SEED, _MURMUR2_FACTOR = 0x9747B28C, 0x5BD1E995
_FNV_BASIS, _FNV_PRIME = 0x811C9DC5, 0x01000193
_LARGE_KEY_BYTES = 1024  # a key of at least this size is hashed separately


def murmur2(key: bytes) -> int:
    """Kafka's own hash, as a signed 32-bit number."""
    hash_value = _MURMUR2_SEED ^ len(key)
    aligned_size = len(key) & ~3
    for position in range(0, aligned_size, 4):
        word = (
            int.from_bytes(key[position : position + 4], "little") * _MURMUR2_FACTOR & _UINT32_MASK
        )
        word = (word ^ word >> 24) * _MURMUR2_FACTOR & _UINT32_MASK
        hash_value = hash_value * _MURMUR2_FACTOR & _UINT32_MASK ^ word
    if aligned_size < len(key):
        hash_value = (
            hash_value ^ int.from_bytes(key[aligned_size:], "little")
        ) * _MURMUR2_FACTOR & _UINT32_MASK
    hash_value = (hash_value ^ hash_value >> 13) * _MURMUR2_FACTOR & _UINT32_MASK
    hash_value ^= hash_value >> 15
    return _to_signed_int32(hash_value)


def compute_key_partitions(
    key_bytes: bytes, key_starts: IntArray, key_sizes: IntArray, n_partitions: int
) -> IntArray:
    """The partition to which Java's default partitioner sends each key.

    key_bytes: the bytes that contain the keys. key_starts, key_sizes: the first byte and the size
    of each key in `key_bytes`; the sizes are 0 or more.
    """
    byte_view = np.frombuffer(key_bytes, np.uint8)
    hashes = (_MURMUR2_SEED ^ key_sizes).astype(np.uint32)
    short_key_sizes = np.where(key_sizes < _LARGE_KEY_BYTES, key_sizes, 0)
    for position in range(0, int(short_key_sizes.max(initial=0)) & ~3, 4):
        key_rows = np.flatnonzero(short_key_sizes >= position + 4)
        words = _read_words(
            byte_view, key_starts[key_rows] + position, np.full(len(key_rows), 4)
        ) * np.uint32(_MURMUR2_FACTOR)
        words = (words ^ words >> np.uint32(24)) * np.uint32(_MURMUR2_FACTOR)
        hashes[key_rows] = hashes[key_rows] * np.uint32(_MURMUR2_FACTOR) ^ words
    key_rows = np.flatnonzero(short_key_sizes & 3)
    trailing_values = _read_words(
        byte_view,
        key_starts[key_rows] + (short_key_sizes[key_rows] & ~3),
        short_key_sizes[key_rows] & 3,
    )
    hashes[key_rows] = (hashes[key_rows] ^ trailing_values) * np.uint32(_MURMUR2_FACTOR)
    hashes = (hashes ^ hashes >> np.uint32(13)) * np.uint32(_MURMUR2_FACTOR)
    hashes ^= hashes >> np.uint32(15)
    for key_row in np.flatnonzero(key_sizes >= _LARGE_KEY_BYTES).tolist():
        key_start, key_size = int(key_starts[key_row]), int(key_sizes[key_row])
        hashes[key_row] = murmur2(key_bytes[key_start : key_start + key_size]) & _UINT32_MASK
    key_partitions: IntArray = (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % n_partitions
    return key_partitions


def _read_words(
    byte_view: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
    word_starts: IntArray,
    word_sizes: IntArray,
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    """Up to four bytes from each start onward, as a little-endian number."""
    words = np.zeros(len(word_starts), np.uint32)
    for byte_index in range(4):
        rows = np.flatnonzero(word_sizes > byte_index)
        words[rows] |= byte_view[word_starts[rows] + byte_index].astype(np.uint32) << np.uint32(
            8 * byte_index
        )
    return words


def fnv1a(key: bytes) -> int:
    """The hash of librdkafka's fnv1a and Sarama: the absolute value of FNV-1a as an int."""
    hash_value = _FNV_BASIS
    for byte in key:
        hash_value = (hash_value ^ byte) * _FNV_PRIME & _UINT32_MASK
    return abs(_to_signed_int32(hash_value))


def _to_signed_int32(unsigned_value: int) -> int:
    return unsigned_value - (1 << 32) if unsigned_value >> 31 else unsigned_value


# The partitioners by librdkafka's names; with _random, they differ only for records without a key.
PARTITIONERS: dict[str, Callable[[bytes], int]] = {
    "murmur2": murmur2,
    "murmur2_random": murmur2,
    "consistent": zlib.crc32,
    "consistent_random": zlib.crc32,
    "fnv1a": fnv1a,
    "fnv1a_random": fnv1a,
}
EMPTY_KEY_AS_NULL_PARTITIONER = "consistent_random"
"""The only partitioner that treats an empty key like a missing one."""


def hash_to_partition(hash_value: int, n_partitions: int) -> int:
    """The partition of a hash; a negative hash loses its sign bit, as in `Utils.toPositive`."""
    return (hash_value & 0x7FFFFFFF if hash_value < 0 else hash_value) % n_partitions


def java_string_hash(text: str) -> int:
    """`java.lang.String.hashCode`, over UTF-16 code units, as a signed 32-bit number."""
    utf16_bytes = text.encode("utf-16-be", "surrogatepass")
    hash_value = 0
    for high_byte, low_byte in zip(utf16_bytes[::2], utf16_bytes[1::2], strict=True):
        hash_value = (31 * hash_value + (high_byte << 8 | low_byte)) & 0xFFFFFFFF
    return hash_value - (1 << 32) if hash_value >> 31 else hash_value


def compute_coordinator_partition(
    coordinator_key: str, n_partitions: int = DEFAULT_INTERNAL_PARTITIONS
) -> int:
    """The partition of a group or a transactional id."""
    hash_value = java_string_hash(coordinator_key)
    return 0 if hash_value == MIN_INT32 else abs(hash_value) % n_partitions
