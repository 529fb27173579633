"""Groups of Kafka Streams (KIP-1071).

Source: the messages of Kafka 4.2, `org.apache.kafka.coordinator.group.generated`.
"""

from kfmt_cli.core.layout.field import MILLISECONDS, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import ListOf, String, Struct, UInt16
from kfmt_cli.core.layout.wire import Int8, Int32, Int64
from kfmt_cli.topics.decoder import Message

SOURCE = "org.apache.kafka.coordinator.group.generated"
MEMBER_STATES = ("Stable", "UnrevokedTasks", "UnreleasedTasks")

STREAMS_GROUP_METADATA_KEY = Layout(
    "StreamsGroupMetadataKey",
    "A group of Kafka Streams (KIP-1071).",
    SOURCE,
    (Field("group_id", String, "The group."),),
    versions=(0, 0),
)

_LAST_ASSIGNMENT_CONFIGS = Layout(
    "LastAssignmentConfigs",
    "The settings that the last assignment was made with.",
    SOURCE,
    (
        Field("key", String, "Name."),
        Field("value", String, "Value."),
    ),
)

STREAMS_GROUP_METADATA_VALUE = Layout(
    "StreamsGroupMetadataValue",
    "Its epoch.",
    SOURCE,
    (
        Field("epoch", Int32, "Epoch of the group."),
        Field("metadata_hash", Int64, "Hash of the metadata of the topics subscribed to."),
        Field(
            "validated_topology_epoch",
            Int32,
            "Epoch of the topology that was last found valid.",
            tag=0,
        ),
        Field(
            "last_assignment_configs",
            ListOf(_LAST_ASSIGNMENT_CONFIGS),
            "The settings that the last assignment was made with.",
            nullable_since=0,
            tag=1,
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

STREAMS_GROUP_MEMBER_METADATA_KEY = Layout(
    "StreamsGroupMemberMetadataKey",
    "A member of a streams group.",
    SOURCE,
    (
        Field("group_id", String, "The group."),
        Field("member_id", String, "The member."),
    ),
    versions=(0, 0),
)

_USER_ENDPOINT = Layout(
    "UserEndpoint",
    "Where the member answers queries.",
    SOURCE,
    (
        Field("host", String, "Name or address of the host."),
        Field("port", UInt16, "Port."),
    ),
)

_CLIENT_TAGS = Layout(
    "ClientTags",
    "Tags for rack-aware assignment.",
    SOURCE,
    (
        Field("key", String, "Name of the tag."),
        Field("value", String, "Value of the tag."),
    ),
)

STREAMS_GROUP_MEMBER_METADATA_VALUE = Layout(
    "StreamsGroupMemberMetadataValue",
    "What the member said of itself.",
    SOURCE,
    (
        Field("instance_id", String, "Name of a static member.", nullable_since=0),
        Field("rack_id", String, "The member's rack.", nullable_since=0),
        Field("client_id", String, "The name that the client gives itself."),
        Field("client_host", String, "The host that the member connects from."),
        Field(
            "rebalance_timeout_ms",
            Int32,
            "How long a rebalance waits for the member.",
            unit=MILLISECONDS,
        ),
        Field("topology_epoch", Int32, "Epoch of the topology that the member runs."),
        Field("process_id", String, "The process that the member runs in."),
        Field(
            "user_endpoint",
            Struct(_USER_ENDPOINT),
            "Where the member answers queries.",
            nullable_since=0,
        ),
        Field("client_tags", ListOf(_CLIENT_TAGS), "Tags for rack-aware assignment."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Layout(
    "StreamsGroupTargetAssignmentMetadataKey",
    "The target assignment of a streams group.",
    SOURCE,
    (Field("group_id", String, "The group."),),
    versions=(0, 0),
)

STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Layout(
    "StreamsGroupTargetAssignmentMetadataValue",
    "Its epoch.",
    SOURCE,
    (Field("assignment_epoch", Int32, "Epoch of the target assignment."),),
    versions=(0, 0),
    flexible_since=0,
)

STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Layout(
    "StreamsGroupTargetAssignmentMemberKey",
    "The target assignment of a member of a streams group.",
    SOURCE,
    (
        Field("group_id", String, "The group."),
        Field("member_id", String, "The member."),
    ),
    versions=(0, 0),
)

_ACTIVE_TASKS = Layout(
    "ActiveTasks",
    "The tasks that the member runs.",
    SOURCE,
    (
        Field("subtopology_id", String, "The part of the topology."),
        Field("partitions", ListOf(Int32), "The partitions."),
    ),
)

STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Layout(
    "StreamsGroupTargetAssignmentMemberValue",
    "The tasks that the member is to have.",
    SOURCE,
    (
        Field("active_tasks", ListOf(_ACTIVE_TASKS), "The tasks that the member runs."),
        Field("standby_tasks", ListOf(_ACTIVE_TASKS), "The tasks that the member keeps a copy of."),
        Field(
            "warmup_tasks",
            ListOf(_ACTIVE_TASKS),
            "The tasks that the member prepares to take over.",
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Layout(
    "StreamsGroupCurrentMemberAssignmentKey",
    "The assignment of a member of a streams group.",
    SOURCE,
    (
        Field("group_id", String, "The group."),
        Field("member_id", String, "The member."),
    ),
    versions=(0, 0),
)

_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_ACTIVE_TASKS = Layout(
    "ActiveTasks",
    "The tasks that the member runs.",
    SOURCE,
    (
        Field("subtopology_id", String, "The part of the topology."),
        Field("partitions", ListOf(Int32), "The partitions."),
        Field(
            "assignment_epochs",
            ListOf(Int32),
            "Epoch in which each partition of the task was assigned.",
            nullable_since=0,
            tag=0,
        ),
    ),
)

STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Layout(
    "StreamsGroupCurrentMemberAssignmentValue",
    "The tasks that the member has.",
    SOURCE,
    (
        Field("member_epoch", Int32, "Epoch that the member has reached."),
        Field("previous_member_epoch", Int32, "Epoch of the member before this one."),
        Field("state", Int8, "State of the member.", symbols=MEMBER_STATES),
        Field(
            "active_tasks",
            ListOf(_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_ACTIVE_TASKS),
            "The tasks that the member runs.",
        ),
        Field(
            "standby_tasks",
            ListOf(_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_ACTIVE_TASKS),
            "The tasks that the member keeps a copy of.",
        ),
        Field(
            "warmup_tasks",
            ListOf(_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_ACTIVE_TASKS),
            "The tasks that the member prepares to take over.",
        ),
        Field(
            "active_tasks_pending_revocation",
            ListOf(_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_ACTIVE_TASKS),
            "The tasks that it is asked to give up.",
        ),
        Field(
            "standby_tasks_pending_revocation",
            ListOf(_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_ACTIVE_TASKS),
            "The copies that it is asked to give up.",
        ),
        Field(
            "warmup_tasks_pending_revocation",
            ListOf(_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_ACTIVE_TASKS),
            "The preparations that it is asked to give up.",
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

MESSAGES = (
    Message(17, STREAMS_GROUP_METADATA_VALUE, STREAMS_GROUP_METADATA_KEY),
    Message(19, STREAMS_GROUP_MEMBER_METADATA_VALUE, STREAMS_GROUP_MEMBER_METADATA_KEY),
    Message(
        20,
        STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE,
        STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
    ),
    Message(
        21, STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE, STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY
    ),
    Message(
        22,
        STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE,
        STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
    ),
)
