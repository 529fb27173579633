"""The transactions in a partition's log, as a broker follows them for the last stable offset.

Source: `org.apache.kafka.storage.internals.log.ProducerStateManager`, `ProducerAppendInfo`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kfmt_cli.formats.control import CONTROL_TYPES
from kfmt_cli.log.block import Block
from kfmt_cli.log.control import name_control_batches

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"
OUTCOMES = {
    CONTROL_TYPES.index("COMMIT"): COMMITTED,
    CONTROL_TYPES.index("ABORT"): ABORTED,
}
_NAMES = (
    *("producer_id", "producer_epoch", "base_offset", "last_offset", "records_count", "control"),
    *("control_type", "base_timestamp", "max_timestamp", "delete_horizon"),
)


@dataclass(slots=True)
class Transaction:
    """A transaction of one producer in one partition."""

    producer_id: int
    producer_epoch: int
    first_offset: int | None = None
    """The first offset of its records, None where none is left."""
    last_offset: int | None = None
    """The last offset of its records, None where none is left."""
    records: int = 0
    """Records that are left."""
    batches: int = 0
    """Batches that are left."""
    start: int | None = None
    """The timestamp of its first batch."""
    end: int | None = None
    """The timestamp of its marker; of an open one, of its last batch."""
    outcome: str = OPEN
    marker: int | None = None
    """The offset of what ended it."""

    @property
    def aborted(self) -> tuple[int, int] | None:
        """The offsets of its first batch and of the marker that aborted it, where both are left."""
        if self.outcome != ABORTED or self.first_offset is None or self.marker is None:
            return None
        return self.first_offset, self.marker


class Transactions:
    """Follows the transactions of a log, block by block.

    open: by producer id. log_end: after the last batch so far. newest: the largest timestamp.
    """

    def __init__(self) -> None:
        self.open: dict[int, Transaction] = {}
        self.log_end = 0
        self.newest = -1

    @property
    def holder(self) -> Transaction | None:
        """The open transaction that begins first: nothing after it is stable."""
        return next(iter(self.open.values()), None)  # they are there in the order of the log

    @property
    def last_stable_offset(self) -> int:
        """Where consumers of committed records stop, by the log itself."""
        holder = self.holder
        return self.log_end if holder is None else holder.first_offset or 0

    def take(self, block: Block) -> Iterator[Transaction]:
        """The batches of the next block; the transactions that end in them."""
        batches = block.batches
        if not len(batches):
            return
        self.log_end = max(self.log_end, int(batches.last_offset[-1]) + 1)
        self.newest = max(self.newest, int(batches.max_timestamp.max()))
        valid = (batches.crc_valid == 1) & (batches.is_v2 == 1)
        chosen = np.flatnonzero(valid & (batches.transactional == 1))
        if not len(chosen):
            return
        name_control_batches(block)
        for row in zip(*(batches[name][chosen].tolist() for name in _NAMES), strict=True):
            ended = self._batch(dict(zip(_NAMES, row, strict=True)))
            if ended is not None:
                yield ended

    def _batch(self, batch: dict[str, int]) -> Transaction | None:
        producer = batch["producer_id"]
        if batch["control"]:
            outcome = OUTCOMES.get(batch["control_type"])
            if outcome is None:
                return None  # a marker that compaction has emptied
            ended = self.open.pop(producer, None)
            ended = ended or Transaction(producer, batch["producer_epoch"])
            ended.outcome, ended.marker = outcome, batch["base_offset"]
            ended.end = batch["max_timestamp"]
            return ended
        known = self.open.setdefault(producer, Transaction(producer, batch["producer_epoch"]))
        if known.first_offset is None:
            known.first_offset = batch["base_offset"]
            horizon = batch["delete_horizon"]
            known.start = batch["max_timestamp" if horizon else "base_timestamp"]
        known.producer_epoch = batch["producer_epoch"]
        known.last_offset = batch["last_offset"]
        known.records += max(batch["records_count"], 0)
        known.batches += 1
        known.end = batch["max_timestamp"]
        return None
