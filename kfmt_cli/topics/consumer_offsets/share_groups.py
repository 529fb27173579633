"""Share groups (KIP-932).

Source: the messages of Kafka 4.2, `org.apache.kafka.coordinator.group.generated`.
"""

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import ListOf, String, UuidType
from kfmt_cli.core.layout.wire import Int8, Int32, Int64
from kfmt_cli.topics.decoder import Message

SOURCE = "org.apache.kafka.coordinator.group.generated"
MEMBER_STATES = ("Stable",)

SHARE_GROUP_MEMBER_METADATA_KEY = Layout(
    "ShareGroupMemberMetadataKey",
    "A member of a share group (KIP-932).",
    SOURCE,
    (
        Field("group_id", String, "The group."),
        Field("member_id", String, "The member."),
    ),
    versions=(0, 0),
)

SHARE_GROUP_MEMBER_METADATA_VALUE = Layout(
    "ShareGroupMemberMetadataValue",
    "Metadata of the member.",
    SOURCE,
    (
        Field("rack_id", String, "The member's rack.", nullable_since=0),
        Field("client_id", String, "Client id."),
        Field("client_host", String, "Client host."),
        Field("subscribed_topic_names", ListOf(String), "Subscribed topics."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

SHARE_GROUP_METADATA_KEY = Layout(
    "ShareGroupMetadataKey",
    "A share group (KIP-932).",
    SOURCE,
    (Field("group_id", String, "The group."),),
    versions=(0, 0),
)

SHARE_GROUP_METADATA_VALUE = Layout(
    "ShareGroupMetadataValue",
    "Its epoch.",
    SOURCE,
    (
        Field("epoch", Int32, "Epoch of the group."),
        Field("metadata_hash", Int64, "Hash of the metadata of the subscribed topics."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Layout(
    "ShareGroupTargetAssignmentMetadataKey",
    "The target assignment of a share group.",
    SOURCE,
    (Field("group_id", String, "The group."),),
    versions=(0, 0),
)

SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Layout(
    "ShareGroupTargetAssignmentMetadataValue",
    "Its epoch.",
    SOURCE,
    (Field("assignment_epoch", Int32, "Epoch of the target assignment."),),
    versions=(0, 0),
    flexible_since=0,
)

SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Layout(
    "ShareGroupTargetAssignmentMemberKey",
    "The target assignment of a member of a share group.",
    SOURCE,
    (
        Field("group_id", String, "The group."),
        Field("member_id", String, "The member."),
    ),
    versions=(0, 0),
)

_TOPIC_PARTITIONS = Layout(
    "TopicPartitions",
    "Partitions by topic.",
    SOURCE,
    (
        Field("topic_id", UuidType, "The topic's id."),
        Field("partitions", ListOf(Int32), "The partitions."),
    ),
)

SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Layout(
    "ShareGroupTargetAssignmentMemberValue",
    "Target assignment.",
    SOURCE,
    (Field("topic_partitions", ListOf(_TOPIC_PARTITIONS), "Partitions by topic."),),
    versions=(0, 0),
    flexible_since=0,
)

SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Layout(
    "ShareGroupCurrentMemberAssignmentKey",
    "The assignment of a member of a share group.",
    SOURCE,
    (
        Field("group_id", String, "The group."),
        Field("member_id", String, "The member."),
    ),
    versions=(0, 0),
)

SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Layout(
    "ShareGroupCurrentMemberAssignmentValue",
    "Current assignment.",
    SOURCE,
    (
        Field("member_epoch", Int32, "Member epoch."),
        Field("previous_member_epoch", Int32, "Previous member epoch."),
        Field("state", Int8, "State of the member.", symbols=MEMBER_STATES),
        Field(
            "assigned_partitions", ListOf(_TOPIC_PARTITIONS), "Partitions assigned to the member."
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

SHARE_GROUP_STATE_PARTITION_METADATA_KEY = Layout(
    "ShareGroupStatePartitionMetadataKey",
    "The share partitions of a share group.",
    SOURCE,
    (Field("group_id", String, "The group."),),
    versions=(0, 0),
)

_INITIALIZING_TOPICS = Layout(
    "InitializingTopics",
    "Topics whose share state is being initialised.",
    SOURCE,
    (
        Field("topic_id", UuidType, "The topic's id."),
        Field("topic_name", String, "The topic."),
        Field("partitions", ListOf(Int32), "The partitions."),
    ),
)

_DELETING_TOPICS = Layout(
    "DeletingTopics",
    "Topics whose share state is being deleted.",
    SOURCE,
    (
        Field("topic_id", UuidType, "The topic's id."),
        Field("topic_name", String, "The topic."),
    ),
)

SHARE_GROUP_STATE_PARTITION_METADATA_VALUE = Layout(
    "ShareGroupStatePartitionMetadataValue",
    "Topics whose share state is initialised, being initialised or being deleted.",
    SOURCE,
    (
        Field(
            "initializing_topics",
            ListOf(_INITIALIZING_TOPICS),
            "Topics whose share state is being initialised.",
        ),
        Field(
            "initialized_topics",
            ListOf(_INITIALIZING_TOPICS),
            "Topics whose share state is initialised.",
        ),
        Field(
            "deleting_topics",
            ListOf(_DELETING_TOPICS),
            "Topics whose share state is being deleted.",
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

MESSAGES = (
    Message(10, SHARE_GROUP_MEMBER_METADATA_VALUE, SHARE_GROUP_MEMBER_METADATA_KEY),
    Message(11, SHARE_GROUP_METADATA_VALUE, SHARE_GROUP_METADATA_KEY),
    Message(
        12, SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE, SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY
    ),
    Message(
        13, SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE, SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY
    ),
    Message(
        14, SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE, SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY
    ),
    Message(
        15, SHARE_GROUP_STATE_PARTITION_METADATA_VALUE, SHARE_GROUP_STATE_PARTITION_METADATA_KEY
    ),
)
