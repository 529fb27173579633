"""__transaction_state: the transactional ids of a coordinator.

Source: `kafka.coordinator.transaction.TransactionStateManager.loadTransactionMetadata`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import CompactedTopicReplay, RecordFields
from kfmt_cli.core.times import now_ms
from kfmt_cli.formats.kafka_messages import message_layout
from kfmt_cli.rows.types.state_rows import TRANSACTIONAL_ID_ROW, StateType

_STATUS_FIELD = message_layout("TransactionLogValue").field("transaction_status")


_ONGOING_STATUS = (_STATUS_FIELD.symbols or ()).index("Ongoing")


def _has_timed_out(transaction: RecordFields) -> int:
    timeout_at_ms = transaction.transaction_start_timestamp_ms + transaction.transaction_timeout_ms
    return int(timeout_at_ms < now_ms())


class TransactionStateReplay(CompactedTopicReplay):
    """The transactional ids and the state of their last transaction."""

    topic = "__transaction_state"
    row_types = (TRANSACTIONAL_ID_ROW,)

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for _, key_fields, transaction in self.iter_current_records():
            status = transaction.transaction_status
            yield (
                TRANSACTIONAL_ID_ROW,
                {
                    **key_fields,
                    **transaction,
                    "state": _STATUS_FIELD.find_symbol(status) or f"unknown-{status}",
                    "partitions": [
                        {"topic": topic_partitions.topic, "partition": partition}
                        for topic_partitions in transaction.transaction_partitions or ()
                        for partition in topic_partitions.partition_ids
                    ],
                    "timed_out": _has_timed_out(transaction) if status == _ONGOING_STATUS else None,
                },
            )
