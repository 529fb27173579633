"""Topics and their partitions.

Source: the messages of Kafka 4.2, `org.apache.kafka.common.metadata`.
"""

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import ListOf, String, UuidType
from kfmt_cli.core.layout.wire import Int8, Int32
from kfmt_cli.topics.decoder import Message

SOURCE = "org.apache.kafka.common.metadata"
RECOVERY_STATES = ("RECOVERED", "RECOVERING")

TOPIC_RECORD = Layout(
    "TopicRecord",
    "A topic is created.",
    SOURCE,
    (
        Field("name", String, "The topic."),
        Field("topic_id", UuidType, "The topic's id."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

PARTITION_RECORD = Layout(
    "PartitionRecord",
    "A partition is created or, in a snapshot, exists.",
    SOURCE,
    (
        Field("partition_id", Int32, "The partition."),
        Field("topic_id", UuidType, "The topic's id."),
        Field("replicas", ListOf(Int32), "Replicas."),
        Field("isr", ListOf(Int32), "In-sync replicas (ISR)."),
        Field("removing_replicas", ListOf(Int32), "Replicas being removed."),
        Field("adding_replicas", ListOf(Int32), "Replicas being added."),
        Field("leader", Int32, "The leader."),
        Field("leader_epoch", Int32, "Leader epoch."),
        Field("partition_epoch", Int32, "Partition epoch."),
        Field("directories", ListOf(UuidType), "The log directory of each replica.", since=1),
        Field(
            "leader_recovery_state",
            Int8,
            "Whether the leader may lack records after an unclean election.",
            symbols=RECOVERY_STATES,
            tag=0,
        ),
        Field(
            "eligible_leader_replicas",
            ListOf(Int32),
            "Eligible leader replicas (ELR).",
            since=2,
            nullable_since=2,
            tag=1,
            tagged_since=2,
        ),
        Field(
            "last_known_elr",
            ListOf(Int32),
            "Last known eligible leader replicas.",
            since=2,
            nullable_since=2,
            tag=2,
            tagged_since=2,
        ),
    ),
    versions=(0, 2),
    flexible_since=0,
)

PARTITION_CHANGE_RECORD = Layout(
    "PartitionChangeRecord",
    "A partition changes; absent fields stay unchanged.",
    SOURCE,
    (
        Field("partition_id", Int32, "The partition."),
        Field("topic_id", UuidType, "The topic's id."),
        Field("isr", ListOf(Int32), "In-sync replicas (ISR).", nullable_since=0, tag=0),
        Field("leader", Int32, "The leader.", tag=1),
        Field("replicas", ListOf(Int32), "Replicas.", nullable_since=0, tag=2),
        Field(
            "removing_replicas",
            ListOf(Int32),
            "Replicas being removed.",
            nullable_since=0,
            tag=3,
        ),
        Field(
            "adding_replicas",
            ListOf(Int32),
            "Replicas being added.",
            nullable_since=0,
            tag=4,
        ),
        Field(
            "leader_recovery_state",
            Int8,
            "Whether the leader may lack records after an unclean election.",
            symbols=RECOVERY_STATES,
            tag=5,
        ),
        Field(
            "directories",
            ListOf(UuidType),
            "The log directory of each replica.",
            since=1,
            nullable_since=1,
            tag=8,
            tagged_since=1,
        ),
        Field(
            "eligible_leader_replicas",
            ListOf(Int32),
            "Eligible leader replicas (ELR).",
            since=2,
            nullable_since=2,
            tag=6,
            tagged_since=2,
        ),
        Field(
            "last_known_elr",
            ListOf(Int32),
            "Last known eligible leader replicas.",
            since=2,
            nullable_since=2,
            tag=7,
            tagged_since=2,
        ),
    ),
    versions=(0, 2),
    flexible_since=0,
)

REMOVE_TOPIC_RECORD = Layout(
    "RemoveTopicRecord",
    "A topic is deleted.",
    SOURCE,
    (Field("topic_id", UuidType, "The topic's id."),),
    versions=(0, 0),
    flexible_since=0,
)

CLEAR_ELR_RECORD = Layout(
    "ClearElrRecord",
    "The eligible leader replicas of a topic, or of all topics, are cleared.",
    SOURCE,
    (Field("topic_name", String, "The topic."),),
    versions=(0, 0),
    flexible_since=0,
)

MESSAGES = (
    Message(2, TOPIC_RECORD),
    Message(3, PARTITION_RECORD),
    Message(5, PARTITION_CHANGE_RECORD),
    Message(9, REMOVE_TOPIC_RECORD),
    Message(28, CLEAR_ELR_RECORD),
)
