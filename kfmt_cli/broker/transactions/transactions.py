"""The transactions in a partition's log, tracked as a broker does for the last stable offset.

Source: `org.apache.kafka.storage.internals.log.ProducerStateManager`, `ProducerAppendInfo`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kfmt_cli.formats.control import ABORT, COMMIT
from kfmt_cli.log.block import Block
from kfmt_cli.log.control import name_control_batches

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"
OUTCOMES = {COMMIT: COMMITTED, ABORT: ABORTED}


class _TransactionBatch(NamedTuple):
    """What a batch says of its transaction."""

    producer_id: int
    producer_epoch: int
    base_offset: int
    last_offset: int
    records_count: int
    control: int
    control_type: int
    timestamp_type: int
    base_timestamp: int
    max_timestamp: int
    delete_horizon: int


@dataclass(slots=True)
class Transaction:
    """A transaction of one producer in one partition."""

    producer_id: int
    producer_epoch: int
    first_offset: int | None = None
    """The first offset of its records, None if none is left."""
    last_offset: int | None = None
    """The last offset of its records, None if none is left."""
    records: int = 0
    """Records left in the log."""
    batches: int = 0
    """Batches left in the log."""
    start: int | None = None
    """The timestamp of its first batch."""
    end: int | None = None
    """The timestamp of its marker, or of its last batch if it is open."""
    seen: int | None = None
    """A time, by the broker's clock, at which it was open."""
    outcome: str = OPEN
    marker: int | None = None
    """The offset of its marker."""

    @property
    def aborted(self) -> tuple[int, int] | None:
        """The offsets of its first batch and its ABORT marker, if both are left."""
        if self.outcome != ABORTED or self.first_offset is None or self.marker is None:
            return None
        return self.first_offset, self.marker


class Transactions:
    """Tracks the transactions of a log, block by block.

    open: by producer id. log_end: after the last batch so far. newest: the largest timestamp of an
    undamaged batch. stamped: the largest one of the broker's clock, which markers have.
    """

    def __init__(self) -> None:
        self.open: dict[int, Transaction] = {}
        self.log_end = 0
        self.newest = -1
        self.stamped = -1
        self._unseen: list[Transaction] = []

    @property
    def holder(self) -> Transaction | None:
        """The open transaction that begins first: it holds back the last stable offset."""
        return next(iter(self.open.values()), None)  # they are in log order

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset, from the log alone."""
        holder = self.holder
        return self.log_end if holder is None else holder.first_offset or 0

    def take(self, block: Block) -> Iterator[Transaction]:
        """Process the batches of the next block; returns the transactions that end in them."""
        batches = block.batches
        if not len(batches):
            return
        self.log_end = max(self.log_end, int(batches.last_offset[-1]) + 1)
        sound = batches.crc_valid == 1
        self.newest = int(batches.max_timestamp[sound].max(initial=self.newest))
        valid = sound & (batches.is_v2 == 1)
        of_broker = valid & ((batches.control == 1) | (batches.timestamp_type == 1))
        self.stamped = int(batches.max_timestamp[of_broker].max(initial=self.stamped))
        chosen = np.flatnonzero(valid & (batches.transactional == 1))
        if not len(chosen):
            return
        name_control_batches(block)
        for row in zip(
            *(batches[name][chosen].tolist() for name in _TransactionBatch._fields), strict=True
        ):
            ended = self._batch(_TransactionBatch(*row))
            if ended is not None:
                yield ended

    def _batch(self, batch: _TransactionBatch) -> Transaction | None:
        producer = batch.producer_id
        if batch.control or batch.timestamp_type == 1:
            for transaction in self._unseen:
                transaction.seen = batch.max_timestamp
            self._unseen.clear()
        if batch.control:
            outcome = OUTCOMES.get(batch.control_type)
            if outcome is None:
                return None  # a marker that compaction has emptied
            ended = self.open.pop(producer, None)
            ended = ended or Transaction(producer, batch.producer_epoch)
            ended.outcome, ended.marker = outcome, batch.base_offset
            ended.end = batch.max_timestamp
            return ended
        known = self.open.setdefault(producer, Transaction(producer, batch.producer_epoch))
        if known.first_offset is None:
            known.first_offset = batch.base_offset
            horizon = batch.delete_horizon
            known.start = batch.max_timestamp if horizon else batch.base_timestamp
            if batch.timestamp_type == 1:
                known.seen = batch.max_timestamp
            else:
                self._unseen.append(known)
        known.producer_epoch = batch.producer_epoch
        known.last_offset = batch.last_offset
        known.records += max(batch.records_count, 0)
        known.batches += 1
        known.end = batch.max_timestamp
        return None
