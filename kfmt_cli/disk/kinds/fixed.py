"""Files of fixed-size rows, straight from their Layout: indexes and producer snapshots.

The indexes of an active segment are preallocated: zeros follow their entries and are not entries.
Source: `org.apache.kafka.storage.internals.log.AbstractIndex`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.codecs.checksum import CRC32C, crc_of
from kfmt_cli.core.layout.field import BYTE, OFFSET
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.disk.kinds.kind import Contents, Input, Kind, Level, read_filled
from kfmt_cli.findings import files as codes
from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.formats import index, snapshot
from kfmt_cli.rows.column import Column, Placed, RowType, column_of
from kfmt_cli.rows.log_tables import EntryTable
from kfmt_cli.rows.section import Section

MOST_BYTES = 256 << 20  # a broker creates indexes of 10 MiB
_OFFSET = Column("offset", doc="Offset.", unit=OFFSET)
POSITION = Column("position", doc="Byte position in the file.", unit=BYTE, heading="entry at")
_HEADINGS = {
    "log_position": "byte of log",
    "current_txn_first_offset": "open transaction from",
}


def rows_of(name: str, layout: Layout) -> RowType:
    """The row type of a Layout; the absolute offset comes after a relative one."""
    columns = [POSITION]
    for field in layout.fields:
        is_relative = field.name == "relative_offset"
        heading = _HEADINGS.get(field.name, "")
        columns.append(column_of(field, heading=heading, hidden=is_relative))
        if is_relative:
            columns.append(_OFFSET)
    return RowType(name, layout.doc, tuple(columns), Placed.FILE)


@dataclass(frozen=True, slots=True)
class FixedReader:
    """Reads a file of rows of one Layout."""

    rows: RowType
    layout: Layout
    odd: Code
    """The finding for a partial row."""
    front: Callable[[str, bytes, list[Finding]], int] | None = None
    """Checks the header before the rows and returns the byte at which they begin."""
    front_layout: Layout | None = None
    """The structure of the header."""
    padded: bool = False
    """Whether zeros may follow the rows."""
    one_zero_row: bool = False
    """Whether a file of one row of zeros contains that row."""

    def __call__(self, file: Input) -> Contents:
        """All rows of a file; raises InputError."""
        data, size = read_filled(file, MOST_BYTES)
        end = self.end_of_rows(data, size)
        data += bytes(max(end - len(data), 0))  # the last row may end in the hole
        findings: list[Finding] = []
        at = self.front(file.name, data, findings) if self.front is not None else 0
        width = self.layout.dtype.itemsize
        n_rows = (end - at) // width
        stored = np.frombuffer(data, self.layout.dtype, n_rows, at)
        table = EntryTable.empty(self.rows.sources, n_rows)
        table.position = at + width * np.arange(n_rows)
        for field in self.layout.fields:
            table[field.name] = stored[field.name]
        if "offset" in table.names:
            table.offset = table.relative_offset + file.base
        odd = (size - at) % width
        if odd:
            words = f"the last {odd} bytes are a partial entry ({width} bytes each)"
            findings.append(Finding(file.name, self.odd, size - odd, words, expected=0, found=odd))
        padding = size - odd - (at + n_rows * width)
        remark = f"followed by {padding:,} zero bytes".replace(",", " ") if padding else ""
        section = Section(self.rows, table, remark=remark)
        return Contents(size, [section], findings, padding)

    def end_of_rows(self, data: bytes, size: int | None = None) -> int:
        """The end of the last row that is not all zeros, if zeros may follow the rows. size: the
        file's; its data may end before a hole."""
        size = len(data) if size is None else size
        width = self.layout.dtype.itemsize
        if not self.padded or (self.one_zero_row and size == width):
            return size
        filled = len(data.rstrip(b"\0"))
        return min(-(-filled // width) * width, size // width * width)


def _snapshot_front(name: str, data: bytes, findings: list[Finding]) -> int:
    """Check a producer snapshot's header; returns the byte at which its rows begin."""
    layout = snapshot.PRODUCER_SNAPSHOT
    size = layout.dtype.itemsize

    def malformed(position: int, words: str, expected: int, found: int) -> None:
        code = codes.SNAPSHOT_MALFORMED
        findings.append(Finding(name, code, position, words, expected=expected, found=found))

    if len(data) < size:
        words = f"{len(data)} bytes; the header alone takes {size}"
        malformed(0, words, size, len(data))
        return len(data)
    front = np.frombuffer(data, layout.dtype, 1)[0]
    version, count = int(front["version"]), int(front["producers_count"])
    if version != 1:
        malformed(0, f"version {version}; only 1 is supported", 1, version)
    checked_from = layout.offset_of("producers_count")
    computed = crc_of(CRC32C, data[checked_from:])
    stored = int(front["crc"])
    if computed != stored:
        words = (
            f"stored {stored:08x}, computed {computed:08x} over bytes "
            f"{checked_from}–{len(data) - 1}"
        )
        findings.append(
            Finding(
                name,
                codes.SNAPSHOT_CRC_MISMATCH,
                layout.offset_of("crc"),
                words,
                expected=f"{computed:08x}",
                found=f"{stored:08x}",
            )
        )
    held = (len(data) - size) // snapshot.PRODUCER_STATE.dtype.itemsize
    if count != held:
        words = f"{count} producers declared, but the file has room for {held}"
        malformed(checked_from, words, count, held)
    return size


def _kind(name: str, suffix: str, reader: FixedReader) -> Kind:
    return Kind(
        *(name, Level.SEGMENT, suffix),
        row_types=(reader.rows,),
        layouts=tuple(filter(None, (reader.front_layout, reader.layout))),
        codes=(reader.odd,),
        read=reader,
    )


OFFSET_INDEX = _kind(
    "offset_index",
    ".index",
    FixedReader(
        rows_of("offset_index_entry", index.OFFSET_INDEX_ENTRY),
        index.OFFSET_INDEX_ENTRY,
        codes.INDEX_TRAILING_BYTES,
        padded=True,
    ),
)
TIME_INDEX = _kind(
    "time_index",
    ".timeindex",
    FixedReader(
        rows_of("time_index_entry", index.TIME_INDEX_ENTRY),
        index.TIME_INDEX_ENTRY,
        codes.TIME_INDEX_TRAILING_BYTES,
        padded=True,
        # Timestamp 0 at the base offset may be intended.
        one_zero_row=True,
    ),
)
TRANSACTION_INDEX = _kind(
    "transaction_index",
    ".txnindex",
    FixedReader(
        rows_of("aborted_transaction", index.ABORTED_TRANSACTION),
        index.ABORTED_TRANSACTION,
        codes.TRANSACTION_INDEX_TRAILING_BYTES,
    ),
)
PRODUCER_SNAPSHOT = _kind(
    "producer_snapshot",
    ".snapshot",
    FixedReader(
        rows_of("producer_state", snapshot.PRODUCER_STATE),
        snapshot.PRODUCER_STATE,
        codes.SNAPSHOT_TRAILING_BYTES,
        front=_snapshot_front,
        front_layout=snapshot.PRODUCER_SNAPSHOT,
    ),
)
