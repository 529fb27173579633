"""The contents of known keys and values: control records and internal topics."""

from __future__ import annotations

from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.messages import find_embedded_layout, find_version_prefixed_layout
from kfmt_cli.core.layout.tree import FieldNode, read_field_tree
from kfmt_cli.formats.control import (
    CONTROL_RECORD_KEY,
    CONTROL_TYPES,
    END_TXN_MARKER,
)
from kfmt_cli.formats.kraft import KRAFT_LAYOUT_BY_TYPE
from kfmt_cli.topics.decoder import Decoder, FramedMessage


def show_payload(
    key_field: FieldNode,
    value_field: FieldNode,
    data: bytes,
    is_control: bool,
    decoder: Decoder | None,
) -> None:
    """Show the contents of a key and a value, if known."""
    key_bounds, value_bounds = payload_bounds(key_field), payload_bounds(value_field)
    key_bytes = None if key_bounds is None else data[key_bounds[0] : key_bounds[1]]
    if is_control:
        control_type = None
        if key_bounds is not None:
            key_node = read_field_tree(CONTROL_RECORD_KEY, data, *key_bounds)
            _replace_bytes(key_field, key_node)
            control_type = key_node.child("type").value if key_node.is_complete else None
        if value_bounds is not None:
            _show_control_value(value_field, control_type, data, *value_bounds)
        return
    if decoder is None:
        return
    if key_bounds is not None:
        _show_message(key_field, decoder.identify_key(data, *key_bounds), data, *key_bounds)
    if value_bounds is not None:
        message = decoder.identify_value(key_bytes, data, *value_bounds)
        _show_message(value_field, message, data, *value_bounds)


def payload_bounds(node: FieldNode) -> tuple[int, int] | None:
    """Where the bytes of a key or value are; None for null."""
    bytes_node = next((child for child in node.children if child.name == "bytes"), None)
    return None if bytes_node is None else (bytes_node.start, bytes_node.end)


def _replace_bytes(node: FieldNode, structure: FieldNode) -> None:
    """Replace a node's bytes with a structure; keep any bytes after it."""
    bytes_node = node.children.pop()
    node.children.append(structure)
    if structure.is_complete and structure.end < bytes_node.end:
        node.children.append(
            FieldNode("more", "bytes", structure.end, bytes_node.end, meaning="ignored")
        )


def _show_control_value(
    value_field: FieldNode, control_type: object, data: bytes, start: int, end: int
) -> None:
    if control_type in (CONTROL_TYPES.index("ABORT"), CONTROL_TYPES.index("COMMIT")):
        _replace_bytes(value_field, read_field_tree(END_TXN_MARKER, data, start, end))
    elif isinstance(control_type, int) and control_type in KRAFT_LAYOUT_BY_TYPE:
        layout = find_version_prefixed_layout(KRAFT_LAYOUT_BY_TYPE[control_type], data, start, end)
        if layout is not None:
            _replace_bytes(value_field, _message_tree(layout, data, start, end))


def _show_message(
    node: FieldNode, message: FramedMessage | None, data: bytes, start: int, end: int
) -> None:
    """Replace a node's bytes with the message of an internal topic."""
    if message is None:
        return
    bytes_node = node.children.pop()
    body_start = start
    if message.header_layout is not None:
        header = read_field_tree(message.header_layout, data, start, end)
        node.children.append(header)
        body_start = header.end
    node.children.append(FieldNode("bytes", "bytes", body_start, bytes_node.end))
    if message.layout is None:
        node.meaning = message.note or ""
        return
    node.meaning = message.name or ""
    _replace_bytes(node, _message_tree(message.layout, data, message.body_start, end))


def _message_tree(layout: Layout, data: bytes, start: int, end: int) -> FieldNode:
    """A message, with the messages in its bytes fields."""
    node = read_field_tree(layout, data, start, end)
    _show_embedded_messages(node, data, {})
    return node


def _show_embedded_messages(
    node: FieldNode, data: bytes, enclosing_values: dict[str, object]
) -> None:
    context = {**enclosing_values, **{child.name: child.value for child in node.children}}
    for child in node.children:
        embedded_spec = None if child.definition is None else child.definition.embedded_message
        bounds = payload_bounds(child)
        if embedded_spec is not None and bounds is not None:
            layout = find_embedded_layout(embedded_spec, data, *bounds, context)  # type: ignore[arg-type]
            if layout is not None:
                message_node = read_field_tree(layout, data, bounds[0] + 2, bounds[1])
                if message_node.is_complete:
                    child.children.pop()
                    version_node = FieldNode("version", "int16", bounds[0], bounds[0] + 2)
                    version_node.value = int.from_bytes(data[bounds[0] : bounds[0] + 2], "big")
                    child.children += [version_node, message_node]
        else:
            _show_embedded_messages(child, data, context)
