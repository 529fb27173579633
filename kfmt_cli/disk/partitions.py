"""The partitions under given paths, each with its logs in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.names import folder_of_log, identity, partition_folder, place_of
from kfmt_cli.disk.targets import GivenPath, targets
from kfmt_cli.disk.tree import no_log


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: its logs in base offset order, or a single log that was given."""

    name: str
    """Its name for display."""
    folder: Path
    """The directory."""
    logs: list[Input]
    given: bool = False
    """Whether only one of its files was named."""
    is_stored: bool = False
    """Whether its segments are in tiered storage, where other rules apply."""

    @property
    def place(self) -> tuple[str | None, int | None]:
        """The topic and partition in the directory's name."""
        return place_of(self.folder.name)

    @property
    def log_directory(self) -> Path:
        """The directory that contains the broker's partitions."""
        return self.folder.parent


def partitions_below(
    paths: Sequence[GivenPath | str],
    complain: Callable[[str], None],
    tell: Callable[[str], None],
    *,
    takes_pipe: bool = False,
) -> list[Partition]:
    """The partitions under the paths, each once; raises UsageError.

    Logs given one by one are a partition if they are in one directory. complain: receives errors
    about unreadable paths. tell: receives notes about marked directories, which are skipped unless
    named.
    """
    found: dict[str, Partition] = {}
    logs: dict[str, dict[str, Input]] = {}  # of those given in parts, by their real paths
    for target in targets(paths, complain, takes_pipe=takes_pipe):
        partitions = list(_in(used := target.in_use(tell)))
        if not partitions and not target.unlisted and used is target:
            complain(no_log(target.path))
        for partition in partitions:
            real = identity(str(partition.folder))
            held = found.setdefault(real, partition)
            if held is partition or not held.given:
                continue
            its = logs.setdefault(real, _by_path(held.logs))
            n_before = len(its)
            for path, log in _by_path(partition.logs).items():
                its.setdefault(path, log)
            if len(its) > n_before:
                parent = name_text(str(Path(target.path).parent))
                found[real] = replace(partition, name=parent) if partition.given else partition
    for real, its in logs.items():
        found[real] = replace(found[real], logs=sorted(its.values(), key=lambda log: log.base))
    return list(found.values())


def _by_path(logs: list[Input]) -> dict[str, Input]:
    return {identity(log.stored_path): log for log in logs}


def _in(target: GivenPath) -> Iterator[Partition]:
    """The partitions at a path, in order."""
    if target.file is not None:
        yield Partition(target.file.name, folder_of_log(target.path), [target.file], True)
    for folder in target.folders:
        if logs := folder.logs:
            yield Partition(folder.name, partition_folder(folder.path), logs)
        elif logs := folder.stored_logs:
            yield Partition(folder.name, partition_folder(folder.path), logs, is_stored=True)
