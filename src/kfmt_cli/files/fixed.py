"""Files of fixed rows, straight from their Layout: indexes and producer snapshots.

Indexes of a segment that is written to are preallocated: behind their entries stand zeros, which
are no entries. Source: `org.apache.kafka.storage.internals.log.AbstractIndex`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.checksum import CRC32C, RunningCrc
from kfmt_cli.core.finding import Code, Finding
from kfmt_cli.core.layout import Layout
from kfmt_cli.core.source import Source, open_source
from kfmt_cli.core.table import Table
from kfmt_cli.errors import InputError
from kfmt_cli.files import index_codes as codes
from kfmt_cli.files.discover import FileKind, Input
from kfmt_cli.files.foreign import START, foreign_words
from kfmt_cli.formats.index import ABORTED_TRANSACTION, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kfmt_cli.formats.snapshot import PRODUCER_SNAPSHOT, PRODUCER_STATE

MOST_BYTES = 256 << 20  # a broker makes indexes of 10 MiB
PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class FixedKind:
    """A kind of file. type: of its rows in JSON. front: what stands before the rows. padded: zeros
    may follow them. odd: the finding for bytes that are no whole row."""

    type: str
    layout: Layout
    odd: Code
    front: Layout | None = None
    padded: bool = False


FIXED = {
    FileKind.OFFSET_INDEX: FixedKind(
        "offset_index_entry", OFFSET_INDEX_ENTRY, codes.INDEX_TRAILING_BYTES, padded=True
    ),
    FileKind.TIME_INDEX: FixedKind(
        "time_index_entry", TIME_INDEX_ENTRY, codes.TIME_INDEX_TRAILING_BYTES, padded=True
    ),
    FileKind.TRANSACTION_INDEX: FixedKind(
        "aborted_transaction", ABORTED_TRANSACTION, codes.TRANSACTION_INDEX_TRAILING_BYTES
    ),
    FileKind.PRODUCER_SNAPSHOT: FixedKind(
        "producer_state", PRODUCER_STATE, codes.SNAPSHOT_TRAILING_BYTES, front=PRODUCER_SNAPSHOT
    ),
}


@dataclass(slots=True)
class Rows:
    """The rows of a file: the Layout's fields, `position`, and `offset` where it is relative.

    padding: bytes of zeros behind the rows. size: of the file.
    """

    table: Table
    size: int
    padding: int = 0
    findings: list[Finding] = field(default_factory=list)


def columns_of(layout: Layout) -> tuple[str, ...]:
    """The names of the rows' columns, in the order in which they are shown."""
    names = ["position"]
    for it in layout.fields:
        names.append(it.name)
        if it.name == "relative_offset":
            names.append("offset")
    return tuple(names)


def read_rows(file: Input) -> Rows:
    """All rows of a file of one of the kinds in `FIXED`; raises InputError."""
    kind = FIXED[file.kind]
    source = open_source(file.path, file.name)
    try:
        if source.size is None or source.size > MOST_BYTES:
            raise InputError(f"{file.name}: is larger than {file.kind.words} can be")
        data = b"".join(_pieces(source))
    finally:
        source.close()
    if foreign := foreign_words(data[:START]):
        raise InputError(f"{file.name}: is not {file.kind.words} but {foreign}")
    findings: list[Finding] = []
    at = 0
    if kind.front is not None:
        at = _read_front(file.name, data, kind.front, findings)
    layout = kind.layout
    width = layout.dtype.itemsize
    end = len(data)
    if kind.padded:
        # The one whole entry of zeros that may be meant: timestamp 0 at the base offset.
        meant = file.kind is FileKind.TIME_INDEX and len(data) == width
        end = len(data) if meant else _end_of_rows(data, width)
    n_rows = (end - at) // width
    stored = np.frombuffer(data, layout.dtype, n_rows, at)
    table = Table.empty(columns_of(layout), n_rows)
    table["position"] = at + width * np.arange(n_rows)
    for it in layout.fields:
        table[it.name] = stored[it.name]
    if "offset" in table.names:
        table["offset"] = table["relative_offset"] + (file.base_offset or 0)
    odd = (len(data) - at) % width
    if odd:
        words = f"{odd} bytes at the end are no whole entry of {width} bytes"
        findings.append(Finding(file.name, kind.odd, len(data) - odd, words, None, 0, odd))
    return Rows(table, len(data), len(data) - odd - (at + n_rows * width), findings)


def _pieces(source: Source) -> Iterator[bytes]:
    at = 0
    while piece := source.block(at, PIECE, 1):
        yield piece
        at += len(piece)


def _end_of_rows(data: bytes, width: int) -> int:
    """The end of the last row that is not all zeros."""
    filled = len(data.rstrip(b"\0"))
    return min(-(-filled // width) * width, len(data) // width * width)


def _read_front(name: str, data: bytes, layout: Layout, findings: list[Finding]) -> int:
    """Check what a producer snapshot says of itself; the byte where its rows begin."""
    size = layout.dtype.itemsize
    if len(data) < size:
        words = f"{len(data)} bytes, {size} stand before the first entry"
        findings.append(Finding(name, codes.SNAPSHOT_MALFORMED, 0, words, None, size, len(data)))
        return len(data)
    front = np.frombuffer(data, layout.dtype, 1)[0]
    version, count = int(front["version"]), int(front["producers_count"])
    if version != 1:
        words = f"version {version}, only 1 is known"
        findings.append(Finding(name, codes.SNAPSHOT_MALFORMED, 0, words, None, 1, version))
    crc = RunningCrc(CRC32C)
    checked_from = layout.offset_of("producers_count")
    crc.update(data[checked_from:])
    stored = int(front["crc"])
    if crc.value != stored:
        words = (
            f"stored {stored:08x}, computed {crc.value:08x} over bytes "
            f"{checked_from}–{len(data) - 1}"
        )
        at = layout.offset_of("crc")
        expected, found = f"{crc.value:08x}", f"{stored:08x}"
        findings.append(
            Finding(name, codes.SNAPSHOT_CRC_MISMATCH, at, words, None, expected, found)
        )
    held = (len(data) - size) // PRODUCER_STATE.dtype.itemsize
    if count != held:
        words = f"{count} producers are declared, there are bytes for {held}"
        findings.append(
            Finding(name, codes.SNAPSHOT_MALFORMED, checked_from, words, None, count, held)
        )
    return size
