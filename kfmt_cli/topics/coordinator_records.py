"""Topics whose keys identify a record: a type precedes the key, a version the value.

Source: `org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde`. Bytes after a message
are ignored, as brokers do.
"""

from __future__ import annotations

from typing import ClassVar

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.core.layout.wire_types import Buffer, Int16, WireError
from kfmt_cli.topics.decoder import DecodedPayload, Decoder, FramedMessage, MessageType
from kfmt_cli.topics.message_text import decode_message, describe_message

SOURCE_CLASS = "org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde"
KEY_HEADER_LAYOUT = Layout(
    "RecordType",
    "Header of the key of a coordinator record.",
    SOURCE_CLASS,
    (Field("type", Int16, "Type of the record."),),
)
VALUE_HEADER_LAYOUT = Layout(
    "RecordVersion",
    "Header of the value of a coordinator record.",
    SOURCE_CLASS,
    (Field("version", Int16, "Version of the value."),),
)


class KeyedDecoder(Decoder):
    """Decodes the records of a coordinator. message_types: the types of its topic's records."""

    tombstone_values: ClassVar[dict[str, None]] = {"version": None}
    """The members of a decoded tombstone besides `name`, `data` and `deletes`."""

    def decode_key(self, key: bytes) -> DecodedPayload | None:
        framed_message = self.identify_key(key, 0, len(key))
        return (
            None
            if framed_message is None
            else decode_message(
                framed_message, framed_message.header_values, key, rejects_trailing=False
            )
        )

    def decode_value(self, key: bytes | None, value: bytes | None) -> DecodedPayload | None:
        message_type = None if key is None else self._find_message_type(key, 0, len(key))
        if value is None:
            return (
                None
                if message_type is None or key is None
                else self._decode_tombstone(message_type, key)
            )
        framed_message = self.identify_value(key, value, 0, len(value))
        return (
            None
            if framed_message is None
            else decode_message(
                framed_message, framed_message.header_values, value, rejects_trailing=False
            )
        )

    def _decode_tombstone(self, message_type: MessageType, key: bytes) -> DecodedPayload | None:
        decoded_key = self.decode_key(key)
        assert decoded_key is not None
        assert message_type.key_layout is not None
        json_values = {
            "name": message_type.value_layout.name,
            **self.tombstone_values,
            "data": None,
        }
        return DecodedPayload(
            json_values
            | {
                "deletes": describe_message(
                    message_type.key_layout, decoded_key.stored_values or {}
                )
            }
        )

    def _find_message_type(self, data: Buffer, position: int, end: int) -> MessageType | None:
        """The type of a record with this key; None if unknown."""
        try:
            type_id, _ = Int16.read(data, position, end)
        except WireError:
            return None
        return self._message_type_by_id.get(type_id)

    def identify_key(self, data: Buffer, position: int, end: int) -> FramedMessage | None:
        try:
            header_values, body_start = KEY_HEADER_LAYOUT.read_values(data, position, end)
        except WireError as error:
            return FramedMessage(
                KEY_HEADER_LAYOUT,
                {"type": None},
                position,
                note=f"the key has no type: {error}",
            )
        message_type = self._find_message_type(data, position, end)
        if message_type is None or message_type.key_layout is None:
            type_note = f"records of type {header_values.type!s} are unknown"
            return FramedMessage(KEY_HEADER_LAYOUT, header_values, body_start, note=type_note)
        layout = layout_at_version(message_type.key_layout, 0)
        return FramedMessage(
            KEY_HEADER_LAYOUT, header_values, body_start, message_type.key_layout.name, layout
        )

    def identify_value(
        self, key: bytes | None, data: Buffer, position: int, end: int
    ) -> FramedMessage | None:
        message_type = None if key is None else self._find_message_type(key, 0, len(key))
        message_name = None if message_type is None else message_type.value_layout.name
        try:
            header_values, body_start = VALUE_HEADER_LAYOUT.read_values(data, position, end)
        except WireError as error:
            version_note = f"the value has no version: {error}"
            return FramedMessage(
                VALUE_HEADER_LAYOUT,
                {"version": None},
                position,
                message_name,
                note=version_note,
            )
        if message_type is None:
            layout_note = "the value cannot be decoded without the key's type"
            return FramedMessage(VALUE_HEADER_LAYOUT, header_values, body_start, note=layout_note)
        version_layout, layout_note = find_version_layout(
            message_type.value_layout, header_values.version
        )
        return FramedMessage(
            VALUE_HEADER_LAYOUT,
            header_values,
            body_start,
            message_name,
            version_layout,
            layout_note,
        )


def find_version_layout(message_layout: Layout, version: object) -> tuple[Layout | None, str]:
    """The Layout of a message's version and an empty note; or None and a note that gives the
    reason.

    A later version of a flexible message has the newest known Layout, and a note: most versions
    only add tagged fields.
    """
    assert isinstance(version, int)
    assert message_layout.versions is not None
    first_version, last_version = message_layout.versions
    if first_version <= version <= last_version:
        return layout_at_version(message_layout, version), ""
    if version > last_version and message_layout.flexible_since is not None:
        return (
            layout_at_version(message_layout, last_version),
            f"version {version} is unknown",
        )
    return (
        None,
        f"version {version} is unknown; only {first_version} to {last_version} are supported",
    )
