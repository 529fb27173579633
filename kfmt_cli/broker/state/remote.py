"""__remote_log_metadata: the contents of remote storage.

Source: `org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import RecordFields, TopicReplay
from kfmt_cli.formats.kafka_messages import message_layout
from kfmt_cli.log.record_stream import StreamedRecord
from kfmt_cli.rows.types.state_rows import REMOTE_PARTITION_ROW, REMOTE_SEGMENT_ROW, StateType

_SEGMENT_STATE_FIELD = message_layout("RemoteLogSegmentMetadataRecord").field(
    "remote_log_segment_state"
)
_PARTITION_STATE_FIELD = message_layout("RemotePartitionDeleteMetadataRecord").field(
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
        self._segment_by_key: dict[tuple[TopicIdPartition, str], RecordFields] = {}
        self._partition_by_id: dict[TopicIdPartition, RecordFields] = {}

    def apply_record(self, record: StreamedRecord) -> None:
        if record.control_type is not None:
            return
        decoded_value = self.decoder.decode_value(record.key, record.value)
        record_fields = self.extract_fields(record, decoded_value)
        if record_fields is None or decoded_value is None:
            return
        if decoded_value.message_name == "RemoteLogSegmentMetadataRecord":
            self._segment_by_key[_segment_key(record_fields)] = record_fields
        elif decoded_value.message_name == "RemoteLogSegmentMetadataUpdateRecord":
            self._update_segment(_segment_key(record_fields), record_fields)
        elif decoded_value.message_name == "RemotePartitionDeleteMetadataRecord":
            self._apply_partition_deletion(record_fields)

    def _update_segment(
        self, segment_key: tuple[TopicIdPartition, str], update_fields: RecordFields
    ) -> None:
        segment_metadata = self._segment_by_key.get(segment_key)
        if segment_metadata is None:
            return
        segment_metadata.remote_log_segment_state = update_fields.remote_log_segment_state
        segment_metadata.event_timestamp_ms = update_fields.event_timestamp_ms
        if update_fields.custom_metadata is not None:
            segment_metadata.custom_metadata = update_fields.custom_metadata
        if (
            _SEGMENT_STATE_FIELD.find_symbol(update_fields.remote_log_segment_state)
            == SEGMENT_DELETED
        ):
            del self._segment_by_key[segment_key]

    def _apply_partition_deletion(self, deletion_fields: RecordFields) -> None:
        topic_id_partition = _topic_id_partition(deletion_fields.topic_id_partition)
        self._partition_by_id[topic_id_partition] = deletion_fields
        if (
            _PARTITION_STATE_FIELD.find_symbol(deletion_fields.remote_partition_delete_state)
            == PARTITION_DELETED
        ):
            del self._partition_by_id[topic_id_partition]
            for segment_key in [
                segment_key
                for segment_key in self._segment_by_key
                if segment_key[0] == topic_id_partition
            ]:
                del self._segment_by_key[segment_key]

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for (_, segment_id), segment_fields in self._segment_by_key.items():
            custom_metadata = segment_fields.custom_metadata
            yield (
                REMOTE_SEGMENT_ROW,
                {
                    **segment_fields,
                    **_partition_columns(segment_fields.remote_log_segment_id.topic_id_partition),
                    "segment_id": segment_id,
                    "state": _SEGMENT_STATE_FIELD.find_symbol(
                        segment_fields.remote_log_segment_state
                    ),
                    "custom_metadata": None
                    if custom_metadata is None
                    else base64.b64encode(custom_metadata).decode(),
                },
            )
        for partition_fields in self._partition_by_id.values():
            yield (
                REMOTE_PARTITION_ROW,
                {
                    **partition_fields,
                    **_partition_columns(partition_fields.topic_id_partition),
                    "state": _PARTITION_STATE_FIELD.find_symbol(
                        partition_fields.remote_partition_delete_state
                    ),
                },
            )


def _topic_id_partition(partition_fields: RecordFields) -> TopicIdPartition:
    return partition_fields.id, partition_fields.partition


def _partition_columns(partition_fields: RecordFields) -> RecordFields:
    return RecordFields(
        topic=partition_fields.name,
        topic_id=partition_fields.id,
        partition=partition_fields.partition,
    )


def _segment_key(record_fields: RecordFields) -> tuple[TopicIdPartition, str]:
    """The partition and the segment id that a record refers to."""
    segment_id_fields = record_fields.remote_log_segment_id
    return _topic_id_partition(segment_id_fields.topic_id_partition), segment_id_fields.id
