"""The three topics of MirrorMaker 2: offset syncs, checkpoints, heartbeats (KIP-382, KIP-597).

Source: `org.apache.kafka.connect.mirror.OffsetSync`, `Checkpoint`, `Heartbeat`. Keys have no
header; the values of checkpoints and heartbeats begin with their version.
"""

from __future__ import annotations

from typing import ClassVar

from kfmt_cli.core.layout.field import MILLISECONDS, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import String
from kfmt_cli.core.layout.versions import at_version
from kfmt_cli.core.layout.wire import Buffer, Int32, Int64, WireError
from kfmt_cli.topics.decoder import Framed, Message
from kfmt_cli.topics.keyed import KeyedDecoder

SOURCE = "org.apache.kafka.connect.mirror"
_UPSTREAM = Field("upstream_offset", Int64, "Offset in the source cluster.")


def _layout(name: str, doc: str, *fields: Field) -> Layout:
    """The key or the value of a record."""
    written_by = name.removesuffix("Key").removesuffix("Value")
    return Layout(name, doc, f"{SOURCE}.{written_by}", fields, versions=(0, 0))


class OneKindDecoder(KeyedDecoder):
    """Decodes a topic with one kind of record, whose keys have no type.

    Any topic may have such a name: if a key is not exactly one message, nothing is decoded.
    has_version: whether its values have a version.
    """

    lacking: ClassVar[dict[str, None]] = {}

    def __init__(self, key: Layout, value: Layout, *, has_version: bool = True) -> None:
        super().__init__((Message(0, value, key),))
        self._key = at_version(key, 0)
        self._has_version = has_version

    def _message(self, data: Buffer, at: int, end: int) -> Message | None:
        return None if self.framed_key(data, at, end) is None else self.messages[0]

    def framed_key(self, data: Buffer, at: int, end: int) -> Framed | None:
        try:
            _, after = self._key.read_values(data, at, end)
        except WireError:
            return None
        return Framed(None, {}, at, self._key.name, self._key) if after == end else None

    def framed_value(self, key: bytes | None, data: Buffer, at: int, end: int) -> Framed | None:
        message = None if key is None else self._message(key, 0, len(key))
        if message is None:
            return None
        if self._has_version:
            return super().framed_value(key, data, at, end)
        return Framed(None, {}, at, message.value.name, at_version(message.value, 0))


OFFSET_SYNC = OneKindDecoder(
    _layout(
        "OffsetSyncKey",
        "A mirrored partition.",
        Field("topic", String, "The topic."),
        Field("partition", Int32, "The partition."),
    ),
    _layout(
        "OffsetSyncValue",
        "Offsets of the same record in both clusters.",
        _UPSTREAM,
        Field("downstream_offset", Int64, "Offset in the mirror."),
    ),
    has_version=False,
)
CHECKPOINT = OneKindDecoder(
    _layout(
        "CheckpointKey",
        "A group and a partition it consumes.",
        Field("group", String, "The group."),
        Field("topic", String, "The topic name in the mirror."),
        Field("partition", Int32, "The partition."),
    ),
    _layout(
        "CheckpointValue",
        "Offsets of the group in both clusters.",
        _UPSTREAM,
        Field("offset", Int64, "Offset in the mirror where the group can resume."),
        Field("metadata", String, "Metadata string of the commit."),
    ),
)
HEARTBEAT = OneKindDecoder(
    _layout(
        "HeartbeatKey",
        "A flow from one cluster to another.",
        Field("source_cluster_alias", String, "Source cluster."),
        Field("target_cluster_alias", String, "Target cluster."),
    ),
    _layout(
        "HeartbeatValue",
        "A heartbeat of the flow.",
        Field("timestamp", Int64, "When it was sent.", unit=MILLISECONDS),
    ),
)
