"""The end of a partition: its log end offset, and the offset at which its last records begin."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from kfmt_cli.broker.log_reading.partial_logs import (
    NO_INTERVALS,
    IntervalsByPath,
    offsets_to_read,
)
from kfmt_cli.broker.log_reading.seek import begins_with_undamaged_batch, read_blocks_from
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.disk.directory_listing import DirectoryListing, file_size, is_segment_log
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.segment import Segment
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block, slice_block, split_runs, undamaged_data_block
from kfmt_cli.log.derived_columns import read_complete_records
from kfmt_cli.log.log_opening import MIN_LARGE_LOG_BYTES
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.rows.offset_order import in_order_mask


def read_log_end_offset(directory: DirectoryListing) -> int | None:
    """The log end offset of a partition's directory, or None if it has no log.

    It follows from the last undamaged batch, or from the base offset of an empty last segment.
    """
    segments = [
        segment
        for segment in directory.segments
        if segment.log is not None and is_segment_log(segment.log)
    ]
    if not segments:
        return None
    last_segment = max(segments, key=lambda segment: segment.any_file.base_offset_or_zero)
    end_offset = last_segment.required_log.base_offset_or_zero
    for block in _iter_last_blocks(last_segment, last_segment.required_log):
        batches = block.batches
        last_offsets = batches.last_offset[in_order_mask(batches, end_offset)]
        if len(last_offsets):
            end_offset = int(last_offsets[-1]) + 1
    return end_offset


def _iter_last_blocks(segment: Segment, log: InputFile) -> Iterator[Block]:
    """The blocks of a log; for a large log, only those from its last index entry onward."""
    start_position = 0 if file_size(log) <= MIN_LARGE_LOG_BYTES else _last_indexed_position(segment)
    blocks = read_blocks_from(log, start_position)
    first_block = next(blocks, None)
    if start_position and (
        first_block is None or not begins_with_undamaged_batch(first_block, start_position)
    ):
        yield from read_blocks_from(log)
        return
    if first_block is not None:
        yield first_block
    yield from blocks


def _last_indexed_position(segment: Segment) -> int:
    """The byte that the last offset index entry points to; 0 if none can be read."""
    index_file = segment.index_by_kind.get(OFFSET_INDEX_KIND)
    try:
        positions = [] if index_file is None else index_file.read_contents().table.log_position
    except InputError:
        return 0
    return int(positions[-1]) if len(positions) else 0


def read_last_records_offset(
    logs: Sequence[InputFile],
    n_records: int,
    selection: Selection,
    decompression_limit: DecompressionLimit,
    intervals_by_path: IntervalsByPath = NO_INTERVALS,
) -> int:
    """The offset of the first of the last `n_records` selected records, without markers; raises
    InputError.

    logs: a partition's logs in base offset order. intervals_by_path: the offsets that are read of
    logs, if several replicas have the partition.
    """
    if intervals_by_path:
        offsets_by_log = offsets_to_read(logs, intervals_by_path)
        return _last_selected_records_offset(
            [
                (log, replace(selection, offset_intervals=tuple(intervals)))
                for log, intervals in sorted(offsets_by_log, key=lambda pair: pair[1][-1][1])
            ],
            n_records,
            decompression_limit,
        )
    if selection:
        return _last_selected_records_offset(
            [(log, selection) for log in selection.select_logs(logs)],
            n_records,
            decompression_limit,
        )
    first_offset = 0
    for log in reversed(logs):
        for batch_columns in reversed(_read_batch_columns(log)):
            for batch_position, base_offset, n_batch_records in reversed(batch_columns.T.tolist()):
                if 0 <= n_batch_records < n_records:
                    n_records, first_offset = n_records - n_batch_records, base_offset
                    continue
                record_offsets = _read_record_offsets(log, batch_position, decompression_limit)
                if len(record_offsets) >= n_records:
                    return record_offsets[-n_records]
                n_records = n_records - len(record_offsets)
                first_offset = min([base_offset, *record_offsets[:1]])
    return first_offset


def _last_selected_records_offset(
    selected_logs: Sequence[tuple[InputFile, Selection]],
    n_records: int,
    decompression_limit: DecompressionLimit,
) -> int:
    """The same offset, found by reading the records; 0 if none is selected. selected_logs: in the
    order of the last offsets that are read of them."""
    last_offsets: list[int] = []
    for log, selection in reversed(selected_logs):
        if len(last_offsets) == n_records and not _may_follow(selection, last_offsets[0]):
            break
        log_offsets: deque[int] = deque(maxlen=n_records)
        for block in map(undamaged_data_block, read_blocks_from(log, read_ahead=True)):
            for run, records in selection.iter_candidate_runs(block, decompression_limit):
                log_offsets.extend(
                    records.rows.offset[selection.record_mask(run, records)].tolist()
                )
        last_offsets = sorted([*log_offsets, *last_offsets])[-n_records:]
    return last_offsets[0] if last_offsets else 0


def _may_follow(selection: Selection, offset: int) -> bool:
    """Whether a log of which only some offsets are read may have records after an offset."""
    return bool(selection.offset_intervals) and selection.offset_intervals[-1][1] > offset


def _read_batch_columns(log: InputFile) -> list[IntArray]:
    """Position, base offset and record count of a log's undamaged batches, block by block; the
    record count of a wrapper, which is not in its header, is -1."""
    block_columns = []
    for block in map(undamaged_data_block, read_blocks_from(log, read_ahead=True)):
        batches = block.batches
        legacy_record_counts = np.where(batches.compression == 0, 1, -1)
        record_counts = np.where(
            batches.is_v2 == 1, batches.records_count.clip(0), legacy_record_counts
        )
        block_columns.append(np.stack([batches.position, batches.base_offset, record_counts]))
    return block_columns


def _read_record_offsets(
    log: InputFile, batch_position: int, decompression_limit: DecompressionLimit
) -> list[int]:
    """The sorted offsets of the records in the batch at a byte."""
    block = next(read_blocks_from(log, batch_position))
    record_offsets: list[int] = []
    for run in split_runs(slice_block(block, 0, 1)):
        records = read_complete_records(run, decompression_limit)
        record_offsets += np.sort(records.rows.offset).tolist()
    return record_offsets
