"""The fields of a structure, one per line with its bytes, as `hex` shows them.

A field with parts is a heading above them, without bytes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.field import MILLISECONDS
from kfmt_cli.core.layout.messages import plain_value
from kfmt_cli.core.layout.tree import Node
from kfmt_cli.core.layout.wire import Value
from kfmt_cli.core.times import time_text
from kfmt_cli.rows.column import Column, ColumnKind, RowType

FIELD = RowType(
    "field",
    "A field and its bytes.",
    (
        Column(
            "inside",
            ColumnKind.TEXT,
            "Codec of the enclosing compressed block; null for bytes of the file.",
            given="has_inside",
        ),
        Column(
            "block_position",
            doc="Position of that block in the file.",
            given="has_block_position",
        ),
        Column("position", doc="Byte position in the file, or in the decompressed block."),
        Column("size", doc="Number of bytes."),
        Column("path", ColumnKind.TEXT, "Path of the field."),
        Column("wire_type", ColumnKind.TEXT, "Encoding."),
        Column("hex", ColumnKind.TEXT, "Its bytes; null if its parts have them.", given="has_hex"),
        Column("value", ColumnKind.JSON, "Its value; bytes as base64.", given="has_value"),
        Column("meaning", ColumnKind.TEXT, "Meaning of the value.", given="has_meaning"),
        Column("fault", ColumnKind.TEXT, "Why decoding stopped.", given="has_fault"),
    ),
)


@dataclass(frozen=True, slots=True)
class AnatomyLine:
    """A field, or a heading."""

    path: tuple[str, ...]
    """The names of the fields, outermost first."""
    wire_type: str
    start: int
    """Its first byte in the buffer; bits and headings show no bytes."""
    end: int
    """The byte after its last."""
    has_bytes: bool
    value: Value = None
    shown: str = ""
    """The value in readable form."""
    meaning: str = ""
    fault: str | None = None
    is_bad: bool = False
    is_bit: bool = False

    @property
    def name(self) -> str:
        """The innermost field name."""
        return self.path[-1]


def lines_of(node: Node, path: tuple[str, ...] = (), top: bool = True) -> Iterator[AnatomyLine]:
    """A structure as lines. top: its own name is not shown."""
    here = path if top else (*path, node.name)
    if node.layout is not None and node.children:
        if not top:
            yield _heading(here, node)
        for child in node.children:
            yield from lines_of(child, here, False)
        if top and node.fault is not None:
            yield _heading((*here, "end"), node)
    elif node.is_tagged:
        yield from _tagged(here, node)
    elif node.is_list:
        count, *items = node.children
        yield _line((*here[:-1], f"{node.name}_count"), count, str(count.value), node)
        for item in items:
            yield from lines_of(item, here, False)
    elif node.children and node.children[0].name == "length":
        yield from _sized(here, node)
    else:
        yield _line(here, node, shown(node.value, node.name), node)
        yield from _bits(here, node)


def _heading(path: tuple[str, ...], node: Node) -> AnatomyLine:
    return AnatomyLine(
        path,
        node.type,
        node.start,
        node.end,
        False,
        meaning=node.meaning,
        fault=node.fault,
        is_bad=node.fault is not None,
    )


def _line(path: tuple[str, ...], node: Node, words: str, of: Node) -> AnatomyLine:
    """A line for a field with bytes. of: the node that has its meaning."""
    return AnatomyLine(
        path,
        node.type,
        node.start,
        node.end,
        True,
        node.value,
        words,
        of.meaning or meaning_of(of),
        of.fault if node is of else node.fault,
        of.is_bad or of.fault is not None or node.fault is not None,
    )


def _tagged(path: tuple[str, ...], node: Node) -> Iterator[AnatomyLine]:
    count, *items = node.children
    yield _line(path, count, str(count.value), count)
    for item in items:
        yield from lines_of(item, path, False)


def _sized(path: tuple[str, ...], node: Node) -> Iterator[AnatomyLine]:
    """The length of bytes or text, then its content; null is only a length."""
    length, *parts = node.children
    if not parts:
        start, end = length.start, length.end
        yield AnatomyLine(path, node.type, start, end, True, None, "null", node.meaning, node.fault)
        return
    name = (*path[:-1], f"{node.name}_length")
    yield AnatomyLine(
        name, length.type, length.start, length.end, True, length.value, str(length.value)
    )
    if len(parts) == 1 and parts[0].name == "bytes":
        inner = parts[0]
        value = node.value
        yield AnatomyLine(
            path,
            node.type,
            inner.start,
            inner.end,
            True,
            value,
            shown(value, node.name),
            node.meaning or meaning_of(node),
            node.fault,
            node.fault is not None,
        )
        return
    yield replace(_heading(path, node), start=parts[0].start)
    for part in parts:
        yield from lines_of(part, path, part.layout is not None)


def _bits(path: tuple[str, ...], node: Node) -> Iterator[AnatomyLine]:
    """The bits of a field, one per line."""
    flags = None if node.spec is None else node.spec.flags
    if flags is None or not isinstance(node.value, int):
        return
    for bits in flags.bits:
        value = bits.of(node.value)
        yield AnatomyLine(
            (*path, bits.name),
            "bits",
            node.start,
            node.end,
            False,
            value,
            str(value),
            bits.symbol(value),
            is_bit=True,
        )


def shown(value: Value, name: str) -> str:
    """A value in readable form."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return "binary"
        return f'"{text}"' if text.isprintable() else "binary"
    if isinstance(value, str):
        return f'"{value}"'
    if name == "crc" and isinstance(value, int):
        return f"{value:08x}"
    if name == "attributes" and isinstance(value, int):
        return f"0x{value & 0xFFFF:x}"
    return json_text(plain_value(value))


def meaning_of(node: Node) -> str:
    """The meaning of a field's value on its own."""
    spec = node.spec
    if spec is None:
        return ""
    if symbol := spec.symbol(node.value):
        return symbol
    is_time = spec.unit == MILLISECONDS and node.type == "int64"
    if spec.none is not None and node.value == spec.none:
        return "none"
    if isinstance(node.value, int) and is_time:
        return "none" if node.value == -1 else time_text(node.value)
    return ""


def cells(line: AnatomyLine, data: bytes, base: int, codec: str) -> tuple[str | int | None, ...]:
    """The row of `FIELD` for a line. base: as `Part.position`; codec: empty for bytes of a file."""
    return (
        codec or None,
        base if codec else None,
        line.start if codec else base + line.start,
        line.end - line.start,
        ".".join(line.path),
        line.wire_type,
        data[line.start : line.end].hex() if line.has_bytes else None,
        json_text(plain_value(line.value)) if line.has_bytes or line.is_bit else None,
        line.meaning or None,
        line.fault,
    )
