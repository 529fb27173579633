"""Topics whose values identify themselves, with a frame version, a type and a version.

Source: `org.apache.kafka.server.common.serialization.AbstractApiMessageSerde`. Records have no
keys, and bytes after a message are an error.
"""

from __future__ import annotations

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire_types import Buffer, UVarint32, WireError
from kfmt_cli.topics.coordinator_records import find_version_layout
from kfmt_cli.topics.decoder import DecodedPayload, Decoder, FramedMessage
from kfmt_cli.topics.message_text import decode_message

FRAME_VERSION = 1
RECORD_ENVELOPE = Layout(
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
    """Decodes values that begin with their type. message_types: the types of the records."""

    def decode_value(self, key: bytes | None, value: bytes | None) -> DecodedPayload | None:
        if value is None:
            return None
        framed_message = self.identify_value(key, value, 0, len(value))
        header_values = {
            field_name: framed_message.header_values.get(field_name)
            for field_name in ("type", "version")
        }
        return decode_message(framed_message, header_values, value, rejects_trailing=True)

    def identify_value(
        self, key: bytes | None, data: Buffer, position: int, end: int
    ) -> FramedMessage:
        del key
        try:
            header_values, body_start = RECORD_ENVELOPE.read_values(data, position, end)
        except WireError as error:
            return FramedMessage(
                RECORD_ENVELOPE,
                {},
                position,
                note=f"the value has no type and version: {error}",
            )
        if header_values.frame_version != FRAME_VERSION:
            version_note = (
                f"frame version {header_values.frame_version!s} is unknown; only {FRAME_VERSION} "
                "is supported"
            )
            return FramedMessage(RECORD_ENVELOPE, header_values, body_start, note=version_note)
        type_id: object = header_values.type
        message_type = self._message_type_by_id.get(type_id) if isinstance(type_id, int) else None
        if message_type is None:
            return FramedMessage(
                RECORD_ENVELOPE,
                header_values,
                body_start,
                note=f"records of type {type_id} are unknown",
            )
        version_layout, layout_note = find_version_layout(
            message_type.value_layout, header_values.version
        )
        return FramedMessage(
            RECORD_ENVELOPE,
            header_values,
            body_start,
            message_type.value_layout.name,
            version_layout,
            layout_note,
        )
