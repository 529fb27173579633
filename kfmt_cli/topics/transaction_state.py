"""__transaction_state: the coordinator's state of each transactional id.

Source: the messages of Kafka 4.2, `org.apache.kafka.coordinator.transaction.generated`.
"""

from kfmt_cli.core.layout.field import MILLISECONDS, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import ListOf, String
from kfmt_cli.core.layout.wire import Int8, Int16, Int32, Int64
from kfmt_cli.topics.decoder import Message

SOURCE = "org.apache.kafka.coordinator.transaction.generated"
TRANSACTION_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)

TRANSACTION_LOG_KEY = Layout(
    "TransactionLogKey",
    "A transactional id.",
    SOURCE,
    (Field("transactional_id", String, "The transactional id."),),
    versions=(0, 0),
)

_TRANSACTION_PARTITIONS = Layout(
    "TransactionPartitions",
    "The partitions in the transaction.",
    SOURCE,
    (
        Field("topic", String, "The topic."),
        Field("partition_ids", ListOf(Int32), "The partitions."),
    ),
)

TRANSACTION_LOG_VALUE = Layout(
    "TransactionLogValue",
    "Its producer and transaction.",
    SOURCE,
    (
        Field("producer_id", Int64, "The producer."),
        Field("producer_epoch", Int16, "Producer epoch."),
        Field(
            "transaction_timeout_ms",
            Int32,
            "Transaction timeout.",
            unit=MILLISECONDS,
        ),
        Field("transaction_status", Int8, "State of the transaction.", symbols=TRANSACTION_STATES),
        Field(
            "transaction_partitions",
            ListOf(_TRANSACTION_PARTITIONS),
            "The partitions in the transaction.",
            nullable_since=0,
        ),
        Field(
            "transaction_last_update_timestamp_ms",
            Int64,
            "When the state last changed.",
            unit=MILLISECONDS,
        ),
        Field(
            "transaction_start_timestamp_ms",
            Int64,
            "When the transaction began.",
            unit=MILLISECONDS,
        ),
        Field(
            "previous_producer_id",
            Int64,
            "Previous producer id.",
            since=1,
            tag=0,
            tagged_since=1,
        ),
        Field("next_producer_id", Int64, "Next producer id.", since=1, tag=1, tagged_since=1),
        Field(
            "client_transaction_version",
            Int16,
            "Transaction protocol version of the client.",
            since=1,
            tag=2,
            tagged_since=1,
        ),
        Field(
            "next_producer_epoch",
            Int16,
            "Next producer epoch, while a transaction ends.",
            since=1,
            tag=3,
            tagged_since=1,
        ),
    ),
    versions=(0, 1),
    flexible_since=1,
)

MESSAGES = (Message(0, TRANSACTION_LOG_VALUE, TRANSACTION_LOG_KEY),)
