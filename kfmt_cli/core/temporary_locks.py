"""Temporary files and directories, each locked by its process.

An unlocked one is a leftover of a killed process, which the next run removes if it is certain to be
kfmt's: of this user, closed to all others, and named as only kfmt names files. On systems without
such locks, nothing is removed.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from kfmt_cli.core.source import READ_ONLY_FLAGS

if sys.platform != "win32":
    from fcntl import LOCK_EX, LOCK_NB, flock

UNLOCKED_SUFFIX = ".new"  # ends the name of a directory until it is locked
SCRATCH_PATTERN = re.compile(rf"kfmt-[a-z]+-[0-9a-f]{{32}}({re.escape(UNLOCKED_SUFFIX)})?")
LOCK_FILE_NAME = "in-use"
FILES_DIRECTORY_NAME = "files"
DIRECTORY_MODE, FILE_MODE = 0o700, 0o600
MIN_LEFTOVER_AGE_SECONDS = 0.5  # after that, its process must have locked it
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


@dataclass(slots=True)
class TemporaryLock:
    """A locked temporary file or directory; a directory has a subdirectory for its files."""

    path: Path
    lock_fd: int
    """The descriptor that holds the lock; for a locked file, it is open for writing."""
    _is_locked: bool = True

    @classmethod
    def create_file(cls, path: Path) -> TemporaryLock:
        """Create and lock an empty file, open for writing; raises OSError."""
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, FILE_MODE)
        _try_lock_file(fd)
        return cls(path, fd)

    @classmethod
    def create_directory(cls, path: Path) -> TemporaryLock:
        """Create and lock a directory; raises OSError."""
        path.mkdir(DIRECTORY_MODE)
        lock = cls(path, cls.create_file(path / LOCK_FILE_NAME).lock_fd)
        lock.files_directory.mkdir(DIRECTORY_MODE)
        return lock

    @property
    def files_directory(self) -> Path:
        """The subdirectory for the files of a directory."""
        return self.path / FILES_DIRECTORY_NAME

    def remove_and_unlock(self) -> None:
        """Remove the file or directory and release the lock; further calls do nothing."""
        if self._is_locked:
            self._is_locked = False
            if self.path.is_dir() and not self.path.is_symlink():
                shutil.rmtree(self.path, ignore_errors=True)
            else:
                self.path.unlink(missing_ok=True)
            os.close(self.lock_fd)


def create_locked_directory(user: str) -> TemporaryLock:
    """Create and lock a directory in the system's directory for temporary files, and remove the
    leftovers of killed runs there; raises OSError. user: what needs it, as a word in its name."""
    system_temp_directory = Path(tempfile.gettempdir())
    remove_leftovers(system_temp_directory, SCRATCH_PATTERN)
    path = system_temp_directory / f"kfmt-{user}-{uuid4().hex}"
    lock = TemporaryLock.create_directory(path.with_suffix(UNLOCKED_SUFFIX))
    lock.path = lock.path.rename(path)
    return lock


@contextmanager
def scratch_directory(user: str) -> Iterator[Path]:
    """A temporary directory that exists inside a `with` block; raises OSError. user: see
    `create_locked_directory`."""
    lock = create_locked_directory(user)
    try:
        yield lock.files_directory
    finally:
        lock.remove_and_unlock()


def remove_leftovers(parent: Path, name_pattern: re.Pattern[str]) -> list[Path]:
    """Remove the leftovers of killed runs in a directory; returns the removed paths. name_pattern:
    the names that only kfmt gives to temporary files and directories."""
    removed_paths: list[Path] = []
    with suppress(OSError):
        names = sorted(filter(name_pattern.fullmatch, os.listdir(parent)))  # noqa: PTH208 (names only)
        for path in map(parent.joinpath, names):
            with suppress(OSError):
                if _remove_leftover(path):
                    removed_paths.append(path)
    return removed_paths


def _remove_leftover(path: Path) -> bool:
    """Remove a file or directory if it is a leftover; raises OSError."""
    if sys.platform == "win32":
        return False
    status = path.lstat()
    if time.time() - status.st_mtime <= MIN_LEFTOVER_AGE_SECONDS:
        return False
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
        # Others may read it if the run was killed between its last two steps, chmod and rename.
        with _open_descriptor(str(path)) as fd:
            is_leftover = os.path.samestat(status, os.fstat(fd)) and _try_lock_file(fd)
            if is_leftover:
                path.unlink()
            return is_leftover
    if not _is_private(status, stat.S_IFDIR | DIRECTORY_MODE):
        return False
    with _open_descriptor(str(path), os.O_DIRECTORY) as directory_fd:
        return os.path.samestat(status, os.fstat(directory_fd)) and _empty_directory(
            path, directory_fd
        )


def _empty_directory(path: Path, directory_fd: int) -> bool:
    """Remove a temporary directory, open at a descriptor, unless it is in use or has files that
    kfmt does not create; raises OSError."""
    names = set(os.listdir(directory_fd))
    if not names:  # killed before it created the lock
        path.rmdir()
        return True
    if names - {LOCK_FILE_NAME, FILES_DIRECTORY_NAME}:
        return False
    with _open_descriptor(LOCK_FILE_NAME, dir_fd=directory_fd) as fd:
        if not _is_unlocked(fd):
            return False
        if FILES_DIRECTORY_NAME in names:
            shutil.rmtree(path / FILES_DIRECTORY_NAME)
        os.unlink(LOCK_FILE_NAME, dir_fd=directory_fd)
        path.rmdir()
    return True


@contextmanager
def _open_descriptor(name: str, flags: int = 0, dir_fd: int | None = None) -> Iterator[int]:
    """A descriptor of a file that is no link; raises OSError."""
    fd = os.open(name, READ_ONLY_FLAGS | _NO_FOLLOW | flags, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


def _is_private(status: os.stat_result, mode: int) -> bool:
    """Whether a file has this type and these permissions, and is this user's."""
    return status.st_mode == mode and status.st_uid == os.geteuid()


def _is_unlocked(fd: int) -> bool:
    """Whether an open file is a lock that no process holds; then it is locked."""
    return _is_private(os.fstat(fd), stat.S_IFREG | FILE_MODE) and _try_lock_file(fd)


def _try_lock_file(fd: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        flock(fd, LOCK_EX | LOCK_NB)
    except OSError:  # locked, or a file system without locks
        return False
    return True
