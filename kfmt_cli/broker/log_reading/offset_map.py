"""Each key's latest offset, by hashes of keys: the cleaner's map, in bounded memory.

Source: `org.apache.kafka.storage.internals.log.SkimpyOffsetMap`, which stores 16 bytes of MD5 and 8
bytes of offset for each key. Here the hash has 64 bits, from two checksums and the length. Two keys
with the same hash count as one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kfmt_cli.broker.defaults import DEFAULT_DEDUPE_BUFFER_BYTES
from kfmt_cli.broker.log_reading.seek import read_blocks_from
from kfmt_cli.core.codecs.checksum import CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, compute_region_crcs
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native import hash_table
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.log.block import Block, undamaged_data_block
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.log.selection.selection import Selection

ENTRY_BYTES = 24  # bytes that a broker uses per key
LOAD_FACTOR = 0.9  # log.cleaner.io.buffer.load.factor
_UNLIMITED_BUFFER_BYTES = ENTRY_BYTES << 48
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


class LatestKeyOffsets:
    """The offset of each key's latest record, by hashes of the keys as in the log cleaner: at most
    64 bytes of memory per key, whatever its size."""

    def __init__(self, *, finds_first_repeat: bool = False) -> None:
        """finds_first_repeat: keep `first_repeat_offset` up to date."""
        self._offset_map = OffsetMap(_UNLIMITED_BUFFER_BYTES)
        self._finds_first_repeat = finds_first_repeat
        self.first_repeat_offset: int | None = None
        """The first offset with a key of an earlier record: compaction has not been here."""

    def add_logs(
        self,
        logs: Sequence[InputFile],
        selection: Selection,
        decompression_limit: DecompressionLimit,
    ) -> None:
        """Add the keys of the selected records, without markers; raises InputError.

        logs: a partition's logs in base offset order.
        """
        for log in selection.select_logs(logs):
            for block in map(undamaged_data_block, read_blocks_from(log, read_ahead=True)):
                for run, records in selection.iter_candidate_runs(block, decompression_limit):
                    is_keyed = selection.record_mask(run, records) & (records.rows.key_size >= 0)
                    keyed_rows = np.flatnonzero(is_keyed)
                    key_hashes = _hash_row_keys(records, keyed_rows)
                    offsets = records.rows.offset[keyed_rows]
                    if self._finds_first_repeat and self.first_repeat_offset is None:
                        is_repeated = self._offset_map.find_latest_offsets(key_hashes) >= 0
                        first_rows = np.unique(key_hashes, return_index=True)[1]
                        is_repeated[~np.isin(np.arange(len(key_hashes)), first_rows)] = True
                        if is_repeated.any():
                            self.first_repeat_offset = int(offsets[is_repeated].min())
                    self._offset_map.add_keys(key_hashes, offsets)

    def latest_record_mask(self, records: RecordColumns, selected_rows: IntArray) -> BoolArray:
        """Which of the selected rows are the latest of their keys, and not tombstones."""
        record_rows = records.rows
        is_latest = (record_rows.key_size[selected_rows] >= 0) & (
            record_rows.value_size[selected_rows] >= 0
        )
        latest_offsets = self._offset_map.find_latest_offsets(
            _hash_row_keys(records, selected_rows[is_latest])
        )
        is_latest[is_latest] = latest_offsets == record_rows.offset[selected_rows[is_latest]]
        return is_latest

    def superseded_mask(self, records: RecordColumns) -> BoolArray:
        """Which records are tombstones, or older than the latest of their keys."""
        key_sizes, offsets = records.rows.key_size, records.rows.offset
        is_superseded = (key_sizes >= 0) & (records.rows.value_size < 0)
        keyed_rows = np.flatnonzero(key_sizes >= 0)
        latest_offsets = self._offset_map.find_latest_offsets(_hash_row_keys(records, keyed_rows))
        is_superseded[keyed_rows] |= latest_offsets > offsets[keyed_rows]
        return is_superseded


def latest_in_run_mask(run: Block, records: RecordColumns) -> BoolArray:
    """Which records of a run of batches the replay of a compacted topic needs. It can skip a record
    outside transactions if a later record outside transactions has the same key."""
    is_compared = (run.batches.crc_valid == 1) & (run.batches.transactional == 0)
    is_compared = is_compared[records.batch_of_row] & (records.rows.key_size >= 0)
    compared_rows = np.flatnonzero(is_compared & (records.rows.control == 0))[::-1]
    is_needed = np.ones(len(records.rows), np.bool_)
    is_needed[compared_rows] = False
    latest_indexes = np.unique(_hash_row_keys(records, compared_rows), return_index=True)[1]
    is_needed[compared_rows[latest_indexes]] = True
    return is_needed


def _hash_row_keys(records: RecordColumns, selected_rows: IntArray) -> IntArray:
    return hash_keys(
        records.data, records.rows.key[selected_rows], records.rows.key_size[selected_rows]
    )
