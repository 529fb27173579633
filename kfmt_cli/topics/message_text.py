"""Decodes a message to values for JSON, and formats these as text."""

from __future__ import annotations

import re
from typing import Any

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.messages import message_fields, message_to_json, read_message
from kfmt_cli.core.layout.wire_types import Value, format_trailing_bytes
from kfmt_cli.topics.decoder import DecodedPayload, FramedMessage

_SUFFIX = re.compile("(Key|Value|Record)$")


def decode_message(
    framed_message: FramedMessage,
    header_values: dict[str, Value],
    data: bytes,
    rejects_trailing: bool,
) -> DecodedPayload:
    """Decode a message.

    header_values: the values of its header that are shown. rejects_trailing: whether bytes after
    the message are an error.
    """
    values: dict[str, Any] = {"name": framed_message.name, **header_values, "data": None}
    if framed_message.layout is None:
        return DecodedPayload(values | {"note": framed_message.note})
    message = read_message(framed_message.layout, data, framed_message.body_start, len(data))
    values["data"] = message_to_json(framed_message.layout, message.values)
    error = message.error
    if error is None and rejects_trailing and message.end < len(data):
        error = f"byte {message.end}: {format_trailing_bytes(len(data) - message.end)}"
    if error is not None:
        values["note"] = error
    return DecodedPayload(values, message.values, error)


def format_message(values: dict[str, Any]) -> str:
    """A decoded key or value as one line of text."""
    name = values.get("name")
    parts = [] if name is None else [_SUFFIX.sub("", name)]
    if values.get("deletes") is not None:
        return f"deletes {values['deletes']}"
    if values.get("data") is not None:
        parts.append(_format_members(values["data"]))
    if "value" in values:  # in a declared format
        value = values["value"]
        text = value if isinstance(value, str) else json_text(value)
        parts.append(text.encode("utf-8", "backslashreplace").decode())
    if values.get("note"):
        parts.append(f"({values['note']})")
    return " ".join(part for part in parts if part)


def _format_members(data: dict[str, Any]) -> str:
    named_numbers = {name for name in data if f"{name}_name" in data}
    value_by_name = {
        name: data[f"{name}_name"] if name in named_numbers else data[name] for name in data
    }
    omitted_names = {f"{name}_name" for name in named_numbers}
    return " ".join(
        f"{name}={_format_member(value)}"
        for name, value in value_by_name.items()
        if name not in omitted_names
    )


def _format_member(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{_format_members(value)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_member, value))}]"
    if isinstance(value, str):
        is_unquoted = value and value.isprintable() and not set(value) & set(' "{}[]')
        return value if is_unquoted else f'"{value}"'  # the table escapes it if needed
    return json_text(value)


def describe_message(layout: Layout, values: dict[str, Value]) -> str:
    """A message as text: its description and the values of its fields."""
    fields_text = ", ".join(
        f"{field.name.replace('_', ' ')} {values[field.name]!s}"
        for field in message_fields(layout)
        if field.name in values
    )
    return f"{layout.doc[:1].lower()}{layout.doc[1:].rstrip('.')}: {fields_text}"
