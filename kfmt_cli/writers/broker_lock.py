"""Detects a broker that uses a log directory: a running broker locks the file `.lock`.

Source: `org.apache.kafka.server.util.FileLock`: a `java.nio.channels.FileLock` on the whole file,
which is an fcntl record lock. Querying the lock changes nothing.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

from kfmt_cli.core.source import READ_ONLY_FLAGS
from kfmt_cli.errors import UsageError

if sys.platform != "win32":
    import fcntl

LOCK_FILE = ".lock"
# `struct flock` of 64-bit Linux: type, whence, start, length, process.
LINUX_FLOCK = "hhqqi4x"


def require_unlocked(partition: Path) -> None:
    """Raise UsageError, with the reason, if a broker has locked a partition's log directory."""
    directory = partition.absolute()
    for lock_path in (directory / LOCK_FILE, directory.parent / LOCK_FILE):
        lock_state = _lock_state(lock_path)
        if lock_state is not None:
            raise UsageError(
                f"{partition}: {lock_path} is {lock_state}; stop the broker first, or use --force"
            )


def _lock_state(lock_path: Path) -> str | None:
    """The state of a locked file, as text; None if it is unlocked or missing."""
    try:
        descriptor = os.open(lock_path, READ_ONLY_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"not readable ({error.strerror}), so a broker may hold it"
    try:
        return _lock_holder(descriptor)
    finally:
        os.close(descriptor)


def _lock_holder(descriptor: int) -> str | None:
    """The holder of the lock on an open file, as text; None if it is unlocked."""
    if sys.platform == "linux":
        request = struct.pack(LINUX_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        reply = struct.unpack(LINUX_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, request))
        return None if reply[0] == fcntl.F_UNLCK else f"held by a broker, process {reply[4]}"
    elif sys.platform == "win32":  # noqa: RET505 (type checkers go by platform)
        return None
    else:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return "held by a broker"
        return None
