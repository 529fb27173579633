"""Messages as JSON: names next to numbers, bytes as text, messages inside bytes decoded.

As in the JSON of Kafka's own tools, bytes are base64 and uuids are text. Field names are in
snake_case. A number with a name gets a member `…_name` next to it.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.layout.field import Field, HeldMessage
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import List, Struct
from kfmt_cli.core.layout.tree import Node, tree
from kfmt_cli.core.layout.versions import at_version
from kfmt_cli.core.layout.wire import Buffer, Int16, Value, WireError

Values = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class MessageReading:
    """A message as read."""

    values: Fields
    """The values, by field name."""
    end: int
    """The byte after the values."""
    fault: str | None = None
    """Why and where reading failed; None for a complete message."""


def read_message(layout: Layout, data: Buffer, at: int, end: int) -> MessageReading:
    """Read a message, or as much of it as possible."""
    try:
        values, after = layout.read_values(data, at, end)
    except WireError as error:
        path = "".join(f"{part} › " for part in error.path)
        known = _known(tree(layout, data, at, end))
        assert isinstance(known, Fields)
        return MessageReading(known, error.at, f"byte {error.at}, {path}{error}")
    return MessageReading(values, after)


def _known(node: Node) -> Value:
    """The values read under a node."""
    if node.layout is not None or node.is_tagged:
        known = Fields()
        for child in node.children:
            if child.is_tagged:
                tagged = _known(child)
                assert isinstance(tagged, dict)
                known |= tagged
            elif child.spec is not None and (child.is_whole or child.children):
                known[child.name] = _known(child)
        return known
    if node.is_list:
        return [_known(child) for child in node.children[1:] if child.is_whole or child.children]
    return node.value


def plain(layout: Layout, values: Values, around: Values | None = None) -> Fields:
    """The values of a message for JSON, in the order of its fields.

    around: the values of the enclosing message.
    """
    fields = {field.name: field for field in fields_of(layout)}
    context = {**(around or {}), **values}
    done = Fields()
    for name, value in values.items():
        field = fields.get(name)
        if field is None:  # unknown tagged fields, by tag
            done[name] = plain_value(value)
            continue
        done[name] = _of_field(field, value, context)
        if (symbol := field.symbol(value)) is not None:
            done[f"{name}_name"] = symbol
    return done


def fields_of(layout: Layout) -> list[Field]:
    """The fields of a message version, tagged ones last."""
    return [*layout.fields, *(layout.tagged.known.values() if layout.tagged else ())]


def _of_field(field: Field, value: Value, context: Values) -> Any:
    if isinstance(value, bytes) and field.holds is not None:
        opened = open_held(field.holds, value, context)
        if opened is not None:
            return opened
    return _of_type(field.type, value, context)


def _of_type(type_: object, value: Value, context: Values) -> Any:
    if isinstance(type_, Struct) and isinstance(value, dict):
        return plain(type_.of, value, context)
    if isinstance(type_, List) and isinstance(value, list):
        return [_of_type(type_.of, element, context) for element in value]
    return plain_value(value)


def plain_value(value: Value) -> Any:
    """A value without a Layout, for JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: plain_value(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plain_value(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no number for it
    return value


def self_versioned(message: Layout, data: Buffer, at: int, end: int) -> Layout | None:
    """The Layout of a message that begins with its version; None if that is missing or negative.

    A version newer than all known ones is read as the newest.
    """
    if end - at < Int16.size:
        return None
    version, _ = Int16.read(data, at, end)
    assert message.versions is not None
    return at_version(message, min(version, message.versions[1])) if version >= 0 else None


def held_layout(
    held: HeldMessage, data: Buffer, at: int, end: int, context: Values
) -> Layout | None:
    """The Layout of the message in bytes, after its version; None if unknown.

    A version newer than all known ones is read as the newest, as Kafka's clients do.
    """
    if held.where and context.get(held.where) != held.value:
        return None
    return self_versioned(held.message, data, at, end)


def open_held(held: HeldMessage, data: bytes, context: Values) -> Fields | None:
    """The message in bytes, with its version; None if they are not a valid one."""
    layout = held_layout(held, data, 0, len(data), context)
    if layout is None:
        return None
    reading = read_message(layout, data, Int16.size, len(data))
    if reading.fault is not None:
        return None
    version, _ = Int16.read(data, 0, len(data))
    return Fields(version=version, **plain(layout, reading.values))
