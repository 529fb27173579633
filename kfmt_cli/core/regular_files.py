"""Opens the files next to logs, and others that are read as a whole.

Anyone who may write next to a log can put a pipe, a device or an endless file in place of a side
file. Therefore only regular files are opened, which never blocks, and reads are limited to the size
that such a file can have.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from kfmt_cli.core.source import READ_ONLY_FLAGS

MAX_SIDE_FILE_BYTES = 64 << 20
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


def open_regular_file(
    path: str | Path, flags: int = READ_ONLY_FLAGS, *, follow_links: bool = True
) -> int:
    """Open a file on this machine's disk and return its descriptor; raises OSError, also if it is
    not a regular file. follow_links: False for names that only kfmt gives to files."""
    try:
        fd = os.open(path, flags if follow_links else flags | _NO_FOLLOW, 0o666)
    except OSError as error:
        if follow_links or error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "is a link, which kfmt does not follow here") from error
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "is not a regular file")


def regular_file(path: str | Path, *, follow_links: bool = True) -> BinaryIO:
    """A file on this machine's disk, open for reading; see `open_regular_file`."""

    def opener(_: str, __: int) -> int:
        return open_regular_file(path, follow_links=follow_links)

    return open(path, "rb", opener=opener)  # its name is the path


def read_regular_file(
    path: str | Path, max_bytes: int = MAX_SIDE_FILE_BYTES, *, follow_links: bool = True
) -> bytes:
    """The bytes of a file on this machine's disk; raises OSError, also if there are more than
    `max_bytes`. See `open_regular_file`."""
    with regular_file(path, follow_links=follow_links) as file:
        if os.fstat(file.fileno()).st_size <= max_bytes:
            data = file.read(max_bytes + 1)
            if len(data) <= max_bytes:
                return data
    raise OSError(errno.EFBIG, f"is larger than {max_bytes} bytes")
