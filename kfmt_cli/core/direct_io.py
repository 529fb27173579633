"""File reads that bypass the page cache, which a broker on the same machine needs."""

from __future__ import annotations

import errno
import mmap
import os

from kfmt_cli.core.source import READ_ONLY_FLAGS, FileSource
from kfmt_cli.core.throttle import READ_THROTTLE
from kfmt_cli.errors import InputError

ALIGNMENT = 4096
_DIRECT_FLAG = getattr(os, "O_DIRECT", 0)


class DirectSource(FileSource):
    """A file from which only small parts are read.

    Reads neither fill the page cache nor read ahead. On a file system without direct reads, such as
    one in memory, they are ordinary reads without read-ahead. `bytes_read`: the bytes read so far.
    """

    def __init__(self, path: str, name: str) -> None:
        try:
            super().__init__(_open_direct(path), name)
        except OSError as error:
            raise InputError(f"{name}: {error.strerror}", file=path) from error
        self.bytes_read = 0
        self._buffer_start = 0
        self._buffer = b""

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        index = position - self._buffer_start
        if index < 0 or index + min_length > len(self._buffer):
            data = self._read(position, max(length, min_length))
            if len(data) < len(self._buffer):  # a small read elsewhere
                return data
            self._buffer_start, self._buffer, index = position, data, 0
        return self._buffer[index : index + length]

    def prefetch(self, position: int, length: int) -> None:
        """Do nothing: this source never reads ahead."""

    def _read(self, position: int, length: int) -> bytes:
        aligned_start = position - position % ALIGNMENT
        aligned_size = -(-(position + length - aligned_start) // ALIGNMENT) * ALIGNMENT
        try:
            with mmap.mmap(-1, aligned_size) as buffer, memoryview(buffer) as pages:
                n_last_read = n_read = os.preadv(self._fd, [pages], aligned_start)
                while n_last_read > 0 and n_read < aligned_size and not n_last_read % ALIGNMENT:
                    n_last_read = os.preadv(self._fd, [pages[n_read:]], aligned_start + n_read)
                    n_read += n_last_read
                data = bytes(
                    pages[position - aligned_start : min(n_read, position - aligned_start + length)]
                )
        except OSError as error:
            raise InputError(
                f"{self.name} byte {position}: cannot be read: {error.strerror}"
            ) from error
        self.bytes_read += n_read
        READ_THROTTLE.report_read(n_read)
        return data


def _open_direct(path: str) -> int:
    try:
        return os.open(path, READ_ONLY_FLAGS | _DIRECT_FLAG)
    except OSError as error:
        if error.errno != errno.EINVAL or not _DIRECT_FLAG:
            raise
    fd = os.open(path, READ_ONLY_FLAGS)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    return fd
