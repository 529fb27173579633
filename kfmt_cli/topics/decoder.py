"""The base class of topic decoders, which identify messages and decode their content."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire_types import Buffer, Value


@dataclass(frozen=True, slots=True)
class MessageType:
    """A type of record: its id in the topic, and the Layouts of its key and value."""

    type_id: int
    value_layout: Layout
    key_layout: Layout | None = None
    """None in a topic whose records have no keys."""


@dataclass(frozen=True, slots=True)
class FramedMessage:
    """The identification of a message in bytes."""

    header_layout: Layout | None
    """The header before the message, whose values are `header_values`; None without one."""
    header_values: dict[str, Value]
    body_start: int
    """The position of the message after its header."""
    message_name: str | None = None
    """The name of the message; None if unknown, see `note`."""
    message_layout: Layout | None = None
    """The Layout of the message; None if unknown, see `note`."""
    note: str | None = None
    """Why the name, the Layout or the version is unknown."""


@dataclass(frozen=True, slots=True)
class DecodedPayload:
    """The decoded content of a key or value."""

    json_values: dict[str, Any]
    """The values for JSON."""
    stored_values: dict[str, Value] | None = None
    """The values of the message itself, as stored."""
    error: str | None = None
    """Why the bytes are malformed."""
    has_symbols: bool = False
    """Whether a JSON value NAME_name is the symbol of the number NAME, as with Layouts."""

    @property
    def message_name(self) -> str | None:
        """The name of the message; None if unknown."""
        message_name = self.json_values.get("name")
        return message_name if isinstance(message_name, str) else None


class Decoder:
    """Decodes the keys and values of the records of one topic; the base class decodes nothing.

    Results are None for keys and values without a message. Malformed bytes are decoded up to the
    error. message_types: the types of the records; empty if they are JSON.
    """

    message_types: tuple[MessageType, ...] = ()

    def __init__(self, message_types: tuple[MessageType, ...] = ()) -> None:
        self.message_types = message_types
        self._message_type_by_id = {
            message_type.type_id: message_type for message_type in message_types
        }

    def logical_key(self, key: bytes) -> Hashable:
        """The form of a key that the topic's program compares; by default, its bytes."""
        return key

    def decode_key(self, key: bytes) -> DecodedPayload | None:
        """Decode a key."""
        del key
        return None

    def decode_value(self, key: bytes | None, value: bytes | None) -> DecodedPayload | None:
        """Decode the value of a record with this key; the value of a tombstone is None."""
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
"""For output that has columns for decoded values even without a decoder."""
