"""What a consumer that reads committed records is given of a partition.

Records of aborted transactions are left out, and nothing is given from the first open transaction
on. Which they are follows from the log alone, so that no transaction index is needed. Source:
`org.apache.kafka.clients.consumer.internals.CompletedFetch`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.broker.transactions import Transactions
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.log.block import Block


@dataclass(slots=True)
class Committed:
    """The aborted transactions of a partition and its last stable offset."""

    stable: int = 0
    ends: dict[int, list[int]] = field(default_factory=dict)
    """The offsets of the markers of each producer's aborted transactions, in order."""
    firsts: dict[int, list[int]] = field(default_factory=dict)
    """The first offset of each."""

    def of_batches(self, block: Block) -> BoolArray:
        """Which batches' records are given."""
        batches = block.batches
        keep: BoolArray = (batches.control == 0) & (batches.last_offset < self.stable)
        for i in np.flatnonzero(keep & (batches.transactional == 1)).tolist():
            keep[i] = not self._is_aborted(int(batches.producer_id[i]), int(batches.base_offset[i]))
        return keep

    def _is_aborted(self, producer: int, offset: int) -> bool:
        ends = self.ends.get(producer, [])
        i = bisect_left(ends, offset)
        return i < len(ends) and self.firsts[producer][i] <= offset


def committed_of(blocks: Iterable[Block]) -> Committed:
    """What is committed in the logs of a partition, whose blocks come in order."""
    following = Transactions()
    found = Committed()
    for block in blocks:
        for transaction in following.take(block):
            if transaction.aborted is not None:
                first, marker = transaction.aborted
                found.ends.setdefault(transaction.producer_id, []).append(marker)
                found.firsts.setdefault(transaction.producer_id, []).append(first)
    found.stable = following.last_stable_offset
    return found
