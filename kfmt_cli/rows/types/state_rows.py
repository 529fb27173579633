"""The rows of the state in an internal topic, with the names of the JSON contract.

Any column may be null.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kfmt_cli.core.layout.field import MS_UNIT, OFFSET_UNIT
from kfmt_cli.rows.column import (
    Column,
    ColumnKind,
    RowType,
    json_column,
    milliseconds_column,
    number_column,
    text_column,
)

StateType = RowType

_number = partial(number_column, can_be_null=True)
_offset = partial(number_column, can_be_null=True, unit=OFFSET_UNIT)
_time = partial(milliseconds_column, can_be_null=True)
_text = partial(text_column, can_be_null=True)
_json = partial(json_column, can_be_null=True)


def _state_type(name: str, doc: str, n_key_columns: int, *columns: Column) -> StateType:
    """n_key: the number of leading columns that identify a row across offsets."""
    return RowType(name, doc, columns, n_key_columns=n_key_columns)


_GROUP = _text("group", "The group.")
_TOPIC = _text("topic", "The topic; null if only its id is known.")
_TOPIC_ID = _text("topic_id", "The topic's id.")
_PARTITION = _number("partition", "The partition.")

# __consumer_offsets
GROUP_ROW = _state_type(
    "group",
    "A group.",
    1,
    _GROUP,
    _text("state", "Group state as seen by the coordinator after loading the topic."),
    _text(
        "protocol_type", "consumer, connect, share or streams; null if the group has only offsets."
    ),
    _number("generation", "Generation, or epoch, of the group."),
    _number("members", "Number of members."),
    _text("group_type", "classic, consumer, share or streams."),
    _text("protocol", "The assignor of a classic group."),
    _text("leader", "Leader of a classic group."),
)
MEMBER_ROW = _state_type(
    "member",
    "A member of a group.",
    2,
    _GROUP,
    _text("member_id", "The member."),
    _text("instance_id", "Group instance id of a static member."),
    _text("client_id", "Client id."),
    _text("host", "Client host.", source="client_host"),
    _number("member_epoch", "Member epoch; null in a classic group."),
    _json("assignment", "Its assignment, if the topic contains it."),
)
COMMITTED_OFFSET_ROW = _state_type(
    "committed_offset",
    "An offset that a group has committed.",
    3,
    _GROUP,
    _TOPIC,
    _PARTITION,
    _offset("offset", "The next offset to read."),
    _number(
        "leader_epoch", "Leader epoch of the last record consumed; -1 for none.", is_minor=True
    ),
    _text("metadata", "Metadata string of the commit.", is_minor=True),
    _time("commit_timestamp", "When it was committed.", is_minor=True),
    _number(
        "log_end_offset", "Log end offset of the partition, if it is in the same log directory."
    ),
    _number("lag", "Lag: offsets from the committed offset to the log end."),
    Column(
        "stream_time",
        doc="Kafka Streams: timestamp of the records up to it.",
        unit=MS_UNIT,
        null_value=-1,
        present_if=("has_stream_time", 1),
        is_minor=True,
    ),
)

# __transaction_state
TRANSACTIONAL_ID_ROW = _state_type(
    "transactional_id",
    "A transactional id.",
    1,
    _text("transactional_id", "The transactional id."),
    _number("producer_id", "Its producer."),
    _number("producer_epoch", "Producer epoch."),
    _text("state", "State of its transaction."),
    _json("partitions", "The partitions in the transaction."),
    _number("transaction_timeout_ms", "Transaction timeout."),
    _time(
        "start_timestamp",
        "When the transaction began.",
        source="transaction_start_timestamp_ms",
    ),
    Column(
        "timed_out",
        ColumnKind.FLAG,
        "Whether an ongoing transaction has exceeded its timeout; null otherwise.",
        presence_column="has_timed_out",
        is_minor=True,
    ),
    _time(
        "last_update_timestamp",
        "When the state last changed.",
        source="transaction_last_update_timestamp_ms",
    ),
)

# __share_group_state
SHARE_PARTITION_ROW = _state_type(
    "share_partition",
    "Delivery state of a partition in a share group.",
    3,
    _GROUP,
    _TOPIC_ID,
    _PARTITION,
    _offset("start_offset", "First offset not yet fully processed."),
    _number("snapshot_epoch", "Snapshot epoch."),
    _number("state_epoch", "State epoch."),
    _number("leader_epoch", "Leader epoch of the partition."),
    _number("delivery_complete_count", "Records in flight whose delivery is complete."),
    _json("state_batches", "Ranges of records after the start offset, with their state."),
    _text("topic", "The topic, if a partition of it is in the same log directory."),
    _number(
        "log_end_offset", "Log end offset of the partition, if it is in the same log directory."
    ),
    _number(
        "lag",
        "Lag: offsets from the start offset to the log end, less those in flight whose "
        "delivery is complete; null before Kafka 4.2, which does not count these.",
    ),
)

# __remote_log_metadata
_CHANGED = _time("event_timestamp", "When its state last changed.", source="event_timestamp_ms")
REMOTE_SEGMENT_ROW = _state_type(
    "remote_segment",
    "A segment in remote storage, or one being copied to it.",
    5,
    _TOPIC,
    _TOPIC_ID,
    _PARTITION,
    _offset("start_offset", "Its first offset."),
    _text("segment_id", "Segment id; its objects are named after it."),
    _number("end_offset", "Its last offset."),
    _text("state", "Copy or deletion state."),
    _number("segment_size_in_bytes", "Size of its log in bytes."),
    _number("broker_id", "The broker that copied it."),
    _time("max_timestamp", "Largest timestamp in it.", source="max_timestamp_ms"),
    _CHANGED,
    _json("segment_leader_epochs", "The leader epochs in it."),
    _text("custom_metadata", "Custom metadata of the plug-in, as base64."),
)
REMOTE_PARTITION_ROW = _state_type(
    "remote_partition",
    "A partition that is being deleted from remote storage.",
    3,
    _TOPIC,
    _TOPIC_ID,
    _PARTITION,
    _text("state", "How far."),
    _CHANGED,
)

# __cluster_metadata
BROKER_ROW = _state_type(
    "broker",
    "A registered broker.",
    1,
    _number("broker_id", "The broker."),
    _number("broker_epoch", "Epoch of its registration."),
    _text("state", "active, fenced or in-controlled-shutdown."),
    _text("rack", "Its rack."),
    _json("end_points", "Its listeners."),
    _text("incarnation_id", "Incarnation id; new at each start."),
    _json("log_dirs", "Its log directories."),
    _json("features", "Supported features."),
)
CONTROLLER_ROW = _state_type(
    "controller",
    "A registered controller.",
    1,
    _number("controller_id", "The controller."),
    _json("end_points", "Its listeners."),
    _text("incarnation_id", "Incarnation id; new at each start."),
)
TOPIC_ROW = _state_type(
    "topic",
    "A topic.",
    1,
    _TOPIC,
    _TOPIC_ID,
    _number("partitions", "Number of partitions."),
)
PARTITION_STATE_ROW = _state_type(
    "partition",
    "A partition.",
    2,
    _TOPIC,
    _PARTITION,
    _number("leader", "The leader; -1 for none."),
    _number("leader_epoch", "Leader epoch."),
    _json("replicas", "Replicas."),
    _json("isr", "In-sync replicas (ISR)."),
    _json("adding_replicas", "Replicas being added."),
    _json("removing_replicas", "Replicas being removed."),
    _json("eligible_leader_replicas", "Eligible leader replicas (ELR)."),
    _json("last_known_elr", "Last known eligible leader replicas."),
    _number("partition_epoch", "Partition epoch."),
    _text("leader_recovery_state", "RECOVERING after an unclean election."),
    _json("directories", "The log directory of each replica."),
)
CONFIG_ROW = _state_type(
    "config",
    "A setting.",
    3,
    _text("resource_type", "TOPIC, BROKER, GROUP or CLIENT_METRICS."),
    _text("resource", "Resource name; empty for the cluster-wide broker default."),
    _text("name", "Name of the setting."),
    _text("value", "Its value; null if it may be a secret."),
    Column("hidden", ColumnKind.FLAG, "Whether the value is hidden.", present_if=("is_hidden", 1)),
)
FEATURE_ROW = _state_type(
    "feature",
    "An enabled feature.",
    1,
    _text("feature", "The feature."),
    _number("level", "Its level."),
)
ACL_ROW = _state_type(
    "acl",
    "An access control entry.",
    1,
    _text("id", "Id of the entry."),
    _text("resource_type", "Type of the resource."),
    _text("resource", "Name of the resource.", source="resource_name"),
    _text("pattern_type", "Pattern type."),
    _text("principal", "Principal."),
    _text("host", "The host, * for any."),
    _text("operation", "What is allowed or denied."),
    _text("permission_type", "ALLOW or DENY."),
)
QUOTA_ROW = _state_type(
    "quota",
    "A quota.",
    2,
    _json("entity", "Entity it applies to; null for the default of a type."),
    _text("name", "Name of the quota."),
    _json("value", "Its value."),
)
SCRAM_USER_ROW = _state_type(
    "scram_user",
    "A user with a SCRAM credential, without its secrets.",
    2,
    _text("user", "The user.", source="name"),
    _text("mechanism", "The mechanism."),
    _number("iterations", "Iteration count."),
)
DELEGATION_TOKEN_ROW = _state_type(
    "delegation_token",
    "A delegation token.",
    1,
    _text("token_id", "The token."),
    _text("owner", "Owner."),
    _text("requester", "Principal that requested it."),
    _json("renewers", "Principals that may renew it."),
    _time("issue_timestamp", "When it was created."),
    _time("expiration_timestamp", "When it expires."),
    _time("max_timestamp", "Latest time to which it can be renewed."),
)
PRODUCER_IDS_ROW = _state_type(
    "producer_ids",
    "Producer ids allocated so far.",
    0,
    _number("next_producer_id", "First id of the next block."),
)

# Kafka Connect
_CONNECTOR = _text("connector", "The connector.")
_TASK = _number("task", "The task.")
_STATE = _text("state", "RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED, RESTARTING or DESTROYED.")
_WORKER = _text("worker_id", "Worker that reported it.")
_GENERATION = _number("generation", "Generation of the workers' group.", is_minor=True)
_TRACE = _text("trace", "Why it failed.")
_CONFIG = _json("config", "The configuration; values not known to be harmless are `hidden`.")
CONNECTOR_ROW = _state_type(
    "connector",
    "A configured connector.",
    1,
    _CONNECTOR,
    _text("target_state", "Target state: STARTED, PAUSED or STOPPED."),
    _number("tasks", "Number of configured tasks; null before the first commit."),
    _CONFIG,
)
CONNECTOR_TASK_ROW = _state_type(
    "connector_task",
    "A configured connector task.",
    2,
    _CONNECTOR,
    _TASK,
    _CONFIG,
)
CONNECTOR_STATUS_ROW = _state_type(
    "connector_status",
    "The state of a connector.",
    1,
    _CONNECTOR,
    _STATE,
    _WORKER,
    _GENERATION,
    _TRACE,
)
TASK_STATUS_ROW = _state_type(
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
CONNECTOR_TOPIC_ROW = _state_type(
    "connector_topic",
    "A topic that a connector uses.",
    2,
    _CONNECTOR,
    _TOPIC,
    _number("task", "The task that used it first."),
    _time("discover_timestamp", "When it was first used.", source="discoverTimestamp"),
)
SOURCE_OFFSET_ROW = _state_type(
    "source_offset",
    "Source connector offset.",
    2,
    _CONNECTOR,
    _json("source_partition", "Source partition, as defined by the connector."),
    _json("source_offset", "Source offset, as defined by the connector."),
)

# MirrorMaker
_UPSTREAM = _number("upstream_offset", "Offset in the source cluster.")
MIRROR_SYNC_ROW = _state_type(
    "mirror_sync",
    "Mirroring progress of a partition.",
    2,
    _TOPIC,
    _PARTITION,
    _UPSTREAM,
    _number("downstream_offset", "Offset of the same record in the mirror."),
    _number(
        "log_end_offset", "Log end offset of the partition, if it is in the same log directory."
    ),
    _number("lag", "Offsets after the recorded upstream offset; not every offset is recorded."),
)
MIRROR_CHECKPOINT_ROW = _state_type(
    "mirror_checkpoint",
    "Group offset, translated to the mirror.",
    3,
    _GROUP,
    _text("topic", "The topic name in the mirror."),
    _PARTITION,
    _UPSTREAM,
    _offset("offset", "Offset in the mirror where the group can resume."),
    _text("metadata", "Metadata string of the commit.", is_minor=True),
)
MIRROR_HEARTBEAT_ROW = _state_type(
    "mirror_heartbeat",
    "Last heartbeat of a flow.",
    2,
    _text("source", "Source cluster.", source="source_cluster_alias"),
    _text("target", "Target cluster.", source="target_cluster_alias"),
    _time("timestamp", "When it was sent."),
)

# _schemas
SCHEMA_ROW = _state_type(
    "schema",
    "A schema of a registry.",
    2,
    _text("subject", "The subject."),
    _number("version", "Version of the subject."),
    _number("schema_id", "Schema id that prefixes payloads."),
    _text("schema_type", "AVRO, PROTOBUF or JSON."),
    Column(
        "deleted", ColumnKind.FLAG, "Whether it is soft-deleted.", presence_column="has_deleted"
    ),
    _text("schema", "The schema."),
    _json("references", "Referenced schemas."),
)


def add_change_columns(row_type: RowType) -> RowType:
    """The row type plus columns for the change of each row between two offsets."""
    change_column = Column("change", ColumnKind.TEXT, "added, changed or removed since the offset.")
    before_column = Column(
        "before",
        ColumnKind.JSON,
        "Previous values of changed columns.",
        present_if=("is_changed", 1),
    )
    return replace(row_type, columns=(*row_type.columns, change_column, before_column))
