"""The contents of known keys and values: control records and internal topics."""

from __future__ import annotations

from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.messages import held_layout, self_versioned
from kfmt_cli.core.layout.tree import Node, tree
from kfmt_cli.formats.control import (
    CONTROL_RECORD_KEY,
    CONTROL_TYPES,
    END_TXN_MARKER,
)
from kfmt_cli.formats.kraft import KRAFT_MESSAGES
from kfmt_cli.topics.decoder import Decoder, Framed


def open_payload(
    key: Node, value: Node, data: bytes, control: bool, decoder: Decoder | None
) -> None:
    """Show the contents of a key and a value, if known."""
    key_place, value_place = bytes_of(key), bytes_of(value)
    key_bytes = None if key_place is None else data[key_place[0] : key_place[1]]
    if control:
        type_ = None
        if key_place is not None:
            inner = tree(CONTROL_RECORD_KEY, data, *key_place)
            _put(key, inner)
            type_ = inner.child("type").value if inner.is_whole else None
        if value_place is not None:
            _control_value(value, type_, data, *value_place)
        return
    if decoder is None:
        return
    if key_place is not None:
        _framed(key, decoder.framed_key(data, *key_place), data, *key_place)
    if value_place is not None:
        framed = decoder.framed_value(key_bytes, data, *value_place)
        _framed(value, framed, data, *value_place)


def bytes_of(node: Node) -> tuple[int, int] | None:
    """Where the bytes of a key or value are; None for null."""
    inner = next((child for child in node.children if child.name == "bytes"), None)
    return None if inner is None else (inner.start, inner.end)


def _put(node: Node, inner: Node) -> None:
    """Replace a node's bytes with a structure; keep any bytes after it."""
    raw = node.children.pop()
    node.children.append(inner)
    if inner.is_whole and inner.end < raw.end:
        node.children.append(Node("more", "bytes", inner.end, raw.end, meaning="ignored"))


def _control_value(value: Node, type_: object, data: bytes, at: int, end: int) -> None:
    if type_ in (CONTROL_TYPES.index("ABORT"), CONTROL_TYPES.index("COMMIT")):
        _put(value, tree(END_TXN_MARKER, data, at, end))
    elif isinstance(type_, int) and type_ in KRAFT_MESSAGES:
        layout = self_versioned(KRAFT_MESSAGES[type_], data, at, end)
        if layout is not None:
            _put(value, _message_tree(layout, data, at, end))


def _framed(node: Node, framed: Framed | None, data: bytes, at: int, end: int) -> None:
    """Replace a node's bytes with the message of an internal topic."""
    if framed is None:
        return
    raw = node.children.pop()
    after = at
    if framed.front is not None:
        front = tree(framed.front, data, at, end)
        node.children.append(front)
        after = front.end
    node.children.append(Node("bytes", "bytes", after, raw.end))
    if framed.layout is None:
        node.meaning = framed.note or ""
        return
    node.meaning = framed.name or ""
    _put(node, _message_tree(framed.layout, data, framed.at, end))


def _message_tree(layout: Layout, data: bytes, at: int, end: int) -> Node:
    """A message, with the messages in its bytes fields."""
    node = tree(layout, data, at, end)
    _open_held(node, data, {})
    return node


def _open_held(node: Node, data: bytes, around: dict[str, object]) -> None:
    context = {**around, **{child.name: child.value for child in node.children}}
    for child in node.children:
        held = None if child.spec is None else child.spec.holds
        place = bytes_of(child)
        if held is not None and place is not None:
            layout = held_layout(held, data, *place, context)  # type: ignore[arg-type]
            if layout is not None:
                inner = tree(layout, data, place[0] + 2, place[1])
                if inner.is_whole:
                    child.children.pop()
                    version = Node("version", "int16", place[0], place[0] + 2)
                    version.value = int.from_bytes(data[place[0] : place[0] + 2], "big")
                    child.children += [version, inner]
        else:
            _open_held(child, data, context)
