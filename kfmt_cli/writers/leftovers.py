"""Creates temporary files and directories that brokers ignore, and removes those of killed runs.

A starting broker reads every directory of its log directory as a partition, and fails if one is not
named like a partition. A directory whose name ends in `-delete` is scheduled for deletion; the
broker first loads it as a partition, and ignores the content of a directory inside it. A file that
ends in `.deleted` is deleted in a partition directory, and ignored elsewhere. Source:
`kafka.log.LogManager.loadLogs`, `UnifiedLog.parseTopicPartitionName`, `LogLoader`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from uuid import uuid4

from kfmt_cli.core.temporary_locks import LOCK_FILE_NAME, TemporaryLock, remove_leftovers

TEMPORARY_PREFIX = "kfmt-unfinished"
TEMPORARY_DIRECTORY_PATTERN = f"{TEMPORARY_PREFIX}-0.*-delete"
TEMPORARY_FILE_PATTERN = f".{TEMPORARY_PREFIX}-*.deleted"


def create_temporary_directory(parent: Path) -> TemporaryLock:
    """Create a temporary directory; raises OSError."""
    path = parent / f"{TEMPORARY_PREFIX}-0.{uuid4().hex}-delete"
    path.mkdir(0o700)
    return TemporaryLock.lock_directory(path)


def create_temporary_file(parent: Path) -> TemporaryLock:
    """Create an empty temporary file, open for writing; raises OSError."""
    descriptor, path = tempfile.mkstemp(".deleted", f".{TEMPORARY_PREFIX}-", parent)
    return TemporaryLock.lock_file(Path(path), descriptor)


def remove_output_leftovers(parent: Path) -> list[Path]:
    """Remove leftovers of killed runs from a directory; returns the removed paths."""
    directories_and_locks = (
        (path, path / LOCK_FILE_NAME) for path in sorted(parent.glob(TEMPORARY_DIRECTORY_PATTERN))
    )
    files_and_locks = ((path, path) for path in sorted(parent.glob(TEMPORARY_FILE_PATTERN)))
    return remove_leftovers((*directories_and_locks, *files_and_locks))
