"""Detects a broker that uses a log directory: a running broker locks the file `.lock`.

Source: `org.apache.kafka.server.util.FileLock`: a `java.nio.channels.FileLock` on the whole file,
which is an fcntl record lock. Querying the lock changes nothing.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

from kfmt_cli.core.regular_files import open_regular_file
from kfmt_cli.errors import UsageError

if sys.platform != "win32":
    import fcntl

LOCK_FILE = ".lock"
# `struct flock` of 64-bit Linux: type, whence, start, length, process.
LINUX_FLOCK_FORMAT = "hhqqi4x"


def require_unlocked(partition_directory: Path) -> None:
    """Raise UsageError, with the reason, if a broker has locked a partition's log directory."""
    directory = partition_directory.absolute()
    for lock_path in (directory / LOCK_FILE, directory.parent / LOCK_FILE):
        lock_description = _describe_lock(lock_path)
        if lock_description is not None:
            raise UsageError(
                f"{partition_directory}: {lock_path} is {lock_description}; stop the broker "
                "first, or use --force"
            )


def _describe_lock(lock_path: Path) -> str | None:
    """The state of a locked file, as text; None if it is unlocked or missing."""
    try:
        lock_fd = open_regular_file(lock_path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"not readable ({error.strerror}), so a broker may hold it"
    try:
        return _describe_lock_holder(lock_fd)
    finally:
        os.close(lock_fd)


def _describe_lock_holder(lock_fd: int) -> str | None:
    """The holder of the lock on an open file, as text; None if it is unlocked."""
    if sys.platform == "linux":
        lock_request = struct.pack(LINUX_FLOCK_FORMAT, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        lock_reply = struct.unpack(
            LINUX_FLOCK_FORMAT, fcntl.fcntl(lock_fd, fcntl.F_GETLK, lock_request)
        )
        return (
            None if lock_reply[0] == fcntl.F_UNLCK else f"held by a broker, process {lock_reply[4]}"
        )
    elif sys.platform == "win32":  # noqa: RET505 (type checkers go by platform)
        return None
    else:
        try:
            fcntl.lockf(lock_fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return "held by a broker"
        return None
