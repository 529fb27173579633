"""__remote_log_metadata: the contents of remote storage.

Source: `org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import Data, Replay
from kfmt_cli.formats.kafka_messages import message
from kfmt_cli.log.stream import Record
from kfmt_cli.rows.types.state_types import REMOTE_PARTITION, REMOTE_SEGMENT, StateType

_SEGMENT_STATE = message("RemoteLogSegmentMetadataRecord").field("remote_log_segment_state")
_PARTITION_STATE = message("RemotePartitionDeleteMetadataRecord").field(
    "remote_partition_delete_state"
)
DELETED = "DELETE_SEGMENT_FINISHED"
PARTITION_DELETED = "DELETE_PARTITION_FINISHED"
Place = tuple[str, int]  # topic id, partition


class Remote(Replay):
    """The segments in remote storage and their states, without deleted ones."""

    topic = "__remote_log_metadata"
    types = (REMOTE_SEGMENT, REMOTE_PARTITION)

    def __init__(self) -> None:
        super().__init__()
        self._segments: dict[tuple[Place, str], Data] = {}
        self._partitions: dict[Place, Data] = {}

    def take(self, record: Record) -> None:
        if record.control is not None:
            return
        said = self.decoder.value(record.key, record.value)
        data = self.understood(record, said)
        if data is None or said is None:
            return
        if said.name == "RemoteLogSegmentMetadataRecord":
            self._segments[_id_of(data)] = data
        elif said.name == "RemoteLogSegmentMetadataUpdateRecord":
            self._update(_id_of(data), data)
        elif said.name == "RemotePartitionDeleteMetadataRecord":
            self._delete(data)

    def _update(self, segment: tuple[Place, str], data: Data) -> None:
        known = self._segments.get(segment)
        if known is None:
            return
        known.remote_log_segment_state = data.remote_log_segment_state
        known.event_timestamp_ms = data.event_timestamp_ms
        if data.custom_metadata is not None:
            known.custom_metadata = data.custom_metadata
        if _SEGMENT_STATE.symbol(data.remote_log_segment_state) == DELETED:
            del self._segments[segment]

    def _delete(self, data: Data) -> None:
        place = _place(data.topic_id_partition)
        self._partitions[place] = data
        if _PARTITION_STATE.symbol(data.remote_partition_delete_state) == PARTITION_DELETED:
            del self._partitions[place]
            for segment in [segment for segment in self._segments if segment[0] == place]:
                del self._segments[segment]

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for (_, segment), segment_state in self._segments.items():
            custom = segment_state.custom_metadata
            yield (
                REMOTE_SEGMENT,
                {
                    **segment_state,
                    **_names(segment_state.remote_log_segment_id.topic_id_partition),
                    "segment_id": segment,
                    "state": _SEGMENT_STATE.symbol(segment_state.remote_log_segment_state),
                    "custom_metadata": None
                    if custom is None
                    else base64.b64encode(custom).decode(),
                },
            )
        for partition in self._partitions.values():
            yield (
                REMOTE_PARTITION,
                {
                    **partition,
                    **_names(partition.topic_id_partition),
                    "state": _PARTITION_STATE.symbol(partition.remote_partition_delete_state),
                },
            )


def _place(partition: Data) -> Place:
    return partition.id, partition.partition


def _names(partition: Data) -> Data:
    return Data(topic=partition.name, topic_id=partition.id, partition=partition.partition)


def _id_of(data: Data) -> tuple[Place, str]:
    """The partition and the segment id that a record refers to."""
    segment = data.remote_log_segment_id
    return _place(segment.topic_id_partition), segment.id
