"""The fields of a structure, one per line with its bytes, as `hex` shows them.

A field with parts is a heading above them, without bytes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.field import MS_UNIT
from kfmt_cli.core.layout.messages import to_json_value
from kfmt_cli.core.layout.tree import FieldNode
from kfmt_cli.core.layout.wire_types import Value
from kfmt_cli.core.times import format_time
from kfmt_cli.rows.column import RowType, json_column, number_column, text_column

FIELD_ROW = RowType(
    "field",
    "A field and its bytes.",
    (
        text_column(
            "inside",
            "Codec of the enclosing compressed block; null for bytes of the file.",
            can_be_null=True,
        ),
        number_column("block_position", "Position of that block in the file.", can_be_null=True),
        number_column("position", "Byte position in the file, or in the decompressed block."),
        number_column("size", "Number of bytes."),
        text_column("path", "Path of the field."),
        text_column("wire_type", "Encoding."),
        text_column("hex", "Its bytes; null if its parts have them.", can_be_null=True),
        json_column("value", "Its value; bytes as base64.", can_be_null=True),
        text_column("meaning", "Meaning of the value.", can_be_null=True),
        text_column("fault", "Why decoding stopped.", can_be_null=True),
    ),
)


@dataclass(frozen=True, slots=True)
class AnatomyLine:
    """A line for a field, or a heading."""

    path: tuple[str, ...]
    """The names of the fields, outermost first."""
    wire_type: str
    start: int
    """Its first byte in the buffer; bits and headings show no bytes."""
    end: int
    """The byte after its last."""
    has_bytes: bool
    value: Value = None
    display_text: str = ""
    """The value in readable form."""
    meaning: str = ""
    fault: str | None = None
    is_invalid: bool = False
    is_bit: bool = False

    @property
    def name(self) -> str:
        """The innermost field name."""
        return self.path[-1]


def structure_lines(node: FieldNode) -> Iterator[AnatomyLine]:
    """The lines of a structure in a file. Its own name is shown only for records, entries and
    messages."""
    is_numbered = node.name.startswith(("record ", "entry ", "message "))
    return anatomy_lines(node, is_root=node.layout is not None and not is_numbered)


def anatomy_lines(
    node: FieldNode, path: tuple[str, ...] = (), is_root: bool = True
) -> Iterator[AnatomyLine]:
    """The lines of a structure. is_root: its own name is not shown."""
    child_path = path if is_root else (*path, node.name)
    if node.layout is not None and node.children:
        if not is_root:
            yield _heading_line(child_path, node)
        for child in node.children:
            yield from anatomy_lines(child, child_path, False)
        if is_root and node.error is not None:
            yield _heading_line((*child_path, "end"), node)
    elif node.is_tagged or node.is_list:
        count_node, *item_nodes = node.children
        field_name, enclosing_field = (
            (child_path[-1], count_node) if node.is_tagged else (f"{node.name}_count", node)
        )
        yield _field_line(
            (*child_path[:-1], field_name), count_node, str(count_node.value), enclosing_field
        )
        for item_node in item_nodes:
            yield from anatomy_lines(item_node, child_path, False)
    elif node.children and node.children[0].name == "length":
        yield from _length_and_content_lines(child_path, node)
    else:
        yield _field_line(child_path, node, format_value(node.value, node.name), node)
        yield from _bit_lines(child_path, node)


def _heading_line(path: tuple[str, ...], node: FieldNode) -> AnatomyLine:
    return AnatomyLine(
        path,
        node.type_name,
        node.start,
        node.end,
        False,
        meaning=node.meaning,
        fault=node.error,
        is_invalid=node.error is not None,
    )


def _field_line(
    path: tuple[str, ...], node: FieldNode, display_text: str, enclosing_field: FieldNode
) -> AnatomyLine:
    """The line of a field that occupies bytes. enclosing_field: the field whose meaning it shows,
    and whose error if it has none itself."""
    return AnatomyLine(
        path,
        node.type_name,
        node.start,
        node.end,
        True,
        node.value,
        display_text,
        enclosing_field.meaning or describe_value(enclosing_field),
        node.error or enclosing_field.error,
        enclosing_field.is_invalid or enclosing_field.error is not None or node.error is not None,
    )


def _length_and_content_lines(path: tuple[str, ...], node: FieldNode) -> Iterator[AnatomyLine]:
    """The length of bytes or text, then its content; null is only a length."""
    length_node, *content_nodes = node.children
    if not content_nodes:
        anatomy_line = _field_line(path, length_node, "null", node)
        yield replace(anatomy_line, wire_type=node.type_name, value=None)
        return
    yield _field_line(
        (*path[:-1], f"{node.name}_length"), length_node, str(length_node.value), length_node
    )
    if len(content_nodes) == 1 and content_nodes[0].name == "bytes":
        anatomy_line = _field_line(path, node, format_value(node.value, node.name), node)
        yield replace(anatomy_line, start=content_nodes[0].start, end=content_nodes[0].end)
        return
    yield replace(_heading_line(path, node), start=content_nodes[0].start)
    for child in content_nodes:
        yield from anatomy_lines(child, path, child.layout is not None)


def _bit_lines(path: tuple[str, ...], node: FieldNode) -> Iterator[AnatomyLine]:
    """The bits of a field, one per line."""
    if node.definition is None or not isinstance(node.value, int):
        return
    for bit_field in node.definition.flags:
        bits_value = bit_field.extract_value(node.value)
        yield AnatomyLine(
            (*path, bit_field.name),
            "bits",
            node.start,
            node.end,
            False,
            bits_value,
            str(bits_value),
            bit_field.symbol(bits_value),
            is_bit=True,
        )


def format_value(value: Value, field_name: str) -> str:
    """A value in readable form."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        try:
            decoded_text = value.decode()
        except UnicodeDecodeError:
            return "binary"
        return f'"{decoded_text}"' if decoded_text.isprintable() else "binary"
    if isinstance(value, str):
        return f'"{value}"'
    if field_name == "crc" and isinstance(value, int):
        return f"{value:08x}"
    if field_name == "attributes" and isinstance(value, int):
        return f"0x{value & 0xFFFF:x}"
    return json_text(to_json_value(value))


def describe_value(node: FieldNode) -> str:
    """The meaning of a field's value on its own."""
    field_definition = node.definition
    if field_definition is None:
        return ""
    if symbol := field_definition.find_symbol(node.value):
        return symbol
    is_time = field_definition.unit == MS_UNIT and node.type_name == "int64"
    if field_definition.none_value is not None and node.value == field_definition.none_value:
        return "none"
    if isinstance(node.value, int) and is_time:
        return "none" if node.value == -1 else format_time(node.value)
    return ""


def anatomy_cells(
    line: AnatomyLine, data: bytes, block_position: int, codec: str
) -> tuple[str | int | None, ...]:
    """The row of `FIELD_ROW` for a line. block_position: as `AnatomyPart.position`; codec: empty
    for bytes of a file."""
    return (
        codec or None,
        block_position if codec else None,
        line.start if codec else block_position + line.start,
        line.end - line.start,
        ".".join(line.path),
        line.wire_type,
        data[line.start : line.end].hex() if line.has_bytes else None,
        json_text(to_json_value(line.value)) if line.has_bytes or line.is_bit else None,
        line.meaning or None,
        line.fault,
    )
