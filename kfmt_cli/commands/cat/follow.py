"""Follows a partition that a broker is still writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kfmt_cli.broker.offsets.seek import blocks_from
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.tree import listing, size_of
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block


def followed(partition: Partition, wait: Callable[[], None]) -> Iterator[tuple[Input, Block]]:
    """The blocks that are added to the last log of a partition, and to later ones; never ends.

    wait: called when there is nothing new. A batch is returned once it is complete. Raises
    InputError.
    """
    file = partition.logs[-1]
    position = _whole_bytes(file)
    while True:
        grown = False
        for block in _new(file, position):
            position = int(block.batches.position[-1] + block.batches.size[-1])
            grown = True
            yield file, block
        if grown:
            continue
        following = _next(partition, file)
        if following is not None:
            file, position = following, 0
            continue
        wait()


def _whole_bytes(file: Input) -> int:
    """Position after the last complete batch of a log."""
    end = 0
    for block in blocks_from(file):
        if len(block.batches):
            end = int(block.batches.position[-1] + block.batches.size[-1])
    return end


def _new(file: Input, position: int) -> Iterator[Block]:
    """The complete batches starting at a byte."""
    if size_of(file) <= position:
        return
    try:
        for block in blocks_from(file, position):
            sound = block.batches.crc_valid == 1
            if not sound.all():  # still being written
                first = int(sound.argmin())
                block.batches = block.batches.select(slice(0, first))
                if len(block.batches):
                    yield block
                return
            if len(block.batches):
                yield block
    except InputError as error:
        if not error.is_gone:  # a broker removes old logs
            raise


def _next(partition: Partition, file: Input) -> Input | None:
    """The next log, once the broker has rolled; otherwise None."""
    logs = listing(str(partition.folder), prefix="").logs
    return next((log for log in logs if log.base > file.base), None)
