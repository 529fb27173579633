"""The anatomy of a file that is not a log: its entries by their Layout, or its lines."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.codecs.checksum import CRC32C_POLYNOMIAL, compute_crc
from kfmt_cli.core.codecs.checksum_mistakes import ChecksummedBytes
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.tree import FieldNode, read_field_tree
from kfmt_cli.disk.kinds.fixed_size_rows import MAX_ROWS_FILE_BYTES, FixedSizeRowsReader
from kfmt_cli.disk.kinds.kind import InputFile, read_small_file
from kfmt_cli.errors import NotFoundError
from kfmt_cli.log.anatomy.part import AnatomyPart, set_checksum_meaning


def file_anatomy(
    file: InputFile, entry_index: int | None, position: int | None, layout: Layout | None = None
) -> AnatomyPart:
    """A file, or one of its entries, counted from 0; raises InputError, and NotFoundError.

    layout: the entries' Layout, if the file's kind does not define it.
    """
    data = read_small_file(file, MAX_ROWS_FILE_BYTES)
    nodes = list(
        _iter_entry_nodes(file, data)
        if layout is None
        else _iter_structure_nodes(layout, data, 0, len(data))
    )
    title = f"{file.kind.name.replace('_', ' ')}, {len(data)} bytes"
    if entry_index is not None or position is not None:
        entry_nodes = [node for node in nodes if node.name.startswith(("entry ", "line "))]
        has_lines = bool(entry_nodes) and entry_nodes[0].name.startswith("line ")
        if entry_index is not None:
            nodes = entry_nodes[entry_index : entry_index + 1] if entry_index >= 0 else []
            requested_label = f"{'line' if has_lines else 'entry'} {entry_index}"
        else:
            assert position is not None
            nodes = [node for node in nodes if node.start <= position < node.end]
            requested_label = f"byte {position}"
        if not nodes:
            singular, plural = ("line", "lines") if has_lines else ("entry", "entries")
            entry_noun = singular if len(entry_nodes) == 1 else plural
            raise NotFoundError(
                f"{file.name}: no {requested_label}; the file has {len(entry_nodes)} {entry_noun}"
            )
    return AnatomyPart(title, data, 0, iter(nodes))


def _iter_entry_nodes(file: InputFile, data: bytes) -> Iterator[FieldNode]:
    rows_reader = file.kind.reader
    if not isinstance(rows_reader, FixedSizeRowsReader):
        yield from _iter_line_nodes(data)
        return
    position = 0
    if rows_reader.header_layout is not None:
        header_node = read_field_tree(rows_reader.header_layout, data, 0, len(data))
        _set_snapshot_crc_meaning(header_node, data)
        yield header_node
        if not header_node.is_complete:
            return
        position = header_node.end
    entry_bytes = rows_reader.layout.dtype.itemsize
    entries_bytes = (rows_reader.rows_end_position(data) - position) // entry_bytes * entry_bytes
    for entry_node in _iter_structure_nodes(
        rows_reader.layout, data, position, position + entries_bytes
    ):
        for child in entry_node.children:
            if child.name == "relative_offset" and isinstance(child.value, int):
                child.meaning = f"→ offset {file.base_offset_or_zero + child.value}"
        yield entry_node
    position += entries_bytes
    n_trailing_bytes = len(data) - position
    if n_trailing_bytes:
        trailing_node = FieldNode("rest", "bytes", position, len(data))
        if rows_reader.may_be_padded and not data[position:].strip(b"\0"):
            trailing_node.meaning = "zeros after the last entry, preallocated by the broker"
        else:
            trailing_node.error = (
                f"{n_trailing_bytes} trailing bytes: a partial entry ({entry_bytes} bytes each)"
            )
        yield trailing_node


def _iter_structure_nodes(
    layout: Layout, data: bytes, position: int, end_position: int
) -> Iterator[FieldNode]:
    """Consecutive structures, up to the first incomplete one."""
    entry_index = 0
    while position < end_position:
        entry_node = read_field_tree(layout, data, position, end_position)
        entry_node.name = f"entry {entry_index}"
        yield entry_node
        if not entry_node.is_complete or entry_node.end == position:
            return
        position = entry_node.end
        entry_index += 1


def _set_snapshot_crc_meaning(header_node: FieldNode, data: bytes) -> None:
    """Show on its node whether the checksum of a producer snapshot matches."""
    crc_node = next((child for child in header_node.children if child.name == "crc"), None)
    if crc_node is None or crc_node.error is not None:
        return
    target = ChecksummedBytes(
        *(data, 0, crc_node.end),
        start_name="the field after it",
        crc_start=crc_node.start,
        polynomial=CRC32C_POLYNOMIAL,
        format_name="a snapshot",
    )
    computed_crc = compute_crc(CRC32C_POLYNOMIAL, data[crc_node.end :])
    set_checksum_meaning(crc_node, target, computed_crc, len(data))


def _iter_line_nodes(data: bytes) -> Iterator[FieldNode]:
    """The lines of a text file."""
    position = 0
    for line_index, line in enumerate(data.splitlines(keepends=True)):
        node = FieldNode(f"line {line_index}", "line of text", position, position + len(line))
        node.value = line.rstrip(b"\r\n").decode(errors="replace")
        yield node
        position += len(line)
