"""Files whose bytes are elsewhere: in a store, or in the chunks of tiered storage.

Each has a placeholder in a temporary directory: a sparse file of its size and time. Code that reads
names, sizes and times needs no special case; only code that opens files asks here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kfmt_cli.core.urls import is_local
from kfmt_cli.errors import InputError

if TYPE_CHECKING:
    from kfmt_cli.core.source import Source

Opener = Callable[[str], "Source | None"]
"""Opens a path under its directory; None for a file that is really there."""

CONNECTIONS = 8  # to stores, at once
# By placeholder directory.
OPENERS: dict[str, Opener] = {}
# By file path; takes precedence over `OPENERS`.
FILES: dict[str, Opener] = {}


def placeholder(path: Path, size: int, modified: int) -> None:
    """Make a sparse file with a size in bytes and a time in nanoseconds; raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, size)
        if modified:
            os.utime(fd, ns=(modified, modified))
    finally:
        os.close(fd)


def is_elsewhere(path: str) -> bool:
    """Whether a file's bytes are elsewhere, if it exists."""
    if not is_local(path) or path in FILES:
        return True
    return bool(OPENERS) and any(path.startswith(folder) for folder in OPENERS)


def opened_elsewhere(path: str) -> Source | None:
    """Open a placeholder's bytes or a URL; None for any other file. Raises InputError."""
    try:
        return _opened(path)
    except InputError as error:
        if error.is_gone:
            error.file = path
        raise


def _opened(path: str) -> Source | None:
    if path in FILES:
        return FILES[path](path)
    for folder, opener in OPENERS.items():
        if path.startswith(folder) and (source := opener(path)) is not None:
            return source
    if is_local(path):
        return None
    from kfmt_cli.core.stored_source import StoredSource

    return StoredSource(path)
