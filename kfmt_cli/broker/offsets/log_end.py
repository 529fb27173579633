"""The log end offset of a partition."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.broker.offsets.seek import begins_with_undamaged_batch, read_blocks_from
from kfmt_cli.disk.directory_listing import DirectoryListing, file_size, is_segment_log
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.segment import Segment
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block
from kfmt_cli.log.log_opening import MIN_LARGE_LOG_BYTES


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
        last_offsets = batches.last_offset[batches.crc_valid == 1]
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
