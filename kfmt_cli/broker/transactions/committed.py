"""The aborted transactions and the last stable offset of a partition."""

from __future__ import annotations

from collections.abc import Iterable

from kfmt_cli.broker.transactions.transactions import Transactions
from kfmt_cli.log.block import Block
from kfmt_cli.log.selection.committed import Committed


def committed_of(blocks: Iterable[Block], *, ends_open: bool = False) -> Committed:
    """The committed part of a partition, from its logs' blocks in order.

    The logs suffice; no transaction index is needed. ends_open: transactions that are open at the
    end count as aborted there, as they will be once their time is up, so that they hold nothing
    back.
    """
    following = Transactions()
    aborted = [
        (transaction.producer_id, *transaction.aborted)
        for block in blocks
        for transaction in following.take(block)
        if transaction.aborted is not None
    ]
    if ends_open:
        for producer, transaction in following.open.items():
            aborted.append((producer, transaction.first_offset or 0, following.log_end))
        return Committed.of(aborted, None)
    return Committed.of(aborted, following.last_stable_offset)
