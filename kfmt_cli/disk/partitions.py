"""The partitions under some paths, each with its logs in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import format_no_logs_message
from kfmt_cli.disk.file_names import (
    log_partition_directory,
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
    has_explicit_logs: bool = False
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
    explicit_logs_by_partition: dict[
        str, dict[str, InputFile]
    ] = {}  # of partitions whose logs were named one by one, by `path_identity`
    for input_path in resolve_paths(paths, on_error, accepts_stdin=accepts_stdin):
        partitions = list(
            _iter_partitions(unmarked_path := input_path.exclude_marked_directories(on_note))
        )
        if not partitions and not input_path.listing_errors and unmarked_path is input_path:
            on_error(format_no_logs_message(input_path.path))
        for partition in partitions:
            identity_path = path_identity(str(partition.directory))
            existing_partition = partition_by_path.setdefault(identity_path, partition)
            if existing_partition is partition or not existing_partition.has_explicit_logs:
                continue
            log_by_identity_path = explicit_logs_by_partition.setdefault(
                identity_path, _log_by_identity_path(existing_partition.logs)
            )
            n_earlier_logs = len(log_by_identity_path)
            for log_identity_path, log in _log_by_identity_path(partition.logs).items():
                log_by_identity_path.setdefault(log_identity_path, log)
            if len(log_by_identity_path) > n_earlier_logs:
                parent_display_name = format_display_name(str(Path(input_path.path).parent))
                partition_by_path[identity_path] = (
                    replace(partition, name=parent_display_name)
                    if partition.has_explicit_logs
                    else partition
                )
    for identity_path, log_by_identity_path in explicit_logs_by_partition.items():
        partition_by_path[identity_path] = replace(
            partition_by_path[identity_path],
            logs=sorted(log_by_identity_path.values(), key=lambda log: log.base_offset_or_zero),
        )
    return list(partition_by_path.values())


def _log_by_identity_path(logs: list[InputFile]) -> dict[str, InputFile]:
    return {path_identity(log.stored_path): log for log in logs}


def _iter_partitions(input_path: InputPath) -> Iterator[Partition]:
    """The partitions at a path, in order."""
    if input_path.file is not None:
        yield Partition(
            input_path.file.name, log_partition_directory(input_path.path), [input_path.file], True
        )
    for directory in input_path.directories:
        if logs := directory.logs:
            yield Partition(directory.name, partition_directory(directory.path), logs)
        elif logs := directory.remote_logs:
            yield Partition(
                directory.name, partition_directory(directory.path), logs, is_tiered=True
            )
