"""Decodes a message to values for JSON, and formats these as text."""

from __future__ import annotations

import re
from typing import Any

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.messages import message_fields, message_to_json, read_message
from kfmt_cli.core.layout.wire_types import Value, format_trailing_bytes
from kfmt_cli.topics.decoder import DecodedPayload, FramedMessage

_MESSAGE_NAME_SUFFIX = re.compile("(Key|Value|Record)$")


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
    json_values: dict[str, Any] = {
        "name": framed_message.message_name,
        **header_values,
        "data": None,
    }
    if framed_message.message_layout is None:
        return DecodedPayload(json_values | {"note": framed_message.note})
    read_result = read_message(
        framed_message.message_layout, data, framed_message.body_start, len(data)
    )
    json_values["data"] = message_to_json(framed_message.message_layout, read_result.values)
    error = read_result.error
    if error is None and rejects_trailing and read_result.end_position < len(data):
        error = (
            f"byte {read_result.end_position}: "
            f"{format_trailing_bytes(len(data) - read_result.end_position)}"
        )
    if framed_message.note:
        if error is not None:  # a later version that the newest known one cannot be read for
            return DecodedPayload(json_values | {"data": None, "note": framed_message.note})
        json_values["note"] = f"{framed_message.note}; read as the newest known"
    if error is not None:
        json_values["note"] = error
    return DecodedPayload(json_values, read_result.values, error, has_symbols=True)


def format_message(payload: DecodedPayload) -> str:
    """A decoded key or value as one line of text."""
    json_values = payload.json_values
    message_name = json_values.get("name")
    text_parts = [] if message_name is None else [_MESSAGE_NAME_SUFFIX.sub("", message_name)]
    if json_values.get("deletes") is not None:
        return f"deletes {json_values['deletes']}"
    if json_values.get("data") is not None:
        text_parts.append(_format_members(json_values["data"], payload.has_symbols))
    if "value" in json_values:  # in a declared format
        declared_value = json_values["value"]
        value_text = (
            declared_value if isinstance(declared_value, str) else json_text(declared_value)
        )
        text_parts.append(value_text.encode("utf-8", "backslashreplace").decode())
    if json_values.get("note"):
        text_parts.append(f"({json_values['note']})")
    return " ".join(text_part for text_part in text_parts if text_part)


def _format_members(member_by_name: dict[str, Any], has_symbols: bool) -> str:
    """Members as text. has_symbols: a member NAME_name is the symbol of the number NAME, shown in
    its place."""
    numbers_with_names = {
        name for name in member_by_name if has_symbols and f"{name}_name" in member_by_name
    }
    value_by_name = {
        name: member_by_name[f"{name}_name"] if name in numbers_with_names else member_by_name[name]
        for name in member_by_name
    }
    omitted_names = {f"{name}_name" for name in numbers_with_names}
    return " ".join(
        f"{name}={_format_member(value, has_symbols)}"
        for name, value in value_by_name.items()
        if name not in omitted_names
    )


def _format_member(member: Any, has_symbols: bool) -> str:
    if isinstance(member, dict):
        return f"{{{_format_members(member, has_symbols)}}}"
    if isinstance(member, list):
        return f"[{', '.join(_format_member(element, has_symbols) for element in member)}]"
    if isinstance(member, str):
        if member and member.isprintable() and not set(member) & set(' "{}[]'):
            return member
        if '"' in member:
            member = member.replace("\\", r"\\").replace('"', r"\"")
        return f'"{member}"'  # the table escapes other characters if needed
    return json_text(member)


def describe_message(layout: Layout, field_values: dict[str, Value]) -> str:
    """A message as text: its description and the values of its fields."""
    fields_text = ", ".join(
        f"{field.name.replace('_', ' ')} {field_values[field.name]!s}"
        for field in message_fields(layout)
        if field.name in field_values
    )
    return f"{layout.doc[:1].lower()}{layout.doc[1:].rstrip('.')}: {fields_text}"
