"""A structure as a tree: every field with its value and its bytes, up to the first error.

For output that shows bytes next to their meaning. The slow reader of `layout.py` rejects an invalid
structure; the tree contains everything before the error and records the error on its node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol_types import ListWireType, StructWireType
from kfmt_cli.core.layout.tagged import TaggedFields
from kfmt_cli.core.layout.wire_types import (
    ArrayWireType,
    Buffer,
    LengthType,
    UVarint32,
    Value,
    WireError,
    WireType,
    format_remaining_bytes,
    format_trailing_bytes,
)


@dataclass(slots=True)
class FieldNode:
    """A field, a structure, or a part of one."""

    name: str
    type_name: str
    start: int
    """The position of its first byte in the buffer."""
    end: int
    """The position after it."""
    value: Value = None
    children: list[FieldNode] = field(default_factory=list)
    error: str | None = None
    """Why reading failed; its bytes and children then end at the error."""
    definition: Field | None = None
    """Its definition in the enclosing Layout."""
    layout: Layout | None = None
    """The Layout of a structure."""
    is_list: bool = False
    """Whether it is a list; the count is then its first child."""
    is_tagged: bool = False
    """Whether its children are the tagged fields of a message."""
    meaning: str = ""
    """The meaning of the value in its context."""
    is_invalid: bool = False
    """Whether the value is wrong, although it could be read."""
    record_offset: int | None = None
    """The offset of the record that the value points to."""

    def require_child(self, name: str) -> FieldNode:
        """The child with this name; raises StopIteration."""
        return next(child for child in self.children if child.name == name)

    def add_child(self, child: FieldNode) -> FieldNode:
        """Append a child and extend this node to its end."""
        self.children.append(child)
        self.end = child.end
        return child

    @property
    def is_complete(self) -> bool:
        """Whether neither this node nor any below it has an error."""
        return self.error is None and all(child.is_complete for child in self.children)


def read_field_tree(layout: Layout, data: Buffer, position: int, end: int) -> FieldNode:
    """Read the structure at byte `position` of a buffer, up to byte `end` at most."""
    node = FieldNode(layout.name, layout.name, position, position, layout=layout)
    for definition in layout.fields:
        child = node.add_child(_read_field(definition, data, node.end, end))
        if not child.is_complete:
            return node
        if definition.is_frame_size:
            assert isinstance(child.value, int)
            if not 0 <= child.value <= end - child.end:
                child.error = f"length {child.value}, but {format_remaining_bytes(end - child.end)}"
                return node
            end = child.end + child.value
    if layout.tagged_fields is not None:
        node.add_child(_read_tagged_fields(layout.tagged_fields, data, node.end, end))
    if any(field.is_frame_size for field in layout.fields) and node.is_complete and node.end != end:
        node.error = format_trailing_bytes(end - node.end)
    return node


def _read_field(definition: Field, data: Buffer, position: int, end: int) -> FieldNode:
    node = _read_node(definition.name, definition.type, data, position, end)
    node.definition = definition
    return node


def _read_node(name: str, type_: WireType, data: Buffer, position: int, end: int) -> FieldNode:
    node = FieldNode(name, type_.name, position, position)
    if isinstance(type_, StructWireType):
        if type_.nullable:
            _read_leaf(node, type_.read_presence, data, end)
            is_present, node.value = node.value, None
            if not is_present:
                return node
        struct_node = read_field_tree(type_.layout, data, node.end, end)
        node.children = struct_node.children
        node.end = struct_node.end
        node.error = struct_node.error
        node.layout = type_.layout
    elif isinstance(type_, ListWireType | ArrayWireType):
        _read_elements(node, type_, data, end)
    else:
        _read_leaf(node, type_.read, data, end)
        length_type = getattr(type_, "length_type", None)
        if length_type is not None and node.error is None:
            _add_length_and_bytes(node, length_type, data)
    return node


def _add_length_and_bytes(node: FieldNode, length_type: Any, data: Buffer) -> None:
    """Add nodes for the length of bytes or text, and for the bytes unless they are null."""
    bytes_length, bytes_start = length_type.read(data, node.start, node.end)
    node.children.append(
        FieldNode("length", length_type.name, node.start, bytes_start, bytes_length)
    )
    if node.value is not None:
        node.children.append(
            FieldNode("bytes", "bytes", bytes_start, node.end, bytes(data[bytes_start : node.end]))
        )


def _read_elements(
    node: FieldNode, type_: ListWireType | ArrayWireType, data: Buffer, end: int
) -> None:
    """Add nodes for the count and for each element."""
    node.is_list = True
    count_node = _add_leaf(node, "count", type_.count_type, data, end)
    if count_node.error is not None:
        return
    assert isinstance(count_node.value, int)
    is_nullable = isinstance(type_, ListWireType) and type_.nullable
    if count_node.value < 0:
        if is_nullable and count_node.value == -1:
            node.is_list = False
        else:
            count_node.error = f"negative count {count_node.value}"
        return
    if count_node.value > end - count_node.end:
        count_node.error = (
            f"count {count_node.value}, but {format_remaining_bytes(end - count_node.end)}"
        )
        return
    element_type: WireType = (
        StructWireType(type_.row_layout) if isinstance(type_, ArrayWireType) else type_.element_type
    )
    for i in range(count_node.value):
        element_node = node.add_child(_read_node(str(i), element_type, data, node.end, end))
        if not element_node.is_complete:
            return


def _read_tagged_fields(
    tagged_fields: TaggedFields, data: Buffer, position: int, end: int
) -> FieldNode:
    """A node with the count, then tag, size and value of each tagged field."""
    node = FieldNode("tagged_fields", "tagged fields", position, position, is_tagged=True)
    count_node = _add_leaf(node, "count", UVarint32, data, end)
    for _ in range(
        count_node.value if count_node.error is None and isinstance(count_node.value, int) else 0
    ):
        tag_node = _add_leaf(node, "tag", UVarint32, data, end)
        size_node = (
            _add_leaf(node, "size", UVarint32, data, end) if tag_node.error is None else tag_node
        )
        if size_node.error is not None:
            break
        assert isinstance(size_node.value, int)
        assert isinstance(tag_node.value, int)
        if size_node.value > end - node.end:
            remaining_bytes = end - node.end
            size_node.error = (
                f"tagged field of {size_node.value} bytes, but "
                f"{format_remaining_bytes(remaining_bytes)}"
            )
            break
        value_end = node.end + size_node.value
        definition = tagged_fields.field_by_tag.get(tag_node.value)
        if definition is not None:
            value_node = _read_field(definition, data, node.end, value_end)
            if value_node.is_complete and value_node.end != value_end:
                value_node.error = (
                    f"{size_node.value} bytes declared, {value_node.end - node.end} used"
                )
        else:
            value_node = FieldNode(f"tag {tag_node.value}", "bytes", node.end, value_end)
            value_node.value = bytes(data[node.end : value_end])
        node.add_child(value_node)
        if not value_node.is_complete:
            break
    return node


def _add_leaf(
    node: FieldNode, name: str, type_: WireType | LengthType, data: Buffer, end: int
) -> FieldNode:
    """Read a value without parts into a new child of a node; returns the child."""
    leaf_node = FieldNode(name, type_.name, node.end, node.end)
    _read_leaf(leaf_node, type_.read, data, end)
    return node.add_child(leaf_node)


def _read_leaf(node: FieldNode, read_value: object, data: Buffer, end: int) -> None:
    """Read a value without parts into its node, or set the node's error."""
    assert callable(read_value)
    try:
        node.value, node.end = read_value(data, node.start, end)
    except WireError as error:
        node.error = " › ".join((*error.field_path, str(error)))
        node.end = max(error.position, node.start)
