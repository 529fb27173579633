"""The files in stores.

Requests to a store are retried if the connection is lost.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, TypeVar

from kfmt_cli.core.file_systems import PATIENCE, file_system_at, one_line
from kfmt_cli.core.long_listings import listed
from kfmt_cli.errors import InputError

T = TypeVar("T")

PAUSES = 0.5, 2.0, 5.0  # seconds between attempts
FAILING = 60.0  # seconds for which a store counts as failing
# Errors that another attempt does not fix; 408 and 429 ask for one.
_REFUSED = re.compile(
    r"HTTP status 4(?!08|29)\d\d|credentials"
    r"|AWS Error (ACCESS_DENIED|INVALID_|SIGNATURE_DOES_NOT_MATCH|NO_SUCH_|RESOURCE_NOT_FOUND)",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Health:
    """Whether a store fails."""

    failed_at: float = -FAILING
    """When it last failed, in seconds."""


@lru_cache(maxsize=256)
def _health(store: str) -> _Health:
    """The health of the store at a URL."""
    del store
    return _Health()


@dataclass(slots=True, unsafe_hash=True)
class StoredFile:
    """A file; nothing changes it. If frozen, it would take several times as long to make."""

    path: str
    size: int
    modified: int
    """Nanoseconds since the epoch, 0 if unknown."""
    trouble: str | None = None
    """Why a directory could not be listed; `path` is then that directory."""


def insist(ask: Callable[[], T], path: str, what: str = "") -> T:
    """Ask a store, with retries, and return its answer; raises InputError.

    A store that has just failed to answer in spite of retries is asked once.

    what: text after the path in the message.
    """
    started = time.monotonic()
    store = "/".join(path.split("/", 3)[:3])
    health = _health(store)
    is_failing = started - health.failed_at < FAILING
    for pause in (None,) if is_failing else (*PAUSES, None):
        try:
            answer = ask()
            health.failed_at = -FAILING
            return answer
        except InputError:
            raise
        except FileNotFoundError:
            words = os.strerror(errno.ENOENT)
            raise InputError(f"{path}{what}: {words}", file=path, is_gone=True) from None
        except Exception as error:  # fsspec's file systems raise many kinds
            words = one_line(error)
            is_late = time.monotonic() - started > PATIENCE
            is_refused = isinstance(error, PermissionError) or _REFUSED.search(words)
            if not is_refused and (pause is None or is_late):
                health.failed_at = time.monotonic()
            if pause is None or is_late or is_refused:
                # Without the error, which may have the URL with its credentials.
                raise InputError(f"{path}{what}: {words}") from None
        time.sleep(pause)
    raise AssertionError


def about(path: str) -> StoredFile | None:
    """The file at a URL, None for a directory; raises InputError if it does not exist."""
    system, below = file_system_at(path)
    from pyarrow import fs

    (info,) = insist(lambda: system.get_file_info([below]), path)
    if info.type is fs.FileType.NotFound:
        container = below.strip("/").partition("/")[0]
        in_bucket = below.startswith(f"{container}/")
        if in_bucket and system.get_file_info(container).type is fs.FileType.NotFound:
            raise InputError(f"{path}: {container} does not exist")
        raise InputError(f"{path}: not found", file=path, is_gone=True)
    if info.type is fs.FileType.Directory:
        return None
    return StoredFile(path, info.size or 0, info.mtime_ns or 0)


def files_in(path: str, *, recursive: bool = True) -> Iterator[StoredFile]:
    """The files in a directory at a URL; raises InputError.

    A subdirectory that cannot be listed comes as an entry with its `trouble`.
    """
    system, below = file_system_at(path)
    from pyarrow import fs

    if isinstance(system, fs.PyFileSystem):
        yield from _files_of_fsspec(system.handler.fs, path.rstrip("/"), below, recursive)
        return
    selector = fs.FileSelector(below, recursive=recursive)
    found = insist(lambda: listed(lambda: system.get_file_info(selector), path), path)
    top, folder = f"{path.rstrip('/')}/", f"{below.strip('/')}/"
    for info in found:
        if info.type is fs.FileType.File:
            name = info.path.lstrip("/").removeprefix(folder)
            yield StoredFile(top + name, info.size or 0, info.mtime_ns or 0)


def _files_of_fsspec(system: Any, path: str, below: str, recursive: bool) -> Iterator[StoredFile]:
    """`files_in` for fsspec, whose own walk skips directories that it cannot list."""
    top = below.strip("/")
    folders = [path]
    while folders:
        folder = folders.pop()
        try:
            ls = partial(system.ls, below + folder[len(path) :], detail=True)
            entries = insist(ls, folder)
        except InputError as error:
            if folder == path:
                raise
            yield StoredFile(folder, 0, 0, str(error).removeprefix(f"{folder}: "))
            continue
        for entry in entries:
            name = entry["name"].strip("/").removeprefix(top).strip("/")
            found = f"{path}/{name}"
            if entry["type"] == "file":
                yield StoredFile(found, entry["size"] or 0, _modified(entry))
            elif entry["type"] == "directory" and recursive and found != folder:
                folders.append(found)


def _modified(entry: Mapping[str, Any]) -> int:
    """When a file listed by fsspec was modified, in nanoseconds since the epoch, 0 if unknown."""
    if "modificationTime" in entry:  # of WebHDFS, in milliseconds
        return int(entry["modificationTime"]) * 1_000_000
    at = entry.get("mtime")
    seconds = at.timestamp() if isinstance(at, datetime) else at
    return int(seconds * 1e9) if isinstance(seconds, int | float) else 0
