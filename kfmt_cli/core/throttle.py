"""A limit on the read rate, for a command that shares disks with a broker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Pace:
    """A limit on the read rate, and a callback for the bytes read.

    rate: bytes per second, None for no limit. With a limit, bytes that were read are dropped from
    the page cache, which the broker needs.
    """

    def __init__(self) -> None:
        self.rate: int | None = None
        self._read = 0
        self._since = 0.0
        self._tell: Callable[[int], None] | None = None

    @contextmanager
    def telling(self, tell: Callable[[int], None]) -> Iterator[None]:
        """In this context, call `tell` with the number of bytes of each read."""
        before, self._tell = self._tell, tell
        try:
            yield
        finally:
            self._tell = before

    @contextmanager
    def limited(self, rate: int | None) -> Iterator[None]:
        """In this context, read at this rate."""
        before, self.rate, self._read, self._since = self.rate, rate, 0, time.monotonic()
        try:
            yield
        finally:
            self.rate = before

    def spent(self, n_bytes: int) -> None:
        """Report bytes read, and wait until the rate allows them."""
        if self._tell is not None:
            self._tell(n_bytes)
        if self.rate is None:
            return
        self._read += n_bytes
        ahead = self._read / self.rate - (time.monotonic() - self._since)
        if ahead > 0:
            time.sleep(ahead)

    def done(self, handle: int) -> None:
        """Drop a finished file from the page cache, if there is a limit."""
        if self.rate is not None and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


PACE = Pace()
