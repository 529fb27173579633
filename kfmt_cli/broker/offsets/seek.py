"""Where to begin reading a log for an offset or a timestamp: by its indexes if they are valid.

An index is trusted if its entry points to an undamaged batch that begins no later than the target.
Nothing before that batch needs to be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from kfmt_cli.broker.offsets.lookup import search
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.opening import open_source
from kfmt_cli.disk.segment import Segment
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block
from kfmt_cli.log.reader import LogReader

INDEX, SCAN = "index", "scan"


@dataclass(frozen=True, slots=True)
class ReadingStart:
    """Where reading begins."""

    position: int
    via: str
    """`INDEX` or `SCAN`."""
    why: str = ""
    """The problem with the index, if any."""


def start_for_offset(segment: Segment, offset: int) -> ReadingStart:
    """Where to begin for an offset."""
    index = segment.indexes.get(OFFSET_INDEX)
    if index is None:
        return ReadingStart(0, SCAN, "no offset index")
    try:
        found = search(index, "offset", offset).found
    except InputError as error:
        return ReadingStart(0, SCAN, str(error))
    if not found:
        return ReadingStart(0, INDEX)
    position = found.log_position
    first = next(blocks_from(segment.own_log, position), None)
    sound = first is not None and begins_at(first, position)
    if first is None or not sound or int(first.batches.base_offset[0]) > offset:
        return ReadingStart(
            0, SCAN, f"{index.name} points to byte {position}, where no such batch starts"
        )
    return ReadingStart(position, INDEX)


def start_for_time(segment: Segment, timestamp: int) -> ReadingStart:
    """Where to begin for the first record at or after a timestamp."""
    index = segment.indexes.get(TIME_INDEX)
    if index is None:
        return ReadingStart(0, SCAN, "no time index")
    try:
        # Every record newer than an entry's timestamp comes after the entry's offset.
        found = search(index, "timestamp", timestamp - 1).found
    except InputError as error:
        return ReadingStart(0, SCAN, str(error))
    return start_for_offset(segment, found.offset) if found else ReadingStart(0, INDEX)


def blocks_from(
    file: Input,
    position: int = 0,
    *,
    read_ahead: bool = False,
    checked: bool = True,
) -> Iterator[Block]:
    """The blocks of a log from a byte onward, as `LogReader` returns them; raises InputError."""
    with closing(open_source(file.path, file.name)) as source:
        yield from LogReader(source, file.base_offset, read_ahead, checked).blocks(position)


def begins_at(block: Block, position: int) -> bool:
    """Whether a block begins with an undamaged batch at a byte."""
    batches = block.batches
    return len(batches) > 0 and (batches.position[0], batches.crc_valid[0]) == (position, 1)
