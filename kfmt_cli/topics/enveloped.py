"""Topics whose values identify themselves: a frame version, a type, a version.

Source: `org.apache.kafka.server.common.serialization.AbstractApiMessageSerde`. Records have no
keys, and bytes after a message are an error.
"""

from __future__ import annotations

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire import Buffer, UVarint32, WireError
from kfmt_cli.topics.decoder import Decoded, Decoder, Framed
from kfmt_cli.topics.keyed import version_of
from kfmt_cli.topics.saying import decoded

FRAME_VERSION = 1
ENVELOPE = Layout(
    "RecordEnvelope",
    "Header of a record of cluster metadata or remote log metadata.",
    "org.apache.kafka.server.common.serialization.AbstractApiMessageSerde",
    (
        Field("frame_version", UVarint32, "Version of these fields: 1."),
        Field("type", UVarint32, "Type of the record."),
        Field("version", UVarint32, "Version of the record."),
    ),
)


class EnvelopedDecoder(Decoder):
    """Decodes records that state their type. messages: the kinds of records of the topic."""

    def value(self, key: bytes | None, value: bytes | None) -> Decoded | None:
        if value is None:
            return None
        framed = self.framed_value(key, value, 0, len(value))
        shown = {name: framed.stated.get(name) for name in ("type", "version")}
        return decoded(framed, shown, value, whole=True)

    def framed_value(self, key: bytes | None, data: Buffer, at: int, end: int) -> Framed:
        del key
        try:
            stated, after = ENVELOPE.read_values(data, at, end)
        except WireError as error:
            return Framed(ENVELOPE, {}, at, note=f"the value has no type and version: {error}")
        if stated.frame_version != FRAME_VERSION:
            words = (
                f"frame version {stated.frame_version!s} is unknown; only {FRAME_VERSION} is "
                "supported"
            )
            return Framed(ENVELOPE, stated, after, note=words)
        number: object = stated.type
        message = self._by_id.get(number) if isinstance(number, int) else None
        if message is None:
            return Framed(ENVELOPE, stated, after, note=f"records of type {number} are unknown")
        layout, note = version_of(message.value, stated.version)
        return Framed(ENVELOPE, stated, after, message.value.name, layout, note)
