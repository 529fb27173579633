"""Temporary files and folders that brokers ignore, and the removal of leftovers of killed runs.

A starting broker reads every folder of its log directory as a partition, and fails if one is not
named like a partition. A folder whose name ends in `-delete` is scheduled for deletion; the broker
first loads it as a partition, and ignores the content of a folder inside it. A file that ends in
`.deleted` is deleted in a partition directory, and ignored elsewhere. Source:
`kafka.log.LogManager.loadLogs`, `UnifiedLog.parseTopicPartitionName`, `LogLoader`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from uuid import uuid4

from kfmt_cli.core.claims import LOCK_NAME, Claim, remove_left_over

NAME = "kfmt-unfinished"
FOLDERS = f"{NAME}-0.*-delete"
FILES = f".{NAME}-*.deleted"


def claim_folder(parent: Path) -> Claim:
    """Create a temporary folder; raises OSError."""
    path = parent / f"{NAME}-0.{uuid4().hex}-delete"
    path.mkdir(0o700)
    return Claim.of_folder(path)


def claim_file(parent: Path) -> Claim:
    """Create an empty temporary file, open for writing; raises OSError."""
    handle, path = tempfile.mkstemp(".deleted", f".{NAME}-", parent)
    return Claim.of_file(Path(path), handle)


def take_away(parent: Path) -> list[Path]:
    """Remove leftovers of killed runs from a folder; returns the removed paths."""
    folders = ((path, path / LOCK_NAME) for path in sorted(parent.glob(FOLDERS)))
    files = ((path, path) for path in sorted(parent.glob(FILES)))
    return remove_left_over((*folders, *files))
