"""Temporary files and directories, each locked by its process; an unlocked one is a leftover of a
process that was killed. On systems without such locks, nothing is removed."""

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
LOCK_NAME = "in-use"
FILES_DIRECTORY = "files"
MIN_LEFTOVER_AGE_SECONDS = 0.5  # seconds


@dataclass(slots=True)
class TemporaryLock:
    """A temporary file, or a directory that has a directory inside for the files."""

    path: Path
    lock_fd: int
    """A descriptor that holds the lock; for a file, it is open for writing."""
    _is_open: bool = True

    @classmethod
    def lock_file(cls, path: Path, fd: int) -> TemporaryLock:
        """Lock a new file that is open for writing."""
        _try_lock(fd)
        return cls(path, fd)

    @classmethod
    def lock_directory(cls, path: Path) -> TemporaryLock:
        """Lock a new directory; raises OSError."""
        lock_fd = os.open(path / LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        _try_lock(lock_fd)
        claim = cls(path, lock_fd)
        claim.files_directory.mkdir(0o700)
        return claim

    @property
    def files_directory(self) -> Path:
        """Where to put the files of a directory."""
        return self.path / FILES_DIRECTORY

    def discard(self) -> None:
        """Remove what is left of it; further calls do nothing."""
        if self._is_open:
            self._is_open = False
            _remove(self.path)
            os.close(self.lock_fd)


def lock_scratch_directory(name: str = "") -> TemporaryLock:
    """Create a directory in the system's directory for temporary files, and remove those that
    killed runs left there; raises OSError."""
    temp_directory = Path(tempfile.gettempdir())
    with suppress(OSError):
        # Without one it may be anybody's.
        lock_paths = list(temp_directory.glob(f"{SCRATCH_PREFIX}*/{LOCK_NAME}"))
        unlocked_lock_paths = [
            path / LOCK_NAME for path in temp_directory.glob(f"{SCRATCH_PREFIX}*{UNLOCKED_SUFFIX}")
        ]
        remove_leftovers((lock.parent, lock) for lock in {*lock_paths, *unlocked_lock_paths})
    claim = TemporaryLock.lock_directory(
        Path(tempfile.mkdtemp(UNLOCKED_SUFFIX, SCRATCH_PREFIX + name))
    )
    claim.path = claim.path.rename(claim.path.with_suffix(""))
    return claim


@contextmanager
def scratch_directory(name: str) -> Iterator[Path]:
    """A temporary directory for the time of a block; raises OSError."""
    claim = lock_scratch_directory(name)
    try:
        yield claim.files_directory
    finally:
        claim.discard()


def remove_leftovers(candidates: Iterable[tuple[Path, Path]]) -> list[Path]:
    """Remove the leftovers of killed runs among files and directories, each given with the file
    that its process locks; returns the removed paths."""
    removed_paths: list[Path] = []
    for path, lock in candidates:
        if _is_unlocked(lock) and _is_past_grace_period(path):
            _remove(path)
            if not path.exists():
                removed_paths.append(path)
    return removed_paths


def _is_unlocked(lock_path: Path) -> bool:
    """Whether no process holds the lock on a file."""
    try:
        lock_fd = os.open(lock_path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return sys.platform != "win32"  # killed before it created the lock file
    except OSError:
        return False
    try:
        return _try_lock(lock_fd)
    finally:
        os.close(lock_fd)


def _is_past_grace_period(path: Path) -> bool:
    """Whether it is old enough that its process must have locked it."""
    try:
        return time.time() - path.stat().st_mtime > MIN_LEFTOVER_AGE_SECONDS
    except OSError:
        return False


def _try_lock(fd: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        flock(fd, LOCK_EX | LOCK_NB)
    except OSError:  # locked, or a file system without locks
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
