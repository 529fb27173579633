"""The anatomy of a file that is not a log: its entries by their Layout, or its lines."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.codecs.checksum import CRC32C_POLYNOMIAL, compute_crc
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.tree import FieldNode, read_field_tree
from kfmt_cli.disk.kinds.fixed_size_rows import MAX_ROWS_FILE_BYTES, FixedSizeRowsReader
from kfmt_cli.disk.kinds.kind import InputFile, read_small_file
from kfmt_cli.errors import NotFoundError
from kfmt_cli.log.anatomy.part import AnatomyPart, show_checksum


def file_anatomy(
    file: InputFile, entry_index: int | None, position: int | None, layout: Layout | None = None
) -> AnatomyPart:
    """A file, or one of its entries, counted from 0; raises InputError, and NotFoundError.

    layout: of the entries, if the file's kind does not define it.
    """
    data = read_small_file(file, MAX_ROWS_FILE_BYTES)
    nodes = list(
        _iter_entry_nodes(file, data)
        if layout is None
        else _iter_structures(layout, data, 0, len(data))
    )
    title = f"{file.kind.name.replace('_', ' ')}, {len(data)} bytes"
    if entry_index is not None or position is not None:
        entries = [node for node in nodes if node.name.startswith(("entry ", "line "))]
        is_text = bool(entries) and entries[0].name.startswith("line ")
        if entry_index is not None:
            nodes = entries[entry_index : entry_index + 1] if entry_index >= 0 else []
            requested_text = f"{'line' if is_text else 'entry'} {entry_index}"
        else:
            assert position is not None
            nodes = [node for node in nodes if node.start <= position < node.end]
            requested_text = f"byte {position}"
        if not nodes:
            singular, plural = ("line", "lines") if is_text else ("entry", "entries")
            noun = singular if len(entries) == 1 else plural
            raise NotFoundError(
                f"{file.name}: no {requested_text}; the file has {len(entries)} {noun}"
            )
    return AnatomyPart(title, data, 0, iter(nodes))


def _iter_entry_nodes(file: InputFile, data: bytes) -> Iterator[FieldNode]:
    reader = file.kind.read
    if not isinstance(reader, FixedSizeRowsReader):
        yield from _iter_line_nodes(data)
        return
    position = 0
    if reader.header_layout is not None:
        header = read_field_tree(reader.header_layout, data, 0, len(data))
        _show_snapshot_crc(header, data)
        yield header
        if not header.is_complete:
            return
        position = header.end
    entry_size = reader.layout.dtype.itemsize
    entries_size = (reader.end_of_rows(data) - position) // entry_size * entry_size
    for entry in _iter_structures(reader.layout, data, position, position + entries_size):
        for child in entry.children:
            if child.name == "relative_offset" and isinstance(child.value, int):
                child.meaning = f"→ offset {file.base_or_zero + child.value}"
        yield entry
    position += entries_size
    n_trailing = len(data) - position
    if n_trailing:
        node = FieldNode("rest", "bytes", position, len(data))
        if reader.may_be_padded and not data[position:].strip(b"\0"):
            node.meaning = "zeros after the last entry, preallocated by the broker"
        else:
            node.error = f"{n_trailing} trailing bytes: a partial entry ({entry_size} bytes each)"
        yield node


def _iter_structures(layout: Layout, data: bytes, position: int, end: int) -> Iterator[FieldNode]:
    """Consecutive structures, up to the first incomplete one."""
    index = 0
    while position < end:
        node = read_field_tree(layout, data, position, end)
        node.name = f"entry {index}"
        yield node
        if not node.is_complete or node.end == position:
            return
        position = node.end
        index += 1


def _show_snapshot_crc(header: FieldNode, data: bytes) -> None:
    """Show on its node whether the checksum of a producer snapshot matches."""
    crc_node = next((child for child in header.children if child.name == "crc"), None)
    if crc_node is None or crc_node.error is not None:
        return
    covered_text = f"CRC-32C of bytes {crc_node.end:x}..{len(data) - 1:x}"
    show_checksum(crc_node, covered_text, compute_crc(CRC32C_POLYNOMIAL, data[crc_node.end :]))


def _iter_line_nodes(data: bytes) -> Iterator[FieldNode]:
    """The lines of a text file."""
    position = 0
    for n, line in enumerate(data.splitlines(keepends=True)):
        node = FieldNode(f"line {n}", "line of text", position, position + len(line))
        node.value = line.rstrip(b"\r\n").decode(errors="replace")
        yield node
        position += len(line)
