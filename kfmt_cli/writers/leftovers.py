"""Creates temporary files and directories that brokers ignore, and removes those of killed runs.

A starting broker reads every directory of its log directory as a partition, and fails if one is not
named like a partition. A directory whose name ends in `-delete` is scheduled for deletion; the
broker first loads it as a partition, and ignores the content of a directory inside it. A file that
ends in `.deleted` is deleted in a partition directory, and ignored elsewhere. Source:
`kafka.log.LogManager.loadLogs`, `UnifiedLog.parseTopicPartitionName`, `LogLoader`.
"""

from __future__ import annotations

import re
from pathlib import Path
from uuid import uuid4

from kfmt_cli.core.temporary_locks import TemporaryLock, remove_leftovers

TEMPORARY_PREFIX = "kfmt-unfinished"
TEMPORARY_NAME_PATTERN = re.compile(
    rf"{TEMPORARY_PREFIX}-0\.[0-9a-f]{{32}}-delete|\.{TEMPORARY_PREFIX}-[0-9a-f]{{32}}\.deleted"
)


def create_temporary_directory(parent: Path) -> TemporaryLock:
    """Create a temporary directory; raises OSError."""
    return TemporaryLock.create_directory(parent / f"{TEMPORARY_PREFIX}-0.{uuid4().hex}-delete")


def create_temporary_file(parent: Path) -> TemporaryLock:
    """Create an empty temporary file, open for writing; raises OSError."""
    return TemporaryLock.create_file(parent / f".{TEMPORARY_PREFIX}-{uuid4().hex}.deleted")


def remove_output_leftovers(parent: Path) -> list[Path]:
    """Remove leftovers of killed runs from a directory; returns the removed paths."""
    return remove_leftovers(parent, TEMPORARY_NAME_PATTERN)
