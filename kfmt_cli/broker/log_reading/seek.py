"""Where to begin reading a log for an offset or a timestamp: by its indexes if they are valid.

An index is trusted if its entry points to an undamaged batch that begins no later than the target.
Nothing before that batch needs to be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from kfmt_cli.broker.log_reading.lookup import search_index
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


def choose_position_for_offset(segment: Segment, offset: int) -> ReadPosition:
    """Where to begin for an offset."""
    index_file = segment.index_by_kind.get(OFFSET_INDEX_KIND)
    if index_file is None:
        return ReadPosition(0, BY_SCAN, "no offset index")
    try:
        index_entry = search_index(index_file, "offset", offset).found
    except InputError as error:
        return ReadPosition(0, BY_SCAN, str(error))
    if not index_entry:
        return ReadPosition(0, BY_INDEX)
    indexed_position = index_entry.log_position
    first_block = next(read_blocks_from(segment.required_log, indexed_position), None)
    is_undamaged = first_block is not None and begins_with_undamaged_batch(
        first_block, indexed_position
    )
    if first_block is None or not is_undamaged or int(first_block.batches.base_offset[0]) > offset:
        return ReadPosition(
            0,
            BY_SCAN,
            f"{index_file.name} points to byte {indexed_position}, where no such batch starts",
        )
    return ReadPosition(indexed_position, BY_INDEX)


def choose_position_for_timestamp(segment: Segment, timestamp: int) -> ReadPosition:
    """Where to begin for the first record at or after a timestamp."""
    index_file = segment.index_by_kind.get(TIME_INDEX_KIND)
    if index_file is None:
        return ReadPosition(0, BY_SCAN, "no time index")
    try:
        # Every record newer than an entry's timestamp comes after the entry's offset.
        index_entry = search_index(index_file, "timestamp", timestamp - 1).found
    except InputError as error:
        return ReadPosition(0, BY_SCAN, str(error))
    return (
        choose_position_for_offset(segment, index_entry.offset)
        if index_entry
        else ReadPosition(0, BY_INDEX)
    )


def read_blocks_from(
    log: InputFile,
    first_position: int = 0,
    *,
    read_ahead: bool = False,
    check_crcs: bool = True,
) -> Iterator[Block]:
    """The blocks of a log from a byte onward, as `LogReader` returns them; raises InputError."""
    with closing(open_source(log.path, log.name)) as source:
        yield from LogReader(source, log.base_offset, read_ahead, check_crcs).iter_blocks(
            first_position
        )


def begins_with_undamaged_batch(block: Block, position: int) -> bool:
    """Whether a block begins with an undamaged batch at a byte."""
    batches = block.batches
    return len(batches) > 0 and (batches.position[0], batches.crc_valid[0]) == (position, 1)
