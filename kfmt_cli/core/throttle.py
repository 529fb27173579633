"""A limit on the read rate, for a command that shares disks with a broker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class ReadThrottle:
    """Limits the read rate, and passes the number of bytes read to a callback.

    max_bytes_per_second: bytes per second, None for no limit. With a limit, files that were read
    are dropped from the page cache, which the broker needs.
    """

    def __init__(self) -> None:
        self.max_bytes_per_second: int | None = None
        self._bytes_read = 0
        self._start_seconds = 0.0
        self._on_read: Callable[[int], None] | None = None

    @contextmanager
    def report_reads_to(self, on_read: Callable[[int], None]) -> Iterator[None]:
        """In this context, call `on_read` with the number of bytes of each read."""
        previous_on_read, self._on_read = self._on_read, on_read
        try:
            yield
        finally:
            self._on_read = previous_on_read

    @contextmanager
    def limit_rate(self, max_bytes_per_second: int | None) -> Iterator[None]:
        """In this context, limit the read rate."""
        previous_limit = self.max_bytes_per_second
        self.max_bytes_per_second = max_bytes_per_second
        self._bytes_read = 0
        self._start_seconds = time.monotonic()
        try:
            yield
        finally:
            self.max_bytes_per_second = previous_limit

    def report_read(self, n_bytes: int) -> None:
        """Count bytes read, pass them to the callback, and wait until the rate allows them."""
        if self._on_read is not None:
            self._on_read(n_bytes)
        if self.max_bytes_per_second is None:
            return
        self._bytes_read += n_bytes
        wait_seconds = self._bytes_read / self.max_bytes_per_second - (
            time.monotonic() - self._start_seconds
        )
        if wait_seconds > 0:
            time.sleep(wait_seconds)

    def drop_from_page_cache(self, fd: int) -> None:
        """Drop a file from the page cache, if the rate is limited."""
        if self.max_bytes_per_second is not None and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


READ_THROTTLE = ReadThrottle()
