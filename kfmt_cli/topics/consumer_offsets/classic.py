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
    "A committed offset, as the first brokers with this topic named it.",
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
    "The offset that was committed.",
    SOURCE,
    (
        Field("offset", Int64, "The next offset to read."),
        Field("metadata", String, "What the client wanted to be kept with it."),
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
    "The offset that was committed.",
    SOURCE,
    (
        Field("offset", Int64, "The next offset to read."),
        Field(
            "leader_epoch",
            Int32,
            "Leader epoch of the last record that was read; -1 for none.",
            since=3,
        ),
        Field("metadata", String, "What the client wanted to be kept with it."),
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
        Field("group_instance_id", String, "Name of a static member.", since=3, nullable_since=3),
        Field("client_id", String, "The name that the client gives itself."),
        Field("client_host", String, "The host that the member connects from."),
        Field(
            "rebalance_timeout",
            Int32,
            "How long a rebalance waits for the member.",
            unit=MILLISECONDS,
            since=1,
        ),
        Field(
            "session_timeout",
            Int32,
            "After how long without a heartbeat the member is dropped.",
            unit=MILLISECONDS,
        ),
        Field(
            "subscription",
            Blob,
            "What the member subscribed to.",
            holds=HeldMessage(CONSUMER_PROTOCOL_SUBSCRIPTION, "protocol_type", "consumer"),
        ),
        Field(
            "assignment",
            Blob,
            "What the leader of the group assigned to the member.",
            holds=HeldMessage(CONSUMER_PROTOCOL_ASSIGNMENT, "protocol_type", "consumer"),
        ),
    ),
)

GROUP_METADATA_VALUE = Layout(
    "GroupMetadataValue",
    "The group and its members, after each rebalance.",
    SOURCE,
    (
        Field("protocol_type", String, "consumer, connect or what the client calls it."),
        Field("generation", Int32, "How often the group has been rebalanced."),
        Field("protocol", String, "The assignor that the group agreed on.", nullable_since=0),
        Field("leader", String, "The member that assigns.", nullable_since=0),
        Field(
            "current_state_timestamp",
            Int64,
            "When the group came into its state.",
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
