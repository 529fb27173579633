"""The aborted transactions and the last stable offset of a partition."""

from __future__ import annotations

from collections.abc import Iterable

from kfmt_cli.broker.transactions import Transactions
from kfmt_cli.log.block import Block
from kfmt_cli.log.committed import Committed


def committed_of(blocks: Iterable[Block]) -> Committed:
    """The committed part of a partition, from its logs' blocks in order.

    The logs suffice; no transaction index is needed.
    """
    following = Transactions()
    aborted = [
        (transaction.producer_id, *transaction.aborted)
        for block in blocks
        for transaction in following.take(block)
        if transaction.aborted is not None
    ]
    return Committed.of(aborted, following.last_stable_offset)
