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

OFFSET_SYNC_KEY = Layout(
    "OffsetSyncKey",
    "A mirrored partition.",
    f"{SOURCE}.OffsetSync",
    (
        Field("topic", String, "The topic."),
        Field("partition", Int32, "The partition."),
    ),
    versions=(0, 0),
)
OFFSET_SYNC_VALUE = Layout(
    "OffsetSyncValue",
    "Offsets of the same record in both clusters.",
    f"{SOURCE}.OffsetSync",
    (_UPSTREAM, Field("downstream_offset", Int64, "Offset in the mirror.")),
    versions=(0, 0),
)
CHECKPOINT_KEY = Layout(
    "CheckpointKey",
    "A group and a partition it consumes.",
    f"{SOURCE}.Checkpoint",
    (
        Field("group", String, "The group."),
        Field("topic", String, "The topic name in the mirror."),
        Field("partition", Int32, "The partition."),
    ),
    versions=(0, 0),
)
CHECKPOINT_VALUE = Layout(
    "CheckpointValue",
    "Offsets of the group in both clusters.",
    f"{SOURCE}.Checkpoint",
    (
        _UPSTREAM,
        Field("offset", Int64, "Offset in the mirror where the group can resume."),
        Field("metadata", String, "Metadata string of the commit."),
    ),
    versions=(0, 0),
)
HEARTBEAT_KEY = Layout(
    "HeartbeatKey",
    "A flow from one cluster to another.",
    f"{SOURCE}.Heartbeat",
    (
        Field("source_cluster_alias", String, "Source cluster."),
        Field("target_cluster_alias", String, "Target cluster."),
    ),
    versions=(0, 0),
)
HEARTBEAT_VALUE = Layout(
    "HeartbeatValue",
    "A heartbeat of the flow.",
    f"{SOURCE}.Heartbeat",
    (Field("timestamp", Int64, "When it was sent.", unit=MILLISECONDS),),
    versions=(0, 0),
)


class OneKindDecoder(KeyedDecoder):
    """Decodes a topic with one kind of record, whose keys have no type.

    Any topic may have such a name: if a key is not exactly one message, nothing is decoded.
    has_version: whether its values have a version.
    """

    lacking: ClassVar[dict[str, None]] = {}

    def __init__(self, key: Layout, value: Layout, *, has_version: bool) -> None:
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


OFFSET_SYNC = OneKindDecoder(OFFSET_SYNC_KEY, OFFSET_SYNC_VALUE, has_version=False)
CHECKPOINT = OneKindDecoder(CHECKPOINT_KEY, CHECKPOINT_VALUE, has_version=True)
HEARTBEAT = OneKindDecoder(HEARTBEAT_KEY, HEARTBEAT_VALUE, has_version=True)
