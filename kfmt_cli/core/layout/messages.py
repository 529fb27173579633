"""Messages as JSON: with names for numbers, bytes as text, and messages in bytes decoded.

As in the JSON of Kafka's own tools, bytes are base64 and uuids are text. Field names are in
snake_case. A number with a name is followed by a member `…_name`.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.layout.field import EmbeddedMessage, Field
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol_types import ListWireType, StructWireType
from kfmt_cli.core.layout.tree import FieldNode, read_field_tree
from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.core.layout.wire_types import Buffer, Int16, Value, WireError

MessageValues = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class DecodedMessage:
    """A message, complete or up to an error."""

    values: FieldDict
    """The values by field name."""
    end_position: int
    """The byte after the values."""
    error: str | None = None
    """Why and where reading failed; None for a complete message."""


def read_message(layout: Layout, data: Buffer, position: int, end: int) -> DecodedMessage:
    """Read a message, or its fields before an error."""
    try:
        values, values_end = layout.read_values(data, position, end)
    except WireError as error:
        path_text = "".join(f"{name} › " for name in error.field_path)
        partial_values = _node_values(read_field_tree(layout, data, position, end))
        assert isinstance(partial_values, FieldDict)
        return DecodedMessage(
            partial_values, error.position, f"byte {error.position}, {path_text}{error}"
        )
    return DecodedMessage(values, values_end)


def _node_values(node: FieldNode) -> Value:
    """The values that were read under a node."""
    if node.layout is not None or node.is_tagged:
        value_by_name = FieldDict()
        for child in node.children:
            if child.is_tagged:
                tagged_values = _node_values(child)
                assert isinstance(tagged_values, dict)
                value_by_name |= tagged_values
            elif child.definition is not None and (child.is_complete or child.children):
                value_by_name[child.name] = _node_values(child)
        return value_by_name
    if node.is_list:
        return [
            _node_values(child)
            for child in node.children[1:]
            if child.is_complete or child.children
        ]
    return node.value


def message_to_json(
    layout: Layout, values: MessageValues, enclosing_values: MessageValues | None = None
) -> FieldDict:
    """The values of a message for JSON, in the order of its fields.

    enclosing_values: the values of the enclosing message.
    """
    field_by_name = {field.name: field for field in message_fields(layout)}
    context_values = {**(enclosing_values or {}), **values}
    json_members = FieldDict()
    for name, value in values.items():
        field = field_by_name.get(name)
        if field is None:  # unknown tagged fields, by tag
            json_members[name] = to_json_value(value)
            continue
        json_members[name] = _field_to_json(field, value, context_values)
        if (symbol := field.find_symbol(value)) is not None:
            json_members[f"{name}_name"] = symbol
    return json_members


def message_fields(layout: Layout) -> list[Field]:
    """The fields of a message version; tagged fields come last."""
    return [
        *layout.fields,
        *(layout.tagged_fields.field_by_tag.values() if layout.tagged_fields else ()),
    ]


def _field_to_json(field: Field, value: Value, context_values: MessageValues) -> Any:
    if isinstance(value, bytes) and field.embedded_message is not None:
        embedded_values = read_embedded_message(field.embedded_message, value, context_values)
        if embedded_values is not None:
            return embedded_values
    return _typed_value_to_json(field.type, value, context_values)


def _typed_value_to_json(type_: object, value: Value, context_values: MessageValues) -> Any:
    if isinstance(type_, StructWireType) and isinstance(value, dict):
        return message_to_json(type_.layout, value, context_values)
    if isinstance(type_, ListWireType) and isinstance(value, list):
        return [
            _typed_value_to_json(type_.element_type, element, context_values) for element in value
        ]
    return to_json_value(value)


def to_json_value(value: Value) -> Any:
    """A value without a Layout, for JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: to_json_value(member) for name, member in value.items()}
    if isinstance(value, list):
        return [to_json_value(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no number for it
    return value


def find_version_prefixed_layout(
    message_layout: Layout, data: Buffer, position: int, end: int
) -> Layout | None:
    """The Layout of a message that begins with its version; None if the version is missing or
    negative.

    A version newer than all known ones is read as the newest known one.
    """
    if end - position < Int16.size:
        return None
    version, _ = Int16.read(data, position, end)
    assert message_layout.versions is not None
    return (
        layout_at_version(message_layout, min(version, message_layout.versions[1]))
        if version >= 0
        else None
    )


def find_embedded_layout(
    embedded_message: EmbeddedMessage,
    data: Buffer,
    position: int,
    end: int,
    context_values: MessageValues,
) -> Layout | None:
    """The Layout of the message in a bytes field, after its version; None if unknown.

    A version newer than all known ones is read as the newest known one, as Kafka clients do.
    context_values: the values of the message with the field and of the messages around it.
    """
    if (
        embedded_message.condition_field
        and context_values.get(embedded_message.condition_field) != embedded_message.condition_value
    ):
        return None
    return find_version_prefixed_layout(embedded_message.layout, data, position, end)


def read_embedded_message(
    embedded_message: EmbeddedMessage, message_bytes: bytes, context_values: MessageValues
) -> FieldDict | None:
    """The values, and the version, of the message in a bytes field; None if it is not valid."""
    layout = find_embedded_layout(
        embedded_message, message_bytes, 0, len(message_bytes), context_values
    )
    if layout is None:
        return None
    message = read_message(layout, message_bytes, Int16.size, len(message_bytes))
    if message.error is not None:
        return None
    version, _ = Int16.read(message_bytes, 0, len(message_bytes))
    return FieldDict(version=version, **message_to_json(layout, message.values))
