"""What a decoder of a topic is: which message some bytes are, and what it says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire import Buffer, Value


@dataclass(frozen=True, slots=True)
class Message:
    """A kind of record: the number that its topic has for it, and its messages."""

    id: int
    value: Layout
    key: Layout | None = None
    """None in a topic whose records have no keys."""


@dataclass(frozen=True, slots=True)
class Framed:
    """Which message some bytes are."""

    front: Layout | None
    """What comes before the message, `stated` in it; None where nothing does."""
    stated: dict[str, Value]
    at: int
    """The byte where the message begins."""
    name: str | None = None
    """The name of the message; None where it is not known, which `note` says."""
    layout: Layout | None = None
    """The Layout of the message; None where it is not known, which `note` says."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """What bytes say."""

    values: dict[str, Any]
    """The values for JSON."""
    data: dict[str, Value] | None = None
    """The message's own, as it is stored."""
    fault: str | None = None
    """Why they are not what they should be."""

    @property
    def name(self) -> str | None:
        """The message, None where it is not known."""
        name = self.values.get("name")
        return name if isinstance(name, str) else None


class Decoder(ABC):
    """Reads the keys and values of the records of one topic.

    An answer says which message it is and what is in it; None where there is nothing to say. Bytes
    that are no whole message are read up to where they stop being one.
    """

    @abstractmethod
    def key(self, key: bytes) -> Decoded | None:
        """What a key says."""

    @abstractmethod
    def value(self, key: bytes | None, value: bytes | None) -> Decoded | None:
        """What the value of a record with that key says; None is a tombstone."""

    def framed_key(self, data: Buffer, at: int, end: int) -> Framed | None:
        """Which message a key is, for output that shows its bytes."""
        del data, at, end
        return None

    def framed_value(self, key: bytes | None, data: Buffer, at: int, end: int) -> Framed | None:
        """Which message a value is, for output that shows its bytes."""
        del key, data, at, end
        return None


class _Nothing(Decoder):
    """Decodes nothing, for where every record is to have a place for what is decoded."""

    def key(self, key: bytes) -> Decoded | None:
        del key
        return None

    def value(self, key: bytes | None, value: bytes | None) -> Decoded | None:
        del key, value
        return None


NOTHING: Decoder = _Nothing()
