"""A log directory as a starting broker finds it: its own files, and those that prevent a start.

Source: `kafka.log.LogManager.loadLogs`, `kafka.server.KafkaServer`,
`org.apache.kafka.metadata.properties.MetaPropertiesEnsemble`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kfmt_cli.broker.log_reading.not_files import Access, find_start_files, has_entry
from kfmt_cli.broker.metadata.meta_properties import MetaProperties, read_meta_properties_leniently
from kfmt_cli.broker.metadata.metadata_files import (
    find_bootstrap_problem,
    iter_file_errors,
    iter_start_file_problems,
)
from kfmt_cli.broker.start.checkpoints import (
    BOOTSTRAP_CHECKPOINT,
    CLEANER_CHECKPOINT,
    LOG_DIRECTORY_FILES,
    LOG_START_CHECKPOINT,
    METADATA_LOG_NAME,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    CheckpointError,
    CheckpointNumberError,
    read_checkpoint_offsets,
)
from kfmt_cli.broker.start.outcome import AFTER_CLEAN_SHUTDOWN, AFTER_CRASH, PredictedStart
from kfmt_cli.core.urls import restore_url_slashes
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.file_access import is_directory, is_file, path_exists
from kfmt_cli.disk.file_names import parse_broker_topic_partition
from kfmt_cli.disk.kinds import CLEAN_SHUTDOWN_KIND, META_PROPERTIES_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError

if TYPE_CHECKING:
    from kfmt_cli.broker.log_reading.offset_intervals import OffsetIntervals
    from kfmt_cli.broker.log_reading.stored_batches import StartError

OffsetByPartition = dict[tuple[str, int], int]
NO_META_PROPERTIES = MetaProperties(is_missing=True)


@dataclass(slots=True)
class PartitionReplica:
    """A partition's directory and the effect of each start on it."""

    directory: DirectoryListing
    display_path: str
    start_by_shutdown_kind: dict[str, PredictedStart]
    """The predicted starts by kind, `AFTER_CRASH` or `AFTER_CLEAN_SHUTDOWN`."""
    contained_offsets: OffsetIntervals = field(default_factory=list)
    """The offsets in its logs."""

    @property
    def name(self) -> str:
        """The name of the directory."""
        directory_name = self.directory.path.rpartition("/")[2]
        return (
            directory_name
            if directory_name.strip(".")
            else Path(self.directory.path).absolute().name
        )

    @property
    def topic_partition(self) -> tuple[str, int] | None:
        """The partition that a broker takes from its name."""
        return parse_broker_topic_partition(self.name)


@dataclass(slots=True)
class LogDirectory:
    """The contents of a log directory's own files."""

    path: str = ""
    listing: DirectoryListing | None = None
    """The names in it."""
    clean_shutdown_path: str | None = None
    """The path of `.kafka_cleanshutdown`, None if missing."""
    offsets_by_checkpoint: dict[str, OffsetByPartition] = field(default_factory=dict)
    """The offsets of each checkpoint file."""
    early_failures: list[tuple[str, str]] = field(default_factory=list)
    start_failures: list[tuple[str, str]] = field(default_factory=list)
    """The files that prevent a start, each with the reason. `early_failures` has the files that the
    broker reads before `.kafka_cleanshutdown`."""
    offline_failures: list[tuple[str, str]] = field(default_factory=list)
    """The files that prevent a start only if there is no other log directory."""
    unserved_reason: str | None = None
    """Why the broker serves no partition."""
    bootstrap_failures: list[tuple[str, str]] = field(default_factory=list)
    """bootstrap.checkpoint, if it prevents a start of the broker whose metadata log is here."""
    meta_properties: MetaProperties = NO_META_PROPERTIES
    """The contents of meta.properties."""
    has_metadata_log: bool = False
    outer_path: str | None = None
    """The log directory that contains it: no broker has both."""
    is_fully_listed: bool = True
    """Whether the whole directory was listed."""
    read_errors: list[InputError] = field(default_factory=list)
    """The errors of unreadable files, in this directory or in a partition's."""
    replicas: list[PartitionReplica] = field(default_factory=list)
    """The partitions in it, if their starts are predicted."""

    @property
    def is_kraft(self) -> bool:
        """Whether it belongs to a KRaft broker."""
        return self.has_metadata_log or self.meta_properties.is_kraft

    @property
    def next_start_kind(self) -> str:
        """The kind of the next start, which `.kafka_cleanshutdown` decides."""
        return AFTER_CRASH if self.clean_shutdown_path is None else AFTER_CLEAN_SHUTDOWN

    def add_access_errors(self, errors: list[tuple[str, StartError]]) -> None:
        """Add files that cannot be opened, by name."""
        for name, error in errors:
            failures = self.offline_failures if error.is_offline else self.start_failures
            failures.append((name, str(error)))

    def checkpoint_offset(self, checkpoint_name: str, topic_partition: tuple[str, int]) -> int:
        """The offset of a partition in a checkpoint, 0 if missing."""
        return self.offsets_by_checkpoint.get(checkpoint_name, {}).get(topic_partition, 0)


def read_log_directory(directory: DirectoryListing) -> LogDirectory:
    """The contents of a log directory's own files, and the files that prevent a start."""
    clean_shutdown_path = next(
        (
            directory.input_file(name).path
            for name in CLEAN_SHUTDOWN_KIND.names
            if has_entry(directory, name)
        ),
        None,
    )
    log_directory = LogDirectory(
        restore_url_slashes(str(Path(directory.path))), directory, clean_shutdown_path
    )
    log_directory.has_metadata_log = METADATA_LOG_NAME in directory.directories
    for file_name in (
        RECOVERY_POINT_CHECKPOINT,
        REPLICATION_CHECKPOINT,
        LOG_START_CHECKPOINT,
        CLEANER_CHECKPOINT,
    ):
        # The cleaner reads its own checkpoint later.
        access = Access.READ_EXISTING if file_name == CLEANER_CHECKPOINT else Access.READ
        access_errors: list[tuple[str, StartError]] = []
        for checkpoint_file in find_start_files(directory, [file_name], access, access_errors):
            _read_checkpoint(log_directory, file_name, checkpoint_file)
        if file_name != CLEANER_CHECKPOINT:
            log_directory.add_access_errors(access_errors)
    access_errors = []
    for meta_properties_file in find_start_files(
        directory, META_PROPERTIES_KIND.names, Access.READ_OR_MISS, access_errors
    ):
        log_directory.meta_properties = read_meta_properties_leniently(
            meta_properties_file, log_directory.read_errors
        )
    for _, error in access_errors:
        log_directory.meta_properties = MetaProperties(problem=str(error))
    if log_directory.is_kraft:
        log_directory.bootstrap_failures += iter_start_file_problems(
            directory, [BOOTSTRAP_CHECKPOINT], find_bootstrap_problem, log_directory.read_errors
        )
    else:
        log_directory.early_failures += iter_file_errors(
            directory, META_PROPERTIES_KIND, log_directory.read_errors
        )
    return log_directory


def _read_checkpoint(
    log_directory: LogDirectory, checkpoint_name: str, checkpoint_file: InputFile
) -> None:
    try:
        log_directory.offsets_by_checkpoint[checkpoint_name] = read_checkpoint_offsets(
            checkpoint_file
        )
    except CheckpointNumberError as error:
        # A broker treats malformed recovery points and log start offsets as empty.
        if checkpoint_name == REPLICATION_CHECKPOINT:
            log_directory.unserved_reason = str(error)
    except (CheckpointError, InputError) as error:
        if isinstance(error, InputError):
            log_directory.read_errors.append(error)
        # The cleaner reads its own checkpoint later.
        if checkpoint_name != CLEANER_CHECKPOINT:
            log_directory.offline_failures.append((checkpoint_file.name, str(error)))


def load_log_directory(path: Path) -> LogDirectory:
    """The contents of a log directory's own files; nothing else in it is listed."""
    names = sorted({*LOG_DIRECTORY_FILES, BOOTSTRAP_CHECKPOINT, METADATA_LOG_NAME})
    existing_names = [name for name in names if path_exists(f"{path}/{name}")]
    directory_names = tuple(name for name in existing_names if is_directory(f"{path}/{name}"))
    file_names = tuple(name for name in existing_names if name not in directory_names)
    linked_names = frozenset(name for name in file_names if os.path.islink(f"{path}/{name}"))  # noqa: PTH114 (text)
    special_names = frozenset(name for name in file_names if not is_file(f"{path}/{name}"))
    display_path = restore_url_slashes(str(path))
    log_directory = read_log_directory(
        DirectoryListing(
            display_path,
            display_path,
            directory_names,
            file_names,
            special_names - linked_names,
            linked_names,
        )
    )
    log_directory.is_fully_listed = False
    return log_directory


def find_directory_contradictions(directories: list[LogDirectory]) -> list[tuple[str, str]]:
    """The files or directories that stop a KRaft broker with several log directories, each with the
    reason. The directory with the metadata log comes first."""
    failures: list[tuple[str, str]] = []
    first_directory = directories[0]
    path_by_directory_id: dict[str, str] = {}
    for directory in directories:
        meta_properties = directory.meta_properties
        if meta_properties.is_missing:
            message = f"{directory.path}: no meta.properties in this log directory"
            failures.append((directory.path, message))
            continue
        problem = meta_properties.problem
        if problem is None and meta_properties.node_id is None:
            problem = f"{directory.path}: meta.properties has no node.id"
        elif problem is None and meta_properties.cluster_id is None:
            problem = f"{directory.path}: meta.properties has no cluster.id"
        elif problem is None and meta_properties.directory_id in path_by_directory_id:
            other_path = path_by_directory_id[meta_properties.directory_id or ""]
            problem = f"{directory.path}: directory.id duplicates that of {other_path}"
        elif problem is None and directory is not first_directory and directory.has_metadata_log:
            problem = (
                f"{directory.path}: contains a metadata log, but the metadata log is in "
                f"{first_directory.path}"
            )
        if problem is not None:
            failures.append((directory.path, problem))
            continue
        if meta_properties.directory_id is not None:
            path_by_directory_id[meta_properties.directory_id] = directory.path
        if directory is not first_directory:
            for id_attribute in ("cluster_id", "node_id"):
                expected_id = getattr(first_directory.meta_properties, id_attribute)
                actual_id = getattr(meta_properties, id_attribute)
                if None not in (expected_id, actual_id) and expected_id != actual_id:
                    setting = id_attribute.replace("_", ".")
                    message = (
                        f"{directory.path}: {setting} is {actual_id}, but {expected_id} in "
                        f"{first_directory.path}"
                    )
                    failures.append((directory.path, message))
    return failures
