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
from kfmt_cli.disk.kinds.kind import (
    FileContents,
    FileKind,
    FileLevel,
    InputFile,
    read_without_padding,
)
from kfmt_cli.findings import codes
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
    partial_row_code: FindingCode
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
        file_bytes, file_size = read_without_padding(file, MAX_ROWS_FILE_BYTES)
        rows_end_byte = self.rows_end_position(file_bytes, file_size)
        file_bytes += bytes(
            max(rows_end_byte - len(file_bytes), 0)
        )  # the last row may end in the hole
        findings: list[Finding] = []
        rows_start_byte = (
            self.check_header(file.name, file_bytes, findings)
            if self.check_header is not None
            else 0
        )
        row_bytes = self.layout.dtype.itemsize
        n_rows = (rows_end_byte - rows_start_byte) // row_bytes
        stored_rows = np.frombuffer(file_bytes, self.layout.dtype, n_rows, rows_start_byte)
        table = EntryTable.zeros_with_columns(self.row_type.table_columns, n_rows)
        table.position = rows_start_byte + row_bytes * np.arange(n_rows)
        for field in self.layout.fields:
            table[field.name] = stored_rows[field.name]
        if "offset" in table.index_by_name:
            table.offset = table.relative_offset + file.base_offset_or_zero
        trailing_bytes = (file_size - rows_start_byte) % row_bytes
        if trailing_bytes:
            message = (
                f"the last {trailing_bytes} bytes are a partial entry ({row_bytes} bytes each)"
            )
            findings.append(
                Finding(
                    file.name,
                    self.partial_row_code,
                    file_size - trailing_bytes,
                    message,
                    expected=0,
                    found=trailing_bytes,
                )
            )
        padding_bytes = file_size - trailing_bytes - (rows_start_byte + n_rows * row_bytes)
        note = (
            f"followed by {padding_bytes:,} zero bytes".replace(",", " ") if padding_bytes else ""
        )
        columnar_rows = ColumnarRows(self.row_type, table, note=note)
        return FileContents(file_size, [columnar_rows], findings, padding_bytes)

    def rows_end_position(self, file_bytes: bytes, file_size: int | None = None) -> int:
        """The end of the last row that is not all zeros, if zeros may follow the rows. file_size:
        the file's size, if `file_bytes` ends before a hole."""
        file_size = len(file_bytes) if file_size is None else file_size
        row_bytes = self.layout.dtype.itemsize
        if not self.may_be_padded or (self.allows_zero_row and file_size == row_bytes):
            return file_size
        nonzero_bytes = len(file_bytes.rstrip(b"\0"))
        return min(-(-nonzero_bytes // row_bytes) * row_bytes, file_size // row_bytes * row_bytes)


def _check_snapshot_header(file_name: str, file_bytes: bytes, findings: list[Finding]) -> int:
    """Check a producer snapshot's header; returns the byte at which its rows begin."""
    layout = snapshot.PRODUCER_SNAPSHOT
    header_size = layout.dtype.itemsize

    def report_malformed(position: int, message: str, expected: int, found: int) -> None:
        code = codes.SNAPSHOT_MALFORMED
        findings.append(Finding(file_name, code, position, message, expected=expected, found=found))

    if len(file_bytes) < header_size:
        message = f"{len(file_bytes)} bytes; the header alone takes {header_size}"
        report_malformed(0, message, header_size, len(file_bytes))
        return len(file_bytes)
    header = np.frombuffer(file_bytes, layout.dtype, 1)[0]
    version, declared_count = int(header["version"]), int(header["producers_count"])
    if version != 1:
        report_malformed(0, f"version {version}; only 1 is supported", 1, version)
    crc_start = layout.field_start("producers_count")
    computed_crc = compute_crc(CRC32C_POLYNOMIAL, file_bytes[crc_start:])
    stored_crc = int(header["crc"])
    if computed_crc != stored_crc:
        message = (
            f"stored {stored_crc:08x}, computed {computed_crc:08x} over bytes "
            f"{crc_start}–{len(file_bytes) - 1}"
        )
        findings.append(
            Finding(
                file_name,
                codes.SNAPSHOT_CRC_MISMATCH,
                layout.field_start("crc"),
                message,
                expected=f"{computed_crc:08x}",
                found=f"{stored_crc:08x}",
            )
        )
    n_rows_in_file = (len(file_bytes) - header_size) // snapshot.PRODUCER_STATE.dtype.itemsize
    if declared_count != n_rows_in_file:
        message = f"{declared_count} producers declared, but the file has room for {n_rows_in_file}"
        report_malformed(crc_start, message, declared_count, n_rows_in_file)
    return header_size


def _build_kind(kind_name: str, suffix: str, reader: FixedSizeRowsReader) -> FileKind:
    return FileKind(
        *(kind_name, FileLevel.SEGMENT, suffix),
        row_types=(reader.row_type,),
        layouts=tuple(filter(None, (reader.header_layout, reader.layout))),
        reader=reader,
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
