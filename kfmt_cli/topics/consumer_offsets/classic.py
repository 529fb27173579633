"""Committed offsets, and groups of the classic protocol.

Source: the messages of Kafka 4.2, `org.apache.kafka.coordinator.group.generated`.
"""

from kfmt_cli.core.layout.field import MILLISECONDS, Field, HeldMessage
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import Blob, ListOf, String, UuidType
from kfmt_cli.core.layout.wire import Int32, Int64
from kfmt_cli.formats.consumer_protocol import (
    CONSUMER_PROTOCOL_ASSIGNMENT,
    CONSUMER_PROTOCOL_SUBSCRIPTION,
)
from kfmt_cli.topics.decoder import Message

SOURCE = "org.apache.kafka.coordinator.group.generated"

LEGACY_OFFSET_COMMIT_KEY = Layout(
    "LegacyOffsetCommitKey",
    "A committed offset, in the format of the first brokers with this topic.",
    SOURCE,
    (
        Field("group", String, "The group."),
        Field("topic", String, "The topic."),
        Field("partition", Int32, "The partition."),
    ),
    versions=(0, 0),
)

LEGACY_OFFSET_COMMIT_VALUE = Layout(
    "LegacyOffsetCommitValue",
    "The committed offset.",
    SOURCE,
    (
        Field("offset", Int64, "The next offset to read."),
        Field("metadata", String, "Metadata string of the commit."),
        Field("commit_timestamp", Int64, "When it was committed.", unit=MILLISECONDS),
    ),
    versions=(0, 0),
)

OFFSET_COMMIT_KEY = Layout(
    "OffsetCommitKey",
    "A committed offset.",
    SOURCE,
    (
        Field("group", String, "The group."),
        Field("topic", String, "The topic."),
        Field("partition", Int32, "The partition."),
    ),
    versions=(0, 0),
)

OFFSET_COMMIT_VALUE = Layout(
    "OffsetCommitValue",
    "The committed offset.",
    SOURCE,
    (
        Field("offset", Int64, "The next offset to read."),
        Field(
            "leader_epoch",
            Int32,
            "Leader epoch of the last record consumed; -1 for none.",
            since=3,
        ),
        Field("metadata", String, "Metadata string of the commit."),
        Field("commit_timestamp", Int64, "When it was committed.", unit=MILLISECONDS),
        Field(
            "expire_timestamp",
            Int64,
            "When the committed offset expires.",
            unit=MILLISECONDS,
            since=1,
            until=1,
        ),
        Field("topic_id", UuidType, "The topic's id.", since=4, tag=0, tagged_since=4),
    ),
    versions=(0, 4),
    flexible_since=4,
)

GROUP_METADATA_KEY = Layout(
    "GroupMetadataKey",
    "A group of the classic protocol.",
    SOURCE,
    (Field("group", String, "The group."),),
    versions=(0, 0),
)

_MEMBERS = Layout(
    "Members",
    "The members.",
    SOURCE,
    (
        Field("member_id", String, "The member."),
        Field(
            "group_instance_id",
            String,
            "Group instance id of a static member.",
            since=3,
            nullable_since=3,
        ),
        Field("client_id", String, "Client id."),
        Field("client_host", String, "Client host."),
        Field(
            "rebalance_timeout",
            Int32,
            "Rebalance timeout of the member.",
            unit=MILLISECONDS,
            since=1,
        ),
        Field(
            "session_timeout",
            Int32,
            "Session timeout of the member.",
            unit=MILLISECONDS,
        ),
        Field(
            "subscription",
            Blob,
            "Subscription of the member.",
            holds=HeldMessage(CONSUMER_PROTOCOL_SUBSCRIPTION, "protocol_type", "consumer"),
        ),
        Field(
            "assignment",
            Blob,
            "Assignment that the group leader gave the member.",
            holds=HeldMessage(CONSUMER_PROTOCOL_ASSIGNMENT, "protocol_type", "consumer"),
        ),
    ),
)

GROUP_METADATA_VALUE = Layout(
    "GroupMetadataValue",
    "The group and its members, after each rebalance.",
    SOURCE,
    (
        Field(
            "protocol_type",
            String,
            "Protocol type: consumer, connect or another one set by the client.",
        ),
        Field("generation", Int32, "Generation of the group."),
        Field("protocol", String, "Assignor chosen by the group.", nullable_since=0),
        Field("leader", String, "Leader of the group.", nullable_since=0),
        Field(
            "current_state_timestamp",
            Int64,
            "When the group entered its state.",
            unit=MILLISECONDS,
            since=2,
        ),
        Field("members", ListOf(_MEMBERS), "The members."),
    ),
    versions=(0, 4),
    flexible_since=4,
)

MESSAGES = (
    Message(0, LEGACY_OFFSET_COMMIT_VALUE, LEGACY_OFFSET_COMMIT_KEY),
    Message(1, OFFSET_COMMIT_VALUE, OFFSET_COMMIT_KEY),
    Message(2, GROUP_METADATA_VALUE, GROUP_METADATA_KEY),
)
