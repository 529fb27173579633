"""Temporary files and folders that brokers ignore, and the removal of leftovers of killed runs.

A starting broker reads every folder of its log directory as a partition, and fails if one is not
named like a partition. A folder whose name ends in `-delete` is scheduled for deletion; the broker
first loads it as a partition, and ignores the content of a folder inside it. A file that ends in
`.deleted` is deleted in a partition directory, and ignored elsewhere. Source:
`kafka.log.LogManager.loadLogs`, `UnifiedLog.parseTopicPartitionName`, `LogLoader`.

A process locks the file or folder while it uses it; an unlocked one is a leftover of a process that
has ended. On systems without such locks, nothing is removed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

if sys.platform != "win32":
    from fcntl import LOCK_EX, LOCK_NB, flock

NAME = "kfmt-unfinished"
FOLDERS = f"{NAME}-0.*-delete"
FILES = f".{NAME}-*.deleted"
LOCK_NAME = "in-use"
INSIDE = "files"
NEW = 0.5  # seconds


@dataclass(slots=True)
class Claim:
    """A temporary file, or a folder that has a folder inside for the files."""

    path: Path
    lock: int
    """A descriptor that holds the lock; for a file, it is open for writing."""
    _held: bool = True

    @property
    def inside(self) -> Path:
        """Where to put the files of a folder."""
        return self.path / INSIDE

    def give_up(self) -> None:
        """Remove what is left of it; further calls do nothing."""
        if self._held:
            self._held = False
            _remove(self.path)
            os.close(self.lock)


def claim_folder(parent: Path) -> Claim:
    """Create a temporary folder; raises OSError."""
    path = parent / f"{NAME}-0.{uuid4().hex}-delete"
    path.mkdir(0o700)
    lock = os.open(path / LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    _try_lock(lock)
    claim = Claim(path, lock)
    claim.inside.mkdir(0o700)
    return claim


def claim_file(parent: Path) -> Claim:
    """Create an empty temporary file, open for writing; raises OSError."""
    lock, path = tempfile.mkstemp(".deleted", f".{NAME}-", parent)
    _try_lock(lock)
    return Claim(Path(path), lock)


def take_away(parent: Path) -> list[Path]:
    """Remove leftovers of killed runs from a folder; returns the removed paths."""
    gone: list[Path] = []
    folders = ((path, path / LOCK_NAME) for path in sorted(parent.glob(FOLDERS)))
    files = ((path, path) for path in sorted(parent.glob(FILES)))
    for path, lock in (*folders, *files):
        if _is_left(lock) and _is_old(path):
            _remove(path)
            if not path.exists():
                gone.append(path)
    return gone


def _is_left(path: Path) -> bool:
    """Whether no process holds the lock on a file."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return sys.platform != "win32"  # killed before it created the lock file
    except OSError:
        return False
    try:
        return _try_lock(lock)
    finally:
        os.close(lock)


def _is_old(path: Path) -> bool:
    """Whether it is old enough that its process must have locked it."""
    try:
        return time.time() - path.stat().st_mtime > NEW
    except OSError:
        return False


def _try_lock(lock: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        flock(lock, LOCK_EX | LOCK_NB)
    except OSError:  # locked, or a file system without locks
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
