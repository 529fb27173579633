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
    "Settings of the last assignment.",
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
        Field("metadata_hash", Int64, "Hash of the metadata of the subscribed topics."),
        Field(
            "validated_topology_epoch",
            Int32,
            "Epoch of the last valid topology.",
            tag=0,
        ),
        Field(
            "last_assignment_configs",
            ListOf(_LAST_ASSIGNMENT_CONFIGS),
            "Settings of the last assignment.",
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
    "Endpoint for interactive queries to the member.",
    SOURCE,
    (
        Field("host", String, "Host name or address."),
        Field("port", UInt16, "Port."),
    ),
)

_CLIENT_TAGS = Layout(
    "ClientTags",
    "Client tags for rack-aware assignment.",
    SOURCE,
    (
        Field("key", String, "Name of the tag."),
        Field("value", String, "Value of the tag."),
    ),
)

STREAMS_GROUP_MEMBER_METADATA_VALUE = Layout(
    "StreamsGroupMemberMetadataValue",
    "Metadata of the member.",
    SOURCE,
    (
        Field("instance_id", String, "Group instance id of a static member.", nullable_since=0),
        Field("rack_id", String, "The member's rack.", nullable_since=0),
        Field("client_id", String, "Client id."),
        Field("client_host", String, "Client host."),
        Field(
            "rebalance_timeout_ms",
            Int32,
            "Rebalance timeout of the member.",
            unit=MILLISECONDS,
        ),
        Field("topology_epoch", Int32, "Topology epoch of the member."),
        Field("process_id", String, "Process id of the member."),
        Field(
            "user_endpoint",
            Struct(_USER_ENDPOINT),
            "Endpoint for interactive queries to the member.",
            nullable_since=0,
        ),
        Field("client_tags", ListOf(_CLIENT_TAGS), "Client tags for rack-aware assignment."),
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
    "Active tasks.",
    SOURCE,
    (
        Field("subtopology_id", String, "The subtopology."),
        Field("partitions", ListOf(Int32), "The partitions."),
    ),
)

STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Layout(
    "StreamsGroupTargetAssignmentMemberValue",
    "Target assignment.",
    SOURCE,
    (
        Field("active_tasks", ListOf(_ACTIVE_TASKS), "Active tasks."),
        Field("standby_tasks", ListOf(_ACTIVE_TASKS), "Standby tasks."),
        Field(
            "warmup_tasks",
            ListOf(_ACTIVE_TASKS),
            "Warm-up tasks.",
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
    "Active tasks.",
    SOURCE,
    (
        Field("subtopology_id", String, "The subtopology."),
        Field("partitions", ListOf(Int32), "The partitions."),
        Field(
            "assignment_epochs",
            ListOf(Int32),
            "Assignment epoch of each partition of the task.",
            nullable_since=0,
            tag=0,
        ),
    ),
)

STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Layout(
    "StreamsGroupCurrentMemberAssignmentValue",
    "Current assignment.",
    SOURCE,
    (
        Field("member_epoch", Int32, "Member epoch."),
        Field("previous_member_epoch", Int32, "Previous member epoch."),
        Field("state", Int8, "State of the member.", symbols=MEMBER_STATES),
        Field(
            "active_tasks",
            ListOf(_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_ACTIVE_TASKS),
            "Active tasks.",
        ),
        Field(
            "standby_tasks",
            ListOf(_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_ACTIVE_TASKS),
            "Standby tasks.",
        ),
        Field(
            "warmup_tasks",
            ListOf(_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_ACTIVE_TASKS),
            "Warm-up tasks.",
        ),
        Field(
            "active_tasks_pending_revocation",
            ListOf(_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_ACTIVE_TASKS),
            "Active tasks pending revocation.",
        ),
        Field(
            "standby_tasks_pending_revocation",
            ListOf(_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_ACTIVE_TASKS),
            "Standby tasks pending revocation.",
        ),
        Field(
            "warmup_tasks_pending_revocation",
            ListOf(_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_ACTIVE_TASKS),
            "Warm-up tasks pending revocation.",
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
