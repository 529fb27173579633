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
from kfmt_cli.log.block import undamaged_data_batches
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.log.selection.selection import Selection

_UNLIMITED_BYTES = ENTRY_BYTES << 48


class LatestKeys:
    """The offset of each key's latest record, by hashes of the keys as in the log cleaner: at most
    64 bytes of memory per key, whatever its size."""

    def __init__(self) -> None:
        self._offset_map = OffsetMap(_UNLIMITED_BYTES)

    def add_logs(
        self, logs: Sequence[InputFile], selection: Selection, limit: DecompressionLimit
    ) -> None:
        """Add the keys of the selected records, without markers; raises InputError.

        logs: a partition's logs in base offset order.
        """
        for log in selection.select_logs(logs):
            for block in map(undamaged_data_batches, read_blocks_from(log, read_ahead=True)):
                for run, records in selection.iter_candidate_runs(block, limit):
                    is_keyed = selection.record_mask(run, records) & (records.rows.key_size >= 0)
                    keyed_rows = np.flatnonzero(is_keyed)
                    self._offset_map.put(
                        _hash_rows(records, keyed_rows), records.rows.offset[keyed_rows]
                    )

    def latest_mask(self, records: RecordColumns, selected_rows: IntArray) -> BoolArray:
        """Which of the selected rows are the latest of their keys, and not tombstones."""
        rows = records.rows
        is_latest = (rows.key_size[selected_rows] >= 0) & (rows.value_size[selected_rows] >= 0)
        latest_offsets = self._offset_map.get(_hash_rows(records, selected_rows[is_latest]))
        is_latest[is_latest] = latest_offsets == rows.offset[selected_rows[is_latest]]
        return is_latest


def _hash_rows(records: RecordColumns, selected_rows: IntArray) -> IntArray:
    return hash_keys(
        records.data, records.rows.key[selected_rows], records.rows.key_size[selected_rows]
    )
