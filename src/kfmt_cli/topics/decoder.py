"""What a decoder of a topic is: which message some bytes are, and what it says."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout import Layout
from kfmt_cli.core.messages import fields_of, plain, read_message
from kfmt_cli.core.wire import Buffer, Value

_SUFFIX = re.compile("(Key|Value|Record)$")


@dataclass(frozen=True, slots=True)
class Framed:
    """Which message some bytes are.

    front: what stands before the message, `stated` in it. at: the byte where the message begins.
    name, layout: of the message; None where it is not known, which `note` says.
    """

    front: Layout
    stated: dict[str, Value]
    at: int
    name: str | None = None
    layout: Layout | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """What bytes say. values: for JSON. data: the message's own, as it is stored. fault: why they
    are not what they should be."""

    values: dict[str, Any]
    data: dict[str, Value] | None = None
    fault: str | None = None

    @property
    def name(self) -> str | None:
        """The message, None where it is not known."""
        name = self.values.get("name")
        return name if isinstance(name, str) else None


class Decoder(ABC):
    """Reads the keys and values of the records of one topic.

    An answer says which message it is and what is in it; None where there is nothing to say. Bytes
    that are no whole message are read as far as they are one.
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


def decoded(framed: Framed, shown: dict[str, Value], data: bytes, whole: bool) -> Decoded:
    """What a message says.

    shown: what is told of its front. whole: bytes behind the message are a fault.
    """
    values: dict[str, Any] = {"name": framed.name, **shown, "data": None}
    if framed.layout is None:
        return Decoded(values | {"note": framed.note})
    reading = read_message(framed.layout, data, framed.at, len(data))
    values["data"] = plain(framed.layout, reading.values)
    fault = reading.fault
    if fault is None and whole and reading.end < len(data):
        fault = f"byte {reading.end}: {len(data) - reading.end} bytes are left over"
    if fault is not None:
        values["note"] = fault
    return Decoded(values, reading.values, fault)


def in_words(values: dict[str, Any]) -> str:
    """What a key or a value says, on a line for people."""
    name = values.get("name")
    front = [] if name is None else [_SUFFIX.sub("", name)]
    if values.get("deletes") is not None:
        return f"deletes {values['deletes']}"
    if values.get("data") is not None:
        front.append(_members(values["data"]))
    if values.get("note"):
        front.append(f"({values['note']})")
    return " ".join(it for it in front if it)


def _members(data: dict[str, Any]) -> str:
    named = {name for name in data if f"{name}_name" in data}
    shown = {name: data[f"{name}_name"] if name in named else data[name] for name in data}
    hidden = {f"{name}_name" for name in named}
    return " ".join(f"{name}={_word(it)}" for name, it in shown.items() if name not in hidden)


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{_members(value)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_word, value))}]"
    if isinstance(value, str) and value and value.isprintable() and not set(value) & set(' "{}[]'):
        return value
    return json_text(value)


def words_of(layout: Layout, values: dict[str, Value]) -> str:
    """A message in words: what it is, and its fields."""
    told = ", ".join(
        f"{it.name.replace('_', ' ')} {values[it.name]!s}"
        for it in fields_of(layout)
        if it.name in values
    )
    return f"{layout.doc.rstrip('.')}: {told}"
