"""__remote_log_metadata: the segments in remote storage (KIP-405).

Source: the messages of Kafka 4.2, `org.apache.kafka.server.log.remote.metadata.storage.generated`.
"""

from kfmt_cli.core.layout.field import MILLISECONDS, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import Blob, Bool, ListOf, String, Struct, UuidType
from kfmt_cli.core.layout.wire import Int8, Int32, Int64
from kfmt_cli.topics.decoder import Message

SOURCE = "org.apache.kafka.server.log.remote.metadata.storage.generated"
SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
PARTITION_STATES = (
    "DELETE_PARTITION_MARKED",
    "DELETE_PARTITION_STARTED",
    "DELETE_PARTITION_FINISHED",
)

_TOPIC_ID_PARTITION = Layout(
    "TopicIdPartition",
    "The partition.",
    SOURCE,
    (
        Field("name", String, "The topic."),
        Field("id", UuidType, "Id."),
        Field("partition", Int32, "The partition."),
    ),
)

_REMOTE_LOG_SEGMENT_ID = Layout(
    "RemoteLogSegmentId",
    "The segment in remote storage.",
    SOURCE,
    (
        Field("topic_id_partition", Struct(_TOPIC_ID_PARTITION), "The partition."),
        Field("id", UuidType, "Id."),
    ),
)

_SEGMENT_LEADER_EPOCHS = Layout(
    "SegmentLeaderEpochs",
    "The leader epochs in the segment.",
    SOURCE,
    (
        Field("leader_epoch", Int32, "Leader epoch."),
        Field("offset", Int64, "Offset."),
    ),
)

REMOTE_LOG_SEGMENT_METADATA_RECORD = Layout(
    "RemoteLogSegmentMetadataRecord",
    "A segment is being copied to remote storage.",
    SOURCE,
    (
        Field(
            "remote_log_segment_id",
            Struct(_REMOTE_LOG_SEGMENT_ID),
            "The segment in remote storage.",
        ),
        Field("start_offset", Int64, "First offset."),
        Field("end_offset", Int64, "Last offset of the segment."),
        Field("broker_id", Int32, "The broker."),
        Field("max_timestamp_ms", Int64, "Largest timestamp in the segment.", unit=MILLISECONDS),
        Field("event_timestamp_ms", Int64, "When this event happened.", unit=MILLISECONDS),
        Field(
            "segment_leader_epochs",
            ListOf(_SEGMENT_LEADER_EPOCHS),
            "The leader epochs in the segment.",
        ),
        Field("segment_size_in_bytes", Int32, "Size of the segment in bytes."),
        Field(
            "custom_metadata",
            Blob,
            "Custom metadata of the remote storage plug-in.",
            nullable_since=0,
        ),
        Field(
            "remote_log_segment_state",
            Int8,
            "Copy or deletion state of the segment.",
            symbols=SEGMENT_STATES,
        ),
        Field("txn_index_empty", Bool, "Whether the segment has no aborted transactions.", tag=0),
    ),
    versions=(0, 0),
    flexible_since=0,
)

REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD = Layout(
    "RemoteLogSegmentMetadataUpdateRecord",
    "The state of a segment in remote storage changes.",
    SOURCE,
    (
        Field(
            "remote_log_segment_id",
            Struct(_REMOTE_LOG_SEGMENT_ID),
            "The segment in remote storage.",
        ),
        Field("broker_id", Int32, "The broker."),
        Field("event_timestamp_ms", Int64, "When this event happened.", unit=MILLISECONDS),
        Field(
            "custom_metadata",
            Blob,
            "Custom metadata of the remote storage plug-in.",
            nullable_since=0,
        ),
        Field(
            "remote_log_segment_state",
            Int8,
            "Copy or deletion state of the segment.",
            symbols=SEGMENT_STATES,
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

REMOTE_PARTITION_DELETE_METADATA_RECORD = Layout(
    "RemotePartitionDeleteMetadataRecord",
    "A partition is being deleted from remote storage.",
    SOURCE,
    (
        Field("topic_id_partition", Struct(_TOPIC_ID_PARTITION), "The partition."),
        Field("broker_id", Int32, "The broker."),
        Field("event_timestamp_ms", Int64, "When this event happened.", unit=MILLISECONDS),
        Field(
            "remote_partition_delete_state",
            Int8,
            "Deletion state of the partition.",
            symbols=PARTITION_STATES,
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD = Layout(
    "RemoteLogSegmentMetadataSnapshotRecord",
    "A segment in a snapshot of this topic's state.",
    SOURCE,
    (
        Field("segment_id", UuidType, "The segment in remote storage."),
        Field("start_offset", Int64, "First offset."),
        Field("end_offset", Int64, "Last offset of the segment."),
        Field("broker_id", Int32, "The broker."),
        Field("max_timestamp_ms", Int64, "Largest timestamp in the segment.", unit=MILLISECONDS),
        Field("event_timestamp_ms", Int64, "When this event happened.", unit=MILLISECONDS),
        Field(
            "segment_leader_epochs",
            ListOf(_SEGMENT_LEADER_EPOCHS),
            "The leader epochs in the segment.",
        ),
        Field("segment_size_in_bytes", Int32, "Size of the segment in bytes."),
        Field(
            "custom_metadata",
            Blob,
            "Custom metadata of the remote storage plug-in.",
            nullable_since=0,
        ),
        Field(
            "remote_log_segment_state",
            Int8,
            "Copy or deletion state of the segment.",
            symbols=SEGMENT_STATES,
        ),
        Field("txn_index_empty", Bool, "Whether the segment has no aborted transactions.", tag=0),
    ),
    versions=(0, 0),
    flexible_since=0,
)

MESSAGES = (
    Message(0, REMOTE_LOG_SEGMENT_METADATA_RECORD),
    Message(1, REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD),
    Message(2, REMOTE_PARTITION_DELETE_METADATA_RECORD),
    Message(3, REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD),
)
