"""KRaft's control records, and its own vote file.

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
    "The voters.",
    SOURCE,
    (
        Field("voter_id", Int32, "The voter."),
        Field("voter_directory_id", UuidType, "The voter's log directory.", since=1),
    ),
)

LEADER_CHANGE_MESSAGE = Layout(
    "LeaderChangeMessage",
    "Leader change message: the first batch of a new quorum leader.",
    SOURCE,
    (
        Field("version", Int16, "Version of the message."),
        Field("leader_id", Int32, "The leader; -1 for none."),
        Field("voters", ListOf(_VOTERS), "The voters."),
        Field("granting_voters", ListOf(_VOTERS), "The voters that voted for the leader."),
    ),
    versions=(0, 1),
    flexible_since=0,
)

SNAPSHOT_HEADER_RECORD = Layout(
    "SnapshotHeaderRecord",
    "Header of a KRaft snapshot.",
    SOURCE,
    (
        Field("version", Int16, "Version of the record."),
        Field(
            "last_contained_log_timestamp",
            Int64,
            "Timestamp of the last batch included in the snapshot.",
            unit=MILLISECONDS,
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

SNAPSHOT_FOOTER_RECORD = Layout(
    "SnapshotFooterRecord",
    "Footer of a KRaft snapshot.",
    SOURCE,
    (Field("version", Int16, "Version of the record."),),
    versions=(0, 0),
    flexible_since=0,
)

KRAFT_VERSION_RECORD = Layout(
    "KRaftVersionRecord",
    "KRaft version of the quorum.",
    SOURCE,
    (
        Field("version", Int16, "Version of the record."),
        Field("kraft_version", Int16, "KRaft version."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

_ENDPOINTS = Layout(
    "Endpoints",
    "Its listeners.",
    SOURCE,
    (
        Field("name", String, "Name."),
        Field("host", String, "Host name or address."),
        Field("port", UInt16, "Port."),
    ),
)

_KRAFT_VERSION_FEATURE = Layout(
    "KraftVersionFeature",
    "KRaft versions supported by the voter.",
    SOURCE,
    (
        Field("min_supported_version", Int16, "Lowest supported version."),
        Field("max_supported_version", Int16, "Highest supported version."),
    ),
)

_VOTERS_RECORD_VOTERS = Layout(
    "Voters",
    "The voters.",
    SOURCE,
    (
        Field("voter_id", Int32, "The voter."),
        Field("voter_directory_id", UuidType, "The voter's log directory."),
        Field("endpoints", ListOf(_ENDPOINTS), "Its listeners."),
        Field(
            "kraft_version_feature",
            Struct(_KRAFT_VERSION_FEATURE),
            "KRaft versions supported by the voter.",
        ),
    ),
)

VOTERS_RECORD = Layout(
    "VotersRecord",
    "The voters of the quorum.",
    SOURCE,
    (
        Field("version", Int16, "Version of the record."),
        Field("voters", ListOf(_VOTERS_RECORD_VOTERS), "The voters."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

_CURRENT_VOTERS = Layout(
    "CurrentVoters", "The voters.", SOURCE, (Field("voter_id", Int32, "The voter."),)
)

QUORUM_STATE_DATA = Layout(
    "QuorumStateData",
    "Vote of this metadata log replica.",
    SOURCE,
    (
        Field("cluster_id", String, "The cluster.", until=0),
        Field("leader_id", Int32, "The leader; -1 for none."),
        Field("leader_epoch", Int32, "Leader epoch."),
        Field("voted_id", Int32, "The voter it voted for; -1 for none."),
        Field(
            "voted_directory_id",
            UuidType,
            "Log directory of the voter it voted for.",
            since=1,
        ),
        Field(
            "applied_offset",
            Int64,
            "Last applied offset; no longer used.",
            until=0,
        ),
        Field(
            "current_voters",
            ListOf(_CURRENT_VOTERS),
            "The voters.",
            until=0,
            nullable_since=0,
        ),
    ),
    versions=(0, 1),
    flexible_since=0,
)

# Layouts of control record values, by type; each begins with its version.
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
