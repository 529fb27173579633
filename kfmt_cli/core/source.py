"""Reads the bytes of a file in bounded blocks.

Files are read with pread and never mapped: truncating a mapped file kills the process. Nothing is
written. The file may grow or shrink while it is read; its end is where a read returns no bytes.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, cast

from kfmt_cli.core.throttle import READ_THROTTLE
from kfmt_cli.errors import InputError, UnreadableBytesError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

STDIN_PATH = "-"
PASTED_NAME = "the pasted bytes"
PASTED_NAMES = (STDIN_PATH, PASTED_NAME)  # of inputs that are not on a broker's disk
STREAM_WINDOW_BYTES = 128 << 20
READ_CHUNK_BYTES = 1 << 20
MIN_PREFETCH_FILE_BYTES = 32 << 20
# Errors of single places on a disk: a bad sector, or a checksum error of the file system.
_BAD_SECTOR_ERRNOS = frozenset({errno.EIO, errno.EBADMSG, getattr(errno, "EUCLEAN", errno.EIO)})
# The longest time between two parts of a write by a broker that does not wait for its disk: of a
# batch, or of a log and its indexes. Clocks of file systems also tick this slowly.
MAX_WRITE_NS, MAX_WRITER_WAITS = 100_000_000, 10
MAX_EXAMINED_HOLES = 65  # to find the end of a file's data
# Opening a pipe without a writer would block.
READ_ONLY_FLAGS = (
    os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
)


class Source(ABC):
    """A file or a stream."""

    name: str
    """The path as the user wrote it, for messages."""
    max_block_bytes = 1 << 31
    """The largest block that can be requested."""
    unreadable_block_bytes = 4096
    """The unit in which bytes become unreadable: a unit begins at each multiple of it."""
    size: int | None
    """Its size in bytes when it was opened; None for a stream."""

    @abstractmethod
    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        """Read up to `length` bytes starting at byte `position`.

        Returns at least `min_length` bytes; fewer only at the end of the file.

        Raises InputError if the system cannot read them; UnreadableBytesError, a subclass, if other
        bytes of the file may be readable.
        """

    def has_grown(self, seen_size: int) -> bool:
        """Whether the file is larger than the bytes seen, or becomes so in a moment if it is being
        written."""
        del seen_size
        return False

    def iter_holes(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Start and end of each hole of a sparse file, which reads as zeros, between two bytes;
        none if the system cannot tell."""
        del start, end
        return iter(())

    def skip_hole(self, position: int) -> int:
        """The end of the hole that `position` is in; `position` if it is in none."""
        hole_start, hole_end = next(self.iter_holes(position, sys.maxsize), (sys.maxsize, position))
        return hole_end if hole_start == position else position

    def written_data_end(self) -> int:
        """The end of the written data, before a hole at the end of the file."""
        size = self.size or 0
        for hole_start, hole_end in islice(self.iter_holes(0, size), MAX_EXAMINED_HOLES):
            if hole_end == size:
                return hole_start
        return size

    def prefetch_block(self, position: int, length: int) -> None:  # noqa: B027 (most do nothing)
        """Announce the next block, which may then be read ahead."""

    def release_bytes_before(self, position: int) -> None:  # noqa: B027 (most buffer nothing)
        """Announce that bytes before `position` are no longer needed."""

    def close(self) -> None:  # noqa: B027 (some have nothing to close)
        """Close the file."""


class FileSource(Source):
    """A file with random access."""

    def __init__(self, fd: int, name: str) -> None:
        self.name = name
        self.size: int = os.fstat(fd).st_size
        self._fd = fd
        self._prefetch_pool: ThreadPoolExecutor | None = None
        self._prefetched_block: tuple[int, int, Future[bytes]] | None = None

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        data = b""
        try:
            data = self._read_once(position, length)
            while len(data) < min_length:  # a read may return fewer bytes than there are
                chunk = os.pread(self._fd, length - len(data), position + len(data))
                if not chunk:
                    break
                data += chunk
        except OSError as error:
            error_position = position + len(data)
            message = f"{self.name} byte {error_position}: cannot be read: {error.strerror}"
            if error.errno in _BAD_SECTOR_ERRNOS:
                raise UnreadableBytesError(message, error_position, error.strerror or "") from error
            raise InputError(message) from error
        READ_THROTTLE.report_read(len(data))
        return data

    def has_grown(self, seen_size: int) -> bool:
        for _ in range(MAX_WRITER_WAITS):
            status = os.fstat(self._fd)
            if status.st_size != seen_size:
                return status.st_size > seen_size
            if status.st_mtime_ns < time.time_ns() - MAX_WRITE_NS:
                return False
            time.sleep(MAX_WRITE_NS / MAX_WRITER_WAITS / 1e9)
        return False

    def iter_holes(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        position = start
        while hasattr(os, "SEEK_DATA"):
            try:
                hole_start = os.lseek(self._fd, position, os.SEEK_HOLE)
                file_size = os.fstat(self._fd).st_size  # after it, all is a hole
                if hole_start >= min(end, file_size):
                    return
                try:
                    position = os.lseek(self._fd, hole_start, os.SEEK_DATA)
                except OSError as error:
                    if error.errno != errno.ENXIO:
                        return
                    position = file_size  # no data follow
            except OSError:
                return
            yield hole_start, min(position, end)

    def _read_once(self, position: int, length: int) -> bytes:
        """The bytes of one read, or the prefetched block."""
        if self._prefetched_block is not None and self._prefetched_block[:2] == (position, length):
            future, self._prefetched_block = self._prefetched_block[2], None
            return future.result()
        return os.pread(self._fd, length, position)

    def prefetch_block(self, position: int, length: int) -> None:
        if self.size < MIN_PREFETCH_FILE_BYTES:
            return
        if self._prefetch_pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._prefetch_pool = ThreadPoolExecutor(1)
        read_started = threading.Event()
        future = self._prefetch_pool.submit(self._read_ahead, position, length, read_started)
        self._prefetched_block = position, length, future
        # Checksums hold the GIL: without a wait, the read would begin only after them.
        read_started.wait()

    def _read_ahead(self, position: int, length: int, read_started: threading.Event) -> bytes:
        read_started.set()
        return os.pread(self._fd, length, position)

    def close(self) -> None:
        if self._prefetch_pool is not None:
            self._prefetch_pool.shutdown()
        READ_THROTTLE.drop_from_page_cache(self._fd)
        os.close(self._fd)


class TruncatedSource(Source):
    """The first `size` bytes of a source."""

    def __init__(self, source: Source, size: int) -> None:
        self._source = source
        self.name = source.name
        self.size: int = size
        self.max_block_bytes = source.max_block_bytes
        self.unreadable_block_bytes = source.unreadable_block_bytes

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        available_bytes = max(self.size - position, 0)
        return (
            self._source.read_block(
                position, min(length, available_bytes), min(min_length, available_bytes)
            )
            if available_bytes
            else b""
        )

    def iter_holes(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        return self._source.iter_holes(start, min(end, self.size))

    def prefetch_block(self, position: int, length: int) -> None:
        if position < self.size:
            self._source.prefetch_block(position, min(length, self.size - position))

    def release_bytes_before(self, position: int) -> None:
        self._source.release_bytes_before(position)

    def close(self) -> None:
        self._source.close()


class BytesSource(Source):
    """A file whose bytes are in memory."""

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        self.size = len(data)
        self._data = data

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        del min_length
        return self._data[position : position + length]


class StreamSource(Source):
    """A pipe, or a file compressed as a whole, which is read once.

    Only bytes that have not been released are in memory. read: returns up to a number of the next
    bytes, none at the end. on_close: called on close.
    """

    max_block_bytes = STREAM_WINDOW_BYTES

    def __init__(
        self,
        name: str,
        read_next_bytes: Callable[[int], bytes],
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.size = None
        self._read_next_bytes = read_next_bytes
        self._on_close = on_close
        self._window_start = 0
        self._window = bytearray()
        self._has_ended = False

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        window_index = position - self._window_start
        assert window_index >= 0, "requested bytes that were released"
        while len(self._window) < window_index + min_length and not self._has_ended:
            try:
                chunk = self._read_next_bytes(READ_CHUNK_BYTES)
            except OSError as error:
                raise InputError(f"{self.name}: cannot be read: {error.strerror}") from error
            self._has_ended = not chunk
            self._window += chunk
        with memoryview(self._window) as window:
            return bytes(window[window_index : window_index + length])

    def release_bytes_before(self, position: int) -> None:
        if position - self._window_start > READ_CHUNK_BYTES:
            del self._window[: position - self._window_start]
            self._window_start = position

    def close(self) -> None:
        if self._on_close is not None:
            self._on_close()


def open_as_file(source: Source) -> BinaryIO:
    """A source as a buffered file; its reads raise InputError."""
    return cast(BinaryIO, io.BufferedReader(SourceRawIO(source), READ_CHUNK_BYTES))


class SourceRawIO(io.RawIOBase):
    """A source as a raw file object."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.name = source.name
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base_by_whence = {
            os.SEEK_SET: 0,
            os.SEEK_CUR: self._position,
            os.SEEK_END: self._source.size or 0,
        }
        self._position = base_by_whence[whence] + offset
        return self._position

    def readinto(self, buffer: object) -> int:
        target_view = memoryview(cast(bytearray, buffer))
        data = self._source.read_block(self._position, len(target_view), 1)
        target_view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()
