"""Topics whose keys identify a record: a type before the key, a version before the value.

Source: `org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde`. Bytes after a message
are ignored, as brokers do.
"""

from __future__ import annotations

from typing import ClassVar

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.versions import at_version
from kfmt_cli.core.layout.wire import Buffer, Int16, WireError
from kfmt_cli.topics.decoder import Decoded, Decoder, Framed, Message
from kfmt_cli.topics.saying import decoded, words_of

SOURCE = "org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde"
KEY_FRONT = Layout(
    "RecordType",
    "Header of the key of a coordinator record.",
    SOURCE,
    (Field("type", Int16, "Type of the record."),),
)
VALUE_FRONT = Layout(
    "RecordVersion",
    "Header of the value of a coordinator record.",
    SOURCE,
    (Field("version", Int16, "Version of the value."),),
)


class KeyedDecoder(Decoder):
    """Decodes the records of a coordinator. messages: the kinds of records of its topic."""

    lacking: ClassVar[dict[str, None]] = {"version": None}
    """What a tombstone has besides the name and the key."""

    def key(self, key: bytes) -> Decoded | None:
        framed = self.framed_key(key, 0, len(key))
        return None if framed is None else decoded(framed, framed.stated, key, whole=False)

    def value(self, key: bytes | None, value: bytes | None) -> Decoded | None:
        message = None if key is None else self._message(key, 0, len(key))
        if value is None:
            return None if message is None or key is None else self._tombstone(message, key)
        framed = self.framed_value(key, value, 0, len(value))
        return None if framed is None else decoded(framed, framed.stated, value, whole=False)

    def _tombstone(self, message: Message, key: bytes) -> Decoded | None:
        said = self.key(key)
        assert said is not None
        assert message.key is not None
        values = {"name": message.value.name, **self.lacking, "data": None}
        return Decoded(values | {"deletes": words_of(message.key, said.data or {})})

    def _message(self, data: Buffer, at: int, end: int) -> Message | None:
        """The kind of a record with this key, None if unknown."""
        try:
            number, _ = Int16.read(data, at, end)
        except WireError:
            return None
        return self._by_id.get(number)

    def framed_key(self, data: Buffer, at: int, end: int) -> Framed | None:
        try:
            stated, after = KEY_FRONT.read_values(data, at, end)
        except WireError as error:
            return Framed(KEY_FRONT, {"type": None}, at, note=f"the key has no type: {error}")
        message = self._message(data, at, end)
        if message is None or message.key is None:
            words = f"records of type {stated.type!s} are unknown"
            return Framed(KEY_FRONT, stated, after, note=words)
        layout = at_version(message.key, 0)
        return Framed(KEY_FRONT, stated, after, message.key.name, layout)

    def framed_value(self, key: bytes | None, data: Buffer, at: int, end: int) -> Framed | None:
        message = None if key is None else self._message(key, 0, len(key))
        name = None if message is None else message.value.name
        try:
            stated, after = VALUE_FRONT.read_values(data, at, end)
        except WireError as error:
            words = f"the value has no version: {error}"
            return Framed(VALUE_FRONT, {"version": None}, at, name, note=words)
        if message is None:
            note = "the value cannot be decoded without the key's type"
            return Framed(VALUE_FRONT, stated, after, note=note)
        layout, note = version_of(message.value, stated.version)
        return Framed(VALUE_FRONT, stated, after, name, layout, note)


def version_of(message: Layout, version: object) -> tuple[Layout | None, str]:
    """The Layout of a message's version and an empty text, or None and the reason."""
    assert isinstance(version, int)
    assert message.versions is not None
    first, last = message.versions
    if first <= version <= last:
        return at_version(message, version), ""
    return None, f"version {version} is unknown; only {first} to {last} are supported"
