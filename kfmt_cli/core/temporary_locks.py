"""Temporary files and directories, each locked by its process.

An unlocked one is a leftover of a killed process. On systems without such locks, nothing is
removed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":
    from fcntl import LOCK_EX, LOCK_NB, flock

SCRATCH_PREFIX = "kfmt-"
UNLOCKED_SUFFIX = ".new"  # ends the name of a directory until it is locked
LOCK_FILE_NAME = "in-use"
FILES_DIRECTORY_NAME = "files"
MIN_LEFTOVER_AGE_SECONDS = 0.5


@dataclass(slots=True)
class TemporaryLock:
    """A locked temporary file or directory; a directory has a subdirectory for its files."""

    path: Path
    lock_fd: int
    """The descriptor that holds the lock; for a locked file, it is open for writing."""
    _is_locked: bool = True

    @classmethod
    def lock_file(cls, path: Path, fd: int) -> TemporaryLock:
        """Lock a new file that is open for writing."""
        _try_lock_file(fd)
        return cls(path, fd)

    @classmethod
    def lock_directory(cls, path: Path) -> TemporaryLock:
        """Lock a new directory; raises OSError."""
        lock_fd = os.open(path / LOCK_FILE_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        _try_lock_file(lock_fd)
        lock = cls(path, lock_fd)
        lock.files_directory.mkdir(0o700)
        return lock

    @property
    def files_directory(self) -> Path:
        """The subdirectory for the files of a directory."""
        return self.path / FILES_DIRECTORY_NAME

    def remove_and_unlock(self) -> None:
        """Remove the file or directory and release the lock; further calls do nothing."""
        if self._is_locked:
            self._is_locked = False
            _remove_path(self.path)
            os.close(self.lock_fd)


def create_locked_directory(name_prefix: str = "") -> TemporaryLock:
    """Create and lock a directory in the system's directory for temporary files, and remove the
    leftovers of killed runs there; raises OSError."""
    system_temp_directory = Path(tempfile.gettempdir())
    with suppress(OSError):
        # A directory without a lock file may belong to another program.
        existing_lock_paths = list(
            system_temp_directory.glob(f"{SCRATCH_PREFIX}*/{LOCK_FILE_NAME}")
        )
        pending_lock_paths = [
            path / LOCK_FILE_NAME
            for path in system_temp_directory.glob(f"{SCRATCH_PREFIX}*{UNLOCKED_SUFFIX}")
        ]
        remove_leftovers(
            (lock_path.parent, lock_path)
            for lock_path in {*existing_lock_paths, *pending_lock_paths}
        )
    lock = TemporaryLock.lock_directory(
        Path(tempfile.mkdtemp(UNLOCKED_SUFFIX, SCRATCH_PREFIX + name_prefix))
    )
    lock.path = lock.path.rename(lock.path.with_suffix(""))
    return lock


@contextmanager
def scratch_directory(name_prefix: str) -> Iterator[Path]:
    """A temporary directory that exists inside a `with` block; raises OSError."""
    lock = create_locked_directory(name_prefix)
    try:
        yield lock.files_directory
    finally:
        lock.remove_and_unlock()


def remove_leftovers(candidates: Iterable[tuple[Path, Path]]) -> list[Path]:
    """Remove the leftovers of killed runs; returns the removed paths.

    candidates: files and directories, each with the file that its process locks.
    """
    removed_paths: list[Path] = []
    for path, lock_path in candidates:
        if _is_unlocked(lock_path) and _is_past_grace_period(path):
            _remove_path(path)
            if not path.exists():
                removed_paths.append(path)
    return removed_paths


def _is_unlocked(lock_path: Path) -> bool:
    """Whether no process holds the lock on a file; False if that cannot be determined."""
    try:
        lock_fd = os.open(lock_path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return sys.platform != "win32"  # killed before it created the lock file
    except OSError:
        return False
    try:
        return _try_lock_file(lock_fd)
    finally:
        os.close(lock_fd)


def _is_past_grace_period(path: Path) -> bool:
    """Whether a file is so old that its process must have locked it."""
    try:
        return time.time() - path.stat().st_mtime > MIN_LEFTOVER_AGE_SECONDS
    except OSError:
        return False


def _try_lock_file(fd: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        flock(fd, LOCK_EX | LOCK_NB)
    except OSError:  # locked, or a file system without locks
        return False
    return True


def _remove_path(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
