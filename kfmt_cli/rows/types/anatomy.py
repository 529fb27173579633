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
from kfmt_cli.rows.column import RowType, json_value, number, text

FIELD = RowType(
    "field",
    "A field and its bytes.",
    (
        text(
            "inside",
            "Codec of the enclosing compressed block; null for bytes of the file.",
            null=True,
        ),
        number("block_position", "Position of that block in the file.", null=True),
        number("position", "Byte position in the file, or in the decompressed block."),
        number("size", "Number of bytes."),
        text("path", "Path of the field."),
        text("wire_type", "Encoding."),
        text("hex", "Its bytes; null if its parts have them.", null=True),
        json_value("value", "Its value; bytes as base64.", null=True),
        text("meaning", "Meaning of the value.", null=True),
        text("fault", "Why decoding stopped.", null=True),
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


def part_lines(node: Node) -> Iterator[AnatomyLine]:
    """A part of a file as lines. Of the outermost names, those of records, entries and messages
    are shown."""
    named = node.name.startswith(("record ", "entry ", "message "))
    return lines_of(node, top=node.layout is not None and not named)


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
    elif node.is_tagged or node.is_list:
        count, *items = node.children
        name, of = (here[-1], count) if node.is_tagged else (f"{node.name}_count", node)
        yield _line((*here[:-1], name), count, str(count.value), of)
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
    """A line for a field with bytes. of: the field that it belongs to, with its meaning and, if it
    has none of its own, its fault."""
    return AnatomyLine(
        path,
        node.type,
        node.start,
        node.end,
        True,
        node.value,
        words,
        of.meaning or meaning_of(of),
        node.fault or of.fault,
        of.is_bad or of.fault is not None or node.fault is not None,
    )


def _sized(path: tuple[str, ...], node: Node) -> Iterator[AnatomyLine]:
    """The length of bytes or text, then its content; null is only a length."""
    length, *parts = node.children
    if not parts:
        line = _line(path, length, "null", node)
        yield replace(line, wire_type=node.type, value=None)
        return
    yield _line((*path[:-1], f"{node.name}_length"), length, str(length.value), length)
    if len(parts) == 1 and parts[0].name == "bytes":
        line = _line(path, node, shown(node.value, node.name), node)
        yield replace(line, start=parts[0].start, end=parts[0].end)
        return
    yield replace(_heading(path, node), start=parts[0].start)
    for part in parts:
        yield from lines_of(part, path, part.layout is not None)


def _bits(path: tuple[str, ...], node: Node) -> Iterator[AnatomyLine]:
    """The bits of a field, one per line."""
    if node.spec is None or not isinstance(node.value, int):
        return
    for bits in node.spec.flags:
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
