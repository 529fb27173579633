"""The base of topic decoders, which identify a message and decode its content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire import Buffer, Value


@dataclass(frozen=True, slots=True)
class Message:
    """A kind of record: its number in the topic, and its messages."""

    id: int
    value: Layout
    key: Layout | None = None
    """None in a topic whose records have no keys."""


@dataclass(frozen=True, slots=True)
class Framed:
    """The identification of a message in bytes."""

    front: Layout | None
    """The header before the message, with the values in `stated`; None without one."""
    stated: dict[str, Value]
    at: int
    """The byte at which the message begins."""
    name: str | None = None
    """The name of the message; None if unknown, see `note`."""
    layout: Layout | None = None
    """The Layout of the message; None if unknown, see `note`."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """The decoded content of bytes."""

    values: dict[str, Any]
    """The values for JSON."""
    data: dict[str, Value] | None = None
    """The message's own values, as stored."""
    fault: str | None = None
    """Why the bytes are malformed."""

    @property
    def name(self) -> str | None:
        """The name of the message, None if unknown."""
        name = self.values.get("name")
        return name if isinstance(name, str) else None


class Decoder:
    """Decodes the keys and values of the records of one topic; by itself, nothing.

    The result contains the name and the content of the message; None if there is none. Malformed
    bytes are decoded up to the error. messages: the kinds of records; none if they are JSON.
    """

    messages: tuple[Message, ...] = ()

    def __init__(self, messages: tuple[Message, ...] = ()) -> None:
        self.messages = messages
        self._by_id = {message.id: message for message in messages}

    def key(self, key: bytes) -> Decoded | None:
        """Decode a key."""
        del key
        return None

    def value(self, key: bytes | None, value: bytes | None) -> Decoded | None:
        """Decode the value of a record with this key; None is a tombstone."""
        del key, value
        return None

    def framed_key(self, data: Buffer, at: int, end: int) -> Framed | None:
        """Identify the message in a key, for output that shows its bytes."""
        del data, at, end
        return None

    def framed_value(self, key: bytes | None, data: Buffer, at: int, end: int) -> Framed | None:
        """Identify the message in a value, for output that shows its bytes."""
        del key, data, at, end
        return None


NOTHING = Decoder()
"""For output in which every record needs decoded columns."""
