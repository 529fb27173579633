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
from kfmt_cli.log.block import BATCH_HEADER_BYTES, CRC_START_BY_MAGIC, LOG_OVERHEAD_BYTES
from kfmt_cli.log.records import RecordColumns

# Header fields computed from the records. The caller sets the others.
COMPUTED_FIELDS = ("batch_length", "magic", "crc", "records_count")
STORED_FIELDS = tuple(
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
    ends: IntArray
    base_offset: IntArray
    last_offset: IntArray
    max_timestamp: IntArray
    """-1 for a batch without a max timestamp."""

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def starts(self) -> IntArray:
        """The start of each batch in `data`: the end of the previous batch."""
        return np.append(0, self.ends)[:-1]

    def select_range(self, first: int, last: int) -> EncodedBatches:
        """Batches first..last-1."""
        rows = slice(first, last)
        start, end = (int(self.ends[row - 1]) if row else 0 for row in (first, last))
        return EncodedBatches(
            memoryview(self.data)[start:end],
            self.ends[rows] - start,
            self.base_offset[rows],
            self.last_offset[rows],
            self.max_timestamp[rows],
        )


def concatenate_batches(chunks: Sequence[EncodedBatches]) -> EncodedBatches:
    """Join encoded batches in order. chunks: at least one."""
    shifts = np.cumsum([0, *(len(chunk.data) for chunk in chunks[:-1])]).tolist()
    return EncodedBatches(
        b"".join(chunk.data for chunk in chunks),
        np.concatenate([chunk.ends + shift for chunk, shift in zip(chunks, shifts, strict=True)]),
        np.concatenate([chunk.base_offset for chunk in chunks]),
        np.concatenate([chunk.last_offset for chunk in chunks]),
        np.concatenate([chunk.max_timestamp for chunk in chunks]),
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
    buffer, end_of_record = encode_records(drafts, batch_index, records, gap_bytes, start_shifts)
    records_end_of_batch = np.concatenate([[0], end_of_record])[records.row_ends]
    if is_uncompressed:
        batch_ends = records_end_of_batch + BATCH_HEADER_BYTES * np.arange(1, len(drafts) + 1)
    else:
        buffer, batch_ends = _compress_batches(buffer, records_end_of_batch, codecs)
    return _add_headers(buffer, batch_ends, drafts, record_counts)


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


def seal_batch(draft: DraftTable, body: bytearray, n_records: int) -> EncodedBatches:
    """Complete one batch of magic 2 from its encoded records.

    draft: one row. body: space for the header, then the records. The batch reuses this buffer, so
    that a large batch is not in memory twice.
    """
    codec = int(draft.attributes[0]) & CODEC_MASK
    if codec:
        compressed_records = compress(CODECS[codec], bytes(memoryview(body)[BATCH_HEADER_BYTES:]))
        body[BATCH_HEADER_BYTES:] = compressed_records
    return _add_headers(body, np.array([len(body)]), draft, np.array([n_records]))


def _compress_batches(
    uncompressed: bytearray, record_ends: IntArray, codecs: IntArray
) -> tuple[bytearray, IntArray]:
    """Compress the records of each batch, with space for its header; also returns the ends."""
    data, start = bytes(uncompressed), 0
    out, compressed_ends = bytearray(), []
    for end, codec in zip(record_ends.tolist(), codecs.tolist(), strict=True):
        out += bytes(BATCH_HEADER_BYTES)
        out += compress(CODECS[codec], data[start:end])
        compressed_ends.append(len(out))
        start = end
    return out, np.array(compressed_ends, np.int64)


def _add_headers(
    out: bytearray, batch_ends: IntArray, drafts: DraftTable, record_counts: IntArray
) -> EncodedBatches:
    """Fill in the headers, including checksums, of batches with encoded records."""
    base_offsets = drafts.base_offset
    batches = EncodedBatches(
        out, batch_ends, base_offsets, base_offsets + drafts.last_offset_delta, drafts.max_timestamp
    )
    starts = batches.starts
    headers = np.zeros(len(drafts), RECORD_BATCH.dtype)
    for name in STORED_FIELDS:
        headers[name] = drafts[name]
    headers["magic"] = 2
    headers["records_count"] = record_counts
    headers["batch_length"] = batch_ends - starts - LOG_OVERHEAD_BYTES
    write_fixed_rows(out, starts, headers)
    headers["crc"] = compute_region_crcs(
        CRC32C_POLYNOMIAL, memoryview(out), starts + CRC_START_BY_MAGIC[2], batch_ends
    )
    write_fixed_rows(out, starts, headers)
    return batches


def write_fixed_rows(
    out: bytearray, starts: IntArray, rows: np.ndarray[tuple[int], np.dtype[np.void]]
) -> None:
    """Write fixed-size rows at the given start positions."""
    row_bytes = rows.dtype.itemsize
    output_bytes = np.frombuffer(out, np.uint8)
    output_bytes[starts[:, None] + np.arange(row_bytes)] = rows.view(np.uint8).reshape(
        -1, row_bytes
    )
