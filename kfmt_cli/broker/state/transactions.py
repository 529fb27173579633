"""__transaction_state: the transactional ids of a coordinator.

Source: `kafka.coordinator.transaction.TransactionStateManager.loadTransactionMetadata`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import LatestOfKeys
from kfmt_cli.rows.state_types import TRANSACTIONAL_ID, StateType
from kfmt_cli.topics.transaction_state import TRANSACTION_LOG_VALUE

_STATUS = TRANSACTION_LOG_VALUE.field("transaction_status")


_ONGOING = (_STATUS.symbols or ()).index("Ongoing")


def _has_timed_out(it: Mapping[str, Any]) -> int:
    end = it["transaction_start_timestamp_ms"] + it["transaction_timeout_ms"]
    return int(end < time.time() * 1000)


class TransactionalIds(LatestOfKeys):
    """The transactional ids and what became of their last transaction."""

    topic = "__transaction_state"
    types = (TRANSACTIONAL_ID,)

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for _, key, it in self.said():
            status = it["transaction_status"]
            yield (
                TRANSACTIONAL_ID,
                {
                    "transactional_id": key["transactional_id"],
                    "producer_id": it["producer_id"],
                    "producer_epoch": it["producer_epoch"],
                    "state": _STATUS.symbol(status) or f"unknown-{status}",
                    "partitions": [
                        {"topic": of["topic"], "partition": partition}
                        for of in it["transaction_partitions"] or ()
                        for partition in of["partition_ids"]
                    ],
                    "transaction_timeout_ms": it["transaction_timeout_ms"],
                    "start_timestamp": it["transaction_start_timestamp_ms"],
                    "timed_out": _has_timed_out(it) if status == _ONGOING else None,
                    "last_update_timestamp": it["transaction_last_update_timestamp_ms"],
                },
            )
