"""The anatomy of a file that is not a log: its entries by their Layout, or its lines."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.codecs.checksum import CRC32C, crc_of
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.tree import Node, tree
from kfmt_cli.disk.kinds.fixed import MOST_BYTES, FixedReader
from kfmt_cli.disk.kinds.kind import Input, read_whole
from kfmt_cli.errors import NotFoundError
from kfmt_cli.log.anatomy.part import AnatomyPart, show_checksum


def file_part(
    file: Input, entry: int | None, position: int | None, layout: Layout | None = None
) -> AnatomyPart:
    """A file, or one of its entries, counted from 0; raises InputError, and NotFoundError.

    layout: of the entries, if the file's kind does not define it.
    """
    data = read_whole(file, MOST_BYTES)
    nodes = list(_entries(file, data) if layout is None else _repeated(layout, data, 0, len(data)))
    title = f"{file.kind.name.replace('_', ' ')}, {len(data)} bytes"
    if entry is not None or position is not None:
        numbered = [node for node in nodes if node.name.startswith(("entry ", "line "))]
        if entry is not None:
            nodes = numbered[entry : entry + 1] if entry >= 0 else []
            asked = f"entry {entry}"
        else:
            assert position is not None
            nodes = [node for node in nodes if node.start <= position < node.end]
            asked = f"byte {position}"
        if not nodes:
            raise NotFoundError(f"{file.name}: no {asked}; the file has {len(numbered)} entries")
    return AnatomyPart(title, data, 0, iter(nodes))


def _entries(file: Input, data: bytes) -> Iterator[Node]:
    reader = file.kind.read
    if not isinstance(reader, FixedReader):
        yield from _lines(data)
        return
    at = 0
    if reader.front_layout is not None:
        front = tree(reader.front_layout, data, 0, len(data))
        _check(front, data)
        yield front
        if not front.is_whole:
            return
        at = front.end
    size = reader.layout.dtype.itemsize
    whole = (reader.end_of_rows(data) - at) // size * size
    for entry in _repeated(reader.layout, data, at, at + whole):
        for child in entry.children:
            if child.name == "relative_offset" and isinstance(child.value, int):
                child.meaning = f"→ offset {file.base + child.value}"
        yield entry
    at += whole
    rest = len(data) - at
    if rest:
        node = Node("rest", "bytes", at, len(data))
        if reader.padded and not data[at:].strip(b"\0"):
            node.meaning = "zeros after the last entry, preallocated by the broker"
        else:
            node.fault = f"{rest} trailing bytes: a partial entry ({size} bytes each)"
        yield node


def _repeated(layout: Layout, data: bytes, at: int, end: int) -> Iterator[Node]:
    """Consecutive structures, up to the first incomplete one."""
    n = 0
    while at < end:
        node = tree(layout, data, at, end)
        node.name = f"entry {n}"
        yield node
        if not node.is_whole or node.end == at:
            return
        at = node.end
        n += 1


def _check(front: Node, data: bytes) -> None:
    """Show on its node whether the checksum of a producer snapshot matches."""
    crc = next((child for child in front.children if child.name == "crc"), None)
    if crc is None or crc.fault is not None:
        return
    covered = f"CRC-32C of bytes {crc.end:x}..{len(data) - 1:x}"
    show_checksum(crc, covered, crc_of(CRC32C, data[crc.end :]))


def _lines(data: bytes) -> Iterator[Node]:
    """The lines of a text file."""
    at = 0
    for n, line in enumerate(data.splitlines(keepends=True)):
        node = Node(f"line {n}", "line of text", at, at + len(line))
        node.value = line.rstrip(b"\r\n").decode(errors="replace")
        yield node
        at += len(line)
