"""Which transactions of a partition were aborted, and where what is committed ends."""

from __future__ import annotations

from collections.abc import Iterable

from kfmt_cli.broker.transactions import Transactions
from kfmt_cli.log.block import Block
from kfmt_cli.log.committed import Committed


def committed_of(blocks: Iterable[Block]) -> Committed:
    """What is committed in the logs of a partition, whose blocks come in order.

    All of it follows from the logs; no transaction index is needed.
    """
    following = Transactions()
    aborted = [
        (transaction.producer_id, *transaction.aborted)
        for block in blocks
        for transaction in following.take(block)
        if transaction.aborted is not None
    ]
    return Committed.of(aborted, following.last_stable_offset)
