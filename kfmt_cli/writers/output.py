"""Outputs that appear complete or not at all.

Everything is written under a temporary name next to its destination, synced to disk, and renamed. A
killed process leaves temporary files, see `writers/leftovers.py`, and nothing under a final name.
"""

from __future__ import annotations

import errno
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path, PurePath
from typing import BinaryIO, TypeVar

from kfmt_cli.core.layout.wire_types import Buffer
from kfmt_cli.core.temporary_locks import TemporaryLock
from kfmt_cli.core.urls import format_display_name, is_local
from kfmt_cli.disk.directory_listing import list_directory
from kfmt_cli.disk.file_access import find_disk_path, open_binary, path_exists, stat_path
from kfmt_cli.disk.input_paths import reject_stdin
from kfmt_cli.disk.kinds import UNKNOWN_KIND, classify_name
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.disk.path_resolution import mount_and_resolve_path
from kfmt_cli.errors import InputError, OutputError, UsageError
from kfmt_cli.writers.leftovers import (
    create_temporary_directory,
    create_temporary_file,
    remove_output_leftovers,
)
from kfmt_cli.writers.output_access import (
    ALL_PERMISSIONS,
    current_umask,
    give_access_like,
    give_to,
    readers_mask,
    report_other_owner,
    stat_input,
    stat_replaced_file,
)
from kfmt_cli.writers.synced_directories import (
    create_directory,
    sync_directories,
    sync_directory,
)

OutputT = TypeVar("OutputT")


class AtomicOutput(ABC):
    """An output that is completed at the end of its `with` block. After an error, its files are
    closed incomplete."""

    @abstractmethod
    def close(self) -> None:
        """Complete the output."""

    @abstractmethod
    def discard(self) -> None:
        """Close the files without completing them; does nothing after `close`."""

    def __enter__(self: OutputT) -> OutputT:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *error_details: object) -> None:
        try:
            if error_type is None:
                self.close()
        finally:
            self.discard()


class OutputFile(AtomicOutput):
    """A file being written; raises OutputError. path: its final path, for messages. permissions:
    the maximum permissions of the file."""

    def __init__(self, path: Path, temporary_path: Path, permissions: int) -> None:
        self.path = path
        self.n_bytes = 0
        with convert_output_errors(path):
            temporary_path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = temporary_path.open("xb", buffering=1 << 20)
            temporary_path.chmod(0o666 & permissions)

    def write(self, data: Buffer | bytearray) -> None:
        """Append bytes to the file."""
        with convert_output_errors(self.path):
            self._file.write(data)
        self.n_bytes += len(data)

    def close(self) -> None:
        """Sync the file to disk and close it."""
        with convert_output_errors(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def discard(self) -> None:
        with suppress(OSError):  # unwritten data is discarded anyway
            self._file.close()


_EXISTS_MESSAGE_BY_FORCE = {
    None: "already exists; choose another DST",
    False: "already exists; use --force to replace it",
    True: "another run has just written it; run this command again",
}


class StagingDirectory:
    """A temporary directory that becomes DST, or whose files are moved into DST.

    force: whether to replace files; None if the command never does, so that DST must be new.
    inputs: the paths that the output is made from; it is not more readable than they are.
    for_broker: whether new files belong to the owner of DST, or of the first input if DST is new.
    directory: where to write, with the same relative paths as under DST. removed_leftovers: removed
    leftovers of killed runs.
    """

    def __init__(
        self,
        destination: str,
        force: bool | None = None,
        *,
        inputs: Sequence[str] = (),
        for_broker: bool = True,
    ) -> None:
        require_local_destination(destination)
        self.destination = Path(destination)
        self._force = force
        self._is_commit_prevented = False
        self._permissions = readers_mask(inputs) & ~current_umask()
        parent = self.destination.absolute().parent
        owner_model = stat_input(inputs[0]) if inputs else None
        if self.destination.is_symlink() or self.destination.exists():
            if not self.destination.is_dir():
                raise UsageError(f"{destination}: exists and is not a directory")
            if force is None:
                raise UsageError(f"{destination}: {_EXISTS_MESSAGE_BY_FORCE[force]}")
            parent = self.destination  # so that renames stay within one file system
            owner_model = self.destination.stat()
        self._owner_model = owner_model if for_broker else None
        with convert_output_errors(self.destination):
            new_parents = create_directory(parent)
            for new_parent in new_parents:
                self._give_to_owner(new_parent)
            # A killed run that was creating DST has left its temporary directory next to it.
            leftover_directories = {parent, self.destination.absolute().parent}
            self.removed_leftovers = [
                path
                for directory in sorted(leftover_directories)
                for path in remove_output_leftovers(directory)
            ]
            self._lock: TemporaryLock = create_temporary_directory(parent)
            self.directory = self._lock.files_directory
        self._is_destination_new = parent != self.destination

    def create_file(self, relative_name: str) -> OutputFile:
        """Create a file under the directory; without `force`, raises UsageError if DST has it."""
        relative_path = PurePath(relative_name)
        assert not relative_path.is_absolute(), relative_name
        assert ".." not in relative_path.parts, relative_name
        if not self._force and (self.destination / relative_path).exists():
            raise UsageError(
                f"{self.destination / relative_path}: {_EXISTS_MESSAGE_BY_FORCE[self._force]}"
            )
        return OutputFile(
            self.destination / relative_path, self.directory / relative_path, self._permissions
        )

    def write_file(self, relative_name: str, data: bytes) -> None:
        """Write a complete file under the directory."""
        with self.create_file(relative_name) as output_file:
            output_file.write(data)

    def move_files_to_root(self, subdirectory: Path) -> None:
        """Move the files of a subdirectory to the root, for output with only one directory."""
        if subdirectory == Path():
            return
        assert len(subdirectory.parts) == 1, subdirectory
        assert subdirectory.name != "..", subdirectory
        with convert_output_errors(self.destination):
            for file in list((self.directory / subdirectory).iterdir()):
                file.rename(self.directory / file.name)
            (self.directory / subdirectory).rmdir()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been written."""
        return not any(self.directory.iterdir())

    def prevent_commit(self) -> None:
        """Make `commit` publish nothing."""
        self._is_commit_prevented = True

    def commit_files(self) -> None:
        """Move all files to their destination; raises UsageError if some already exist."""
        if self._is_commit_prevented:
            return
        relative_paths = sorted(
            str(path.relative_to(self.directory))
            for path in self.directory.rglob("*")
            if not path.is_dir()
        )
        existing_paths = [name for name in relative_paths if (self.destination / name).exists()]
        if existing_paths and not self._force:
            others_text = f" and {len(existing_paths) - 1} more" if len(existing_paths) > 1 else ""
            raise UsageError(
                f"{self.destination / existing_paths[0]}{others_text}: "
                f"{_EXISTS_MESSAGE_BY_FORCE[self._force]}"
            )
        self._require_no_other_segments(relative_paths)
        with convert_output_errors(self.destination):
            changed_directories = self._publish_files(relative_paths)
        self._lock.remove_and_unlock()
        sync_directories(self.destination, changed_directories)

    def _publish_files(self, relative_paths: list[str]) -> list[Path]:
        """Move the files to their destination; returns the directories that received entries.
        Raises OSError, UsageError."""
        has_owner = self._set_access(relative_paths)
        new_directories = [
            path.relative_to(self.directory)
            for path in sorted(self.directory.rglob("*"))
            if path.is_dir()
        ]
        for directory in (*new_directories, Path()):
            sync_directory(self.directory / directory)
        changed_directories = [self.destination.absolute().parent, self.destination]
        if self._is_destination_new:
            self._rename_to_destination()
        else:
            changed_directories += (self.destination / path for path in new_directories)
            for path in new_directories:
                if not (self.destination / path).is_dir():
                    (self.destination / path).mkdir(self._permissions)
                    self._give_to_owner(self.destination / path)
            for name in relative_paths:
                (self.directory / name).replace(self.destination / name)
        if not has_owner:
            assert self._owner_model is not None
            report_other_owner(self.destination, self._owner_model.st_uid)
        return changed_directories

    def _set_access(self, relative_paths: list[str]) -> bool:
        """Set the owners, groups and permissions of all files and directories; False if some would
        belong to another owner. Raises OSError."""
        has_owner = True
        for directory in (self.directory, *self.directory.rglob("*")):
            if directory.is_dir():
                directory.chmod(ALL_PERMISSIONS & self._permissions)
                has_owner &= self._give_to_owner(directory)
        for name in relative_paths:
            replaced_status = stat_replaced_file(self.destination / name)
            if replaced_status is None:
                has_owner &= self._give_to_owner(self.directory / name)
            else:
                has_owner &= give_access_like(self.directory / name, replaced_status)
        return has_owner

    def _give_to_owner(self, path: Path) -> bool:
        return self._owner_model is None or give_to(path, self._owner_model)

    def _require_no_other_segments(self, relative_paths: list[str]) -> None:
        """Raise UsageError if DST has other segments next to new ones: a broker and kfmt would read
        them as one partition."""
        new_paths = {self.destination / name for name in relative_paths}
        for directory in {path.parent for path in new_paths if path.suffix == LOG_KIND.suffix}:
            for name in list_directory(str(directory)).files if directory.is_dir() else ():
                if classify_name(name)[1] is not None and directory / name not in new_paths:
                    message = "belongs to another segment, which --force does not replace"
                    raise UsageError(
                        f"{directory / name}: {message}; remove the old segments first"
                    )

    def _rename_to_destination(self) -> None:
        """Make the directory DST; raises OSError, and UsageError if another run has made DST."""
        try:
            self.directory.rename(self.destination)  # replaces an empty directory only
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            raise UsageError(
                f"{self.destination}: {_EXISTS_MESSAGE_BY_FORCE[self._force]}"
            ) from error

    def discard(self) -> None:
        """Remove uncommitted files."""
        self._lock.remove_and_unlock()


@contextmanager
def open_staging_directory(
    destination: str,
    force: bool | None = None,
    *,
    inputs: Sequence[str] = (),
    for_broker: bool = True,
) -> Iterator[StagingDirectory]:
    """Yield a `StagingDirectory`; commit it at the end of the block, or discard it if the block
    fails."""
    staging = StagingDirectory(destination, force, inputs=inputs, for_broker=for_broker)
    try:
        yield staging
        staging.commit_files()
    finally:
        staging.discard()


def replace_file(
    path: Path, data: bytes, *, keep_backup: bool = False, model_path: str | None = None
) -> Path | None:
    """Write or replace a file atomically, see `open_replacement`; raises OutputError.

    keep_backup: keep the old file under another name. Returns the path of the backup.
    """
    backup_path = None
    with open_replacement(path, model_path) as fd:
        with os.fdopen(os.dup(fd), "wb") as output_file:
            output_file.write(data)
        if keep_backup and os.path.lexists(path):
            # A killed run may already have created the backup.
            backup_path = next(
                candidate_path
                for candidate_path in _iter_backup_paths(path)
                if not os.path.lexists(candidate_path)
                or candidate_path.lstat().st_ino == path.lstat().st_ino
            )
            if not os.path.lexists(backup_path):
                os.link(path, backup_path, follow_symlinks=False)
    return backup_path


@contextmanager
def open_replacement(path: Path, model_path: str | None = None) -> Iterator[int]:
    """Yield the descriptor of a temporary file; at the end of the block, it is synced and replaces
    the file, keeping its owner, group and permissions. After an error, the file is unchanged.
    Raises OutputError.

    model_path: the file whose owner, group and permissions a new one gets.
    """
    directory = path.absolute().parent
    with convert_output_errors(path):
        model = stat_replaced_file(path) or (stat_input(model_path) if model_path else None)
        temporary_file = create_temporary_file(directory)
        try:
            yield temporary_file.lock_fd
            os.fsync(temporary_file.lock_fd)
            if model is None:
                temporary_file.path.chmod(0o666 & ~current_umask())
            elif not give_access_like(temporary_file.path, model):
                report_other_owner(path, model.st_uid)
            temporary_file.path.replace(path)
        finally:
            temporary_file.remove_and_unlock()
    sync_directories(path, [directory])


def rename_to_backup(path: Path) -> Path | None:
    """Rename a file that should not exist, if it does; returns its new path."""
    if not path.exists():
        return None
    with convert_output_errors(path):
        backup_path = next(
            candidate_path
            for candidate_path in _iter_backup_paths(path)
            if not candidate_path.exists()
        )
        path.rename(backup_path)
    sync_directories(backup_path, [path.parent])
    return backup_path


def _iter_backup_paths(path: Path) -> Iterator[Path]:
    """Yield names for a backup of the file, which brokers ignore."""
    for backup_number in count(1):
        yield path.with_name(f"{path.name}.old{backup_number if backup_number > 1 else ''}")


@contextmanager
def convert_output_errors(path: Path) -> Iterator[None]:
    """Raise OutputError if the system cannot write a file."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error


def require_local_destination(destination: str) -> None:
    """Raise UsageError if the destination is a URL."""
    if not is_local(destination):
        message = "can only write to local directories; kfmt export writes to URLs"
        raise UsageError(f"{format_display_name(destination)}: {message}")


SPARE_BYTES = 1 << 20  # for indexes and directories


def require_free_space(destination: str, n_bytes: int) -> None:
    """Raise OutputError if the file system of DST has no space for logs of `n_bytes` bytes and for
    their indexes."""
    n_bytes += SPARE_BYTES
    directory = Path(destination).absolute()
    while not directory.exists():
        directory = directory.parent
    n_free_bytes = shutil.disk_usage(directory).free
    if n_free_bytes < n_bytes:
        raise OutputError(
            f"{destination}: needs about {n_bytes} bytes, but only {n_free_bytes} are free on its "
            "file system"
        )


def check_source_and_destination(source: str, destination: str) -> None:
    """Raise InputError if SRC is missing, UsageError if it is standard input, or if DST exists or
    is inside SRC."""
    reject_stdin(source)
    require_local_destination(destination)
    if not path_exists(mount_and_resolve_path(source)):
        raise InputError(f"{format_display_name(source)}: No such file or directory")
    destination_path = Path(destination)
    if destination_path.exists() or destination_path.is_symlink():
        raise UsageError(f"{format_display_name(destination)}: already exists; DST must not exist")
    require_outside_inputs(destination, [source])


def require_outside_inputs(output: str, inputs: Iterable[str]) -> None:
    """Raise UsageError if an output is one of the inputs or inside one.

    Inputs are never changed, and a broker does not start if its log directory contains a directory
    that is not a partition.
    """
    output_path = Path(os.path.realpath(output))
    for input_path in inputs:
        resolved_input = Path(os.path.realpath(input_path))
        if output_path == resolved_input or resolved_input in output_path.parents:
            message = (
                f"is inside the input {format_display_name(input_path)}, which kfmt never writes to"
            )
            raise UsageError(f"{output}: {message}; choose another place")


def require_free_of_broker_files(output: Path) -> None:
    """Raise UsageError if an output is not a regular file, or would be next to a broker's files."""
    name = format_display_name(str(output))
    if output.is_dir():
        raise UsageError(f"{name}: is a directory; name a file")
    if output.exists() and not output.is_file():
        raise UsageError(f"{name}: is not a regular file; redirect the output instead")
    with convert_output_errors(output):
        names = [entry.name for entry in os.scandir(output.parent)]
    if any(classify_name(name)[0] is not UNKNOWN_KIND for name in (output.name, *names)):
        raise UsageError(
            f"{name}: is among a broker's files, which kfmt never writes to; choose another place"
        )


def copy_file(staging: StagingDirectory, file: InputFile, relative_name: str) -> None:
    """Copy a file with its times and permissions; raises InputError, and leaves no copy, if it
    cannot be read. relative_name: its path under DST."""
    try:
        with (
            open_binary(file.path) as source_file,
            staging.create_file(relative_name) as output_file,
        ):
            while chunk := source_file.read(1 << 20):
                output_file.write(chunk)
        with suppress(FileNotFoundError):  # a broker deleted it meanwhile
            copy_times(file.path, staging.directory / relative_name)
    except (InputError, OSError) as error:  # writing raises OutputError instead
        (staging.directory / relative_name).unlink(missing_ok=True)
        if isinstance(error, InputError):
            raise
        is_missing = isinstance(error, FileNotFoundError)
        message = f"{file.name}: cannot be read: {error.strerror}"
        raise InputError(message, file=file.path, is_missing=is_missing) from error


def copy_times(source_path: str, target_path: Path) -> None:
    """Set a file's times to those of an input, and its permissions if the input is a local file;
    raises OSError, InputError."""
    if (local_path := find_disk_path(source_path)) is not None:
        with suppress(FileNotFoundError):  # a broker has deleted it since it was read
            shutil.copystat(local_path, target_path)
    else:
        modified_ns = stat_path(source_path).st_mtime_ns
        os.utime(target_path, ns=(modified_ns, modified_ns))
