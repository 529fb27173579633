"""__transaction_state: the transactional ids of a coordinator.

Source: `kafka.coordinator.transaction.TransactionStateManager.loadTransactionMetadata`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import CompactedTopicReplay
from kfmt_cli.broker.state.unfinished_transactions import (
    ONGOING,
    STATUS_FIELD,
    find_timeout_ms,
    iter_partitions,
)
from kfmt_cli.core.times import now_ms
from kfmt_cli.rows.types.state_rows import TRANSACTIONAL_ID_ROW, StateType


class TransactionStateReplay(CompactedTopicReplay):
    """The transactional ids and the state of their last transaction."""

    topic = "__transaction_state"
    row_types = (TRANSACTIONAL_ID_ROW,)

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for _, key_fields, transaction in self.iter_current_records():
            status = transaction.transaction_status
            state = STATUS_FIELD.find_symbol(status) or f"unknown-{status}"
            yield (
                TRANSACTIONAL_ID_ROW,
                {
                    **key_fields,
                    **transaction,
                    "state": state,
                    "partitions": [
                        {"topic": topic, "partition": partition}
                        for topic, partition in iter_partitions(transaction)
                    ],
                    "timed_out": (
                        int(find_timeout_ms(transaction) < now_ms()) if state == ONGOING else None
                    ),
                },
            )
