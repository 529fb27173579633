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
        Field("metadata_hash", Int64, "Hash of the metadata of the subscribed topics.", tag=0),
    ),
    versions=(0, 0),
    flexible_since=0,
)

CONSUMER_GROUP_PARTITION_METADATA_KEY = Layout(
    "ConsumerGroupPartitionMetadataKey",
    "Topics subscribed to by a consumer group.",
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
        Field("racks", ListOf(String), "Racks with a replica."),
    ),
)

_TOPICS = Layout(
    "Topics",
    "The topics.",
    SOURCE,
    (
        Field("topic_id", UuidType, "The topic's id."),
        Field("topic_name", String, "The topic."),
        Field("num_partitions", Int32, "Number of partitions of the topic."),
        Field("partition_metadata", ListOf(_PARTITION_METADATA), "The racks of each partition."),
    ),
)

CONSUMER_GROUP_PARTITION_METADATA_VALUE = Layout(
    "ConsumerGroupPartitionMetadataValue",
    "The subscribed topics with their partitions; until 4.0.",
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
    "Assignors supported by the member.",
    SOURCE,
    (
        Field("name", String, "The assignor."),
        Field(
            "metadata",
            Blob,
            "Subscription that the member sent for it.",
            holds=HeldMessage(CONSUMER_PROTOCOL_SUBSCRIPTION),
        ),
    ),
)

_CLASSIC_MEMBER_METADATA = Layout(
    "ClassicMemberMetadata",
    "Set while the member uses the classic protocol.",
    SOURCE,
    (
        Field(
            "session_timeout_ms",
            Int32,
            "Session timeout of the member.",
            unit=MILLISECONDS,
        ),
        Field(
            "supported_protocols",
            ListOf(_SUPPORTED_PROTOCOLS),
            "Assignors supported by the member.",
        ),
    ),
)

CONSUMER_GROUP_MEMBER_METADATA_VALUE = Layout(
    "ConsumerGroupMemberMetadataValue",
    "Metadata of the member.",
    SOURCE,
    (
        Field("instance_id", String, "Group instance id of a static member.", nullable_since=0),
        Field("rack_id", String, "The member's rack.", nullable_since=0),
        Field("client_id", String, "Client id."),
        Field("client_host", String, "Client host."),
        Field("subscribed_topic_names", ListOf(String), "Subscribed topics."),
        Field("subscribed_topic_regex", String, "Subscribed regular expression.", nullable_since=0),
        Field(
            "rebalance_timeout_ms",
            Int32,
            "Rebalance timeout of the member.",
            unit=MILLISECONDS,
        ),
        Field("server_assignor", String, "Assignor requested by the member.", nullable_since=0),
        Field(
            "classic_member_metadata",
            Struct(_CLASSIC_MEMBER_METADATA),
            "Set while the member uses the classic protocol.",
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
    "Partitions by topic.",
    SOURCE,
    (
        Field("topic_id", UuidType, "The topic's id."),
        Field("partitions", ListOf(Int32), "The partitions."),
    ),
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Layout(
    "ConsumerGroupTargetAssignmentMemberValue",
    "Target assignment.",
    SOURCE,
    (Field("topic_partitions", ListOf(_TOPIC_PARTITIONS), "Partitions by topic."),),
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
    "Current assignment.",
    SOURCE,
    (
        Field("member_epoch", Int32, "Member epoch."),
        Field("previous_member_epoch", Int32, "Previous member epoch."),
        Field("state", Int8, "State of the member.", symbols=MEMBER_STATES),
        Field(
            "assigned_partitions", ListOf(_TOPIC_PARTITIONS), "Partitions assigned to the member."
        ),
        Field(
            "partitions_pending_revocation",
            ListOf(_TOPIC_PARTITIONS),
            "Partitions pending revocation.",
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

CONSUMER_GROUP_REGULAR_EXPRESSION_KEY = Layout(
    "ConsumerGroupRegularExpressionKey",
    "A regular expression that members of a consumer group subscribe to.",
    SOURCE,
    (
        Field("group_id", String, "The group."),
        Field("regular_expression", String, "The subscribed regular expression."),
    ),
    versions=(0, 0),
)

CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE = Layout(
    "ConsumerGroupRegularExpressionValue",
    "The topics it resolves to.",
    SOURCE,
    (
        Field("topics", ListOf(String), "Topics that matched it."),
        Field("version", Int64, "Version of the cluster metadata that it was resolved with."),
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
