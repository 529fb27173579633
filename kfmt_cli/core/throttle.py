"""How fast files are read, for a command that runs next to a broker on the same disks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Pace:
    """A speed that reading keeps to, and who is told how much was read.

    rate: bytes a second, None for no limit. With a limit, what was read is dropped from the page
    cache, which is the broker's.
    """

    def __init__(self) -> None:
        self.rate: int | None = None
        self._read = 0
        self._since = 0.0
        self._tell: Callable[[int], None] | None = None

    @contextmanager
    def telling(self, tell: Callable[[int], None]) -> Iterator[None]:
        """Meanwhile, tell of the bytes that this process reads."""
        before, self._tell = self._tell, tell
        try:
            yield
        finally:
            self._tell = before

    def limit(self, rate: int | None) -> None:
        """Begin to keep to a speed."""
        self.rate, self._read, self._since = rate, 0, time.monotonic()

    def spent(self, n_bytes: int) -> None:
        """That many bytes were read: wait until they may have been."""
        if self._tell is not None:
            self._tell(n_bytes)
        if self.rate is None:
            return
        self._read += n_bytes
        ahead = self._read / self.rate - (time.monotonic() - self._since)
        if ahead > 0:
            time.sleep(ahead)

    def done(self, handle: int) -> None:
        """A file will not be read again."""
        if self.rate is not None and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


PACE = Pace()
