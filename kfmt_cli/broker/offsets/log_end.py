"""The log end offset of a partition."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.broker.offsets.seek import begins_at, blocks_from
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.segment import Segment
from kfmt_cli.disk.tree import Folder, is_segment, size_of
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block
from kfmt_cli.log.open_log import LARGE


def log_end(folder: Folder) -> int | None:
    """The log end offset of a partition's directory, or None if it has no log.

    It follows from the last undamaged batch, or from the base offset of an empty last segment.
    """
    segments = [
        segment
        for segment in folder.segments
        if segment.log is not None and is_segment(segment.log)
    ]
    if not segments:
        return None
    last = max(segments, key=lambda segment: segment.any_file.base)
    end = last.own_log.base
    for block in _blocks(last, last.own_log):
        batches = block.batches
        offsets = batches.last_offset[batches.crc_valid == 1]
        if len(offsets):
            end = int(offsets[-1]) + 1
    return end


def _blocks(segment: Segment, log: Input) -> Iterator[Block]:
    """The blocks of a log; for a large log, only those from its last index entry onward."""
    start = 0 if size_of(log) <= LARGE else _last_entry(segment)
    blocks = blocks_from(log, start)
    first = next(blocks, None)
    if start and (first is None or not begins_at(first, start)):
        yield from blocks_from(log)
        return
    if first is not None:
        yield first
    yield from blocks


def _last_entry(segment: Segment) -> int:
    """The byte that the last offset index entry points to."""
    index = segment.indexes.get(OFFSET_INDEX)
    try:
        positions = [] if index is None else index.contents().table.log_position
    except InputError:
        return 0
    return int(positions[-1]) if len(positions) else 0
