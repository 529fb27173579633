"""Open a log, and reject early a file that is not one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from kfmt_cli.core.source import STDIN_PATH, Source
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds import UNKNOWN_KIND, is_transient_file
from kfmt_cli.disk.kinds.foreign import (
    MAX_SIGNATURE_BYTES,
    OTHER_BROKER_FILES,
    describe_foreign_file,
    has_compressed_signature,
)
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND, LOG_KIND
from kfmt_cli.disk.redpanda import REDPANDA_MESSAGE, is_redpanda_batch
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block
from kfmt_cli.log.reader import LogReader

# Below this, threads cost more than they save.
MIN_LARGE_LOG_BYTES = 4 << 20
SourceWrapper = Callable[[InputFile, Source], Source]


def unwrapped_source(file: InputFile, source: Source) -> Source:
    """The source itself: the default `wrap_source` of `open_log`."""
    del file
    return source


@dataclass(frozen=True, slots=True)
class OpenLog:
    blocks: Iterator[Block]
    reader: LogReader
    size: int | None
    """The size in bytes, None for a stream."""
    base_offset: int | None
    """The offset in the file name; None unless the file is a log segment."""

    @property
    def is_large(self) -> bool:
        """Whether threads pay off; never for a stream, whose rows must appear as it grows."""
        return self.size is not None and self.size > MIN_LARGE_LOG_BYTES


@contextmanager
def open_log(
    file: InputFile, read_ahead: bool, wrap_source: SourceWrapper = unwrapped_source
) -> Iterator[OpenLog]:
    """Open a log; raises InputError if the file is not a Kafka log.

    read_ahead: read ahead in another thread, for callers without other busy threads. wrap_source:
    returns the source to read, for example one that replaces unreadable bytes.
    """
    require_log(file)
    with closing(wrap_source(file, open_source(file.path, file.name))) as source:
        first_bytes = source.read_block(0, MAX_SIGNATURE_BYTES, 1)
        if not first_bytes and file.kind is UNKNOWN_KIND:
            raise InputError(no_batch_message(file, 0))
        base_offset = file.base_offset if file.kind is LOG_KIND else None
        reader = LogReader(source, base_offset, read_ahead)
        blocks = _require_kafka_blocks(file, reader, first_bytes)
        if file.kind is KRAFT_SNAPSHOT_KIND and not is_transient_file(file.path):
            from kfmt_cli.log.kraft_snapshot import iter_with_snapshot_findings

            blocks = iter_with_snapshot_findings(file.name, blocks)
        yield OpenLog(blocks, reader, source.size, base_offset)


def require_log(file: InputFile) -> None:
    """Raise InputError if a file is named like one of Kafka's other files."""
    if not file.kind.has_batches and file.kind is not UNKNOWN_KIND:
        raise InputError(f"{file.name}: this is {file.kind.description}, not a log segment")
    if file.kind is UNKNOWN_KIND and Path(file.path).name in OTHER_BROKER_FILES:
        raise InputError(f"{file.name}: a Kafka file without batches")


def no_batch_message(file: InputFile, n_bytes: int) -> str:
    """The message for a file of some bytes without a batch, whose name is not a log's."""
    if n_bytes:
        return f"{file.name}: not a Kafka log segment: no batch found"
    if file.path == STDIN_PATH:
        return f"{file.name}: standard input is empty"
    return f"{file.name}: empty, and not named like a log segment"


def _find_foreign_description(first_bytes: bytes) -> str | None:
    """The description of a foreign file that begins with these bytes; None if unknown."""
    return (
        REDPANDA_MESSAGE if is_redpanda_batch(first_bytes) else describe_foreign_file(first_bytes)
    )


def _require_kafka_blocks(
    file: InputFile, reader: LogReader, first_bytes: bytes
) -> Iterator[Block]:
    """The reader's blocks; raises InputError immediately if the file has no batch."""
    blocks = reader.iter_blocks()
    first_block = next(blocks, None)
    if first_block is None:
        return iter(())
    has_batches = len(first_block.batches) > 0
    if has_compressed_signature(first_bytes) and not (
        has_batches and first_block.batches.position[0] == 0
    ):
        raise InputError(
            f"{file.name}: not a Kafka log segment: {_find_foreign_description(first_bytes)}"
        )
    if has_batches or reader.has_plausible_batch:
        return chain([first_block], blocks)
    foreign_description = _find_foreign_description(first_bytes)
    if file.has_broker_name and not foreign_description:
        return chain([first_block], blocks)
    second_block = next(blocks, None)
    if second_block is None and foreign_description:
        raise InputError(f"{file.name}: not a Kafka log segment: {foreign_description}")
    if second_block is None:
        raise InputError(no_batch_message(file, len(first_bytes)))
    return chain([first_block, second_block], blocks)
