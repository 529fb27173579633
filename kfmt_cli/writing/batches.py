"""Encodes records as batches: the inverse of `log/block.py` and `log/records.py`.

Deltas against the batch's base timestamp and offset, sizes, counts and checksums follow from the
tables. Records are compressed first; then length, checksum and count are set, as Kafka's builder
does. Source: `org.apache.kafka.common.record.MemoryRecordsBuilder`,
`DefaultRecordBatch.writeHeader`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.codecs.checksum import CRC32C, crc_of_regions
from kfmt_cli.core.codecs.compress import compress
from kfmt_cli.core.layout.layout import IntArray, encoded
from kfmt_cli.core.native.table import Table, TableColumn
from kfmt_cli.formats.batch import CODECS, COMPRESSION, RECORD, RECORD_BATCH, TIMESTAMP_TYPE
from kfmt_cli.log.block import CHECKED_FROM, HEADER_SIZE, LOG_OVERHEAD
from kfmt_cli.log.records import Records

# Header fields set by the caller; the others follow from the records.
COMPUTED = ("batch_length", "magic", "crc", "records_count")
GIVEN = tuple(field.name for field in RECORD_BATCH.fields if field.name not in COMPUTED)
CODEC_MASK = COMPRESSION.mask
APPEND_TIME = TIMESTAMP_TYPE.mask


class DraftTable(Table):
    """Batches to write: header fields that do not follow from their records; the line that began
    a batch, whether it gives the max timestamp, and its record count, -1 without one."""

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
    number = TableColumn()
    max_given = TableColumn()
    declared = TableColumn()


@dataclass(frozen=True, slots=True)
class Written:
    """Encoded batches: their bytes and positions, and the values that indexes need."""

    data: bytes | bytearray | memoryview
    ends: IntArray
    base_offset: IntArray
    last_offset: IntArray
    max_timestamp: IntArray
    """-1 for a batch without one."""

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def starts(self) -> IntArray:
        """Where each begins: at the end of the one before it."""
        return np.append(0, self.ends)[:-1]

    def part(self, first: int, last: int) -> Written:
        """Batches first..last-1."""
        rows = slice(first, last)
        start, end = (int(self.ends[row - 1]) if row else 0 for row in (first, last))
        return Written(
            memoryview(self.data)[start:end],
            self.ends[rows] - start,
            self.base_offset[rows],
            self.last_offset[rows],
            self.max_timestamp[rows],
        )


def joined(parts: Sequence[Written]) -> Written:
    """Encoded batches, one after another; at least one part."""
    shifts = np.cumsum([0, *(len(part.data) for part in parts[:-1])]).tolist()
    return Written(
        b"".join(part.data for part in parts),
        np.concatenate([part.ends + by for part, by in zip(parts, shifts, strict=True)]),
        np.concatenate([part.base_offset for part in parts]),
        np.concatenate([part.last_offset for part in parts]),
        np.concatenate([part.max_timestamp for part in parts]),
    )


def write_batches(drafts: DraftTable, records: Records) -> Written:
    """Encode batches of magic 2.

    drafts: one row per batch. records: `ends[i]` is the exclusive end of batch i's
    rows; this function sets their deltas.
    """
    counts = records.counts
    owner = np.repeat(np.arange(len(drafts)), counts)
    codecs = drafts.attributes & CODEC_MASK
    plain = bool((codecs == 0).all())
    # Encode uncompressed records in place, with gaps for the headers.
    gaps = HEADER_SIZE * (owner + 1) if plain else 0
    room = HEADER_SIZE * len(drafts) if plain else 0
    out, ends = encode_records(drafts, owner, records, room, gaps)
    record_ends = np.concatenate([[0], ends])[records.ends]
    if plain:
        batch_ends = record_ends + HEADER_SIZE * np.arange(1, len(drafts) + 1)
    else:
        out, batch_ends = _compressed(out, record_ends, codecs)
    return _with_headers(out, batch_ends, drafts, counts)


def encode_records(
    drafts: DraftTable, owner: IntArray, records: Records, room: int = 0, gaps: IntArray | int = 0
) -> tuple[bytearray, IntArray]:
    """Encode records of magic 2 consecutively; also returns where each ends, not counting the gaps.

    owner: each record's batch in `drafts`. gaps: how much later each record begins; room: bytes for
    all gaps. Sets the deltas of the records' rows.
    """
    rows = records.rows
    rows.attributes = 0
    rows.offset_delta = rows.offset - drafts.base_offset[owner]
    append_time = drafts.attributes[owner] & APPEND_TIME != 0
    rows.timestamp_delta = np.where(append_time, 0, rows.timestamp - drafts.base_timestamp[owner])
    return encoded(RECORD.program, records.data, rows.data, records.headers, room, gaps)


def seal(draft: DraftTable, body: bytearray, n_records: int) -> Written:
    """Make one batch of magic 2 from its encoded records.

    draft: one row. body: room for the header, then the records; it becomes the
    batch, so that a large one is not in memory twice.
    """
    codec = int(draft.attributes[0]) & CODEC_MASK
    if codec:
        packed = compress(CODECS[codec], bytes(memoryview(body)[HEADER_SIZE:]))
        body[HEADER_SIZE:] = packed
    return _with_headers(body, np.array([len(body)]), draft, np.array([n_records]))


def _compressed(plain: bytearray, ends: IntArray, codecs: IntArray) -> tuple[bytearray, IntArray]:
    """Compress the records of each batch, with room for its header."""
    data, start = bytes(plain), 0
    out, packed_ends = bytearray(), []
    for end, codec in zip(ends.tolist(), codecs.tolist(), strict=True):
        out += bytes(HEADER_SIZE)
        out += compress(CODECS[codec], data[start:end])
        packed_ends.append(len(out))
        start = end
    return out, np.array(packed_ends, np.int64)


def _with_headers(out: bytearray, ends: IntArray, drafts: DraftTable, counts: IntArray) -> Written:
    """Batches whose records are encoded, with their headers in front of these."""
    base = drafts.base_offset
    done = Written(out, ends, base, base + drafts.last_offset_delta, drafts.max_timestamp)
    starts = done.starts
    headers = np.zeros(len(drafts), RECORD_BATCH.dtype)
    for name in GIVEN:
        headers[name] = drafts[name]
    headers["magic"] = 2
    headers["records_count"] = counts
    headers["batch_length"] = ends - starts - LOG_OVERHEAD
    put_rows(out, starts, headers)
    headers["crc"] = crc_of_regions(CRC32C, memoryview(out), starts + CHECKED_FROM[2], ends)
    put_rows(out, starts, headers)
    return done


def put_rows(
    out: bytearray, starts: IntArray, rows: np.ndarray[tuple[int], np.dtype[np.void]]
) -> None:
    """Write fixed-size rows at their starts."""
    width = rows.dtype.itemsize
    target = np.frombuffer(out, np.uint8)
    target[starts[:, None] + np.arange(width)] = rows.view(np.uint8).reshape(-1, width)
