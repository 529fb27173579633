"""The files of a broker that it cannot use, by their role: each is found on its own, so that one
does not hide the next.

Source: `tests/interop/test_directories.py` observes each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from kfmt_cli.broker.log_reading.not_files import find_not_a_file
from kfmt_cli.broker.metadata.metadata_files import iter_metadata_problems
from kfmt_cli.broker.start.brokers import BrokerDirectories
from kfmt_cli.broker.start.checkpoints import (
    BOOTSTRAP_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    METADATA_LOG_NAME,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    CheckpointError,
    CheckpointNumberError,
    read_checkpoint_offsets,
    read_valid_epoch_entries,
)
from kfmt_cli.broker.start.directory import LogDirectory, PartitionReplica
from kfmt_cli.disk.directory_listing import DirectoryListing, list_directory
from kfmt_cli.disk.kinds import (
    INDEX_KINDS,
    PARTITION_METADATA_KIND,
    QUORUM_STATE_KIND,
    classify_name,
)
from kfmt_cli.disk.kinds.fixed_size_rows import PRODUCER_SNAPSHOT_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND
from kfmt_cli.errors import InputError


class FileRole(Enum):
    """What a broker uses a file for."""

    RECOVERY_POINTS = RECOVERY_POINT_CHECKPOINT
    LOG_STARTS = LOG_START_CHECKPOINT
    HIGH_WATERMARKS = REPLICATION_CHECKPOINT
    BOOTSTRAP = BOOTSTRAP_CHECKPOINT
    LEADER_EPOCHS = LEADER_EPOCH_CHECKPOINT
    QUORUM_STATE = "quorum-state"
    METADATA_SNAPSHOT = ".checkpoint"
    METADATA_TOPIC_ID = "partition.metadata of the metadata log"
    SEGMENT_FILE = "an index or a snapshot of a segment"


class UnusableFile(NamedTuple):
    """A file that a broker cannot use, or a directory or a broken link in its place."""

    role: FileRole
    log_directory: LogDirectory
    listing: DirectoryListing
    """The directory that it is in."""
    name: str


_ReadFile = Callable[[InputFile], object]
_SIDE_FILE_KINDS = frozenset({*INDEX_KINDS, PRODUCER_SNAPSHOT_KIND})
_CHECKPOINT_ROLES = (FileRole.RECOVERY_POINTS, FileRole.LOG_STARTS, FileRole.HIGH_WATERMARKS)
# A broker treats malformed numbers in these as an empty checkpoint.
_LENIENT_ROLES = frozenset({FileRole.RECOVERY_POINTS, FileRole.LOG_STARTS})


def iter_unusable_files(
    broker: BrokerDirectories, read_errors: list[InputError]
) -> Iterator[UnusableFile]:
    """The files in a broker's log directories that it cannot use; adds the errors of files that
    kfmt cannot read to `read_errors`."""
    for directory in broker.directories:
        listing = directory.listing
        if listing is None:
            continue
        for role in _CHECKPOINT_ROLES:
            if _is_unusable(
                *(listing, role.value, read_checkpoint_offsets, read_errors),
                is_lenient=role in _LENIENT_ROLES,
            ):
                yield UnusableFile(role, directory, listing, role.value)
        if directory.bootstrap_failures and directory is broker.directories[0]:
            yield UnusableFile(FileRole.BOOTSTRAP, directory, listing, BOOTSTRAP_CHECKPOINT)
        if directory.has_metadata_log:
            yield from _iter_metadata_files(directory, read_errors)
        for replica in directory.replicas:
            yield from _iter_partition_files(directory, replica, read_errors)


def _is_unusable(
    listing: DirectoryListing,
    name: str,
    read_file: _ReadFile,
    read_errors: list[InputError],
    *,
    is_lenient: bool,
) -> bool:
    if find_not_a_file(listing, name) is not None:
        return True
    if name not in listing.files:
        return False
    try:
        read_file(listing.input_file(name))
    except CheckpointNumberError:
        return not is_lenient
    except CheckpointError:
        return True
    except InputError as error:
        read_errors.append(error)
    return False


def _iter_metadata_files(
    directory: LogDirectory, read_errors: list[InputError]
) -> Iterator[UnusableFile]:
    try:
        listing = list_directory(f"{directory.path}/{METADATA_LOG_NAME}")
    except InputError as error:
        read_errors.append(error)
        return
    names = {listing.input_file(name).name: name for name in (*listing.files, *listing.directories)}
    n_errors = len(read_errors)
    for display_name, _ in iter_metadata_problems(listing, read_errors):
        is_unread, n_errors = len(read_errors) > n_errors, len(read_errors)
        name = None if is_unread else names.get(display_name)
        role = None if name is None else _metadata_role(name)
        if name is not None and role is not None:
            yield UnusableFile(role, directory, listing, name)


def _metadata_role(name: str) -> FileRole | None:
    if name in QUORUM_STATE_KIND.names:
        return FileRole.QUORUM_STATE
    if name in PARTITION_METADATA_KIND.names:
        return FileRole.METADATA_TOPIC_ID
    is_snapshot = classify_name(name)[0] is KRAFT_SNAPSHOT_KIND
    return FileRole.METADATA_SNAPSHOT if is_snapshot else None


def _iter_partition_files(
    directory: LogDirectory, replica: PartitionReplica, read_errors: list[InputError]
) -> Iterator[UnusableFile]:
    listing = replica.directory
    fails = any(start.reason is not None for start in replica.start_by_shutdown_kind.values())
    if fails and _is_unusable(
        listing, LEADER_EPOCH_CHECKPOINT, read_valid_epoch_entries, read_errors, is_lenient=False
    ):
        yield UnusableFile(FileRole.LEADER_EPOCHS, directory, listing, LEADER_EPOCH_CHECKPOINT)
    for name in (*listing.directories, *sorted(listing.special_files | listing.linked_files)):
        kind, base_offset, _ = classify_name(name)
        is_side_file = kind in _SIDE_FILE_KINDS and base_offset is not None
        if is_side_file and find_not_a_file(listing, name) is not None:
            yield UnusableFile(FileRole.SEGMENT_FILE, directory, listing, name)
