"""Runs a command on each partition, noting offsets that consumers can no longer read."""

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
from kfmt_cli.disk.tree import classify, printable, size_of
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block


def tell_log_start(run: Run, partition: Partition) -> None:
    """Note which offsets of a partition are below its log start offset: consumers cannot read
    them, but they stay on disk until their segment is deleted, as after DeleteRecords."""
    if partition.logs:
        _tell_deleted(run, partition.name, partition.folder, partition.logs[0].base)


def _tell_deleted(run: Run, name: str, folder: Path, first: int) -> None:
    """Note the offsets from `first` up to the log start offset of a partition's directory; complain
    if that cannot be read. name: the partition's, for display."""
    try:
        words = _deleted_words(folder, first)
    except InputError as error:
        run.complain(str(error))
        return
    if words is not None:
        run.sink.note(f"{name}: {words}\n")


def _deleted_words(folder: Path, first: int) -> str | None:
    """The words of that note, None if there are no such offsets; raises InputError."""
    file = folder.parent / LOG_STARTS
    topic, number = place_of(folder.name)
    if topic is None or not file.is_file():
        return None
    with suppress(CheckpointError, NumberError):
        start = offsets_of(classify(str(file), printable(str(file)))).get((topic, number or 0), 0)
        if start > first:
            words = f"consumers cannot read offsets {first}–{start - 1}"
            return f"{words}: log start offset {start}"
    return None


class LogStarts:
    """Notes unreadable offsets once per partition, for logs that come one by one."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._seen: set[Path] = set()

    def tell(self, path: str, base_offset: int | None, name: str) -> None:
        """Note unreadable offsets if this is the first log of its partition."""
        folder = Path(path).parent
        if base_offset is None or folder in self._seen:
            return
        self._seen.add(folder)
        _tell_deleted(self._run, name.rpartition("/")[0] or name, folder.resolve(), base_offset)


def each_partition(
    run: Run,
    paths: tuple[str, ...],
    take: Callable[[Partition], None],
    *,
    takes_pipe: bool = False,
    reads_all: bool = False,
) -> None:
    """Call `take` on each partition under the paths; complains about unreadable ones and
    continues. Raises UsageError.

    reads_all: the logs are read completely, so that progress can be shown.
    """
    partitions = partitions_below(paths, run.complain, run.sink.note, takes_pipe=takes_pipe)
    logs = [log for partition in partitions for log in partition.logs] if reads_all else []
    with reading(run, logs):
        for partition in partitions:
            tell_log_start(run, partition)
            with run.complaining():
                take(partition)


@contextmanager
def reading(run: Run, logs: Iterable[Input]) -> Iterator[None]:
    """Show how much of some logs this process has read, while the block runs."""
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
