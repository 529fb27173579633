"""Tails a partition that a broker is still writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kfmt_cli.broker.log_reading.seek import read_blocks_from
from kfmt_cli.disk.directory_listing import file_size, list_directory
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block


def tail_partition(
    partition: Partition, start_location: tuple[InputFile, int], on_idle: Callable[[], None]
) -> Iterator[tuple[InputFile, Block]]:
    """The blocks of a partition from a byte of a log onward; never ends. Raises InputError.

    A batch is yielded once it is complete. start_location: the log, and the byte in it. on_idle:
    called if there is nothing new.
    """
    file, position = start_location
    while True:
        has_new_batches = False
        for block in _iter_complete_blocks(file, position):
            position = complete_end_position(block, position)
            has_new_batches = True
            yield file, block
        if has_new_batches:
            continue
        next_log = _find_next_log(partition, file)
        if next_log is not None:
            file, position = next_log, 0
        else:
            on_idle()


def complete_end_position(block: Block, previous_end_position: int) -> int:
    """Position after the last batch of a block that is complete; `previous_end_position` if none
    is."""
    batches = block.batches
    complete_mask = batches.crc_valid == 1
    return int((batches.position + batches.size)[complete_mask].max(initial=previous_end_position))


def _iter_complete_blocks(file: InputFile, position: int) -> Iterator[Block]:
    """The complete batches starting at a byte."""
    if file_size(file) <= position:
        return
    try:
        for block in read_blocks_from(file, position):
            complete_mask = block.batches.crc_valid == 1
            n_complete = len(complete_mask) if complete_mask.all() else int(complete_mask.argmin())
            block.batches = block.batches.select_rows(slice(0, n_complete))
            if n_complete:
                yield block
            if n_complete < len(complete_mask):  # still being written
                return
    except InputError as error:
        if not error.is_missing:  # a broker removes old logs
            raise


def _find_next_log(partition: Partition, file: InputFile) -> InputFile | None:
    """The next log, once the broker has rolled; otherwise None."""
    logs = list_directory(str(partition.directory), display_prefix="").logs
    return next((log for log in logs if log.base_offset_or_zero > file.base_offset_or_zero), None)
