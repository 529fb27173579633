"""Where to begin reading a log for an offset or a timestamp: by its indexes if they are valid.

An index is trusted if its entry points to an undamaged batch that begins no later than the target.
Nothing before that batch needs to be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from kfmt_cli.broker.offsets.lookup import search_index
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND, TIME_INDEX_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.segment import Segment
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block
from kfmt_cli.log.reader import LogReader

BY_INDEX, BY_SCAN = "index", "scan"


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """Where reading begins."""

    position: int
    via: str
    """`BY_INDEX` or `BY_SCAN`."""
    reason: str = ""
    """The problem with the index, if any."""


def find_start_for_offset(segment: Segment, offset: int) -> ReadPosition:
    """Where to begin for an offset."""
    index = segment.indexes.get(OFFSET_INDEX_KIND)
    if index is None:
        return ReadPosition(0, BY_SCAN, "no offset index")
    try:
        entry = search_index(index, "offset", offset).found
    except InputError as error:
        return ReadPosition(0, BY_SCAN, str(error))
    if not entry:
        return ReadPosition(0, BY_INDEX)
    position = entry.log_position
    first = next(read_blocks_from(segment.required_log, position), None)
    is_undamaged = first is not None and begins_undamaged_at(first, position)
    if first is None or not is_undamaged or int(first.batches.base_offset[0]) > offset:
        return ReadPosition(
            0, BY_SCAN, f"{index.name} points to byte {position}, where no such batch starts"
        )
    return ReadPosition(position, BY_INDEX)


def find_start_for_timestamp(segment: Segment, timestamp: int) -> ReadPosition:
    """Where to begin for the first record at or after a timestamp."""
    index = segment.indexes.get(TIME_INDEX_KIND)
    if index is None:
        return ReadPosition(0, BY_SCAN, "no time index")
    try:
        # Every record newer than an entry's timestamp comes after the entry's offset.
        entry = search_index(index, "timestamp", timestamp - 1).found
    except InputError as error:
        return ReadPosition(0, BY_SCAN, str(error))
    return find_start_for_offset(segment, entry.offset) if entry else ReadPosition(0, BY_INDEX)


def read_blocks_from(
    file: InputFile,
    position: int = 0,
    *,
    read_ahead: bool = False,
    check_crcs: bool = True,
) -> Iterator[Block]:
    """The blocks of a log from a byte onward, as `LogReader` returns them; raises InputError."""
    with closing(open_source(file.path, file.name)) as source:
        yield from LogReader(source, file.base_offset, read_ahead, check_crcs).iter_blocks(position)


def begins_undamaged_at(block: Block, position: int) -> bool:
    """Whether a block begins with an undamaged batch at a byte."""
    batches = block.batches
    return len(batches) > 0 and (batches.position[0], batches.crc_valid[0]) == (position, 1)
