"""Records of a block's batches, of every magic and codec, as one table in offset order.

Rows are decoded in bulk. The slow reader of the same Layout rereads an inconsistent batch and
reports where and why. Records before the error are kept. Checks that need only the ranges of each
batch's offsets and timestamps get them without rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.location import BufferOrigin, ByteLocation, DecodeError
from kfmt_cli.core.native import kernel
from kfmt_cli.core.table import Table, TableColumn
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import RECORD, RECORD_BATCH
from kfmt_cli.formats.legacy import MESSAGE_LAYOUTS
from kfmt_cli.log.block import (
    BATCH_HEADER_BYTES,
    Block,
    batch_finding,
    create_batch_finding_with_detail,
)
from kfmt_cli.log.decompression import record_bytes_and_ranges
from kfmt_cli.rows.log_tables import (
    BATCH_COLUMN_INDEX,
    READ_COLUMN_INDEX,
    RECORD_COLUMN_INDEX,
    RecordTable,
)

STATUS_OK, STATUS_FULL = (kernel.STATUSES[name] for name in ("OK", "FULL"))
# Per block, to keep its columns below some hundred megabytes whatever it decompresses to.
MAX_BLOCK_RECORDS = 1 << 21


class RecordRangeTable(Table):
    """The range of offsets and timestamps of each batch's records."""

    __slots__ = ()

    first_offset = TableColumn()
    last_offset = TableColumn()
    min_offset = TableColumn()
    max_offset = TableColumn()
    is_increasing = TableColumn()
    """Whether each offset is greater than the previous one."""
    max_timestamp = TableColumn()
    all_have_timestamp = TableColumn()
    """Whether each record has a timestamp."""


@dataclass(slots=True)
class RecordColumns:
    """The records of a block's batches.

    data: the buffer of the key, value and header columns. rows: at least the columns of
    `READ_COLUMN_INDEX`, in order. row_ends: the exclusive end of each batch's rows. headers:
    (4, n): start and length of the key, start and length of the value.
    """

    data: bytes
    rows: RecordTable
    headers: IntArray
    row_ends: IntArray
    findings: list[Finding] = field(default_factory=list)
    _record_ranges: RecordRangeTable | None = field(default=None, init=False)

    def __len__(self) -> int:
        return int(self.row_ends[-1]) if len(self.row_ends) else 0

    @property
    def nonempty_batch_indexes(self) -> IntArray:
        """The batches with records."""
        return np.flatnonzero(self.row_counts)

    @property
    def record_ranges(self) -> RecordRangeTable:
        """A row for each of `nonempty_batches`."""
        if self._record_ranges is None:
            self._record_ranges = record_ranges = RecordRangeTable.zeros(
                len(self.nonempty_batch_indexes)
            )
            if len(record_ranges):
                rows, last_rows = self.rows, self.row_ends[self.nonempty_batch_indexes] - 1
                first_rows = last_rows + 1 - self.row_counts[self.nonempty_batch_indexes]
                record_ranges.first_offset = rows.offset[first_rows]
                record_ranges.last_offset = rows.offset[last_rows]
                record_ranges.min_offset = np.minimum.reduceat(rows.offset, first_rows)
                record_ranges.max_offset = np.maximum.reduceat(rows.offset, first_rows)
                # Offsets that overflow wrap around; they still differ as their deltas do.
                is_increasing = np.diff(rows.offset, append=0) > 0
                is_increasing[last_rows] = True
                record_ranges.is_increasing = np.logical_and.reduceat(is_increasing, first_rows)
                record_ranges.max_timestamp = np.maximum.reduceat(rows.timestamp, first_rows)
                record_ranges.all_have_timestamp = np.minimum.reduceat(
                    rows.has_timestamp, first_rows
                )
        return self._record_ranges

    @property
    def row_counts(self) -> IntArray:
        """How many rows each batch has."""
        return np.diff(self.row_ends, prepend=0)

    @property
    def batch_of_row(self) -> IntArray:
        """The batch of each row."""
        return np.repeat(np.arange(len(self.row_ends)), self.row_counts)

    def add_output_columns(self) -> None:
        """Add the columns that only outputs need, with zeros."""
        rows = self.rows
        if len(rows.index_by_name) == len(READ_COLUMN_INDEX):
            rows.data[len(READ_COLUMN_INDEX) :] = 0
            rows.index_by_name = RECORD_COLUMN_INDEX  # the same for all users of the table


class LazyRecordColumns(RecordColumns):
    """Records whose offsets increase in each batch; rows are decoded when they are first used."""

    def __init__(
        self,
        block: Block,
        limit: DecompressionLimit,
        record_ranges: RecordRangeTable,
        row_ends: IntArray,
        findings: list[Finding],
    ) -> None:
        self._decode_rows = partial(read_v2_records, block, limit)
        self.row_ends, self.findings, self._record_ranges = row_ends, findings, record_ranges

    def __getattr__(self, name: str) -> object:  # only for attributes that are not set yet
        if name not in ("data", "rows", "headers"):
            raise AttributeError(name)
        decoded_records = self._decode_rows()
        self.data, self.rows, self.headers = (
            decoded_records.data,
            decoded_records.rows,
            decoded_records.headers,
        )
        return getattr(decoded_records, name)


def read_lazy_v2_records(block: Block, limit: DecompressionLimit) -> RecordColumns:
    """The records of batches of magic 2, with their ranges, for checks; see `LazyRecordColumns`."""
    batches = block.batches
    if batches.control.any():  # checks use the rows of control records
        return read_v2_records(block, limit)
    findings: list[Finding] = []
    data, region_starts, region_ends = block.decompressed or record_bytes_and_ranges(
        block, limit, findings
    )
    delta_columns = ("offset_delta", "timestamp_delta")
    (offset_statistics, timestamp_statistics), record_regions = RECORD.compute_statistics(
        data, region_starts, region_ends, delta_columns, MAX_BLOCK_RECORDS
    )
    nonempty_indexes = np.flatnonzero(np.diff(record_regions[2], prepend=0))
    base_offsets, base_timestamps = (
        batches.base_offset[nonempty_indexes],
        batches.base_timestamp[nonempty_indexes],
    )
    first_deltas, last_deltas, is_increasing = offset_statistics[:, nonempty_indexes]
    if not is_increasing.all() or _may_sum_overflow(
        base_offsets, base_timestamps, timestamp_statistics[:2]
    ):
        return read_v2_records(block, limit)
    record_ranges = RecordRangeTable.zeros(len(nonempty_indexes))
    record_ranges.is_increasing = is_increasing
    record_ranges.first_offset = record_ranges.min_offset = base_offsets + first_deltas
    record_ranges.last_offset = record_ranges.max_offset = base_offsets + last_deltas
    record_ranges.max_timestamp = base_timestamps + timestamp_statistics[1, nonempty_indexes]
    record_ranges.all_have_timestamp = 1
    row_ends, findings = _row_ends_and_findings(block, data, record_regions, findings)
    return LazyRecordColumns(block, limit, record_ranges, row_ends, findings)


def _may_sum_overflow(*addends: IntArray) -> bool:
    """Whether the sum of two of them may wrap around, as it does in a broker."""
    return any(bool((abs(addend >> 1) >= 1 << 61).any()) for addend in addends)


def read_v2_records(block: Block, limit: DecompressionLimit) -> RecordColumns:
    """The records of batches of magic 2."""
    batches = block.batches
    findings: list[Finding] = []
    data, region_starts, region_ends = block.decompressed or record_bytes_and_ranges(
        block, limit, findings
    )
    decoded_columns = RECORD.decode_columns(
        data,
        region_starts,
        region_ends,
        int(batches.records_count.clip(0).sum()),
        n_extra_columns=len(RECORD_COLUMN_INDEX) - len(RECORD.index_by_name),
        max_rows=MAX_BLOCK_RECORDS,
    )
    row_ends, findings = _row_ends_and_findings(block, data, decoded_columns.regions, findings)
    # A record's position: its batch's position, plus the header, plus its position in the records.
    batches.records_position = batches.position + BATCH_HEADER_BYTES - region_starts
    is_append_time = batches.timestamp_type == 1
    batches.record_timestamp = np.where(
        is_append_time, batches.max_timestamp, batches.base_timestamp
    )
    batches.has_delta = ~is_append_time
    kernel.expand(batches.data, row_ends, _V2_DELTAS_PROGRAM, decoded_columns.rows)
    rows = RecordTable(READ_COLUMN_INDEX, decoded_columns.rows)
    return RecordColumns(data, rows, decoded_columns.children, row_ends, findings)


def _row_ends_and_findings(
    block: Block, data: bytes, record_regions: IntArray, findings: list[Finding]
) -> tuple[IntArray, list[Finding]]:
    """The end of each batch's rows, and the findings, also about missing or excess records."""
    row_ends = record_regions[2].copy()
    declared_counts = block.batches.records_count
    if (record_regions[3] != STATUS_OK).any() or (
        np.diff(row_ends, prepend=0) != declared_counts
    ).any():
        findings = [*findings, *_iter_record_count_findings(block, data, record_regions)]
    return row_ends, findings


def fill_columns_from_batches(
    block: Block, records: RecordColumns, expand_program: IntArray
) -> None:
    """Fill columns that only outputs need from the records' batches; see `kernel.expand`."""
    records.add_output_columns()
    kernel.expand(block.batches.data, records.row_ends, expand_program, records.rows.data)


def build_expand_program(*instructions: tuple[str, str, str | None, str | None]) -> IntArray:
    """A program for `kernel.expand`: (column, batch column, record column to add, batch column that
    must be set)."""
    return np.array(
        [
            (
                RECORD_COLUMN_INDEX[record_column],
                BATCH_COLUMN_INDEX[batch_column],
                RECORD_COLUMN_INDEX[addend_column] if addend_column else -1,
                BATCH_COLUMN_INDEX[condition_column] if condition_column else -1,
            )
            for record_column, batch_column, addend_column, condition_column in instructions
        ],
        np.int64,
    )


_V2_DELTAS_PROGRAM = build_expand_program(
    ("offset", "base_offset", "offset_delta", None),
    ("timestamp", "record_timestamp", "timestamp_delta", "has_delta"),
    ("has_timestamp", "has_timestamp", None, None),
)


def _iter_record_count_findings(
    block: Block, data: bytes, record_regions: IntArray
) -> Iterator[Finding]:
    """Findings for batches with missing or excess records."""
    batches = block.batches
    row_ends = record_regions[2].tolist()
    for batch_index, (records_start, records_end) in enumerate(
        zip(*record_regions[:2].tolist(), strict=True)
    ):
        n_declared = int(batches.records_count[batch_index])
        n_read = row_ends[batch_index] - (row_ends[batch_index - 1] if batch_index else 0)
        codec = int(batches.compression[batch_index])
        if batches.unreadable[batch_index]:
            continue
        if record_regions[3, batch_index] == STATUS_FULL:
            message = f"records or headers beyond {MAX_BLOCK_RECORDS} were not checked"
            yield batch_finding(block, batch_index, codes.RECORDS_LIMIT, message, found=n_declared)
        elif (
            record_regions[3, batch_index] != STATUS_OK and not n_declared
        ):  # consumers skip its records
            records_bytes = records_end - records_start
            message = f"declares no records but has {records_bytes} bytes of them"
            code = codes.RECORDS_COUNT_MISMATCH
            yield batch_finding(block, batch_index, code, message, expected=0, found=None)
        elif record_regions[3, batch_index] != STATUS_OK:
            error_position = int(record_regions[4, batch_index]) - records_start
            buffer_origin = BufferOrigin(
                block.file_name, int(batches.position[batch_index]), is_decompressed=bool(codec)
            )
            if not codec:
                # Not the position in `data`: it differs for fixed and for decompressed batches.
                buffer_origin = BufferOrigin(
                    block.file_name, int(batches.position[batch_index]) + BATCH_HEADER_BYTES
                )
            trailing_note = (
                f" ({records_end - records_start - error_position} bytes after the last record)"
                if n_read >= n_declared
                else ""
            )
            yield unreadable_record_finding(
                block,
                batch_index,
                data[records_start:records_end],
                ByteLocation(buffer_origin, error_position),
                f"record {n_read}",
                trailing_note,
            )
        elif (
            n_read != n_declared
            and 0 <= n_declared <= int(batches.last_offset_delta[batch_index]) + 1
        ):
            yield batch_finding(
                block,
                batch_index,
                codes.RECORDS_COUNT_MISMATCH,
                f"declares {n_declared} records but contains {n_read}",
                expected=n_declared,
                found=n_read,
            )


def unreadable_record_finding(
    block: Block,
    batch_index: int,
    record_data: bytes,
    location: ByteLocation,
    record_label: str,
    trailing_note: str = "",
) -> Finding:
    """The finding for a record or message that could not be read, in the batch at `batch_index`.

    The record begins at `location` and ends where `record_data` ends. trailing_note: text after the
    error.
    """
    is_v2 = block.batches.is_v2[batch_index]
    layout = (
        RECORD
        if is_v2
        else MESSAGE_LAYOUTS[
            record_data[location.buffer_position + RECORD_BATCH.field_start("magic")]
        ]
    )
    try:
        layout.read_row(
            record_data,
            location.buffer_position,
            len(record_data),
            location.origin,
            (record_label,),
        )
    except DecodeError as error:
        field_path = "".join(f" › {field_label}" for field_label in error.location.structure_names)
        error_text = (
            f"{field_path}: {error.reason}, at "
            f"{location.origin.describe_byte(error.location.buffer_position)}{trailing_note}"
        )
        code = codes.RECORD_MALFORMED if is_v2 else codes.MESSAGE_MALFORMED
        return create_batch_finding_with_detail(
            block, batch_index, code, error_text, position=error.location.file_position
        )
    raise AssertionError("internal error: the kernel and the slow reader disagree")
