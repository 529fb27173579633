"""The producer snapshot: the state of each producer at the offset in the file's name.

Source: `org.apache.kafka.storage.internals.log.ProducerStateManager`, `ProducerSnapshot.json`.
"""

from kfmt_cli.core.layout.field import MS_UNIT, OFFSET_UNIT, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire_types import Int16, Int32, Int64, UInt32

PRODUCER_SNAPSHOT = Layout(
    "ProducerSnapshot",
    "Header of `.snapshot`; the declared number of ProducerState entries follows.",
    "org.apache.kafka.storage.internals.log.ProducerStateManager",
    (
        Field("version", Int16, "Version of the file: 1."),
        Field("crc", UInt32, "CRC-32C from the next field to the end of the file."),
        Field("producers_count", Int32, "Number of producers that follow."),
    ),
)

PRODUCER_STATE = Layout(
    "ProducerState",
    "A producer in a `.snapshot`.",
    "org.apache.kafka.storage.internals.log.ProducerStateManager",
    (
        Field("producer_id", Int64, "The producer."),
        Field("producer_epoch", Int16, "Its epoch."),
        Field(
            "last_sequence", Int32, "Sequence number of its last record; -1 if no batch is known."
        ),
        Field(
            "last_offset",
            Int64,
            "Offset of its last record; -1 if no batch is known.",
            unit=OFFSET_UNIT,
        ),
        Field("offset_delta", Int32, "Number of offsets in its last batch, minus one."),
        Field("timestamp", Int64, "Max timestamp of its last batch.", unit=MS_UNIT),
        Field("coordinator_epoch", Int32, "Epoch of the coordinator that wrote its last marker."),
        Field(
            "current_txn_first_offset",
            Int64,
            "First offset of its open transaction; -1 for none.",
            none_value=-1,
        ),
    ),
)
