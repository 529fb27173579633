"""The records of a partition that read_committed consumers receive.

They skip aborted transactions, and end at the last stable offset. Source:
`org.apache.kafka.clients.consumer.internals.CompletedFetch`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.rows.log_tables import BatchTable


@dataclass(frozen=True, slots=True, eq=False)
class Committed:
    """The aborted transactions of a partition, and its last stable offset."""

    producer: IntArray
    """The producers of the aborted transactions, in order."""
    first: IntArray
    """The first offset of each, in order for each producer."""
    last: IntArray
    """The offset of its transaction marker."""
    stable: int | None
    """The last stable offset, where consumers stop; None if no transaction is open."""

    @classmethod
    def of(cls, aborted: Iterable[tuple[int, int, int]], stable: int | None) -> Committed:
        """Make it from transactions as producer, first offset and marker offset."""
        rows = np.array(sorted(aborted), np.int64).reshape(-1, 3)
        return cls(rows[:, 0], rows[:, 1], rows[:, 2], stable)

    def of_batches(self, batches: BatchTable) -> BoolArray:
        """Which batches' records consumers receive."""
        given: BoolArray = batches.control == 0
        if self.stable is not None:
            given &= batches.last_offset < self.stable
        chosen = np.flatnonzero(given & (batches.transactional == 1))
        producers = batches.producer_id[chosen]
        for producer in np.unique(producers).tolist():
            own = slice(*np.searchsorted(self.producer, [producer, producer + 1]))
            rows = chosen[producers == producer]
            offset = batches.base_offset[rows]
            # The last transaction that begins at or before the offset, if any.
            i = np.searchsorted(self.first[own], offset, side="right") - 1
            rows, offset, i = rows[i >= 0], offset[i >= 0], i[i >= 0]
            given[rows] = offset > self.last[own][i]
        return given
