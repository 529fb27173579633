"""Files of fixed-size rows, straight from their Layout: indexes and producer snapshots.

The indexes of an active segment are preallocated: zeros follow their entries and are not entries.
Source: `org.apache.kafka.storage.internals.log.AbstractIndex`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.codecs.checksum import CRC32C_POLYNOMIAL, compute_crc
from kfmt_cli.core.layout.field import BYTE_UNIT, OFFSET_UNIT
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.disk.kinds.kind import FileContents, FileLevel, InputFile, Kind, read_without_padding
from kfmt_cli.findings import files as codes
from kfmt_cli.findings.finding import Finding, FindingCode
from kfmt_cli.formats import index, snapshot
from kfmt_cli.rows.column import Column, LocationSource, RowType, field_column
from kfmt_cli.rows.columnar_rows import ColumnarRows
from kfmt_cli.rows.log_tables import EntryTable

MAX_ROWS_FILE_BYTES = 256 << 20  # a broker creates indexes of 10 MiB
_OFFSET_COLUMN = Column("offset", doc="Offset.", unit=OFFSET_UNIT)
POSITION_COLUMN = Column(
    "position", doc="Byte position in the file.", unit=BYTE_UNIT, heading="entry at"
)
_HEADING_BY_FIELD = {
    "log_position": "byte of log",
    "current_txn_first_offset": "open transaction from",
}


def build_row_type(name: str, layout: Layout) -> RowType:
    """The row type of a Layout; the absolute offset comes after a relative one."""
    columns = [POSITION_COLUMN]
    for field in layout.fields:
        is_relative = field.name == "relative_offset"
        heading = _HEADING_BY_FIELD.get(field.name, "")
        columns.append(field_column(field, heading=heading, is_hidden=is_relative))
        if is_relative:
            columns.append(_OFFSET_COLUMN)
    return RowType(name, layout.doc, tuple(columns), LocationSource.FILE)


@dataclass(frozen=True, slots=True)
class FixedSizeRowsReader:
    """Reads a file of rows of one Layout."""

    row_type: RowType
    layout: Layout
    trailing_code: FindingCode
    """The finding for a partial row."""
    check_header: Callable[[str, bytes, list[Finding]], int] | None = None
    """Checks the header before the rows and returns the byte at which they begin."""
    header_layout: Layout | None = None
    """The structure of the header."""
    may_be_padded: bool = False
    """Whether zeros may follow the rows."""
    allows_zero_row: bool = False
    """Whether a file of one row of zeros contains that row."""

    def __call__(self, file: InputFile) -> FileContents:
        """All rows of a file; raises InputError."""
        data, size = read_without_padding(file, MAX_ROWS_FILE_BYTES)
        rows_end = self.end_of_rows(data, size)
        data += bytes(max(rows_end - len(data), 0))  # the last row may end in the hole
        findings: list[Finding] = []
        rows_start = (
            self.check_header(file.name, data, findings) if self.check_header is not None else 0
        )
        row_bytes = self.layout.dtype.itemsize
        n_rows = (rows_end - rows_start) // row_bytes
        entries = np.frombuffer(data, self.layout.dtype, n_rows, rows_start)
        table = EntryTable.zeros_with_columns(self.row_type.table_columns, n_rows)
        table.position = rows_start + row_bytes * np.arange(n_rows)
        for field in self.layout.fields:
            table[field.name] = entries[field.name]
        if "offset" in table.index_by_name:
            table.offset = table.relative_offset + file.base_or_zero
        trailing_bytes = (size - rows_start) % row_bytes
        if trailing_bytes:
            message = (
                f"the last {trailing_bytes} bytes are a partial entry ({row_bytes} bytes each)"
            )
            findings.append(
                Finding(
                    file.name,
                    self.trailing_code,
                    size - trailing_bytes,
                    message,
                    expected=0,
                    found=trailing_bytes,
                )
            )
        padding_bytes = size - trailing_bytes - (rows_start + n_rows * row_bytes)
        note = (
            f"followed by {padding_bytes:,} zero bytes".replace(",", " ") if padding_bytes else ""
        )
        columnar_rows = ColumnarRows(self.row_type, table, note=note)
        return FileContents(size, [columnar_rows], findings, padding_bytes)

    def end_of_rows(self, data: bytes, size: int | None = None) -> int:
        """The end of the last row that is not all zeros, if zeros may follow the rows. size: the
        file's size, if `data` ends before a hole."""
        size = len(data) if size is None else size
        row_bytes = self.layout.dtype.itemsize
        if not self.may_be_padded or (self.allows_zero_row and size == row_bytes):
            return size
        nonzero_end = len(data.rstrip(b"\0"))
        return min(-(-nonzero_end // row_bytes) * row_bytes, size // row_bytes * row_bytes)


def _check_snapshot_header(name: str, data: bytes, findings: list[Finding]) -> int:
    """Check a producer snapshot's header; returns the byte at which its rows begin."""
    layout = snapshot.PRODUCER_SNAPSHOT
    header_size = layout.dtype.itemsize

    def report_malformed(position: int, message: str, expected: int, found: int) -> None:
        code = codes.SNAPSHOT_MALFORMED
        findings.append(Finding(name, code, position, message, expected=expected, found=found))

    if len(data) < header_size:
        message = f"{len(data)} bytes; the header alone takes {header_size}"
        report_malformed(0, message, header_size, len(data))
        return len(data)
    header = np.frombuffer(data, layout.dtype, 1)[0]
    version, declared_count = int(header["version"]), int(header["producers_count"])
    if version != 1:
        report_malformed(0, f"version {version}; only 1 is supported", 1, version)
    crc_start = layout.field_start("producers_count")
    computed_crc = compute_crc(CRC32C_POLYNOMIAL, data[crc_start:])
    stored_crc = int(header["crc"])
    if computed_crc != stored_crc:
        message = (
            f"stored {stored_crc:08x}, computed {computed_crc:08x} over bytes "
            f"{crc_start}–{len(data) - 1}"
        )
        findings.append(
            Finding(
                name,
                codes.SNAPSHOT_CRC_MISMATCH,
                layout.field_start("crc"),
                message,
                expected=f"{computed_crc:08x}",
                found=f"{stored_crc:08x}",
            )
        )
    n_rows_in_file = (len(data) - header_size) // snapshot.PRODUCER_STATE.dtype.itemsize
    if declared_count != n_rows_in_file:
        message = f"{declared_count} producers declared, but the file has room for {n_rows_in_file}"
        report_malformed(crc_start, message, declared_count, n_rows_in_file)
    return header_size


def _build_kind(name: str, suffix: str, reader: FixedSizeRowsReader) -> Kind:
    return Kind(
        *(name, FileLevel.SEGMENT, suffix),
        row_types=(reader.row_type,),
        layouts=tuple(filter(None, (reader.header_layout, reader.layout))),
        codes=(reader.trailing_code,),
        read=reader,
    )


OFFSET_INDEX_KIND = _build_kind(
    "offset_index",
    ".index",
    FixedSizeRowsReader(
        build_row_type("offset_index_entry", index.OFFSET_INDEX_ENTRY),
        index.OFFSET_INDEX_ENTRY,
        codes.INDEX_TRAILING_BYTES,
        may_be_padded=True,
    ),
)
TIME_INDEX_KIND = _build_kind(
    "time_index",
    ".timeindex",
    FixedSizeRowsReader(
        build_row_type("time_index_entry", index.TIME_INDEX_ENTRY),
        index.TIME_INDEX_ENTRY,
        codes.TIME_INDEX_TRAILING_BYTES,
        may_be_padded=True,
        # Timestamp 0 at the base offset may be intended.
        allows_zero_row=True,
    ),
)
TRANSACTION_INDEX_KIND = _build_kind(
    "transaction_index",
    ".txnindex",
    FixedSizeRowsReader(
        build_row_type("aborted_transaction", index.ABORTED_TRANSACTION),
        index.ABORTED_TRANSACTION,
        codes.TRANSACTION_INDEX_TRAILING_BYTES,
    ),
)
PRODUCER_SNAPSHOT_KIND = _build_kind(
    "producer_snapshot",
    ".snapshot",
    FixedSizeRowsReader(
        build_row_type("producer_state", snapshot.PRODUCER_STATE),
        snapshot.PRODUCER_STATE,
        codes.SNAPSHOT_TRAILING_BYTES,
        check_header=_check_snapshot_header,
        header_layout=snapshot.PRODUCER_SNAPSHOT,
    ),
)
