"""__share_group_state: the delivery state of records in share partitions (KIP-932).

Source: the messages of Kafka 4.2, `org.apache.kafka.coordinator.share.generated`.
"""

from kfmt_cli.core.layout.field import MILLISECONDS, Field, numbered
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import ListOf, String, UuidType
from kfmt_cli.core.layout.wire import Int8, Int16, Int32, Int64
from kfmt_cli.topics.decoder import Message

SOURCE = "org.apache.kafka.coordinator.share.generated"
DELIVERY_STATES = numbered({0: "Available", 1: "Acquired", 2: "Acknowledged", 4: "Archived"})

SHARE_SNAPSHOT_KEY = Layout(
    "ShareSnapshotKey",
    "A snapshot of a share partition.",
    SOURCE,
    (
        Field("group_id", String, "The group."),
        Field("topic_id", UuidType, "The topic's id."),
        Field("partition", Int32, "The partition."),
    ),
    versions=(0, 0),
)

_STATE_BATCHES = Layout(
    "StateBatches",
    "Ranges of records in the same state.",
    SOURCE,
    (
        Field("first_offset", Int64, "First offset of the batch."),
        Field("last_offset", Int64, "Last offset of the batch."),
        Field("delivery_state", Int8, "State of the records.", symbols=DELIVERY_STATES),
        Field("delivery_count", Int16, "Delivery count."),
    ),
)

SHARE_SNAPSHOT_VALUE = Layout(
    "ShareSnapshotValue",
    "The complete state.",
    SOURCE,
    (
        Field("snapshot_epoch", Int32, "Snapshot epoch of the share partition."),
        Field("state_epoch", Int32, "State epoch of the share partition."),
        Field("leader_epoch", Int32, "Leader epoch of the partition."),
        Field("start_offset", Int64, "First offset not yet fully processed."),
        Field(
            "create_timestamp",
            Int64,
            "When the share partition was first written.",
            unit=MILLISECONDS,
        ),
        Field("write_timestamp", Int64, "When the snapshot was written.", unit=MILLISECONDS),
        Field("state_batches", ListOf(_STATE_BATCHES), "Ranges of records in the same state."),
        Field(
            "delivery_complete_count", Int32, "Records in flight whose delivery is complete.", tag=0
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

SHARE_UPDATE_KEY = Layout(
    "ShareUpdateKey",
    "An update of a share partition.",
    SOURCE,
    (
        Field("group_id", String, "The group."),
        Field("topic_id", UuidType, "The topic's id."),
        Field("partition", Int32, "The partition."),
    ),
    versions=(0, 0),
)

SHARE_UPDATE_VALUE = Layout(
    "ShareUpdateValue",
    "Changes since the snapshot of that epoch.",
    SOURCE,
    (
        Field("snapshot_epoch", Int32, "Snapshot epoch of the share partition."),
        Field("leader_epoch", Int32, "Leader epoch of the partition; -1 if unchanged."),
        Field("start_offset", Int64, "First offset not yet fully processed; -1 if unchanged."),
        Field("state_batches", ListOf(_STATE_BATCHES), "Ranges of records in the same state."),
        Field(
            "delivery_complete_count", Int32, "Records in flight whose delivery is complete.", tag=0
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

MESSAGES = (
    Message(0, SHARE_SNAPSHOT_VALUE, SHARE_SNAPSHOT_KEY),
    Message(1, SHARE_UPDATE_VALUE, SHARE_UPDATE_KEY),
)
