"""Logs of which only some offsets are read, because other replicas have the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kfmt_cli.broker.log_reading.offset_intervals import OffsetIntervals
from kfmt_cli.broker.log_reading.seek import read_blocks_from
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.log.block import Block

IntervalsByPath = Mapping[str, Sequence[tuple[int, int]]]
"""The offsets that are read of logs, in order, by path; logs that are read completely, or up to the
next log of their directory, are omitted."""
NO_INTERVALS: IntervalsByPath = {}


def offsets_to_read(
    logs: Sequence[InputFile], intervals_by_path: IntervalsByPath
) -> list[tuple[InputFile, OffsetIntervals]]:
    """The logs of a partition, each with the offsets that are read of it, in order."""
    next_base_by_directory: dict[str, int] = {}
    offsets_by_log: list[tuple[InputFile, OffsetIntervals]] = []
    for log in sorted(logs, key=lambda log: log.base_offset_or_zero, reverse=True):
        directory = log.path.rpartition("/")[0]
        end_offset = next_base_by_directory.get(directory, MAX_OFFSET)
        next_base_by_directory[directory] = log.base_offset_or_zero
        intervals = intervals_by_path.get(log.path) or [(log.base_offset_or_zero, end_offset - 1)]
        offsets_by_log.append((log, list(intervals)))
    return offsets_by_log[::-1]


def iter_blocks_in_order(
    logs: Sequence[InputFile], intervals_by_path: IntervalsByPath
) -> Iterator[Block]:
    """The batches of a partition in the order of their offsets, whichever log they are read from;
    raises InputError."""
    parts = [
        (interval, log)
        for log, intervals in offsets_to_read(logs, intervals_by_path)
        for interval in intervals
    ]
    for (first_offset, last_offset), log in sorted(parts, key=lambda part: part[0]):
        for block in read_blocks_from(log):
            batches = block.batches
            is_read = (batches.last_offset >= first_offset) & (batches.base_offset <= last_offset)
            if is_read.any():
                yield replace(block, batches=batches.select_rows(is_read))
