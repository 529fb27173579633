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

    def __init__(self) -> None:
        self._offset_map = OffsetMap(_UNLIMITED_BUFFER_BYTES)

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
                    self._offset_map.add_keys(
                        _hash_row_keys(records, keyed_rows), records.rows.offset[keyed_rows]
                    )

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


def _hash_row_keys(records: RecordColumns, selected_rows: IntArray) -> IntArray:
    return hash_keys(
        records.data, records.rows.key[selected_rows], records.rows.key_size[selected_rows]
    )
