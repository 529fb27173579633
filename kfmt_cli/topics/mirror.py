"""The three topics of MirrorMaker 2: offset syncs, checkpoints, heartbeats (KIP-382, KIP-597).

Source: `org.apache.kafka.connect.mirror.OffsetSync`, `Checkpoint`, `Heartbeat`. Keys have no
header; the values of checkpoints and heartbeats begin with their version.
"""

from __future__ import annotations

from typing import ClassVar

from kfmt_cli.core.layout.field import MS_UNIT, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol_types import String
from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.core.layout.wire_types import Buffer, Int32, Int64, WireError
from kfmt_cli.topics.coordinator_records import KeyedDecoder
from kfmt_cli.topics.decoder import FramedMessage, MessageType

SOURCE_PACKAGE = "org.apache.kafka.connect.mirror"
_UPSTREAM_OFFSET = Field("upstream_offset", Int64, "Offset in the source cluster.")


def _create_record_layout(layout_name: str, doc: str, *fields: Field) -> Layout:
    """The Layout of the key or the value of a record."""
    class_name = layout_name.removesuffix("Key").removesuffix("Value")
    return Layout(layout_name, doc, f"{SOURCE_PACKAGE}.{class_name}", fields, versions=(0, 0))


class SingleMessageDecoder(KeyedDecoder):
    """Decodes a topic with one type of record, whose keys have no type.

    Any topic may have such a name, so a record is decoded only if its key is exactly one message.
    has_version: whether values begin with a version.
    """

    tombstone_values: ClassVar[dict[str, None]] = {}

    def __init__(
        self, key_layout: Layout, value_layout: Layout, *, has_version: bool = True
    ) -> None:
        super().__init__((MessageType(0, value_layout, key_layout),))
        self._key_layout = layout_at_version(key_layout, 0)
        self._has_version = has_version

    def _find_message_type(self, data: Buffer, position: int, end: int) -> MessageType | None:
        return None if self.identify_key(data, position, end) is None else self.message_types[0]

    def identify_key(self, data: Buffer, position: int, end: int) -> FramedMessage | None:
        try:
            _, key_end = self._key_layout.read_values(data, position, end)
        except WireError:
            return None
        return (
            FramedMessage(None, {}, position, self._key_layout.name, self._key_layout)
            if key_end == end
            else None
        )

    def identify_value(
        self, key: bytes | None, data: Buffer, position: int, end: int
    ) -> FramedMessage | None:
        message_type = None if key is None else self._find_message_type(key, 0, len(key))
        if message_type is None:
            return None
        if self._has_version:
            return super().identify_value(key, data, position, end)
        return FramedMessage(
            None,
            {},
            position,
            message_type.value_layout.name,
            layout_at_version(message_type.value_layout, 0),
        )


OFFSET_SYNC_DECODER = SingleMessageDecoder(
    _create_record_layout(
        "OffsetSyncKey",
        "A mirrored partition.",
        Field("topic", String, "The topic."),
        Field("partition", Int32, "The partition."),
    ),
    _create_record_layout(
        "OffsetSyncValue",
        "Offsets of the same record in both clusters.",
        _UPSTREAM_OFFSET,
        Field("downstream_offset", Int64, "Offset in the mirror."),
    ),
    has_version=False,
)
CHECKPOINT_DECODER = SingleMessageDecoder(
    _create_record_layout(
        "CheckpointKey",
        "A group and a partition it consumes.",
        Field("group", String, "The group."),
        Field("topic", String, "The topic name in the mirror."),
        Field("partition", Int32, "The partition."),
    ),
    _create_record_layout(
        "CheckpointValue",
        "Offsets of the group in both clusters.",
        _UPSTREAM_OFFSET,
        Field("offset", Int64, "Offset in the mirror where the group can resume."),
        Field("metadata", String, "Metadata string of the commit."),
    ),
)
HEARTBEAT_DECODER = SingleMessageDecoder(
    _create_record_layout(
        "HeartbeatKey",
        "A flow from one cluster to another.",
        Field("source_cluster_alias", String, "Source cluster."),
        Field("target_cluster_alias", String, "Target cluster."),
    ),
    _create_record_layout(
        "HeartbeatValue",
        "A heartbeat of the flow.",
        Field("timestamp", Int64, "When it was sent.", unit=MS_UNIT),
    ),
)
