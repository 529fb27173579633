"""What KRaft says in control records, and of its own vote.

Source: the messages of Kafka 4.2, `org.apache.kafka.common.message`.
"""

from kfmt_cli.core.layout.field import MILLISECONDS, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import ListOf, String, Struct, UInt16, UuidType
from kfmt_cli.core.layout.wire import Int16, Int32, Int64
from kfmt_cli.formats.control import CONTROL_TYPES

SOURCE = "org.apache.kafka.common.message"

_VOTERS = Layout(
    "Voters",
    "The controllers that vote.",
    SOURCE,
    (
        Field("voter_id", Int32, "The voter."),
        Field("voter_directory_id", UuidType, "The voter's log directory.", since=1),
    ),
)

LEADER_CHANGE_MESSAGE = Layout(
    "LeaderChangeMessage",
    "The first batch of a new leader of the quorum.",
    SOURCE,
    (
        Field("version", Int16, "Version of the message."),
        Field("leader_id", Int32, "The leader; -1 for none."),
        Field("voters", ListOf(_VOTERS), "The controllers that vote."),
        Field("granting_voters", ListOf(_VOTERS), "The voters that voted for the leader."),
    ),
    versions=(0, 1),
    flexible_since=0,
)

SNAPSHOT_HEADER_RECORD = Layout(
    "SnapshotHeaderRecord",
    "The beginning of a KRaft snapshot.",
    SOURCE,
    (
        Field("version", Int16, "Version of the record."),
        Field(
            "last_contained_log_timestamp",
            Int64,
            "Time of the last batch that the snapshot contains.",
            unit=MILLISECONDS,
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

SNAPSHOT_FOOTER_RECORD = Layout(
    "SnapshotFooterRecord",
    "The end of a KRaft snapshot.",
    SOURCE,
    (Field("version", Int16, "Version of the record."),),
    versions=(0, 0),
    flexible_since=0,
)

KRAFT_VERSION_RECORD = Layout(
    "KRaftVersionRecord",
    "The version of KRaft that the quorum runs.",
    SOURCE,
    (
        Field("version", Int16, "Version of the record."),
        Field("kraft_version", Int16, "The version of KRaft."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

_ENDPOINTS = Layout(
    "Endpoints",
    "Where it listens.",
    SOURCE,
    (
        Field("name", String, "Name."),
        Field("host", String, "Name or address of the host."),
        Field("port", UInt16, "Port."),
    ),
)

_KRAFT_VERSION_FEATURE = Layout(
    "KraftVersionFeature",
    "The versions of KRaft that the voter supports.",
    SOURCE,
    (
        Field("min_supported_version", Int16, "The lowest version."),
        Field("max_supported_version", Int16, "The highest version."),
    ),
)

_VOTERS_RECORD_VOTERS = Layout(
    "Voters",
    "The controllers that vote.",
    SOURCE,
    (
        Field("voter_id", Int32, "The voter."),
        Field("voter_directory_id", UuidType, "The voter's log directory."),
        Field("endpoints", ListOf(_ENDPOINTS), "Where it listens."),
        Field(
            "kraft_version_feature",
            Struct(_KRAFT_VERSION_FEATURE),
            "The versions of KRaft that the voter supports.",
        ),
    ),
)

VOTERS_RECORD = Layout(
    "VotersRecord",
    "The voters of the quorum.",
    SOURCE,
    (
        Field("version", Int16, "Version of the record."),
        Field("voters", ListOf(_VOTERS_RECORD_VOTERS), "The controllers that vote."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

_CURRENT_VOTERS = Layout(
    "CurrentVoters", "The controllers that vote.", SOURCE, (Field("voter_id", Int32, "The voter."),)
)

QUORUM_STATE_DATA = Layout(
    "QuorumStateData",
    "The vote of this replica of the metadata log.",
    SOURCE,
    (
        Field("cluster_id", String, "The cluster.", until=0),
        Field("leader_id", Int32, "The leader; -1 for none."),
        Field("leader_epoch", Int32, "Epoch of the leader."),
        Field("voted_id", Int32, "The voter that was voted for; -1 for none."),
        Field(
            "voted_directory_id",
            UuidType,
            "Log directory of the voter that was voted for.",
            since=1,
        ),
        Field(
            "applied_offset",
            Int64,
            "The last offset that was applied; brokers no longer use it.",
            until=0,
        ),
        Field(
            "current_voters",
            ListOf(_CURRENT_VOTERS),
            "The controllers that vote.",
            until=0,
            nullable_since=0,
        ),
    ),
    versions=(0, 1),
    flexible_since=0,
)

# What the values of control records are, by their type; each begins with its version.
KRAFT_MESSAGES = {
    CONTROL_TYPES.index(name): message
    for name, message in (
        ("LEADER_CHANGE", LEADER_CHANGE_MESSAGE),
        ("SNAPSHOT_HEADER", SNAPSHOT_HEADER_RECORD),
        ("SNAPSHOT_FOOTER", SNAPSHOT_FOOTER_RECORD),
        ("KRAFT_VERSION", KRAFT_VERSION_RECORD),
        ("KRAFT_VOTERS", VOTERS_RECORD),
    )
}
