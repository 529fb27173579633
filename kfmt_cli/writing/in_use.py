"""Whether a broker uses a log directory: a running broker locks the file `.lock`.

Source: `org.apache.kafka.server.util.FileLock`: a `java.nio.channels.FileLock` on the whole file,
which is an fcntl record lock. Querying it changes nothing.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

from kfmt_cli.core.source import READ_ONLY
from kfmt_cli.errors import UsageError

if sys.platform != "win32":
    import fcntl

LOCK_FILE = ".lock"
# `struct flock` of 64-bit Linux: type, whence, start, length, process.
LINUX_FLOCK = "hhqqi4x"


def check_unused(partition: Path) -> None:
    """Raise UsageError, with the reason, if a broker has locked a partition's log directory."""
    folder = partition.absolute()
    for lock in (folder / LOCK_FILE, folder.parent / LOCK_FILE):
        held = _holder(lock)
        if held is not None:
            raise UsageError(
                f"{partition}: {lock} is {held}; stop the broker first, or use --force"
            )


def _holder(lock: Path) -> str | None:
    """The state of a locked file, as text; None if it is unlocked or missing."""
    try:
        descriptor = os.open(lock, READ_ONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"not readable ({error.strerror}), so a broker may hold it"
    try:
        return _owner(descriptor)
    finally:
        os.close(descriptor)


def _owner(descriptor: int) -> str | None:
    """The holder of the lock on an open file, as text; None if it is unlocked."""
    if sys.platform == "linux":
        asked = struct.pack(LINUX_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = struct.unpack(LINUX_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
        return None if answer[0] == fcntl.F_UNLCK else f"held by a broker, process {answer[4]}"
    elif sys.platform == "win32":  # noqa: RET505 (type checkers go by platform)
        return None
    else:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return "held by a broker"
        return None
