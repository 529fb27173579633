"""What is shown of the state that an internal topic holds; the JSON contract has these names.

Any column may be null. key: the columns by which a row is the same one at another offset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from kfmt_cli.core.layout.field import MILLISECONDS, OFFSET
from kfmt_cli.rows.column import Column, ColumnKind, RowType, json_value, milliseconds, number, text


@dataclass(frozen=True, eq=False)
class StateType:
    """A kind of row of a topic's state."""

    rows: RowType
    n_key: int
    """How many of its columns tell rows apart."""

    @property
    def name(self) -> str:
        """The `type` of such an object in JSON."""
        return self.rows.name

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in their order."""
        return tuple(column.name for column in self.rows.columns)


# Any column of a state may be null.
_number = partial(number, null=True)
_offset = partial(number, null=True, unit=OFFSET)
_time = partial(milliseconds, null=True)
_text = partial(text, null=True)
_json = partial(json_value, null=True)


def _type(name: str, doc: str, n_key: int, *columns: Column) -> StateType:
    return StateType(RowType(name, doc, columns), n_key)


_GROUP = _text("group", "The group.")
_TOPIC = _text("topic", "The topic; null where only its id is known.")
_TOPIC_ID = _text("topic_id", "The topic's id.")
_PARTITION = _number("partition", "The partition.")

# __consumer_offsets
GROUP = _type(
    "group",
    "A group.",
    1,
    _GROUP,
    _text("state", "State of the group, as its coordinator has it after loading the topic."),
    _text("protocol_type", "consumer, connect, share or streams; null where only offsets are."),
    _number("generation", "Generation, or epoch, of the group."),
    _number("members", "How many members it has."),
    _text("group_type", "classic, consumer, share or streams."),
    _text("protocol", "The assignor of a classic group."),
    _text("leader", "The member of a classic group that assigns."),
)
MEMBER = _type(
    "member",
    "A member of a group.",
    2,
    _GROUP,
    _text("member_id", "The member."),
    _text("instance_id", "Name of a static member."),
    _text("client_id", "The name that the client gives itself."),
    _text("host", "The host that it connects from."),
    _number("member_epoch", "Epoch that the member has reached; null in a classic group."),
    _json("assignment", "What it has, if the topic says so."),
)
COMMITTED_OFFSET = _type(
    "committed_offset",
    "An offset that a group has committed.",
    3,
    _GROUP,
    _TOPIC,
    _PARTITION,
    _offset("offset", "The next offset to read."),
    _number("leader_epoch", "Leader epoch of the last record read; -1 for none.", minor=True),
    _text("metadata", "What the client wanted to be kept with it.", minor=True),
    _time("commit_timestamp", "When it was committed.", minor=True),
    _number("log_end_offset", "End of the partition's log, where that lies next to the topic."),
    _number("lag", "Offsets from the committed one to the end."),
    Column(
        "stream_time",
        doc="Of Kafka Streams: the time of the records up to it.",
        unit=MILLISECONDS,
        none=-1,
        only=("has_stream_time", 1),
        minor=True,
    ),
)

# __transaction_state
TRANSACTIONAL_ID = _type(
    "transactional_id",
    "A transactional id.",
    1,
    _text("transactional_id", "The transactional id."),
    _number("producer_id", "Its producer."),
    _number("producer_epoch", "Epoch of the producer."),
    _text("state", "State of its transaction."),
    _json("partitions", "The partitions in the transaction."),
    _number("transaction_timeout_ms", "After how long the coordinator aborts it."),
    _time("start_timestamp", "When the transaction began."),
    Column(
        "timed_out",
        ColumnKind.FLAG,
        "Whether an ongoing transaction is older by now than its timeout; null for any other.",
        given="has_timed_out",
        minor=True,
    ),
    _time("last_update_timestamp", "When the state last changed."),
)

# __share_group_state
SHARE_PARTITION = _type(
    "share_partition",
    "How far the records of a partition have been delivered to a share group.",
    3,
    _GROUP,
    _TOPIC_ID,
    _PARTITION,
    _offset("start_offset", "First offset that is not done with."),
    _number("snapshot_epoch", "Counts the snapshots."),
    _number("state_epoch", "Epoch of the state."),
    _number("leader_epoch", "Leader epoch of the partition."),
    _number("delivery_complete_count", "Records in flight whose delivery is complete."),
    _json("state_batches", "Runs of records after the start, with their state."),
)

# __remote_log_metadata
REMOTE_SEGMENT = _type(
    "remote_segment",
    "A segment that remote storage must hold, or has begun to.",
    5,
    _TOPIC,
    _TOPIC_ID,
    _PARTITION,
    _offset("start_offset", "Its first offset."),
    _text("segment_id", "The segment; its objects are named for it."),
    _number("end_offset", "Its last offset."),
    _text("state", "How far it has been copied or deleted."),
    _number("segment_size_in_bytes", "Bytes of its log."),
    _number("broker_id", "The broker that copied it."),
    _time("max_timestamp", "Largest timestamp in it."),
    _time("event_timestamp", "When its state last changed."),
    _json("segment_leader_epochs", "The leader epochs in it."),
    _text("custom_metadata", "What the plug-in wants to remember, as base64."),
)
REMOTE_PARTITION = _type(
    "remote_partition",
    "A partition that is being deleted from remote storage.",
    3,
    _TOPIC,
    _TOPIC_ID,
    _PARTITION,
    _text("state", "How far."),
    _time("event_timestamp", "When its state last changed."),
)

# __cluster_metadata
BROKER = _type(
    "broker",
    "A broker that is registered.",
    1,
    _number("broker_id", "The broker."),
    _number("broker_epoch", "Epoch of its registration."),
    _text("state", "active, fenced or in-controlled-shutdown."),
    _text("rack", "Its rack."),
    _json("end_points", "Where it listens."),
    _text("incarnation_id", "Differs each time the process starts."),
    _json("log_dirs", "Its log directories."),
    _json("features", "The features that it supports."),
)
CONTROLLER = _type(
    "controller",
    "A controller that is registered.",
    1,
    _number("controller_id", "The controller."),
    _json("end_points", "Where it listens."),
    _text("incarnation_id", "Differs each time the process starts."),
)
TOPIC = _type(
    "topic",
    "A topic.",
    1,
    _TOPIC,
    _TOPIC_ID,
    _number("partitions", "How many partitions it has."),
)
PARTITION = _type(
    "partition",
    "A partition.",
    2,
    _TOPIC,
    _PARTITION,
    _number("leader", "The broker that leads; -1 for none."),
    _number("leader_epoch", "Epoch of the leader."),
    _json("replicas", "The brokers that have a replica."),
    _json("isr", "The replicas in sync."),
    _json("adding_replicas", "Brokers that are being added."),
    _json("removing_replicas", "Brokers that are being taken out."),
    _json("eligible_leader_replicas", "Replicas outside of the ISR that have all records."),
    _json("last_known_elr", "The last eligible leaders that were known."),
    _number("partition_epoch", "Counts the changes of the partition."),
    _text("leader_recovery_state", "RECOVERING after an unclean election."),
    _json("directories", "The log directory of each replica."),
)
CONFIG = _type(
    "config",
    "A setting.",
    3,
    _text("resource_type", "TOPIC, BROKER, GROUP or CLIENT_METRICS."),
    _text("resource", "Name of the resource; empty is the default of all brokers."),
    _text("name", "Name of the setting."),
    _text("value", "Its value; null where it may be a secret."),
    Column("hidden", ColumnKind.FLAG, "Whether it is not shown.", only=("is_hidden", 1)),
)
FEATURE = _type(
    "feature",
    "A feature that is enabled.",
    1,
    _text("feature", "The feature."),
    _number("level", "Its level."),
)
ACL = _type(
    "acl",
    "An access control entry.",
    1,
    _text("id", "Id of the entry."),
    _text("resource_type", "Type of the resource."),
    _text("resource", "Name of the resource."),
    _text("pattern_type", "How the name is matched."),
    _text("principal", "Whom it is about."),
    _text("host", "The host, * for any."),
    _text("operation", "What is allowed or denied."),
    _text("permission_type", "ALLOW or DENY."),
)
QUOTA = _type(
    "quota",
    "A quota.",
    2,
    _json("entity", "Whom it is for; null is the default of a type."),
    _text("name", "Name of the quota."),
    _json("value", "Its value."),
)
SCRAM_USER = _type(
    "scram_user",
    "A user with a SCRAM credential, without its secrets.",
    2,
    _text("user", "The user."),
    _text("mechanism", "The mechanism."),
    _number("iterations", "How often the password was hashed."),
)
DELEGATION_TOKEN = _type(
    "delegation_token",
    "A delegation token.",
    1,
    _text("token_id", "The token."),
    _text("owner", "Whose it is."),
    _text("requester", "Who asked for it."),
    _json("renewers", "Who may renew it."),
    _time("issue_timestamp", "When it was made."),
    _time("expiration_timestamp", "When it expires."),
    _time("max_timestamp", "Until when it can be renewed."),
)
PRODUCER_IDS = _type(
    "producer_ids",
    "Which producer ids have been given out.",
    0,
    _number("next_producer_id", "The first id that the next broker is given."),
)

# Kafka Connect
_CONNECTOR = _text("connector", "The connector.")
_TASK = _number("task", "The task.")
_STATE = _text("state", "RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED, RESTARTING or DESTROYED.")
_WORKER = _text("worker_id", "The worker that says so.")
_GENERATION = _number("generation", "Generation of the workers' group.", minor=True)
_TRACE = _text("trace", "Why it has failed.")
_CONFIG = _json("config", "The configuration; settings that may be secrets are null.")
CONNECTOR = _type(
    "connector",
    "A connector that is configured.",
    1,
    _CONNECTOR,
    _text("target_state", "STARTED, PAUSED or STOPPED, as it was asked for."),
    _number("tasks", "How many tasks have a configuration; null before the first are committed."),
    _CONFIG,
)
CONNECTOR_TASK = _type(
    "connector_task",
    "A task of a connector that is configured.",
    2,
    _CONNECTOR,
    _TASK,
    _CONFIG,
)
CONNECTOR_STATUS = _type(
    "connector_status",
    "The state of a connector.",
    1,
    _CONNECTOR,
    _STATE,
    _WORKER,
    _GENERATION,
    _TRACE,
)
TASK_STATUS = _type(
    "task_status",
    "The state of a task.",
    2,
    _CONNECTOR,
    _TASK,
    _STATE,
    _WORKER,
    _GENERATION,
    _TRACE,
)
CONNECTOR_TOPIC = _type(
    "connector_topic",
    "A topic that a connector uses.",
    2,
    _CONNECTOR,
    _TOPIC,
    _number("task", "The task that used it first."),
    _time("discover_timestamp", "When it was first used."),
)
SOURCE_OFFSET = _type(
    "source_offset",
    "How far a source connector has read.",
    2,
    _CONNECTOR,
    _json("source_partition", "What it reads from, in the connector's words."),
    _json("source_offset", "How far, in the connector's words."),
)

# MirrorMaker
_UPSTREAM = _number("upstream_offset", "Offset in the cluster that is mirrored.")
MIRROR_SYNC = _type(
    "mirror_sync",
    "How far a partition has been mirrored.",
    2,
    _TOPIC,
    _PARTITION,
    _UPSTREAM,
    _number("downstream_offset", "Offset of the same record in the mirror."),
    _number("log_end_offset", "End of the partition's log, where that lies next to the topic."),
    _number("lag", "Offsets after the upstream one; a mirror does not write down each of them."),
)
MIRROR_CHECKPOINT = _type(
    "mirror_checkpoint",
    "How far a group has read, as offsets of the mirror.",
    3,
    _GROUP,
    _text("topic", "The topic, by its name in the mirror."),
    _PARTITION,
    _UPSTREAM,
    _offset("offset", "Offset in the mirror from which the group can go on."),
    _text("metadata", "What the group wanted to be kept with it.", minor=True),
)
MIRROR_HEARTBEAT = _type(
    "mirror_heartbeat",
    "The last sign of life of a flow.",
    2,
    _text("source", "The cluster that is mirrored."),
    _text("target", "The cluster that has the mirror."),
    _time("timestamp", "When it was sent."),
)

# _schemas
SCHEMA = _type(
    "schema",
    "A schema of a registry.",
    2,
    _text("subject", "The subject."),
    _number("version", "Version of the subject."),
    _number("schema_id", "The id that comes before payloads."),
    _text("schema_type", "AVRO, PROTOBUF or JSON."),
    Column("deleted", ColumnKind.FLAG, "Whether it has been deleted softly.", given="has_deleted"),
    _text("schema", "The schema."),
    _json("references", "The schemas that it refers to."),
)


def with_change(rows: RowType) -> RowType:
    """The row type with what became of each row between two offsets."""
    change = Column("change", ColumnKind.TEXT, "added, changed or removed since the offset.")
    before = Column(
        "before", ColumnKind.JSON, "What was different before a change.", only=("is_changed", 1)
    )
    return replace(rows, columns=(*rows.columns, change, before))
