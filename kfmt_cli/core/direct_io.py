"""File reads that bypass the page cache, which a broker on the same machine needs."""

from __future__ import annotations

import errno
import mmap
import os

from kfmt_cli.core.source import READ_ONLY, FileSource
from kfmt_cli.core.throttle import PACE
from kfmt_cli.errors import InputError

ALIGNMENT = 4096
_DIRECT = getattr(os, "O_DIRECT", 0)


class DirectSource(FileSource):
    """A file that is read in only a few places.

    Reads neither fill the page cache nor read ahead. On a file system without direct reads, such as
    one in memory, they are ordinary reads without read-ahead. `bytes_read`: the bytes read so far.
    """

    def __init__(self, path: str, name: str) -> None:
        try:
            super().__init__(_opened(path), name)
        except OSError as error:
            raise InputError(f"{name}: {error.strerror}", file=path) from error
        self.bytes_read = 0
        self._start = 0
        self._held = b""

    def block(self, position: int, length: int, least: int) -> bytes:
        at = position - self._start
        if at < 0 or at + least > len(self._held):
            data = self._read(position, max(length, least))
            if len(data) < len(self._held):  # a small read elsewhere
                return data
            self._start, self._held, at = position, data, 0
        return self._held[at : at + length]

    def prefetch(self, position: int, length: int) -> None:
        """Read nothing ahead."""

    def _read(self, position: int, length: int) -> bytes:
        start = position - position % ALIGNMENT
        size = -(-(position + length - start) // ALIGNMENT) * ALIGNMENT
        try:
            with mmap.mmap(-1, size) as room, memoryview(room) as pages:
                n = done = os.preadv(self._fd, [pages], start)
                while n > 0 and done < size and not n % ALIGNMENT:
                    n = os.preadv(self._fd, [pages[done:]], start + done)
                    done += n
                data = bytes(pages[position - start : min(done, position - start + length)])
        except OSError as error:
            raise InputError(
                f"{self.name} byte {position}: cannot be read: {error.strerror}"
            ) from error
        self.bytes_read += done
        PACE.spent(done)
        return data


def _opened(path: str) -> int:
    try:
        return os.open(path, READ_ONLY | _DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL or not _DIRECT:
            raise
    fd = os.open(path, READ_ONLY)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    return fd
