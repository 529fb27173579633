"""Bytes of a file in bounded blocks.

Files are read with pread and never mapped: truncating a mapped file kills the process. Nothing is
written. The file may grow or shrink while it is read; its end is where a read returns no bytes.
"""

from __future__ import annotations

import errno
import io
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, cast

from kfmt_cli.core.throttle import PACE
from kfmt_cli.errors import InputError, LostBytesError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

PIPE = "-"  # standard input, as a path
STREAM_WINDOW = 128 << 20
READ_AT_ONCE = 1 << 20
WORTH_READING_AHEAD = 32 << 20
# Errors of a place on a disk: a bad sector, or a checksum of the file system.
_OF_DISKS = frozenset({errno.EIO, errno.EBADMSG, getattr(errno, "EUCLEAN", errno.EIO)})
MOST_EXTENTS = 64  # checked to find the end of a file's data
# Opening a pipe without a writer would block.
READ_ONLY = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


class Source(ABC):
    """A file or a stream."""

    name: str
    """As the user gave it."""
    largest = 1 << 31
    """The longest block that can be requested."""
    unit = 4096
    """Bytes that are lost together if one of them is: from multiples of it to the next."""
    size: int | None
    """Its bytes when it was opened, None for a stream."""

    @abstractmethod
    def block(self, position: int, length: int, least: int) -> bytes:
        """Up to `length` bytes starting at byte `position`.

        At least `least` bytes; fewer only at the end of the file.

        Raises InputError if the system cannot read them, LostBytesError if it may be able to read
        others.
        """

    def end_of_data(self) -> int:
        """Where the written data ends, before a hole that reads as zeros; the file's size if the
        system cannot tell."""
        return self.size or 0

    def prefetch(self, position: int, length: int) -> None:  # noqa: B027 (most have none)
        """Announce the next block, which may then be read ahead."""

    def release(self, position: int) -> None:  # noqa: B027 (most keep nothing)
        """Announce that bytes before `position` are no longer needed."""

    def close(self) -> None:  # noqa: B027 (bytes need none)
        """Close the file."""


class FileSource(Source):
    """A file with random access."""

    def __init__(self, fd: int, name: str) -> None:
        self.name = name
        self.size: int = os.fstat(fd).st_size
        self._fd = fd
        self._reader: ThreadPoolExecutor | None = None
        self._ahead: tuple[int, int, Future[bytes]] | None = None

    def block(self, position: int, length: int, least: int) -> bytes:
        data = b""
        try:
            data = self._first_read(position, length)
            while len(data) < least:  # a read may return fewer bytes than there are
                more = os.pread(self._fd, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            at = position + len(data)
            words = f"{self.name} byte {at}: cannot be read: {error.strerror}"
            if error.errno in _OF_DISKS:
                raise LostBytesError(words, at, error.strerror or "") from error
            raise InputError(words) from error
        PACE.spent(len(data))
        return data

    def end_of_data(self) -> int:
        if not hasattr(os, "SEEK_DATA"):
            return self.size
        end = 0
        for _ in range(MOST_EXTENTS + 1):
            try:
                at = os.lseek(self._fd, end, os.SEEK_DATA)
            except OSError as error:
                return end if error.errno == errno.ENXIO else self.size
            end = os.lseek(self._fd, at, os.SEEK_HOLE)
            if end >= self.size:
                return end
        return self.size

    def _first_read(self, position: int, length: int) -> bytes:
        """The bytes of one read, or the block read ahead."""
        if self._ahead is not None and self._ahead[:2] == (position, length):
            data = self._ahead[2].result()
            self._ahead = None
            return data
        return os.pread(self._fd, length, position)

    def prefetch(self, position: int, length: int) -> None:
        if self.size < WORTH_READING_AHEAD:
            return
        if self._reader is None:
            from concurrent.futures import ThreadPoolExecutor

            self._reader = ThreadPoolExecutor(1)
        started = threading.Event()
        read = self._reader.submit(self._read_ahead, position, length, started)
        self._ahead = position, length, read
        # Checksums hold the GIL: without a wait, the read would begin only after them.
        started.wait()

    def _read_ahead(self, position: int, length: int, started: threading.Event) -> bytes:
        started.set()
        return os.pread(self._fd, length, position)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.shutdown()
        PACE.done(self._fd)
        os.close(self._fd)


class SourceWindow(Source):
    """The first `size` bytes of a source."""

    def __init__(self, source: Source, size: int) -> None:
        self._source = source
        self.name = source.name
        self.size: int = size
        self.largest = source.largest

    def block(self, position: int, length: int, least: int) -> bytes:
        room = max(self.size - position, 0)
        return self._source.block(position, min(length, room), min(least, room)) if room else b""

    def prefetch(self, position: int, length: int) -> None:
        if position < self.size:
            self._source.prefetch(position, min(length, self.size - position))

    def release(self, position: int) -> None:
        self._source.release(position)

    def close(self) -> None:
        self._source.close()


class BytesSource(Source):
    """A file whose bytes are known."""

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        self.size = len(data)
        self._data = data

    def block(self, position: int, length: int, least: int) -> bytes:
        del least
        return self._data[position : position + length]


class StreamSource(Source):
    """A pipe, or a file compressed as a whole: read once, keeping only unreleased bytes.

    read: returns the next bytes. let_go: called on close.
    """

    largest = STREAM_WINDOW

    def __init__(
        self, name: str, read: Callable[[int], bytes], let_go: Callable[[], None] | None = None
    ) -> None:
        self.name = name
        self.size = None
        self._read = read
        self._let_go = let_go
        self._start = 0
        self._window = bytearray()
        self._ended = False

    def block(self, position: int, length: int, least: int) -> bytes:
        at = position - self._start
        assert at >= 0, "asked for bytes that were released"
        while len(self._window) < at + least and not self._ended:
            try:
                piece = self._read(READ_AT_ONCE)
            except OSError as error:
                raise InputError(f"{self.name}: cannot be read: {error.strerror}") from error
            self._ended = not piece
            self._window += piece
        with memoryview(self._window) as window:
            return bytes(window[at : at + length])

    def release(self, position: int) -> None:
        if position - self._start > READ_AT_ONCE:
            del self._window[: position - self._start]
            self._start = position

    def close(self) -> None:
        if self._let_go is not None:
            self._let_go()


def as_file(source: Source) -> BinaryIO:
    """A source as a buffered file; its reads raise InputError."""
    return cast(BinaryIO, io.BufferedReader(SourceFile(source), READ_AT_ONCE))


class SourceFile(io.RawIOBase):
    """A source as a file object."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.name = source.name
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._source.size or 0}
        self._at = starts[whence] + offset
        return self._at

    def readinto(self, buffer: object) -> int:
        room = memoryview(cast(bytearray, buffer))
        data = self._source.block(self._at, len(room), 1)
        room[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()
