"""Transactions that a coordinator ends once it has loaded them.

Source: `kafka.coordinator.transaction.TransactionStateManager`,
loadTransactionsForTxnTopicPartition; `TransactionCoordinator`, abortTimedOutTransactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.times import format_time, now_ms
from kfmt_cli.formats.kafka_messages import message_layout

STATUS_FIELD = message_layout("TransactionLogValue").field("transaction_status")
TRANSACTION_STATES = STATUS_FIELD.symbols or ()
_PREPARED_STATES, ONGOING = frozenset({"PrepareCommit", "PrepareAbort"}), "Ongoing"


def find_timeout_ms(log_value: FieldDict) -> int:
    """When the transaction in a TransactionLogValue times out, in milliseconds since the epoch."""
    timeout_ms: int = log_value.transaction_start_timestamp_ms + log_value.transaction_timeout_ms
    return timeout_ms


def iter_partitions(log_value: FieldDict) -> Iterator[tuple[str, int]]:
    """The topics and partitions in a TransactionLogValue."""
    for topic_partitions in log_value.transaction_partitions or ():
        for partition in topic_partitions.partition_ids:
            yield topic_partitions.topic, partition


@dataclass(frozen=True, slots=True)
class UnfinishedTransaction:
    """A transaction without its markers, or with some of them."""

    transactional_id: str
    state: str
    """As in `TRANSACTION_STATES`."""
    timeout_at_ms: int
    partitions: tuple[tuple[str, int], ...]
    """Those that get a marker: topics and partitions."""

    @classmethod
    def from_log(cls, transactional_id: str, log_value: FieldDict) -> UnfinishedTransaction | None:
        """The transaction in a TransactionLogValue, None if it is finished."""
        state = TRANSACTION_STATES[log_value.transaction_status]
        if state != ONGOING and state not in _PREPARED_STATES:
            return None
        return cls(
            transactional_id,
            state,
            find_timeout_ms(log_value),
            tuple(iter_partitions(log_value)),
        )

    @property
    def is_prepared(self) -> bool:
        """Whether the coordinator has logged how it ends."""
        return self.state in _PREPARED_STATES

    @property
    def is_due(self) -> bool:
        """Whether it ends without waiting."""
        return self.is_prepared or self.timeout_at_ms < now_ms()

    def describe_end(self) -> str:
        """How it ends, and where its markers are written."""
        timeout_text = format_time(self.timeout_at_ms)
        if self.state == "PrepareCommit":
            text = "committed, as decided: a COMMIT marker"
        elif self.state == "PrepareAbort":
            text = "aborted, as decided: an ABORT marker"
        elif self.is_due:
            text = f"aborted, as its timeout passed at {timeout_text}: an ABORT marker"
        else:
            text = f"aborted at {timeout_text}, unless its producer ends it before: a marker"
        partition_names = ", ".join(f"{topic}-{partition}" for topic, partition in self.partitions)
        return f"{self.transactional_id}: {text} in {partition_names}"
