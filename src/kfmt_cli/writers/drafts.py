"""Which records go into a batch together, and what follows from them for its header.

Source: `org.apache.kafka.common.record.MemoryRecordsBuilder`: base offset and base timestamp are
those of the first record, the max timestamp is the largest, sizes are estimated before compression.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.layout import IntArray
from kfmt_cli.core.table import BoolArray, Table
from kfmt_cli.files.block import NO_TIMESTAMP
from kfmt_cli.formats.batch import ATTRIBUTES
from kfmt_cli.writers.batches import CODEC_BITS, DRAFT_COLUMNS

RECORD_OVERHEAD = 21  # what a record takes at most beside its key and value
MAX_DELTA = (1 << 31) - 1
MAX_OFFSET = (1 << 63) - 1
APPEND_TIME = 1  # in a column of timestamp types
TYPE_BIT = ATTRIBUTES["timestamp_type"].at
NONE = ("partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How large a batch may become. most_records: None for no bound."""

    most_bytes: int = 16384
    most_records: int | None = None


def normalize(rows: Table) -> None:
    """Magic 0 has no timestamps: in magic 2 that is -1 and CreateTime, as Kafka converts it."""
    none = rows["has_timestamp"] == 0
    rows["timestamp"] = np.where(none, NO_TIMESTAMP, rows["timestamp"])
    rows["timestamp_type"] = np.where(none, 0, rows["timestamp_type"])


def must_part(rows: Table) -> BoolArray:
    """Before which records a batch must end: LogAppendTime is one time for all of a batch."""
    parted = np.zeros(len(rows), np.bool_)
    offset, types, times = rows["offset"], rows["timestamp_type"], rows["timestamp"]
    parted[1:] = (np.diff(types) != 0) | (np.diff(offset) <= 0)
    parted[1:] |= (types[1:] == APPEND_TIME) & (np.diff(times) != 0)
    parted[:1] = True
    return parted


def cut(rows: Table, parted: BoolArray, loose: BoolArray, bounds: Bounds) -> IntArray:
    """The first row of each batch. parted: rows that must begin one; loose: rows whose batches are
    kept within the bounds."""
    sizes = rows["key_size"].clip(0) + rows["value_size"].clip(0) + RECORD_OVERHEAD
    if "header_bytes" in rows.names:
        sizes += rows["header_bytes"]
    ends = np.cumsum(sizes)
    firsts = np.flatnonzero(parted)
    nexts = np.append(firsts[1:], len(rows))
    offset = rows["offset"]
    far = offset[nexts - 1] - offset[firsts] > MAX_DELTA
    open_ = loose[firsts] if len(firsts) else far
    starts: list[int] = []
    most = bounds.most_records or len(rows) + 1
    for first, last, is_open, is_far in zip(
        firsts.tolist(), nexts.tolist(), open_.tolist(), far.tolist(), strict=True
    ):
        starts.append(first)
        row = first
        while is_open or is_far:
            end = last
            if is_open:
                before = int(ends[row] - sizes[row])
                end = int(np.searchsorted(ends, before + bounds.most_bytes, "right"))
                end = min(max(end, row + 1), row + most)
            if is_far:
                furthest = min(int(offset[row]) + MAX_DELTA, MAX_OFFSET)
                end = min(end, int(np.searchsorted(offset, furthest, "right")))
            if end >= last:
                break
            starts.append(end)
            row = end
    return np.array(starts, np.int64)


def draft(rows: Table, firsts: IntArray, codecs: IntArray | int) -> Table:
    """The headers of batches that begin at these rows, of no producer."""
    drafts = Table.empty(DRAFT_COLUMNS, len(firsts))
    if not len(firsts):
        return drafts
    lasts = np.append(firsts[1:], len(rows)) - 1
    offset, times = rows["offset"], rows["timestamp"]
    drafts["magic"] = 2
    drafts["base_offset"] = offset[firsts]
    drafts["last_offset_delta"] = offset[lasts] - offset[firsts]
    drafts["base_timestamp"] = times[firsts]
    drafts["max_timestamp"] = np.maximum.reduceat(times, firsts)
    drafts["attributes"] = (codecs << CODEC_BITS.at) | (rows["timestamp_type"][firsts] << TYPE_BIT)
    for name in NONE:
        drafts[name] = -1
    return drafts
