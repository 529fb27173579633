"""Follows a partition that a broker is still writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kfmt_cli.broker.offsets.seek import blocks_from
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.tree import listing, size_of
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block


def followed(
    partition: Partition, begin: tuple[Input, int], wait: Callable[[], None]
) -> Iterator[tuple[Input, Block]]:
    """The blocks of a log of a partition from a byte on, and of later logs; never ends.

    wait: called when there is nothing new. A batch is returned once it is complete. Raises
    InputError.
    """
    file, position = begin
    while True:
        grown = False
        for block in _new(file, position):
            position = end_of_whole(block, position)
            grown = True
            yield file, block
        if grown:
            continue
        following = _next(partition, file)
        if following is not None:
            file, position = following, 0
        else:
            wait()


def end_of_whole(block: Block, before: int) -> int:
    """Position after the last batch of a block that is complete; `before` if none is."""
    batches = block.batches
    whole = batches.crc_valid == 1
    return int((batches.position + batches.size)[whole].max(initial=before))


def _new(file: Input, position: int) -> Iterator[Block]:
    """The complete batches starting at a byte."""
    if size_of(file) <= position:
        return
    try:
        for block in blocks_from(file, position):
            sound = block.batches.crc_valid == 1
            n_whole = len(sound) if sound.all() else int(sound.argmin())
            block.batches = block.batches.select(slice(0, n_whole))
            if n_whole:
                yield block
            if n_whole < len(sound):  # still being written
                return
    except InputError as error:
        if not error.is_gone:  # a broker removes old logs
            raise


def _next(partition: Partition, file: Input) -> Input | None:
    """The next log, once the broker has rolled; otherwise None."""
    logs = listing(str(partition.folder), prefix="").logs
    return next((log for log in logs if log.base > file.base), None)
