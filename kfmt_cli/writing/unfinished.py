"""Temporary files and folders that no broker trips over, and what killed runs leave of them.

A broker that starts reads every folder of its log directory as a partition, and does not start when
one is not named like that. A folder whose name ends in `-delete` is one that it is to delete; it
loads the folder first, as a partition, and passes over what lies in a folder inside of it. A file
that ends in `.deleted` is deleted in a partition's folder, and passed over elsewhere. Source:
`kafka.log.LogManager.loadLogs`, `UnifiedLog.parseTopicPartitionName`, `LogLoader`.

While it is used, the process holds a lock on it; without the lock it was left by a process that is
gone. Where the system has no such locks, nothing is taken away.
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
    """A temporary file, or a folder with a folder inside for the files."""

    path: Path
    lock: int
    """A descriptor, which holds the lock; of a file it is open for writing."""
    _held: bool = True

    @property
    def inside(self) -> Path:
        """Where the files of a folder go."""
        return self.path / INSIDE

    def give_up(self) -> None:
        """Take away what is left of it; what was given up stays so."""
        if self._held:
            self._held = False
            _remove(self.path)
            os.close(self.lock)


def claim_folder(parent: Path) -> Claim:
    """A new temporary folder; raises OSError."""
    path = parent / f"{NAME}-0.{uuid4().hex}-delete"
    path.mkdir(0o700)
    lock = os.open(path / LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    _try_lock(lock)
    claim = Claim(path, lock)
    claim.inside.mkdir(0o700)
    return claim


def claim_file(parent: Path) -> Claim:
    """A new temporary file, empty and open for writing; raises OSError."""
    lock, path = tempfile.mkstemp(".deleted", f".{NAME}-", parent)
    _try_lock(lock)
    return Claim(Path(path), lock)


def take_away(parent: Path) -> list[Path]:
    """Remove what killed runs left in a folder; what that was."""
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
    """Whether nobody holds the lock on a file."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return sys.platform != "win32"  # killed before it was made
    except OSError:
        return False
    try:
        return _try_lock(lock)
    finally:
        os.close(lock)


def _is_old(path: Path) -> bool:
    """Whether there was time enough to take the lock after it was made."""
    try:
        return time.time() - path.stat().st_mtime > NEW
    except OSError:
        return False


def _try_lock(lock: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        flock(lock, LOCK_EX | LOCK_NB)
    except OSError:  # held, or a file system without locks
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
