"""Directories whose entries survive a power cut: an entry is on the disk once its directory is
synced."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from kfmt_cli.core.urls import format_display_name


def create_directory(directory: Path) -> list[Path]:
    """Create a directory and its missing parents, and sync the directories that contain them;
    returns the new ones. Raises OSError."""
    directory = directory.absolute()
    new_directories: list[Path] = []
    for path in reversed((directory, *directory.parents)):
        if not path.is_dir() and (path == directory or not os.path.lexists(path)):
            path.mkdir(exist_ok=True)
            new_directories.append(path)
    if new_directories:
        sync_directories(directory, [path.parent for path in new_directories])
    return new_directories


def sync_directory(directory: Path) -> None:
    """Sync a directory; raises OSError."""
    directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory_fd)
    finally:
        os.close(directory_fd)


def sync_directories(path: Path, directories: Iterable[Path]) -> None:
    """Sync the directories of a complete output; writes a warning if the system cannot."""
    try:
        for directory in directories:
            sync_directory(directory)
    except OSError as error:
        message = f"written, but its directory cannot be synced to disk: {error.strerror}"
        sys.stderr.write(
            f"kfmt: {format_display_name(str(path))}: {message}; a power cut may lose it\n"
        )
