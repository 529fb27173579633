"""The three topics of MirrorMaker 2: offset syncs, checkpoints, heartbeats (KIP-382, KIP-597).

Source: `org.apache.kafka.connect.mirror.OffsetSync`, `Checkpoint`, `Heartbeat`. Keys have no
header; the values of checkpoints and heartbeats begin with their version.
"""

from __future__ import annotations

from kfmt_cli.core.layout.field import MILLISECONDS, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import String
from kfmt_cli.core.layout.versions import at_version
from kfmt_cli.core.layout.wire import Buffer, Int32, Int64, WireError
from kfmt_cli.topics.decoder import Decoded, Decoder, Framed, Message
from kfmt_cli.topics.keyed import VALUE_FRONT, version_of
from kfmt_cli.topics.saying import decoded, words_of

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
OFFSET_SYNCS = (Message(0, OFFSET_SYNC_VALUE, OFFSET_SYNC_KEY),)
CHECKPOINTS = (Message(0, CHECKPOINT_VALUE, CHECKPOINT_KEY),)
HEARTBEATS = (Message(0, HEARTBEAT_VALUE, HEARTBEAT_KEY),)


class OneKindDecoder(Decoder):
    """Decodes a topic with one kind of record. has_version: whether its values have a version.

    Any topic may have such a name: if a key is not exactly one message, nothing is decoded.
    """

    def __init__(self, message: Message, has_version: bool) -> None:
        assert message.key is not None
        self._key = at_version(message.key, 0)
        self._message = message
        self._has_version = has_version

    def key(self, key: bytes) -> Decoded | None:
        framed = self.framed_key(key, 0, len(key))
        return None if framed is None else decoded(framed, {}, key, whole=True)

    def value(self, key: bytes | None, value: bytes | None) -> Decoded | None:
        said = None if key is None else self.key(key)
        if said is None:
            return None
        if value is None:
            values = {"name": self._message.value.name, "data": None}
            return Decoded(values | {"deletes": words_of(self._key, said.data or {})})
        framed = self.framed_value(key, value, 0, len(value))
        return None if framed is None else decoded(framed, framed.stated, value, whole=False)

    def framed_key(self, data: Buffer, at: int, end: int) -> Framed | None:
        try:
            _, after = self._key.read_values(data, at, end)
        except WireError:
            return None
        return Framed(None, {}, at, self._key.name, self._key) if after == end else None

    def framed_value(self, key: bytes | None, data: Buffer, at: int, end: int) -> Framed | None:
        if key is None or self.framed_key(key, 0, len(key)) is None:
            return None
        message = self._message.value
        if not self._has_version:
            return Framed(None, {}, at, message.name, at_version(message, 0))
        try:
            stated, after = VALUE_FRONT.read_values(data, at, end)
        except WireError as error:
            words = f"the value has no version: {error}"
            return Framed(VALUE_FRONT, {"version": None}, at, message.name, note=words)
        layout, note = version_of(message, stated.version)
        return Framed(VALUE_FRONT, stated, after, message.name, layout, note)


OFFSET_SYNC = OneKindDecoder(OFFSET_SYNCS[0], has_version=False)
CHECKPOINT = OneKindDecoder(CHECKPOINTS[0], has_version=True)
HEARTBEAT = OneKindDecoder(HEARTBEATS[0], has_version=True)
