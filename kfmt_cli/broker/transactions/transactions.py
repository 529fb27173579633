"""The transactions in a partition's log, tracked as a broker does for the last stable offset.

Source: `org.apache.kafka.storage.internals.log.ProducerStateManager`, `ProducerAppendInfo`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kfmt_cli.formats.control import ABORT, COMMIT
from kfmt_cli.log.block import Block
from kfmt_cli.log.control import fill_control_types
from kfmt_cli.log.selection.committed_records import CommittedRecords

COMMITTED, ABORTED, OPEN_TRANSACTION = "committed", "aborted", "open"
OUTCOME_BY_CONTROL_TYPE = {COMMIT: COMMITTED, ABORT: ABORTED}


class _TransactionBatch(NamedTuple):
    """The columns of a batch that its transaction depends on."""

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
    """The first offset of its records, None if the log has none of them."""
    last_offset: int | None = None
    """The last offset of its records, None if the log has none of them."""
    records: int = 0
    """Records that remain in the log."""
    batches: int = 0
    """Batches that remain in the log."""
    start_timestamp: int | None = None
    """The timestamp of its first batch."""
    end_timestamp: int | None = None
    """The timestamp of its marker, or of its last batch if it is open."""
    last_known_open_ms: int | None = None
    """A time, by the broker's clock, at which it was open; None if unknown."""
    outcome: str = OPEN_TRANSACTION
    marker_offset: int | None = None
    """The offset of its marker."""

    @property
    def aborted_range(self) -> tuple[int, int] | None:
        """The offsets of its first batch and its ABORT marker, if the log has both."""
        if self.outcome != ABORTED or self.first_offset is None or self.marker_offset is None:
            return None
        return self.first_offset, self.marker_offset


class TransactionTracker:
    """Tracks the transactions of a log, block by block.

    open_transaction_by_producer: the open transactions by producer id, in log order.
    log_end_offset: the offset after the last batch so far. newest_timestamp: the largest timestamp
    in undamaged batches. newest_broker_clock_ms: the largest one that the broker's clock set
    (markers, LogAppendTime).
    """

    def __init__(self) -> None:
        self.open_transaction_by_producer: dict[int, Transaction] = {}
        self.log_end_offset = 0
        self.newest_timestamp = -1
        self.newest_broker_clock_ms = -1
        self._transactions_without_broker_time: list[Transaction] = []

    @property
    def oldest_open_transaction(self) -> Transaction | None:
        """The open transaction that begins first: it holds back the last stable offset."""
        return next(iter(self.open_transaction_by_producer.values()), None)  # in log order

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset, from the log alone."""
        oldest_transaction = self.oldest_open_transaction
        return (
            self.log_end_offset
            if oldest_transaction is None
            else oldest_transaction.first_offset or 0
        )

    def process_block(self, block: Block) -> Iterator[Transaction]:
        """Process the batches of the next block; yields the transactions that end in them."""
        batches = block.batches
        if not len(batches):
            return
        self.log_end_offset = max(self.log_end_offset, int(batches.last_offset[-1]) + 1)
        is_undamaged = batches.crc_valid == 1
        self.newest_timestamp = int(
            batches.max_timestamp[is_undamaged].max(initial=self.newest_timestamp)
        )
        is_valid_v2 = is_undamaged & (batches.is_v2 == 1)
        has_broker_time = is_valid_v2 & ((batches.control == 1) | (batches.timestamp_type == 1))
        self.newest_broker_clock_ms = int(
            batches.max_timestamp[has_broker_time].max(initial=self.newest_broker_clock_ms)
        )
        transactional_rows = np.flatnonzero(is_valid_v2 & (batches.transactional == 1))
        if not len(transactional_rows):
            return
        fill_control_types(block)
        for batch_values in zip(
            *(
                batches[column_name][transactional_rows].tolist()
                for column_name in _TransactionBatch._fields
            ),
            strict=True,
        ):
            ended_transaction = self._process_batch(_TransactionBatch(*batch_values))
            if ended_transaction is not None:
                yield ended_transaction

    def _process_batch(self, batch: _TransactionBatch) -> Transaction | None:
        producer_id = batch.producer_id
        if batch.control or batch.timestamp_type == 1:
            for transaction in self._transactions_without_broker_time:
                transaction.last_known_open_ms = batch.max_timestamp
            self._transactions_without_broker_time.clear()
        if batch.control:
            outcome = OUTCOME_BY_CONTROL_TYPE.get(batch.control_type)
            if outcome is None:
                return None  # a marker that compaction has emptied
            ended_transaction = self.open_transaction_by_producer.pop(producer_id, None)
            ended_transaction = ended_transaction or Transaction(producer_id, batch.producer_epoch)
            ended_transaction.outcome, ended_transaction.marker_offset = outcome, batch.base_offset
            ended_transaction.end_timestamp = batch.max_timestamp
            return ended_transaction
        open_transaction = self.open_transaction_by_producer.setdefault(
            producer_id, Transaction(producer_id, batch.producer_epoch)
        )
        if open_transaction.first_offset is None:
            open_transaction.first_offset = batch.base_offset
            has_delete_horizon = batch.delete_horizon
            open_transaction.start_timestamp = (
                batch.max_timestamp if has_delete_horizon else batch.base_timestamp
            )
            if batch.timestamp_type == 1:
                open_transaction.last_known_open_ms = batch.max_timestamp
            else:
                self._transactions_without_broker_time.append(open_transaction)
        open_transaction.producer_epoch = batch.producer_epoch
        open_transaction.last_offset = batch.last_offset
        open_transaction.records += max(batch.records_count, 0)
        open_transaction.batches += 1
        open_transaction.end_timestamp = batch.max_timestamp
        return None


def read_committed_records(
    blocks: Iterable[Block], *, aborts_open_transactions: bool = False
) -> CommittedRecords:
    """The committed part of a partition, from its logs' blocks in order.

    The logs suffice; no transaction index is needed. aborts_open_transactions: transactions that
    are open at the end count as aborted there, as they will be after their timeout, so that they do
    not hold back the last stable offset.
    """
    tracker = TransactionTracker()
    aborted_transactions = [
        (transaction.producer_id, *transaction.aborted_range)
        for block in blocks
        for transaction in tracker.process_block(block)
        if transaction.aborted_range is not None
    ]
    if aborts_open_transactions:
        for producer_id, transaction in tracker.open_transaction_by_producer.items():
            aborted_transactions.append(
                (producer_id, transaction.first_offset or 0, tracker.log_end_offset)
            )
        return CommittedRecords.from_transactions(aborted_transactions, None)
    return CommittedRecords.from_transactions(aborted_transactions, tracker.last_stable_offset)
