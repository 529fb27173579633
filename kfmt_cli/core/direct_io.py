"""File reads that bypass the page cache, which a broker on the same machine needs."""

from __future__ import annotations

import errno
import mmap
import os

from kfmt_cli.core.regular_files import open_regular_file
from kfmt_cli.core.source import READ_ONLY_FLAGS, FileSource
from kfmt_cli.core.throttle import READ_THROTTLE
from kfmt_cli.errors import InputError

ALIGNMENT_BYTES = 4096
_DIRECT_FLAG = getattr(os, "O_DIRECT", 0)


class DirectSource(FileSource):
    """A file from which only small parts are read.

    Reads neither fill the page cache nor read ahead. On a file system without direct reads, such as
    one in memory, they are ordinary reads without read-ahead. `bytes_read`: the bytes read so far.
    """

    def __init__(self, path: str, name: str) -> None:
        try:
            super().__init__(_open_direct_fd(path), name)
        except OSError as error:
            raise InputError(f"{name}: {error.strerror}", file=path) from error
        self.bytes_read = 0
        self._buffer_start = 0
        self._buffer = b""

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        buffer_index = position - self._buffer_start
        if buffer_index < 0 or buffer_index + min_length > len(self._buffer):
            data = self._read_aligned(position, max(length, min_length))
            if len(data) < len(self._buffer):  # a small read elsewhere
                return data
            self._buffer_start, self._buffer, buffer_index = position, data, 0
        return self._buffer[buffer_index : buffer_index + length]

    def prefetch_block(self, position: int, length: int) -> None:
        """Do nothing: this source never reads ahead."""

    def _read_aligned(self, position: int, length: int) -> bytes:
        aligned_start = position - position % ALIGNMENT_BYTES
        aligned_size = -(-(position + length - aligned_start) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        try:
            with mmap.mmap(-1, aligned_size) as buffer, memoryview(buffer) as pages:
                n_last_bytes_read = n_bytes_read = os.preadv(self._fd, [pages], aligned_start)
                while (
                    n_last_bytes_read > 0
                    and n_bytes_read < aligned_size
                    and not n_last_bytes_read % ALIGNMENT_BYTES
                ):
                    n_last_bytes_read = os.preadv(
                        self._fd, [pages[n_bytes_read:]], aligned_start + n_bytes_read
                    )
                    n_bytes_read += n_last_bytes_read
                data = bytes(
                    pages[
                        position - aligned_start : min(
                            n_bytes_read, position - aligned_start + length
                        )
                    ]
                )
        except OSError as error:
            raise InputError(
                f"{self.name} byte {position}: cannot be read: {error.strerror}"
            ) from error
        self.bytes_read += n_bytes_read
        READ_THROTTLE.report_read(n_bytes_read)
        return data


def _open_direct_fd(path: str) -> int:
    try:
        return open_regular_file(path, READ_ONLY_FLAGS | _DIRECT_FLAG)
    except OSError as error:
        if error.errno != errno.EINVAL or not _DIRECT_FLAG:
            raise
    fd = open_regular_file(path)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    return fd
