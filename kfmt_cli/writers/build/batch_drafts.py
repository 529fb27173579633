"""Groups records into batches, and derives the header fields of batches from their records.

Source: `org.apache.kafka.common.record.MemoryRecordsBuilder`: base offset and base timestamp are
the first record's, the max timestamp is the largest, sizes are estimated before compression.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.core.table import BoolArray
from kfmt_cli.formats.batch import COMPRESSION, TIMESTAMP_TYPE
from kfmt_cli.log.block import NO_TIMESTAMP
from kfmt_cli.rows.log_tables import RecordTable
from kfmt_cli.writers.batches import DraftTable, EncodedBatches

RECORD_OVERHEAD_BYTES = 21  # maximum bytes of a record, not counting its key and value
MAX_OFFSET_DELTA = (1 << 31) - 1
LOG_APPEND_TIME_TYPE = 1  # LogAppendTime in a column of timestamp types
FIELDS_WITHOUT_VALUE = ("partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence")


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """The size limits of a batch."""

    max_bytes: int = 16384
    max_records: int | None = None
    """None for no limit."""


def normalize_magic0_timestamps(rows: RecordTable) -> None:
    """Give records of magic 0, which lack timestamps, -1 and CreateTime, as Kafka does."""
    lacks_timestamp = rows.has_timestamp == 0
    rows.timestamp = np.where(lacks_timestamp, NO_TIMESTAMP, rows.timestamp)
    rows.timestamp_type = np.where(lacks_timestamp, 0, rows.timestamp_type)


def batch_start_mask(rows: RecordTable) -> BoolArray:
    """The mask of rows that must begin a batch.

    A batch has only one timestamp type and one LogAppendTime, and its offsets increase.
    """
    starts_batch = np.zeros(len(rows), np.bool_)
    offsets, timestamp_types, timestamps = rows.offset, rows.timestamp_type, rows.timestamp
    starts_batch[1:] = (np.diff(timestamp_types) != 0) | (offsets[1:] <= offsets[:-1])
    starts_batch[1:] |= (timestamp_types[1:] == LOG_APPEND_TIME_TYPE) & (np.diff(timestamps) != 0)
    starts_batch[:1] = True
    return starts_batch


@dataclass(slots=True)
class OpenBatch:
    """The last batch, which more records may extend."""

    draft: DraftTable
    """The header, as one row."""
    encoded_bytes: bytearray
    """Encoded records of magic 2, after space for the header, or messages of a wrapper."""
    estimated_bytes: int = 0
    """Bytes as `find_batch_starts` counts them."""
    n_records: int = 0
    encoded_messages: list[EncodedBatches] = field(
        default_factory=list
    )  # magic 0 and 1, without wrapper


def find_batch_starts(
    rows: RecordTable,
    starts_batch: BoolArray,
    is_bounded_row: BoolArray,
    bounds: BatchBounds,
    open_batch: OpenBatch | None = None,
) -> IntArray:
    """The first row of each batch.

    starts_batch: mask of rows that must begin a batch. is_bounded_row: mask of rows of batches to
    keep within the bounds. With `open_batch`, rows before the first row that must begin a batch
    continue the open batch while they fit.
    """
    sizes = estimated_record_bytes(rows)
    cumulative_sizes = np.cumsum(sizes)
    offsets = rows.offset
    max_records = bounds.max_records or 1 << 62
    start_rows: list[int] = []

    def find_batch_end_row(
        first_row: int, max_end_row: int, n_bytes: int, n_records: int, base_offset: int
    ) -> int:
        """The exclusive end row of a batch that begins or continues at a row; at most
        `max_end_row`."""
        end_row = max_end_row
        if is_bounded_row[first_row]:
            bytes_before_batch = int(cumulative_sizes[first_row] - sizes[first_row]) - n_bytes
            max_size = bytes_before_batch + bounds.max_bytes
            end_row = min(int(np.searchsorted(cumulative_sizes, max_size, "right")), max_end_row)
            end_row = end_row if n_records else max(end_row, first_row + 1)
            end_row = min(end_row, first_row + max_records - n_records)
        if end_row > first_row and int(offsets[end_row - 1]) - base_offset > MAX_OFFSET_DELTA:
            max_offset = min(base_offset + MAX_OFFSET_DELTA, MAX_OFFSET)
            end_row = min(end_row, int(np.searchsorted(offsets[:max_end_row], max_offset, "right")))
        return max(end_row, first_row)

    run_starts = np.flatnonzero(starts_batch)
    row = 0
    if open_batch is not None and len(rows) and not starts_batch[0]:
        run_end = int(run_starts[0]) if len(run_starts) else len(rows)
        row = find_batch_end_row(
            0,
            run_end,
            open_batch.estimated_bytes,
            open_batch.n_records,
            int(open_batch.draft.base_offset[0]),
        )
        if row < run_end:
            run_starts = np.concatenate([[row], run_starts])
    run_ends = np.append(run_starts[1:], len(rows))
    for run_start, run_end in zip(run_starts.tolist(), run_ends.tolist(), strict=False):
        row = run_start
        while row < run_end:
            start_rows.append(row)
            row = find_batch_end_row(row, run_end, 0, 0, int(offsets[row]))
    return np.array(start_rows, np.int64)


def estimated_record_bytes(rows: RecordTable) -> IntArray:
    """The estimated size of each record, as counted towards its batch."""
    sizes: IntArray = rows.key_size.clip(0) + rows.value_size.clip(0) + RECORD_OVERHEAD_BYTES
    if "header_bytes" in rows.index_by_name:
        sizes += rows["header_bytes"]
    return sizes


def create_drafts(rows: RecordTable, first_rows: IntArray, codecs: IntArray | int) -> DraftTable:
    """The headers of batches that begin at these rows, without a producer."""
    drafts = DraftTable.zeros(len(first_rows))
    last_rows = np.append(first_rows[1:], len(rows))[: len(first_rows)] - 1
    offsets, timestamps = rows.offset, rows.timestamp
    drafts.magic = 2
    drafts.base_offset = offsets[first_rows]
    drafts.last_offset_delta = offsets[last_rows] - offsets[first_rows]
    drafts.base_timestamp = timestamps[first_rows]
    drafts.max_timestamp = np.maximum.reduceat(timestamps, first_rows)
    type_bits = rows.timestamp_type[first_rows] << TIMESTAMP_TYPE.shift
    drafts.attributes = (codecs << COMPRESSION.shift) | type_bits
    for name in FIELDS_WITHOUT_VALUE:
        drafts[name] = -1
    return drafts
