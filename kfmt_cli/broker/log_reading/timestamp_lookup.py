"""The offset that a broker returns for a timestamp, according to its indexes.

Source: `UnifiedLog.fetchOffsetByTimestamp`, `LogSegment.largestTimestamp`,
`LogSegment.findOffsetByTimestamp`, `FileRecords.searchForTimestamp`; from 4.4 on, a record of a
compressed batch that is larger than max.decompressed.message.bytes is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np

from kfmt_cli.broker.log_reading.lookup import OFFSET_COLUMN, TIMESTAMP_COLUMN, search_index
from kfmt_cli.broker.log_reading.record_size_limit import find_oversized_record
from kfmt_cli.broker.log_reading.seek import begins_with_undamaged_batch, read_blocks_from
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.directory_listing import file_modified_ms
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND, TIME_INDEX_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.segment import Segment
from kfmt_cli.errors import InputError
from kfmt_cli.formats.index import TIME_INDEX_ENTRY
from kfmt_cli.log.block import Block, slice_block, split_runs
from kfmt_cli.log.derived_columns import read_complete_records

_TIME_ENTRY_BYTES = TIME_INDEX_ENTRY.dtype.itemsize


def find_offset_for_timestamp(
    segments: Sequence[Segment],
    timestamp: int,
    log_start_offset: int,
    limit: DecompressionLimit,
    max_record_bytes: int,
) -> int | None:
    """The offset that a broker returns after a clean shutdown; None for no offset.

    It searches a single segment: the first whose largest timestamp, by its time index or else by
    the file's time, is not older. A segment without an offset index is recovered: its indexes are
    right. segments: those with logs, in order. max_record_bytes: max.decompressed.message.bytes of
    the topic. Raises InputError if the broker returns an error.
    """
    for segment in segments:
        is_recovered = OFFSET_INDEX_KIND not in segment.index_by_kind
        largest_timestamp = (
            _largest_batch_timestamp(segment)
            if is_recovered
            else _last_entry_timestamp(segment.index_by_kind.get(TIME_INDEX_KIND))
        )
        if largest_timestamp < 0:
            largest_timestamp = file_modified_ms(segment.required_log)
        if largest_timestamp < timestamp:
            continue
        position = 0 if is_recovered else _search_position(segment, timestamp, log_start_offset)
        for offset in _iter_offsets(segment, position, timestamp, limit, max_record_bytes):
            if offset >= log_start_offset:
                return offset
        return None
    return None


def _last_entry_timestamp(time_index: InputFile | None) -> int:
    """The timestamp of an index's last entry, -1 without one; a missing index stays empty."""
    if time_index is None:
        return -1
    with closing(open_source(time_index.path, time_index.name)) as source:
        entry_start = (source.size or 0) // _TIME_ENTRY_BYTES * _TIME_ENTRY_BYTES
        entry_start -= _TIME_ENTRY_BYTES
        if entry_start < 0:
            return -1
        return int.from_bytes(source.read_block(entry_start, 8, 8), "big", signed=True)


def _largest_batch_timestamp(segment: Segment) -> int:
    largest_timestamp = -1
    for block in read_blocks_from(segment.required_log, check_crcs=False):
        has_timestamp = block.batches.has_timestamp == 1
        timestamps = block.batches.max_timestamp[has_timestamp]
        largest_timestamp = max(largest_timestamp, int(timestamps.max(initial=-1)))
    return largest_timestamp


def _search_position(segment: Segment, timestamp: int, log_start_offset: int) -> int:
    """The byte from which a broker scans a segment."""
    time_search = search_index(
        segment.index_by_kind.get(TIME_INDEX_KIND), TIMESTAMP_COLUMN, timestamp
    )
    base_offset = segment.required_log.base_offset_or_zero
    target_offset = max(time_search.found.get(OFFSET_COLUMN, base_offset), log_start_offset)
    offset_search = search_index(
        segment.index_by_kind.get(OFFSET_INDEX_KIND), OFFSET_COLUMN, target_offset
    )
    return int(offset_search.found.get("log_position", 0))


def _iter_offsets(
    segment: Segment,
    position: int,
    timestamp: int,
    limit: DecompressionLimit,
    max_record_bytes: int,
) -> Iterator[int]:
    """The offsets of records that are not older, from a byte onward; raises InputError at damage
    that a broker meets before."""
    log = segment.required_log
    for block in read_blocks_from(log, position):
        if position and not begins_with_undamaged_batch(block, position):
            raise InputError(f"{log.name} byte {position}: no batch starts here")
        position = 0
        batches = block.batches
        for i in np.flatnonzero(batches.max_timestamp >= timestamp).tolist():
            if batches.has_timestamp[i]:
                batch_run = slice_block(block, i, i + 1)
                yield from _iter_batch_offsets(batch_run, timestamp, limit, max_record_bytes)
        if block.findings:
            raise InputError(str(block.findings[0].message))


def _iter_batch_offsets(
    batch: Block, timestamp: int, limit: DecompressionLimit, max_record_bytes: int
) -> Iterator[int]:
    for batch_run in split_runs(batch):
        records = read_complete_records(batch_run, limit)
        oversized_record = find_oversized_record(batch_run, records, max_record_bytes)
        rows = records.rows
        is_found = rows.timestamp >= timestamp
        if oversized_record is not None:
            is_found[oversized_record.row :] = False
        yield from rows.offset[is_found].tolist()
        if oversized_record is not None:
            raise InputError(f"since Kafka 4.4, {oversized_record.reason}")
