"""Runs a command on each partition, noting offsets that consumers can no longer read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kfmt_cli.broker.start.checkpoints import CheckpointError, NumberError, offsets_of
from kfmt_cli.broker.start.own_files import LOG_STARTS
from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.commands.run import Run
from kfmt_cli.core.throttle import PACE
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.names import folder_of_log, place_of
from kfmt_cli.disk.opening import is_file
from kfmt_cli.disk.partitions import Partition, partitions_below
from kfmt_cli.disk.targets import GivenPath
from kfmt_cli.disk.tree import classify, size_of
from kfmt_cli.errors import UsageError
from kfmt_cli.log.block import Block


class LogStarts:
    """Notes which offsets of partitions are below their log start offset, once per partition.

    Consumers cannot read these, but they stay on disk until their segment is deleted, as after
    DeleteRecords. The checkpoint of a log directory is read once for its partitions.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._seen: set[str] = set()
        self._file: Path | None = None
        self._starts: dict[tuple[str, int], int] = {}

    def tell(self, path: str, base_offset: int | None, name: str) -> None:
        """Note unreadable offsets if this log is the first of its partition."""
        folder = path.rpartition(os.sep)[0]
        if base_offset is not None and folder not in self._seen:
            self._seen.add(folder)
            self._tell(name.rpartition("/")[0] or name, folder_of_log(path), base_offset)

    def of(self, partition: Partition) -> None:
        """Note the unreadable offsets of a partition."""
        if partition.logs:
            self._tell(partition.name, partition.folder, partition.logs[0].base)

    def _tell(self, name: str, folder: Path, first: int) -> None:
        """Note the offsets from `first` up to the log start offset of a partition's directory;
        complain if that cannot be read. name: the partition's, for display."""
        topic, number = place_of(folder.name)
        if topic is None:
            return
        start = self._in(folder.parent / LOG_STARTS).get((topic, number or 0), 0)
        if start > first:
            words = f"consumers cannot read offsets {first}–{start - 1}"
            self._run.sink.note(f"{name}: {words}: log start offset {start}\n")

    def _in(self, file: Path) -> dict[tuple[str, int], int]:
        """The log start offsets in a checkpoint; none if it is missing or unreadable."""
        if file != self._file:
            self._file, self._starts = file, {}
            if is_file(str(file)):
                with self._run.complaining(), suppress(CheckpointError, NumberError):
                    self._starts = offsets_of(classify(str(file), name_text(str(file))))
        return self._starts


def each_partition(
    run: Run,
    paths: Sequence[GivenPath | str],
    take: Callable[[Partition], None],
    *,
    takes_pipe: bool = False,
    reads_all: bool = False,
    alone: str = "",
) -> None:
    """Call `take` on each partition under the paths; complains about unreadable ones and
    continues. Raises UsageError.

    reads_all: the logs are read completely, so that progress can be shown. alone: what takes a
    single partition, such as an option; empty if there may be several.
    """
    partitions = partitions_below(paths, run.complain, run.sink.note, takes_pipe=takes_pipe)
    if alone and len(partitions) > 1:
        raise UsageError(f"{alone} needs a single partition, but {len(partitions)} were given")
    starts = LogStarts(run)
    logs = [log for partition in partitions for log in partition.logs] if reads_all else []
    with reading(run, logs):
        for partition in partitions:
            starts.of(partition)
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


def blocks_of(logs: Sequence[Input]) -> Iterator[tuple[Input, Block]]:
    """The batches of a partition's logs, block by block, each with its log; raises InputError."""
    for file in logs:
        with open_checked(file, read_ahead=True) as log:
            for block in log.blocks:
                yield file, block
