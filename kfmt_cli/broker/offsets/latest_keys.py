"""The latest record of each key in a partition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kfmt_cli.broker.offsets.offset_map import ENTRY_BYTES, OffsetMap, hash_keys
from kfmt_cli.broker.offsets.seek import read_blocks_from
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.log.block import undamaged_data_block
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.log.selection.selection import Selection

_UNLIMITED_BUFFER_BYTES = ENTRY_BYTES << 48


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


def _hash_row_keys(records: RecordColumns, selected_rows: IntArray) -> IntArray:
    return hash_keys(
        records.data, records.rows.key[selected_rows], records.rows.key_size[selected_rows]
    )
