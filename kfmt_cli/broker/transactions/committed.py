"""The aborted transactions and the last stable offset of a partition."""

from __future__ import annotations

from collections.abc import Iterable

from kfmt_cli.broker.transactions.transactions import TransactionTracker
from kfmt_cli.log.block import Block
from kfmt_cli.log.selection.committed_records import CommittedRecords


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
