"""Temporary files and folders, each locked by its process; an unlocked one is a leftover of a
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

SCRATCH = "kfmt-"
NOT_LOCKED = ".new"  # ends the name of a folder until it is locked
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

    @classmethod
    def of_file(cls, path: Path, handle: int) -> Claim:
        """Lock a new file that is open for writing."""
        _try_lock(handle)
        return cls(path, handle)

    @classmethod
    def of_folder(cls, path: Path) -> Claim:
        """Lock a new folder; raises OSError."""
        lock = os.open(path / LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        _try_lock(lock)
        claim = cls(path, lock)
        claim.inside.mkdir(0o700)
        return claim

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


def claim_scratch(name: str = "") -> Claim:
    """Create a folder in the system's directory for temporary files, and remove those that killed
    runs left there; raises OSError."""
    above = Path(tempfile.gettempdir())
    with suppress(OSError):
        locks = list(above.glob(f"{SCRATCH}*/{LOCK_NAME}"))  # without one it may be anybody's
        new = [path / LOCK_NAME for path in above.glob(f"{SCRATCH}*{NOT_LOCKED}")]
        remove_left_over((lock.parent, lock) for lock in {*locks, *new})
    claim = Claim.of_folder(Path(tempfile.mkdtemp(NOT_LOCKED, SCRATCH + name)))
    claim.path = claim.path.rename(claim.path.with_suffix(""))
    return claim


@contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """A temporary folder for the time of a block; raises OSError."""
    claim = claim_scratch(name)
    try:
        yield claim.inside
    finally:
        claim.give_up()


def remove_left_over(found: Iterable[tuple[Path, Path]]) -> list[Path]:
    """Remove the leftovers of killed runs among files and folders, each given with the file that
    its process locks; returns the removed paths."""
    gone: list[Path] = []
    for path, lock in found:
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
