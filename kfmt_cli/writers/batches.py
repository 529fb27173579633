"""Encodes records as batches: the inverse of `log/block.py` and `log/records.py`.

Sizes, counts, checksums and the deltas from the batch's base timestamp and base offset are computed
from the tables. As in Kafka's builder, records are compressed before length, checksum and count are
set. Source: `org.apache.kafka.common.record.MemoryRecordsBuilder`,
`DefaultRecordBatch.writeHeader`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.codecs.checksum import CRC32C_POLYNOMIAL, compute_region_crcs
from kfmt_cli.core.codecs.compress import compress
from kfmt_cli.core.layout.layout import IntArray, encode_rows
from kfmt_cli.core.table import Table, TableColumn
from kfmt_cli.formats.batch import CODECS, COMPRESSION, RECORD, RECORD_BATCH, TIMESTAMP_TYPE
from kfmt_cli.log.block import BATCH_HEADER_BYTES, CHECKSUMMED_START_BY_MAGIC, LOG_OVERHEAD_BYTES
from kfmt_cli.log.records import RecordColumns

# Header fields computed from the records. The caller sets the others.
COMPUTED_FIELDS = ("batch_length", "magic", "crc", "records_count")
CALLER_FIELDS = tuple(
    field.name for field in RECORD_BATCH.fields if field.name not in COMPUTED_FIELDS
)
CODEC_MASK = COMPRESSION.mask
APPEND_TIME_MASK = TIMESTAMP_TYPE.mask


class DraftTable(Table):
    """Batches to write: header fields that are not computed from their records; the number of the
    line that began the batch, whether it declares the max timestamp, and its declared record count
    (-1 if none)."""

    __slots__ = ()

    magic = TableColumn()
    base_offset = TableColumn()
    partition_leader_epoch = TableColumn()
    attributes = TableColumn()
    last_offset_delta = TableColumn()
    base_timestamp = TableColumn()
    max_timestamp = TableColumn()
    producer_id = TableColumn()
    producer_epoch = TableColumn()
    base_sequence = TableColumn()
    line_number = TableColumn()
    has_explicit_max = TableColumn()
    declared_count = TableColumn()


@dataclass(frozen=True, slots=True)
class EncodedBatches:
    """Encoded batches: their bytes and positions, and the values that indexes need."""

    data: bytes | bytearray | memoryview
    end_positions: IntArray
    base_offset: IntArray
    last_offset: IntArray
    max_timestamp: IntArray
    """-1 for a batch without a max timestamp."""

    def __len__(self) -> int:
        return len(self.end_positions)

    @property
    def start_positions(self) -> IntArray:
        """The start of each batch in `data`: the end of the previous batch."""
        return np.append(0, self.end_positions)[:-1]

    def select_range(self, first_index: int, end_index: int) -> EncodedBatches:
        """Batches first..last-1."""
        rows = slice(first_index, end_index)
        start, end = (
            int(self.end_positions[row - 1]) if row else 0 for row in (first_index, end_index)
        )
        return EncodedBatches(
            memoryview(self.data)[start:end],
            self.end_positions[rows] - start,
            self.base_offset[rows],
            self.last_offset[rows],
            self.max_timestamp[rows],
        )


def concatenate_batches(batch_groups: Sequence[EncodedBatches]) -> EncodedBatches:
    """Join encoded batches in order. batch_groups: at least one."""
    byte_shifts = np.cumsum(
        [0, *(len(batch_group.data) for batch_group in batch_groups[:-1])]
    ).tolist()
    return EncodedBatches(
        b"".join(batch_group.data for batch_group in batch_groups),
        np.concatenate(
            [
                batch_group.end_positions + byte_shift
                for batch_group, byte_shift in zip(batch_groups, byte_shifts, strict=True)
            ]
        ),
        np.concatenate([batch_group.base_offset for batch_group in batch_groups]),
        np.concatenate([batch_group.last_offset for batch_group in batch_groups]),
        np.concatenate([batch_group.max_timestamp for batch_group in batch_groups]),
    )


def encode_batches(drafts: DraftTable, records: RecordColumns) -> EncodedBatches:
    """Encode batches of magic 2.

    drafts: one row per batch. records: `row_ends[i]` is the exclusive end of batch i's rows; this
    function sets the rows' deltas.
    """
    record_counts = records.row_counts
    batch_index = np.repeat(np.arange(len(drafts)), record_counts)
    codecs = drafts.attributes & CODEC_MASK
    is_uncompressed = bool((codecs == 0).all())
    # Encode uncompressed records in place, with gaps for the headers.
    start_shifts = BATCH_HEADER_BYTES * (batch_index + 1) if is_uncompressed else 0
    gap_bytes = BATCH_HEADER_BYTES * len(drafts) if is_uncompressed else 0
    encoded_bytes, record_ends = encode_records(
        drafts, batch_index, records, gap_bytes, start_shifts
    )
    batch_record_ends = np.concatenate([[0], record_ends])[records.row_ends]
    if is_uncompressed:
        batch_ends = batch_record_ends + BATCH_HEADER_BYTES * np.arange(1, len(drafts) + 1)
    else:
        encoded_bytes, batch_ends = _compress_batches(encoded_bytes, batch_record_ends, codecs)
    return _add_headers(encoded_bytes, batch_ends, drafts, record_counts)


def encode_records(
    drafts: DraftTable,
    batch_index: IntArray,
    records: RecordColumns,
    gap_bytes: int = 0,
    start_shifts: IntArray | int = 0,
) -> tuple[bytearray, IntArray]:
    """Encode records of magic 2 consecutively; also returns their ends, not counting the gaps.

    batch_index: each record's batch in `drafts`. start_shifts: the bytes of gaps before each
    record. gap_bytes: the bytes of all gaps. Sets the deltas of the records' rows.
    """
    rows = records.rows
    rows.attributes = 0
    rows.offset_delta = rows.offset - drafts.base_offset[batch_index]
    is_append_time = drafts.attributes[batch_index] & APPEND_TIME_MASK != 0
    rows.timestamp_delta = np.where(
        is_append_time, 0, rows.timestamp - drafts.base_timestamp[batch_index]
    )
    return encode_rows(
        RECORD.program, records.data, rows.data, records.headers, gap_bytes, start_shifts
    )


def complete_batch(draft: DraftTable, encoded_records: bytearray, n_records: int) -> EncodedBatches:
    """Complete one batch of magic 2 from its encoded records.

    draft: one row. encoded_records: space for the header, then the records. The batch reuses this
    buffer, so that a large batch is not in memory twice.
    """
    codec = int(draft.attributes[0]) & CODEC_MASK
    if codec:
        compressed_records = compress(
            CODECS[codec], bytes(memoryview(encoded_records)[BATCH_HEADER_BYTES:])
        )
        encoded_records[BATCH_HEADER_BYTES:] = compressed_records
    return _add_headers(
        encoded_records, np.array([len(encoded_records)]), draft, np.array([n_records])
    )


def _compress_batches(
    encoded_records: bytearray, record_ends: IntArray, codecs: IntArray
) -> tuple[bytearray, IntArray]:
    """Compress the records of each batch, with space for its header; also returns the ends."""
    record_bytes, batch_start = bytes(encoded_records), 0
    batches_buffer, batch_ends = bytearray(), []
    for batch_end, codec in zip(record_ends.tolist(), codecs.tolist(), strict=True):
        batches_buffer += bytes(BATCH_HEADER_BYTES)
        batches_buffer += compress(CODECS[codec], record_bytes[batch_start:batch_end])
        batch_ends.append(len(batches_buffer))
        batch_start = batch_end
    return batches_buffer, np.array(batch_ends, np.int64)


def _add_headers(
    batches_buffer: bytearray, batch_ends: IntArray, drafts: DraftTable, record_counts: IntArray
) -> EncodedBatches:
    """Fill in the headers, including checksums, of batches with encoded records."""
    base_offsets = drafts.base_offset
    batches = EncodedBatches(
        batches_buffer,
        batch_ends,
        base_offsets,
        base_offsets + drafts.last_offset_delta,
        drafts.max_timestamp,
    )
    batch_starts = batches.start_positions
    headers = np.zeros(len(drafts), RECORD_BATCH.dtype)
    for field_name in CALLER_FIELDS:
        headers[field_name] = drafts[field_name]
    headers["magic"] = 2
    headers["records_count"] = record_counts
    headers["batch_length"] = batch_ends - batch_starts - LOG_OVERHEAD_BYTES
    write_fixed_rows(batches_buffer, batch_starts, headers)
    headers["crc"] = compute_region_crcs(
        CRC32C_POLYNOMIAL,
        memoryview(batches_buffer),
        batch_starts + CHECKSUMMED_START_BY_MAGIC[2],
        batch_ends,
    )
    write_fixed_rows(batches_buffer, batch_starts, headers)
    return batches


def write_fixed_rows(
    buffer: bytearray, starts: IntArray, rows: np.ndarray[tuple[int], np.dtype[np.void]]
) -> None:
    """Write fixed-size rows at the given start positions."""
    row_bytes = rows.dtype.itemsize
    output_bytes = np.frombuffer(buffer, np.uint8)
    output_bytes[starts[:, None] + np.arange(row_bytes)] = rows.view(np.uint8).reshape(
        -1, row_bytes
    )
