"""The latest record of each key in a partition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kfmt_cli.broker.offsets.offset_map import ENTRY, OffsetMap, hashes_of
from kfmt_cli.broker.offsets.seek import blocks_from
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.log.block import undamaged_data
from kfmt_cli.log.records import Records
from kfmt_cli.log.selection.select import Selection

_UNLIMITED = ENTRY << 48


class LatestKeys:
    """The offset of each key's latest record, by hashes of the keys as in the log cleaner: at most
    64 bytes of memory per key, whatever its size."""

    def __init__(self) -> None:
        self._map = OffsetMap(_UNLIMITED)

    def read(self, logs: Sequence[Input], wanted: Selection, limit: Limit) -> None:
        """Add the keys of the wanted records, without markers; raises InputError.

        logs: a partition's logs in base offset order.
        """
        for log in wanted.logs(logs):
            for block in map(undamaged_data, blocks_from(log, read_ahead=True)):
                for run, records in wanted.near(block, limit):
                    keep = wanted.of_records(run, records) & (records.rows.key_size >= 0)
                    chosen = np.flatnonzero(keep)
                    self._map.put(_hashes(records, chosen), records.rows.offset[chosen])

    def holds(self, records: Records, chosen: IntArray) -> BoolArray:
        """Which of the chosen rows are the latest of their keys, and no tombstones."""
        rows = records.rows
        has_both = (rows.key_size[chosen] >= 0) & (rows.value_size[chosen] >= 0)
        latest = self._map.get(_hashes(records, chosen[has_both]))
        has_both[has_both] = latest == rows.offset[chosen[has_both]]
        return has_both


def _hashes(records: Records, chosen: IntArray) -> IntArray:
    return hashes_of(records.data, records.rows.key[chosen], records.rows.key_size[chosen])
