"""__remote_log_metadata: the contents of remote storage.

Source: `org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import RecordFields, TopicReplay
from kfmt_cli.formats.kafka_messages import message_layout
from kfmt_cli.log.record_stream import Record
from kfmt_cli.rows.types.state_rows import REMOTE_PARTITION_ROW, REMOTE_SEGMENT_ROW, StateType

_SEGMENT_STATE = message_layout("RemoteLogSegmentMetadataRecord").field("remote_log_segment_state")
_PARTITION_STATE = message_layout("RemotePartitionDeleteMetadataRecord").field(
    "remote_partition_delete_state"
)
SEGMENT_DELETED = "DELETE_SEGMENT_FINISHED"
PARTITION_DELETED = "DELETE_PARTITION_FINISHED"
TopicIdPartition = tuple[str, int]  # topic id, partition


class RemoteLogReplay(TopicReplay):
    """The segments in remote storage and their states, without deleted ones."""

    topic = "__remote_log_metadata"
    row_types = (REMOTE_SEGMENT_ROW, REMOTE_PARTITION_ROW)

    def __init__(self) -> None:
        super().__init__()
        self._segments: dict[tuple[TopicIdPartition, str], RecordFields] = {}
        self._partitions: dict[TopicIdPartition, RecordFields] = {}

    def apply_record(self, record: Record) -> None:
        if record.control is not None:
            return
        decoded = self.decoder.decode_value(record.key, record.value)
        data = self.extract_data(record, decoded)
        if data is None or decoded is None:
            return
        if decoded.name == "RemoteLogSegmentMetadataRecord":
            self._segments[_segment_key(data)] = data
        elif decoded.name == "RemoteLogSegmentMetadataUpdateRecord":
            self._update_segment(_segment_key(data), data)
        elif decoded.name == "RemotePartitionDeleteMetadataRecord":
            self._delete_partition(data)

    def _update_segment(
        self, segment_key: tuple[TopicIdPartition, str], data: RecordFields
    ) -> None:
        metadata = self._segments.get(segment_key)
        if metadata is None:
            return
        metadata.remote_log_segment_state = data.remote_log_segment_state
        metadata.event_timestamp_ms = data.event_timestamp_ms
        if data.custom_metadata is not None:
            metadata.custom_metadata = data.custom_metadata
        if _SEGMENT_STATE.symbol(data.remote_log_segment_state) == SEGMENT_DELETED:
            del self._segments[segment_key]

    def _delete_partition(self, data: RecordFields) -> None:
        topic_id_partition = _topic_id_partition(data.topic_id_partition)
        self._partitions[topic_id_partition] = data
        if _PARTITION_STATE.symbol(data.remote_partition_delete_state) == PARTITION_DELETED:
            del self._partitions[topic_id_partition]
            for segment_key in [
                segment_key
                for segment_key in self._segments
                if segment_key[0] == topic_id_partition
            ]:
                del self._segments[segment_key]

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for (_, segment_id), segment_state in self._segments.items():
            custom = segment_state.custom_metadata
            yield (
                REMOTE_SEGMENT_ROW,
                {
                    **segment_state,
                    **_partition_columns(segment_state.remote_log_segment_id.topic_id_partition),
                    "segment_id": segment_id,
                    "state": _SEGMENT_STATE.symbol(segment_state.remote_log_segment_state),
                    "custom_metadata": None
                    if custom is None
                    else base64.b64encode(custom).decode(),
                },
            )
        for partition in self._partitions.values():
            yield (
                REMOTE_PARTITION_ROW,
                {
                    **partition,
                    **_partition_columns(partition.topic_id_partition),
                    "state": _PARTITION_STATE.symbol(partition.remote_partition_delete_state),
                },
            )


def _topic_id_partition(partition: RecordFields) -> TopicIdPartition:
    return partition.id, partition.partition


def _partition_columns(partition: RecordFields) -> RecordFields:
    return RecordFields(topic=partition.name, topic_id=partition.id, partition=partition.partition)


def _segment_key(data: RecordFields) -> tuple[TopicIdPartition, str]:
    """The partition and the segment id that a record refers to."""
    segment = data.remote_log_segment_id
    return _topic_id_partition(segment.topic_id_partition), segment.id
