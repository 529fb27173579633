"""A structure as a tree: every field with its value and its bytes, up to the first fault.

For output that shows bytes next to their meaning. The slow reader of `layout.py` refuses a faulty
structure; the tree keeps everything before the fault and records the fault on its node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import List, Struct
from kfmt_cli.core.layout.tagged import TaggedFields
from kfmt_cli.core.layout.wire import (
    Array,
    Buffer,
    Length,
    UVarint32,
    Value,
    WireError,
    WireType,
    left_over_words,
    left_words,
)


@dataclass(slots=True)
class Node:
    """A field."""

    name: str
    type: str
    start: int
    """Its first byte in the buffer."""
    end: int
    """The byte after it."""
    value: Value = None
    children: list[Node] = field(default_factory=list)
    fault: str | None = None
    """Why reading failed; its bytes and children then end at the fault."""
    spec: Field | None = None
    """Its definition in the Layout."""
    layout: Layout | None = None
    """The Layout of a structure."""
    is_list: bool = False
    """Whether it is a list, whose first child is the count."""
    is_tagged: bool = False
    """Whether it has tagged fields."""
    meaning: str = ""
    """The meaning of the value in its context."""
    is_bad: bool = False
    """Whether something is wrong with it."""
    offset: int | None = None
    """The offset of the record that the value points to."""

    def child(self, name: str) -> Node:
        """The child with this name; raises StopIteration."""
        return next(child for child in self.children if child.name == name)

    def add(self, child: Node) -> Node:
        """Add the next child."""
        self.children.append(child)
        self.end = child.end
        return child

    @property
    def is_whole(self) -> bool:
        """Whether neither it nor anything in it has a fault."""
        return self.fault is None and all(child.is_whole for child in self.children)


def tree(layout: Layout, data: Buffer, at: int, end: int) -> Node:
    """Read the structure at byte `at` of a buffer, up to `end` at most."""
    node = Node(layout.name, layout.name, at, at, layout=layout)
    for inner in layout.fields:
        child = node.add(_of_field(inner, data, node.end, end))
        if not child.is_whole:
            return node
        if inner.frames:
            assert isinstance(child.value, int)
            if not 0 <= child.value <= end - child.end:
                child.fault = f"length {child.value}, but {left_words(end - child.end)}"
                return node
            end = child.end + child.value
    if layout.tagged is not None:
        node.add(_tagged(layout.tagged, data, node.end, end))
    if any(field.frames for field in layout.fields) and node.is_whole and node.end != end:
        node.fault = left_over_words(end - node.end)
    return node


def _of_field(field: Field, data: Buffer, at: int, end: int) -> Node:
    node = _node(field.name, field.type, data, at, end)
    node.spec = field
    return node


def _node(name: str, type_: WireType, data: Buffer, at: int, end: int) -> Node:
    node = Node(name, type_.name, at, at)
    if isinstance(type_, Struct):
        if type_.nullable:
            _fill(node, type_.read_presence, data, end)
            present, node.value = node.value, None
            if not present:
                return node
        inner = tree(type_.of, data, node.end, end)
        node.children, node.end, node.fault = inner.children, inner.end, inner.fault
        node.layout = type_.of
    elif isinstance(type_, List | Array):
        _list(node, type_, data, end)
    else:
        _fill(node, type_.read, data, end)
        length = getattr(type_, "length", None)
        if length is not None and node.fault is None:
            _parts_of_sized(node, length, data)
    return node


def _parts_of_sized(node: Node, length: Any, data: Buffer) -> None:
    """Add the length of bytes or text, and the bytes unless they are null."""
    count, after = length.read(data, node.start, node.end)
    node.children.append(Node("length", length.name, node.start, after, count))
    if node.value is not None:
        node.children.append(Node("bytes", "bytes", after, node.end, bytes(data[after : node.end])))


def _list(node: Node, type_: List | Array, data: Buffer, end: int) -> None:
    """Add a count, then a node for each value."""
    node.is_list = True
    count = _child(node, "count", type_.count, data, end)
    if count.fault is not None:
        return
    assert isinstance(count.value, int)
    nullable = isinstance(type_, List) and type_.nullable
    if count.value < 0:
        if not (nullable and count.value == -1):
            count.fault = f"count {count.value}, but null is not allowed here"
        node.is_list = False
        return
    if count.value > end - count.end:
        count.fault = f"count {count.value}, but {left_words(end - count.end)}"
        return
    of: WireType = Struct(type_.of) if isinstance(type_, Array) else type_.of
    for i in range(count.value):
        child = node.add(_node(str(i), of, data, node.end, end))
        if not child.is_whole:
            return


def _tagged(tagged: TaggedFields, data: Buffer, at: int, end: int) -> Node:
    """A node with a count, then tag, size and value of each tagged field."""
    node = Node("tagged_fields", "tagged fields", at, at, is_tagged=True)
    count = _child(node, "count", UVarint32, data, end)
    for _ in range(count.value if count.fault is None and isinstance(count.value, int) else 0):
        tag = _child(node, "tag", UVarint32, data, end)
        size = _child(node, "size", UVarint32, data, end) if tag.fault is None else tag
        if size.fault is not None:
            break
        assert isinstance(size.value, int)
        assert isinstance(tag.value, int)
        if size.value > end - node.end:
            left = end - node.end
            size.fault = f"tagged field of {size.value} bytes, but {left_words(left)}"
            break
        until = node.end + size.value
        known = tagged.known.get(tag.value)
        if known is not None:
            value = _of_field(known, data, node.end, until)
            if value.is_whole and value.end != until:
                value.fault = f"{size.value} bytes declared, {value.end - node.end} used"
        else:
            value = Node(f"tag {tag.value}", "bytes", node.end, until)
            value.value = bytes(data[node.end : until])
        node.add(value)
        if not value.is_whole:
            break
    return node


def _child(node: Node, name: str, type_: WireType | Length, data: Buffer, end: int) -> Node:
    """Add a value without parts as a node's next child."""
    child = Node(name, type_.name, node.end, node.end)
    _fill(child, type_.read, data, end)
    return node.add(child)


def _fill(node: Node, read: object, data: Buffer, end: int) -> None:
    """Read a value without parts, or set the node's fault."""
    assert callable(read)
    try:
        node.value, node.end = read(data, node.start, end)
    except WireError as error:
        node.fault = " › ".join((*error.path, str(error)))
        node.end = max(error.at, node.start)
