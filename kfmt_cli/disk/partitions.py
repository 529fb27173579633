"""The partitions under some paths, each with its logs in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import format_no_log
from kfmt_cli.disk.file_names import (
    log_directory_path,
    parse_topic_partition,
    partition_directory,
    path_identity,
)
from kfmt_cli.disk.input_paths import InputPath, resolve_paths
from kfmt_cli.disk.kinds.kind import InputFile


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: its logs in base offset order, or the single logs that the user named."""

    name: str
    """Its name for display."""
    directory: Path
    logs: list[InputFile]
    is_explicit: bool = False
    """Whether the user named single logs instead of the directory."""
    is_tiered: bool = False
    """Whether its segments are in tiered storage, where other rules apply."""

    @property
    def topic_partition(self) -> tuple[str | None, int | None]:
        """The topic and partition in the directory's name."""
        return parse_topic_partition(self.directory.name)

    @property
    def log_directory(self) -> Path:
        """The directory that contains the broker's partitions."""
        return self.directory.parent


def find_partitions(
    paths: Sequence[InputPath | str],
    on_error: Callable[[str], None],
    on_note: Callable[[str], None],
    *,
    accepts_stdin: bool = False,
) -> list[Partition]:
    """The partitions under the paths, each once; raises UsageError.

    Logs named one by one are a partition if they are in one directory. on_error: receives messages
    about unreadable paths. on_note: receives messages about marked directories, which are skipped
    unless named.
    """
    partition_by_path: dict[str, Partition] = {}
    explicit_logs: dict[
        str, dict[str, InputFile]
    ] = {}  # of partitions whose logs were named one by one, by `path_identity`
    for target in resolve_paths(paths, on_error, accepts_stdin=accepts_stdin):
        partitions = list(_iter_partitions(unmarked := target.exclude_marked(on_note)))
        if not partitions and not target.listing_errors and unmarked is target:
            on_error(format_no_log(target.path))
        for partition in partitions:
            identity_path = path_identity(str(partition.directory))
            existing = partition_by_path.setdefault(identity_path, partition)
            if existing is partition or not existing.is_explicit:
                continue
            logs_by_path = explicit_logs.setdefault(identity_path, _logs_by_path(existing.logs))
            n_before = len(logs_by_path)
            for path, log in _logs_by_path(partition.logs).items():
                logs_by_path.setdefault(path, log)
            if len(logs_by_path) > n_before:
                parent = format_display_name(str(Path(target.path).parent))
                partition_by_path[identity_path] = (
                    replace(partition, name=parent) if partition.is_explicit else partition
                )
    for identity_path, logs_by_path in explicit_logs.items():
        partition_by_path[identity_path] = replace(
            partition_by_path[identity_path],
            logs=sorted(logs_by_path.values(), key=lambda log: log.base_or_zero),
        )
    return list(partition_by_path.values())


def _logs_by_path(logs: list[InputFile]) -> dict[str, InputFile]:
    return {path_identity(log.stored_path): log for log in logs}


def _iter_partitions(target: InputPath) -> Iterator[Partition]:
    """The partitions at a path, in order."""
    if target.file is not None:
        yield Partition(target.file.name, log_directory_path(target.path), [target.file], True)
    for directory in target.directories:
        if logs := directory.logs:
            yield Partition(directory.name, partition_directory(directory.path), logs)
        elif logs := directory.remote_logs:
            yield Partition(
                directory.name, partition_directory(directory.path), logs, is_tiered=True
            )
