"""Each partition that a command takes, with what consumers no longer see of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kfmt_cli.broker.start.checkpoints import (
    LOG_STARTS,
    CheckpointError,
    NumberError,
    offsets_of,
)
from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.commands.run import Run
from kfmt_cli.core.throttle import PACE
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.names import place_of
from kfmt_cli.disk.partitions import Partition, partitions_below
from kfmt_cli.disk.tree import classify, size_of
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block


def tell_log_start(run: Run, partition: Partition) -> None:
    """Say which records of a partition are deleted for consumers already: those below the log
    start offset, as after DeleteRecords, stay in the files until their segment goes."""
    if partition.logs:
        words = deleted_words(partition.folder, partition.logs[0].base_offset or 0)
        if words is not None:
            run.sink.note(f"{partition.name}: {words}\n")


def deleted_words(folder: Path, first: int) -> str | None:
    """The words for records from an offset on that are below the log start of a partition's
    directory; None where there are none."""
    file = folder.parent / LOG_STARTS
    topic, number = place_of(folder.name)
    if topic is None or not file.is_file():
        return None
    with suppress(InputError, CheckpointError, NumberError):
        start = offsets_of(classify(str(file), file.name)).get((topic, number or 0), 0)
        if start > first:
            words = f"consumers cannot read offsets {first}–{start - 1}"
            return f"{words}: log start offset {start}"
    return None


class LogStarts:
    """Says it once for each partition whose logs come one by one."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._seen: set[Path] = set()

    def tell(self, path: str, base_offset: int | None, name: str) -> None:
        """Of the next log, in order."""
        folder = Path(path).parent
        if base_offset is None or folder in self._seen:
            return
        self._seen.add(folder)
        words = deleted_words(folder.resolve(), base_offset)
        if words is not None:
            self._run.sink.note(f"{name.rpartition('/')[0] or name}: {words}\n")


def each_partition(
    run: Run,
    paths: tuple[str, ...],
    take: Callable[[Partition], None],
    *,
    takes_pipe: bool = False,
    reads_all: bool = False,
) -> None:
    """Take each partition below the paths; one that cannot be read is told of, and the rest goes
    on. Raises UsageError.

    reads_all: all of the logs is read, so that it can be said how far that is.
    """
    partitions = partitions_below(paths, run.complain, run.sink.note, takes_pipe=takes_pipe)
    logs = [log for partition in partitions for log in partition.logs] if reads_all else []
    with reading(run, logs):
        for partition in partitions:
            tell_log_start(run, partition)
            try:
                take(partition)
            except InputError as error:
                run.complain(str(error))


@contextmanager
def reading(run: Run, logs: Iterable[Input]) -> Iterator[None]:
    """Meanwhile, say how much of some logs this process has read."""
    total = sum(map(size_of, logs))
    if not total:
        yield
        return
    with (
        run.host.progress(total, beside_rows=True) as progress,
        PACE.telling(progress.advance),
    ):
        yield


def blocks_of(partition: Partition) -> Iterator[tuple[Input, Block]]:
    """The batches of a partition, block by block, each with its log; raises InputError."""
    for file in partition.logs:
        with open_checked(file, read_ahead=True) as log:
            for block in log.blocks:
                yield file, block
