"""Groups records into batches, and derives header fields from them.

Source: `org.apache.kafka.common.record.MemoryRecordsBuilder`: base offset and base timestamp are
the first record's, the max timestamp is the largest, sizes are estimated before compression.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.formats.batch import COMPRESSION, TIMESTAMP_TYPE
from kfmt_cli.log.block import NO_TIMESTAMP
from kfmt_cli.rows.log_tables import RecordTable
from kfmt_cli.writing.batches import DraftTable, Written

RECORD_OVERHEAD = 21  # most bytes of a record, not counting its key and value
MAX_DELTA = (1 << 31) - 1
MAX_OFFSET = (1 << 63) - 1
APPEND_TIME = 1  # in a column of timestamp types
NONE = ("partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence")


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """The size limits of a batch."""

    most_bytes: int = 16384
    most_records: int | None = None
    """None for no limit."""


def normalize(rows: RecordTable) -> None:
    """Give records of magic 0, which lack timestamps, -1 and CreateTime, as Kafka does."""
    none = rows.has_timestamp == 0
    rows.timestamp = np.where(none, NO_TIMESTAMP, rows.timestamp)
    rows.timestamp_type = np.where(none, 0, rows.timestamp_type)


def must_part(rows: RecordTable) -> BoolArray:
    """The mask of rows that must begin a batch: a batch has only one LogAppendTime."""
    parted = np.zeros(len(rows), np.bool_)
    offset, types, times = rows.offset, rows.timestamp_type, rows.timestamp
    parted[1:] = (np.diff(types) != 0) | (offset[1:] <= offset[:-1])
    parted[1:] |= (types[1:] == APPEND_TIME) & (np.diff(times) != 0)
    parted[:1] = True
    return parted


@dataclass(slots=True)
class Open:
    """The last batch, still open."""

    draft: DraftTable
    """One row."""
    body: bytearray
    size: int = 0
    """Bytes as `cut` counts them."""
    records: int = 0
    done: list[Written] = field(default_factory=list)  # loose messages of magic 0 and 1


def cut(
    rows: RecordTable,
    parted: BoolArray,
    loose: BoolArray,
    bounds: BatchBounds,
    begun: Open | None = None,
) -> IntArray:
    """The first row of each batch.

    parted: rows that must begin a batch; loose: rows of batches to keep within the bounds. With
    `begun`, rows before the first parted row continue that batch while they fit.
    """
    sizes = record_sizes(rows)
    ends = np.cumsum(sizes)
    offset = rows.offset
    most = bounds.most_records or 1 << 62
    starts: list[int] = []

    def fill(first: int, last: int, size: int, records: int, base: int) -> int:
        """The end of a batch that begins or continues at a row; `last` if all rows fit."""
        end = last
        if loose[first]:
            before = int(ends[first] - sizes[first]) - size
            end = min(int(np.searchsorted(ends, before + bounds.most_bytes, "right")), last)
            end = min(end if records else max(end, first + 1), first + most - records)
        if end > first and int(offset[end - 1]) - base > MAX_DELTA:
            furthest = min(base + MAX_DELTA, MAX_OFFSET)
            end = min(end, int(np.searchsorted(offset[:last], furthest, "right")))
        return max(end, first)

    firsts = np.flatnonzero(parted)
    row = 0
    if begun is not None and len(rows) and not parted[0]:
        last = int(firsts[0]) if len(firsts) else len(rows)
        row = fill(0, last, begun.size, begun.records, int(begun.draft.base_offset[0]))
        if row < last:
            firsts = np.concatenate([[row], firsts])
    lasts = np.append(firsts[1:], len(rows))
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=False):
        row = first
        while row < last:
            starts.append(row)
            row = fill(row, last, 0, 0, int(offset[row]))
    return np.array(starts, np.int64)


def record_sizes(rows: RecordTable) -> IntArray:
    """The size of each record as counted towards its batch."""
    sizes: IntArray = rows.key_size.clip(0) + rows.value_size.clip(0) + RECORD_OVERHEAD
    if "header_bytes" in rows.names:
        sizes += rows["header_bytes"]
    return sizes


def draft(rows: RecordTable, firsts: IntArray, codecs: IntArray | int) -> DraftTable:
    """The headers of batches that begin at these rows, without a producer."""
    drafts = DraftTable.zeros(len(firsts))
    lasts = np.append(firsts[1:], len(rows))[: len(firsts)] - 1
    offset, times = rows.offset, rows.timestamp
    drafts.magic = 2
    drafts.base_offset = offset[firsts]
    drafts.last_offset_delta = offset[lasts] - offset[firsts]
    drafts.base_timestamp = times[firsts]
    drafts.max_timestamp = np.maximum.reduceat(times, firsts)
    types = rows.timestamp_type[firsts] << TIMESTAMP_TYPE.at
    drafts.attributes = (codecs << COMPRESSION.at) | types
    for name in NONE:
        drafts[name] = -1
    return drafts
