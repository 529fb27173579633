"""The records of a partition that read_committed consumers receive.

They skip aborted transactions, and end at the last stable offset. Source:
`org.apache.kafka.clients.consumer.internals.CompletedFetch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.rows.log_tables import BatchTable


@dataclass(frozen=True, slots=True, eq=False)
class CommittedRecords:
    """The aborted transactions of a partition, and its last stable offset."""

    producer_ids: IntArray
    """The producers of the aborted transactions, in order."""
    first_offsets: IntArray
    """The first offset of each transaction, in order for each producer."""
    marker_offsets: IntArray
    """The offset of each transaction's marker."""
    last_stable_offset: int | None
    """The last stable offset, where consumers stop; None if no transaction is open."""
    unknown_transactions: Sequence[tuple[int, int, int]] = ()
    """The transactions with an unknown outcome: producer id, first and last offset."""

    @classmethod
    def from_transactions(
        cls,
        aborted_transactions: Iterable[tuple[int, int, int]],
        last_stable_offset: int | None,
        unknown_transactions: Sequence[tuple[int, int, int]] = (),
    ) -> CommittedRecords:
        """Create it from transactions: (producer id, first offset, marker offset)."""
        transaction_rows = np.array(sorted(aborted_transactions), np.int64).reshape(-1, 3)
        return cls(
            transaction_rows[:, 0],
            transaction_rows[:, 1],
            transaction_rows[:, 2],
            last_stable_offset,
            tuple(unknown_transactions),
        )

    def delivered_mask(self, batches: BatchTable) -> BoolArray:
        """Which batches' records consumers receive."""
        is_delivered: BoolArray = batches.control == 0
        if self.last_stable_offset is not None:
            is_delivered &= batches.last_offset < self.last_stable_offset
        transactional_rows = np.flatnonzero(is_delivered & (batches.transactional == 1))
        row_producer_ids = batches.producer_id[transactional_rows]
        for producer_id in np.unique(row_producer_ids).tolist():
            transaction_slice = slice(
                *np.searchsorted(self.producer_ids, [producer_id, producer_id + 1])
            )
            producer_rows = transactional_rows[row_producer_ids == producer_id]
            base_offsets = batches.base_offset[producer_rows]
            # The last transaction that begins at or before the offset, if any.
            transaction_indexes = (
                np.searchsorted(self.first_offsets[transaction_slice], base_offsets, side="right")
                - 1
            )
            producer_rows = producer_rows[transaction_indexes >= 0]
            base_offsets = base_offsets[transaction_indexes >= 0]
            transaction_indexes = transaction_indexes[transaction_indexes >= 0]
            is_delivered[producer_rows] = (
                base_offsets > self.marker_offsets[transaction_slice][transaction_indexes]
            )
        return is_delivered
