"""The cleaner's map of each key's latest offset, in bounded memory, by hashes of keys.

Source: `org.apache.kafka.storage.internals.log.SkimpyOffsetMap`, which stores 16 bytes of MD5 and 8
bytes of offset for each key. Here the hash has 64 bits, from two checksums and the length. Two keys
with the same hash count as one.
"""

from __future__ import annotations

import numpy as np

from kfmt_cli.broker.defaults import DEDUPE_BUFFER_BYTES
from kfmt_cli.core.codecs.checksum import CRC32, CRC32C, crc_of_regions
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native import hash_table as latest

ENTRY = 24  # bytes that a broker uses per key
LOAD = 0.9  # log.cleaner.io.buffer.load.factor
_FIRST = 1 << 12
_FILL = 0.75
_SPREAD = 0x9E3779B97F4A7C15 - (1 << 64)


def hashes_of(data: bytes, starts: IntArray, sizes: IntArray) -> IntArray:
    """A nonzero hash for each key."""
    ends = starts + sizes
    high = crc_of_regions(CRC32C, data, starts, ends).astype(np.int64)
    low = crc_of_regions(CRC32, data, starts, ends).astype(np.int64)
    with np.errstate(over="ignore"):
        mixed: IntArray = ((high << 32) ^ low ^ (sizes << 17)) * np.int64(_SPREAD)
        mixed ^= mixed >> 29
    mixed[mixed == 0] = 1
    return mixed


class OffsetMap:
    """Hashes of keys and their latest offsets. most: the number of keys that fit.

    latest_offset: the last offset whose key is included. expected: keys to reserve room for.
    """

    def __init__(self, buffer_bytes: int = DEDUPE_BUFFER_BYTES, expected: int = 0) -> None:
        self.most = int(buffer_bytes // ENTRY * LOAD)
        self.latest_offset = -1
        self._counts = np.zeros(1, np.int64)
        slots = _FIRST
        while slots * _FILL < min(expected, self.most):
            slots *= 2
        self._keys = np.zeros(slots, np.int64)
        self._offsets = np.zeros(slots, np.int64)

    def __len__(self) -> int:
        return int(self._counts[0])

    def put(self, hashes: IntArray, offsets: IntArray) -> int:
        """Add keys with their offsets; returns how many were added before the map was full."""
        done = 0
        while done < len(hashes) and len(self) < self.most:
            room = min(self.most, int(len(self._keys) * _FILL))
            if len(self) >= room:
                self._grow()
                continue
            taken = latest.put(
                self._keys, self._offsets, hashes[done:], offsets[done:], room, self._counts
            )
            done += taken
        return done

    def _grow(self) -> None:
        keys, offsets = self._keys, self._offsets
        self._keys = np.zeros(2 * len(keys), np.int64)
        self._offsets = np.zeros(2 * len(keys), np.int64)
        held = np.flatnonzero(keys)
        self._counts[0] = 0
        latest.put(
            self._keys, self._offsets, keys[held], offsets[held], len(self._keys), self._counts
        )

    def get(self, hashes: IntArray) -> IntArray:
        """The latest offset of each key, -1 if unknown."""
        found = np.empty(len(hashes), np.int64)
        latest.get(self._keys, self._offsets, hashes, found)
        return found
