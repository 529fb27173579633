"""Converts Arrow columns of exported records to the columns that writers encode: the inverse of
`arrow/columns/arrow_batches.py`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.log.block import NO_TIMESTAMP
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.rows.log_tables import RecordTable
from kfmt_cli.rows.types.batch import TIMESTAMP_TYPE_NAMES
from kfmt_cli.writers.build.json_columns import BUILD_COLUMNS

LOG_APPEND_TIME = TIMESTAMP_TYPE_NAMES.index("LogAppendTime")


def int_values(column: pa.Array, null_value: int = -1) -> IntArray:
    """A column as integers: times in milliseconds, flags as 0 and 1, null as `null_value`."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    filled_column = pc.fill_null(column.cast(pa.int64()), null_value)
    integers: IntArray = filled_column.to_numpy(zero_copy_only=False)
    return integers


def records_from_arrow(rows: pa.RecordBatch) -> RecordColumns:
    """The columns of exported records.

    rows: have the columns offset, timestamp_ms, timestamp_type, key, value and headers.
    """
    record_table = RecordTable.zeros_with_columns(BUILD_COLUMNS, len(rows))
    column_buffers = _ColumnBuffers()
    record_table.offset = int_values(rows.column("offset"))
    record_table.timestamp = int_values(rows.column("timestamp_ms"), NO_TIMESTAMP)
    record_table.has_timestamp = 1
    log_append_mask = pc.equal(rows.column("timestamp_type"), TIMESTAMP_TYPE_NAMES[LOG_APPEND_TIME])
    record_table.timestamp_type = int_values(log_append_mask, 0)
    record_table.key, record_table.key_size = column_buffers.append_column(rows.column("key"))
    record_table.value, record_table.value_size = column_buffers.append_column(rows.column("value"))
    header_columns: IntArray = np.zeros((4, 0), np.int64)
    header_lists = rows.column("headers")
    header_counts = int_values(pc.list_value_length(header_lists), 0)
    if header_counts.any():
        record_table.headers, record_table.headers_first = (
            header_counts,
            np.cumsum(header_counts) - header_counts,
        )
        header_items = header_lists.flatten()
        header_columns = np.array(
            [
                *column_buffers.append_column(_header_keys(header_items)),
                *column_buffers.append_column(header_items.field("value")),
            ]
        )
    return RecordColumns(
        column_buffers.to_bytes(), record_table, header_columns, np.zeros(0, np.int64)
    )


def _header_keys(header_items: pa.StructArray) -> pa.Array:
    """The stored bytes of header keys."""
    keys = header_items.field("key").cast(pa.binary())
    if header_items.type.get_field_index("key_bytes") < 0:  # consumer columns, or an older export
        return keys
    return pc.coalesce(header_items.field("key_bytes"), keys)


class _ColumnBuffers:
    """A buffer with the bytes of several columns."""

    def __init__(self) -> None:
        self._chunks: list[memoryview] = []
        self._total_bytes = 0

    def append_column(self, column: pa.Array) -> tuple[IntArray, IntArray]:
        """Append a column; returns the start and size of each value, size -1 for null."""
        column = column.cast(pa.binary()) if column.type != pa.binary() else column
        _, offset_buffer, value_buffer = column.buffers()
        value_offsets: np.ndarray[tuple[int, ...], np.dtype[np.int32]] = np.zeros(1, np.int32)
        if offset_buffer is not None:
            value_offsets = np.frombuffer(offset_buffer, np.int32)[
                column.offset : column.offset + len(column) + 1
            ]
        first_byte, end_byte = int(value_offsets[0]), int(value_offsets[-1])
        value_starts = value_offsets[:-1].astype(np.int64) - first_byte + self._total_bytes
        value_sizes = np.diff(value_offsets).astype(np.int64)
        if column.null_count:
            value_sizes[pc.is_null(column).to_numpy(zero_copy_only=False)] = -1
        if value_buffer is not None:
            self._chunks.append(memoryview(value_buffer)[first_byte:end_byte])
            self._total_bytes += end_byte - first_byte
        return value_starts, value_sizes

    def to_bytes(self) -> bytes:
        """All bytes."""
        return b"".join(self._chunks)
