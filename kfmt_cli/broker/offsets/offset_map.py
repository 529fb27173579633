"""The cleaner's map of each key's latest offset, in bounded memory, by hashes of keys.

Source: `org.apache.kafka.storage.internals.log.SkimpyOffsetMap`, which stores 16 bytes of MD5 and 8
bytes of offset for each key. Here the hash has 64 bits, from two checksums and the length. Two keys
with the same hash count as one.
"""

from __future__ import annotations

import numpy as np

from kfmt_cli.broker.defaults import DEFAULT_DEDUPE_BUFFER_BYTES
from kfmt_cli.core.codecs.checksum import CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, compute_region_crcs
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native import hash_table

ENTRY_BYTES = 24  # bytes that a broker uses per key
LOAD_FACTOR = 0.9  # log.cleaner.io.buffer.load.factor
_N_INITIAL_SLOTS = 1 << 12
_MAX_FILL_RATIO = 0.75
_HASH_MULTIPLIER = 0x9E3779B97F4A7C15 - (1 << 64)


def hash_keys(key_bytes: bytes, key_starts: IntArray, key_sizes: IntArray) -> IntArray:
    """A nonzero hash for each key."""
    key_ends = key_starts + key_sizes
    crc32c_values = compute_region_crcs(CRC32C_POLYNOMIAL, key_bytes, key_starts, key_ends).astype(
        np.int64
    )
    crc32_values = compute_region_crcs(CRC32_POLYNOMIAL, key_bytes, key_starts, key_ends).astype(
        np.int64
    )
    with np.errstate(over="ignore"):
        hashes: IntArray = ((crc32c_values << 32) ^ crc32_values ^ (key_sizes << 17)) * np.int64(
            _HASH_MULTIPLIER
        )
        hashes ^= hashes >> 29
    hashes[hashes == 0] = 1
    return hashes


class OffsetMap:
    """Hashes of keys and their latest offsets. capacity: the number of keys that fit.

    latest_offset: the last offset whose key is included. expected_keys: the
    number of keys to allocate memory for.
    """

    def __init__(
        self, buffer_bytes: int = DEFAULT_DEDUPE_BUFFER_BYTES, expected_keys: int = 0
    ) -> None:
        self.capacity = int(buffer_bytes // ENTRY_BYTES * LOAD_FACTOR)
        self.latest_offset = -1
        self._n_keys_array = np.zeros(1, np.int64)
        n_slots = _N_INITIAL_SLOTS
        while n_slots * _MAX_FILL_RATIO < min(expected_keys, self.capacity):
            n_slots *= 2
        self._hashes = np.zeros(n_slots, np.int64)
        self._offsets = np.zeros(n_slots, np.int64)

    def __len__(self) -> int:
        return int(self._n_keys_array[0])

    def add_keys(self, key_hashes: IntArray, offsets: IntArray) -> int:
        """Add keys with their offsets; returns how many were added before the map was full."""
        n_added = 0
        while n_added < len(key_hashes) and len(self) < self.capacity:
            max_stored_keys = min(self.capacity, int(len(self._hashes) * _MAX_FILL_RATIO))
            if len(self) >= max_stored_keys:
                self._double_slots()
                continue
            n_stored = hash_table.put(
                self._hashes,
                self._offsets,
                key_hashes[n_added:],
                offsets[n_added:],
                max_stored_keys,
                self._n_keys_array,
            )
            n_added += n_stored
        return n_added

    def _double_slots(self) -> None:
        old_hashes, old_offsets = self._hashes, self._offsets
        self._hashes = np.zeros(2 * len(old_hashes), np.int64)
        self._offsets = np.zeros(2 * len(old_hashes), np.int64)
        used_slots = np.flatnonzero(old_hashes)
        self._n_keys_array[0] = 0
        hash_table.put(
            self._hashes,
            self._offsets,
            old_hashes[used_slots],
            old_offsets[used_slots],
            len(self._hashes),
            self._n_keys_array,
        )

    def find_latest_offsets(self, key_hashes: IntArray) -> IntArray:
        """The latest offset of each key, -1 if unknown."""
        latest_offsets = np.empty(len(key_hashes), np.int64)
        hash_table.get(self._hashes, self._offsets, key_hashes, latest_offsets)
        return latest_offsets
