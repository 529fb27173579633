"""Groups of the consumer protocol (KIP-848).

Source: the messages of Kafka 4.2, `org.apache.kafka.coordinator.group.generated`.
"""

from kfmt_cli.core.layout.field import MILLISECONDS, Field, HeldMessage
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import Blob, ListOf, String, Struct, UuidType
from kfmt_cli.core.layout.wire import Int8, Int32, Int64
from kfmt_cli.formats.consumer_protocol import CONSUMER_PROTOCOL_SUBSCRIPTION
from kfmt_cli.topics.decoder import Message

SOURCE = "org.apache.kafka.coordinator.group.generated"
MEMBER_STATES = ("Stable", "UnrevokedPartitions", "UnreleasedPartitions")

CONSUMER_GROUP_METADATA_KEY = Layout(
    "ConsumerGroupMetadataKey",
    "A group of the consumer protocol (KIP-848).",
    SOURCE,
    (Field("group_id", String, "The group."),),
    versions=(0, 0),
)

CONSUMER_GROUP_METADATA_VALUE = Layout(
    "ConsumerGroupMetadataValue",
    "Its epoch.",
    SOURCE,
    (
        Field("epoch", Int32, "Epoch of the group."),
        Field("metadata_hash", Int64, "Hash of the metadata of the topics subscribed to.", tag=0),
    ),
    versions=(0, 0),
    flexible_since=0,
)

CONSUMER_GROUP_PARTITION_METADATA_KEY = Layout(
    "ConsumerGroupPartitionMetadataKey",
    "The topics that a consumer group reads.",
    SOURCE,
    (Field("group_id", String, "The group."),),
    versions=(0, 0),
)

_PARTITION_METADATA = Layout(
    "PartitionMetadata",
    "The racks of each partition.",
    SOURCE,
    (
        Field("partition", Int32, "The partition."),
        Field("racks", ListOf(String), "The racks that have a replica."),
    ),
)

_TOPICS = Layout(
    "Topics",
    "The topics.",
    SOURCE,
    (
        Field("topic_id", UuidType, "The topic's id."),
        Field("topic_name", String, "The topic."),
        Field("num_partitions", Int32, "How many partitions the topic has."),
        Field("partition_metadata", ListOf(_PARTITION_METADATA), "The racks of each partition."),
    ),
)

CONSUMER_GROUP_PARTITION_METADATA_VALUE = Layout(
    "ConsumerGroupPartitionMetadataValue",
    "Those topics with their partitions, until 4.0.",
    SOURCE,
    (Field("topics", ListOf(_TOPICS), "The topics."),),
    versions=(0, 0),
    flexible_since=0,
)

CONSUMER_GROUP_MEMBER_METADATA_KEY = Layout(
    "ConsumerGroupMemberMetadataKey",
    "A member of a consumer group.",
    SOURCE,
    (
        Field("group_id", String, "The group."),
        Field("member_id", String, "The member."),
    ),
    versions=(0, 0),
)

_SUPPORTED_PROTOCOLS = Layout(
    "SupportedProtocols",
    "The assignors that the member supports.",
    SOURCE,
    (
        Field("name", String, "The assignor."),
        Field(
            "metadata",
            Blob,
            "The subscription that the member sent for it.",
            holds=HeldMessage(CONSUMER_PROTOCOL_SUBSCRIPTION),
        ),
    ),
)

_CLASSIC_MEMBER_METADATA = Layout(
    "ClassicMemberMetadata",
    "Set while the member speaks the classic protocol.",
    SOURCE,
    (
        Field(
            "session_timeout_ms",
            Int32,
            "After how long without a heartbeat the member is dropped.",
            unit=MILLISECONDS,
        ),
        Field(
            "supported_protocols",
            ListOf(_SUPPORTED_PROTOCOLS),
            "The assignors that the member supports.",
        ),
    ),
)

CONSUMER_GROUP_MEMBER_METADATA_VALUE = Layout(
    "ConsumerGroupMemberMetadataValue",
    "What the member said of itself.",
    SOURCE,
    (
        Field("instance_id", String, "Name of a static member.", nullable_since=0),
        Field("rack_id", String, "The member's rack.", nullable_since=0),
        Field("client_id", String, "The name that the client gives itself."),
        Field("client_host", String, "The host that the member connects from."),
        Field("subscribed_topic_names", ListOf(String), "The topics subscribed to."),
        Field("subscribed_topic_regex", String, "The expression subscribed to.", nullable_since=0),
        Field(
            "rebalance_timeout_ms",
            Int32,
            "How long a rebalance waits for the member.",
            unit=MILLISECONDS,
        ),
        Field(
            "server_assignor", String, "The assignor that the member asks for.", nullable_since=0
        ),
        Field(
            "classic_member_metadata",
            Struct(_CLASSIC_MEMBER_METADATA),
            "Set while the member speaks the classic protocol.",
            nullable_since=0,
            tag=0,
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Layout(
    "ConsumerGroupTargetAssignmentMetadataKey",
    "The target assignment of a consumer group.",
    SOURCE,
    (Field("group_id", String, "The group."),),
    versions=(0, 0),
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Layout(
    "ConsumerGroupTargetAssignmentMetadataValue",
    "Its epoch.",
    SOURCE,
    (Field("assignment_epoch", Int32, "Epoch of the target assignment."),),
    versions=(0, 0),
    flexible_since=0,
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Layout(
    "ConsumerGroupTargetAssignmentMemberKey",
    "The target assignment of a member of a consumer group.",
    SOURCE,
    (
        Field("group_id", String, "The group."),
        Field("member_id", String, "The member."),
    ),
    versions=(0, 0),
)

_TOPIC_PARTITIONS = Layout(
    "TopicPartitions",
    "The partitions, topic by topic.",
    SOURCE,
    (
        Field("topic_id", UuidType, "The topic's id."),
        Field("partitions", ListOf(Int32), "The partitions."),
    ),
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Layout(
    "ConsumerGroupTargetAssignmentMemberValue",
    "What the member is to have.",
    SOURCE,
    (Field("topic_partitions", ListOf(_TOPIC_PARTITIONS), "The partitions, topic by topic."),),
    versions=(0, 0),
    flexible_since=0,
)

CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Layout(
    "ConsumerGroupCurrentMemberAssignmentKey",
    "The assignment of a member of a consumer group.",
    SOURCE,
    (
        Field("group_id", String, "The group."),
        Field("member_id", String, "The member."),
    ),
    versions=(0, 0),
)

CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Layout(
    "ConsumerGroupCurrentMemberAssignmentValue",
    "What the member has.",
    SOURCE,
    (
        Field("member_epoch", Int32, "Epoch that the member has reached."),
        Field("previous_member_epoch", Int32, "Epoch of the member before this one."),
        Field("state", Int8, "State of the member.", symbols=MEMBER_STATES),
        Field(
            "assigned_partitions", ListOf(_TOPIC_PARTITIONS), "The partitions that the member has."
        ),
        Field(
            "partitions_pending_revocation",
            ListOf(_TOPIC_PARTITIONS),
            "The partitions that it is asked to give up.",
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

CONSUMER_GROUP_REGULAR_EXPRESSION_KEY = Layout(
    "ConsumerGroupRegularExpressionKey",
    "An expression that members of a consumer group subscribe to.",
    SOURCE,
    (
        Field("group_id", String, "The group."),
        Field("regular_expression", String, "The expression that was subscribed to."),
    ),
    versions=(0, 0),
)

CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE = Layout(
    "ConsumerGroupRegularExpressionValue",
    "The topics that it means.",
    SOURCE,
    (
        Field("topics", ListOf(String), "The topics that it matched."),
        Field("version", Int64, "Version of the cluster's metadata that it was resolved with."),
        Field("timestamp", Int64, "When it was resolved.", unit=MILLISECONDS),
    ),
    versions=(0, 0),
    flexible_since=0,
)

MESSAGES = (
    Message(3, CONSUMER_GROUP_METADATA_VALUE, CONSUMER_GROUP_METADATA_KEY),
    Message(4, CONSUMER_GROUP_PARTITION_METADATA_VALUE, CONSUMER_GROUP_PARTITION_METADATA_KEY),
    Message(5, CONSUMER_GROUP_MEMBER_METADATA_VALUE, CONSUMER_GROUP_MEMBER_METADATA_KEY),
    Message(
        6,
        CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE,
        CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
    ),
    Message(
        7,
        CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE,
        CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
    ),
    Message(
        8,
        CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE,
        CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
    ),
    Message(16, CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE, CONSUMER_GROUP_REGULAR_EXPRESSION_KEY),
)
