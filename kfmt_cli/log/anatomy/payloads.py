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


def decode_payload_nodes(
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
            control_key_node = read_field_tree(CONTROL_RECORD_KEY, data, *key_bounds)
            _replace_bytes_child(key_field, control_key_node)
            control_type = (
                control_key_node.require_child("type").value
                if control_key_node.is_complete
                else None
            )
        if value_bounds is not None:
            _decode_control_value(value_field, control_type, data, *value_bounds)
        return
    if decoder is None:
        return
    if key_bounds is not None:
        _decode_message_node(key_field, decoder.identify_key(data, *key_bounds), data, *key_bounds)
    if value_bounds is not None:
        message = decoder.identify_value(key_bytes, data, *value_bounds)
        _decode_message_node(value_field, message, data, *value_bounds)


def payload_bounds(node: FieldNode) -> tuple[int, int] | None:
    """Where the bytes of a key or value are; None for null."""
    bytes_node = next((child for child in node.children if child.name == "bytes"), None)
    return None if bytes_node is None else (bytes_node.start, bytes_node.end)


def _replace_bytes_child(node: FieldNode, structure_node: FieldNode) -> None:
    """Replace a node's bytes with a structure; keep any bytes after it."""
    bytes_node = node.children.pop()
    node.children.append(structure_node)
    if structure_node.is_complete and structure_node.end < bytes_node.end:
        node.children.append(
            FieldNode("more", "bytes", structure_node.end, bytes_node.end, meaning="ignored")
        )


def _decode_control_value(
    value_field: FieldNode, control_type: object, data: bytes, value_start: int, value_end: int
) -> None:
    if control_type in (CONTROL_TYPES.index("ABORT"), CONTROL_TYPES.index("COMMIT")):
        _replace_bytes_child(
            value_field, read_field_tree(END_TXN_MARKER, data, value_start, value_end)
        )
    elif isinstance(control_type, int) and control_type in KRAFT_LAYOUT_BY_TYPE:
        layout = find_version_prefixed_layout(
            KRAFT_LAYOUT_BY_TYPE[control_type], data, value_start, value_end
        )
        if layout is not None:
            _replace_bytes_child(
                value_field, _read_message_tree(layout, data, value_start, value_end)
            )


def _decode_message_node(
    node: FieldNode,
    message: FramedMessage | None,
    data: bytes,
    payload_start: int,
    payload_end: int,
) -> None:
    """Replace a node's bytes with the message of an internal topic."""
    if message is None:
        return
    bytes_node = node.children.pop()
    body_start = payload_start
    if message.header_layout is not None:
        header_node = read_field_tree(message.header_layout, data, payload_start, payload_end)
        node.children.append(header_node)
        body_start = header_node.end
    node.children.append(FieldNode("bytes", "bytes", body_start, bytes_node.end))
    if message.message_layout is None:
        node.meaning = message.note or ""
        return
    node.meaning = "; ".join(filter(None, (message.message_name, message.note)))
    _replace_bytes_child(
        node, _read_message_tree(message.message_layout, data, message.body_start, payload_end)
    )


def _read_message_tree(layout: Layout, data: bytes, start: int, end: int) -> FieldNode:
    """A message, with the messages in its bytes fields."""
    node = read_field_tree(layout, data, start, end)
    _decode_embedded_messages(node, data, {})
    return node


def _decode_embedded_messages(
    node: FieldNode, data: bytes, enclosing_values: dict[str, object]
) -> None:
    values_by_name = {**enclosing_values, **{child.name: child.value for child in node.children}}
    for child in node.children:
        embedded_spec = None if child.definition is None else child.definition.embedded_message
        payload_range = payload_bounds(child)
        if embedded_spec is not None and payload_range is not None:
            layout = find_embedded_layout(embedded_spec, data, *payload_range, values_by_name)  # type: ignore[arg-type]
            if layout is not None:
                message_node = read_field_tree(layout, data, payload_range[0] + 2, payload_range[1])
                if message_node.is_complete:
                    child.children.pop()
                    version_node = FieldNode(
                        "version", "int16", payload_range[0], payload_range[0] + 2
                    )
                    version_node.value = int.from_bytes(
                        data[payload_range[0] : payload_range[0] + 2], "big"
                    )
                    child.children += [version_node, message_node]
        else:
            _decode_embedded_messages(child, data, values_by_name)
