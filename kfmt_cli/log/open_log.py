"""Open a log, and reject early a file that is not one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from kfmt_cli.core.source import Source
from kfmt_cli.disk.kinds import UNKNOWN, is_transient
from kfmt_cli.disk.kinds.foreign import OTHER_FILES, START, foreign_words, is_packed
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT, LOG
from kfmt_cli.disk.opening import open_source
from kfmt_cli.disk.redpanda import REDPANDA, is_redpanda_batch
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block
from kfmt_cli.log.reader import LogReader

# Below this, threads cost more than they save.
LARGE = 4 << 20
Around = Callable[[Input, Source], Source]


def as_it_is(file: Input, source: Source) -> Source:
    """The source of a log."""
    del file
    return source


@dataclass(frozen=True, slots=True)
class OpenLog:
    """An open log."""

    blocks: Iterator[Block]
    reader: LogReader
    size: int | None
    """The size in bytes, None for a stream."""
    base_offset: int | None
    """The offset in the file name; None unless the file is a log segment."""

    @property
    def is_large(self) -> bool:
        """Whether threads pay off; never for a stream, whose rows must come as it does."""
        return self.size is not None and self.size > LARGE


@contextmanager
def open_log(file: Input, read_ahead: bool, around: Around = as_it_is) -> Iterator[OpenLog]:
    """Open a log; raises InputError if the file is not a Kafka log.

    read_ahead: read ahead in another thread, for callers without other busy threads. around: gives
    a source that reads around what is lost.
    """
    need_log(file)
    with closing(around(file, open_source(file.path, file.name))) as source:
        start = source.block(0, START, 1)
        if not start and source.size is not None and file.kind is UNKNOWN:
            raise InputError(f"{file.name}: empty, and not named like a log segment")
        base_offset = file.base_offset if file.kind is LOG else None
        reader = LogReader(source, base_offset, read_ahead)
        blocks = _checked(file, reader, start)
        if file.kind is KRAFT_SNAPSHOT and not is_transient(file.path):
            from kfmt_cli.log.kraft_snapshot import with_ends_checked

            blocks = with_ends_checked(file.name, blocks)
        yield OpenLog(blocks, reader, source.size, base_offset)


def need_log(file: Input) -> None:
    """Raise InputError if a file is named like one of Kafka's other files."""
    if not file.kind.holds_batches and file.kind is not UNKNOWN:
        raise InputError(f"{file.name}: this is {file.kind.words}, not a log segment")
    if file.kind is UNKNOWN and Path(file.path).name in OTHER_FILES:
        raise InputError(f"{file.name}: a Kafka file without batches")


def no_batch_found(name: str) -> str:
    """The message for a file without a batch."""
    return f"{name}: not a Kafka log segment: no batch found"


def _foreign(start: bytes) -> str | None:
    """The description of a foreign file that begins with these bytes; None if unknown."""
    return REDPANDA if is_redpanda_batch(start) else foreign_words(start)


def _checked(file: Input, reader: LogReader, start: bytes) -> Iterator[Block]:
    """The reader's blocks; raises InputError immediately if the file has no batch."""
    blocks = reader.blocks()
    first = next(blocks, None)
    if first is None:
        return iter(())
    has_batches = len(first.batches) > 0
    if is_packed(start) and not (has_batches and first.batches.position[0] == 0):
        raise InputError(f"{file.name}: not a Kafka log segment: {_foreign(start)}")
    if has_batches or reader.plausible:
        return chain([first], blocks)
    foreign = _foreign(start)
    if file.named_by_kafka and not foreign:
        return chain([first], blocks)
    second = next(blocks, None)
    if second is None and foreign:
        raise InputError(f"{file.name}: not a Kafka log segment: {foreign}")
    if second is None:
        raise InputError(no_batch_found(file.name))
    return chain([first, second], blocks)
