"""The decoded content of a message: as JSON, and as text."""

from __future__ import annotations

import re
from typing import Any

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.messages import fields_of, plain, read_message
from kfmt_cli.core.layout.wire import Value, left_over_words
from kfmt_cli.topics.decoder import Decoded, Framed

_SUFFIX = re.compile("(Key|Value|Record)$")


def decoded(framed: Framed, shown: dict[str, Value], data: bytes, whole: bool) -> Decoded:
    """Decode a message.

    shown: the values shown from its header. whole: whether bytes after the message are a fault.
    """
    values: dict[str, Any] = {"name": framed.name, **shown, "data": None}
    if framed.layout is None:
        return Decoded(values | {"note": framed.note})
    reading = read_message(framed.layout, data, framed.at, len(data))
    values["data"] = plain(framed.layout, reading.values)
    fault = reading.fault
    if fault is None and whole and reading.end < len(data):
        fault = f"byte {reading.end}: {left_over_words(len(data) - reading.end)}"
    if fault is not None:
        values["note"] = fault
    return Decoded(values, reading.values, fault)


def in_words(values: dict[str, Any]) -> str:
    """A decoded key or value as one line of text."""
    name = values.get("name")
    front = [] if name is None else [_SUFFIX.sub("", name)]
    if values.get("deletes") is not None:
        return f"deletes {values['deletes']}"
    if values.get("data") is not None:
        front.append(_members(values["data"]))
    if "value" in values:  # of a declared format
        value = values["value"]
        text = value if isinstance(value, str) else json_text(value)
        front.append(text.encode("utf-8", "backslashreplace").decode())
    if values.get("note"):
        front.append(f"({values['note']})")
    return " ".join(words for words in front if words)


def _members(data: dict[str, Any]) -> str:
    named = {name for name in data if f"{name}_name" in data}
    shown = {name: data[f"{name}_name"] if name in named else data[name] for name in data}
    hidden = {f"{name}_name" for name in named}
    return " ".join(f"{name}={_word(value)}" for name, value in shown.items() if name not in hidden)


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{_members(value)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_word, value))}]"
    if isinstance(value, str):
        plain_word = value and value.isprintable() and not set(value) & set(' "{}[]')
        return value if plain_word else f'"{value}"'  # the table escapes it if needed
    return json_text(value)


def words_of(layout: Layout, values: dict[str, Value]) -> str:
    """A message as text: its description and its fields."""
    told = ", ".join(
        f"{field.name.replace('_', ' ')} {values[field.name]!s}"
        for field in fields_of(layout)
        if field.name in values
    )
    return f"{layout.doc[:1].lower()}{layout.doc[1:].rstrip('.')}: {told}"
