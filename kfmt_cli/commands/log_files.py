"""The partitions below some paths, each with its logs in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kfmt_cli.broker.start.checkpoints import (
    LOG_STARTS,
    CheckpointError,
    NumberError,
    offsets_of,
)
from kfmt_cli.commands.run import Run
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.names import place_of
from kfmt_cli.disk.targets import GivenPath, targets
from kfmt_cli.disk.tree import classify, no_log, printable
from kfmt_cli.errors import InputError


@dataclass(frozen=True, slots=True)
class LogFiles:
    """A partition: its logs in the order of their base offsets, or one log that was given."""

    name: str
    """Its name as it is shown."""
    folder: Path
    """The directory."""
    logs: list[Input]
    given: bool = False
    """Only one of its files was named."""


def partitions_below(paths: tuple[str, ...], complain: Callable[[str], None]) -> list[LogFiles]:
    """The partitions below the paths, each once; raises UsageError.

    Logs that are given one by one are a partition where they lie in one directory. complain: is
    told what cannot be read.
    """
    found: dict[Path, LogFiles] = {}
    for target in targets(paths, complain):
        partitions = list(_in(target, len(paths) > 1))
        if not partitions and not target.unlisted:
            complain(no_log(target.path))
        for partition in partitions:
            held = found.setdefault(partition.folder, partition)
            if held is partition:
                continue
            paths_held = {Path(log.path).resolve() for log in held.logs}
            more = [log for log in partition.logs if Path(log.path).resolve() not in paths_held]
            if held.given and more:
                logs = sorted([*held.logs, *more], key=lambda log: log.base_offset or 0)
                name = printable(str(Path(target.path).parent))
                found[partition.folder] = LogFiles(name, partition.folder, logs, partition.given)
    return list(found.values())


def tell_log_start(run: Run, partition: LogFiles) -> None:
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
            words = f"offsets {first}–{start - 1} are deleted for consumers"
            return f"{words}: the log start offset is {start}"
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


def each_partition(run: Run, paths: tuple[str, ...], take: Callable[[LogFiles], None]) -> None:
    """Take each partition below the paths; one that cannot be read is told of, and the rest goes
    on. Raises UsageError."""
    for partition in partitions_below(paths, run.complain):
        tell_log_start(run, partition)
        try:
            take(partition)
        except InputError as error:
            run.complain(str(error))


def _in(target: GivenPath, several: bool) -> Iterator[LogFiles]:
    """The partitions at a path, in order."""
    if target.file is not None:
        yield LogFiles(target.file.name, Path(target.path).resolve().parent, [target.file], True)
    for folder in target.folders:
        if logs := folder.logs:
            is_top = folder.path == target.path and not several
            name = printable(target.path) if is_top else folder.name
            yield LogFiles(name, Path(folder.path).resolve(), logs)
