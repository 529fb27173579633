"""The base of topic decoders, which identify a message and decode its content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire_types import Buffer, Value


@dataclass(frozen=True, slots=True)
class MessageType:
    """A kind of record: its number in the topic, and its messages."""

    type_id: int
    value_layout: Layout
    key_layout: Layout | None = None
    """None in a topic whose records have no keys."""


@dataclass(frozen=True, slots=True)
class FramedMessage:
    """The identification of a message in bytes."""

    header_layout: Layout | None
    """The header before the message, with the values in `stated`; None without one."""
    header_values: dict[str, Value]
    body_start: int
    """The byte at which the message begins."""
    name: str | None = None
    """The name of the message; None if unknown, see `note`."""
    layout: Layout | None = None
    """The Layout of the message; None if unknown, see `note`."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class DecodedPayload:
    """The decoded content of bytes."""

    values: dict[str, Any]
    """The values for JSON."""
    data: dict[str, Value] | None = None
    """The message's own values, as stored."""
    error: str | None = None
    """Why the bytes are malformed."""

    @property
    def name(self) -> str | None:
        """The name of the message, None if unknown."""
        name = self.values.get("name")
        return name if isinstance(name, str) else None


class Decoder:
    """Decodes the keys and values of the records of one topic; by itself, nothing.

    The result contains the name and the content of the message; None if there is none. Malformed
    bytes are decoded up to the error. message_types: the kinds of records; none if they are JSON.
    """

    message_types: tuple[MessageType, ...] = ()

    def __init__(self, message_types: tuple[MessageType, ...] = ()) -> None:
        self.message_types = message_types
        self._message_type_by_id = {message.type_id: message for message in message_types}

    def decode_key(self, key: bytes) -> DecodedPayload | None:
        """Decode a key."""
        del key
        return None

    def decode_value(self, key: bytes | None, value: bytes | None) -> DecodedPayload | None:
        """Decode the value of a record with this key; None is a tombstone."""
        del key, value
        return None

    def identify_key(self, data: Buffer, position: int, end: int) -> FramedMessage | None:
        """Identify the message in a key, for output that shows its bytes."""
        del data, position, end
        return None

    def identify_value(
        self, key: bytes | None, data: Buffer, position: int, end: int
    ) -> FramedMessage | None:
        """Identify the message in a value, for output that shows its bytes."""
        del key, data, position, end
        return None


NO_DECODER = Decoder()
"""For output in which every record needs decoded columns."""
