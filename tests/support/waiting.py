"""Waits for an event instead of a fixed time."""

from __future__ import annotations

import array
import fcntl
import termios
import time
from collections.abc import Callable

MAX_SECONDS = 60.0  # seconds, for a busy machine


def wait_for(condition: Callable[[], object], seconds: float = MAX_SECONDS) -> None:
    """Wait until a condition is true; raises AssertionError when the time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def n_unread_bytes(pipe: int) -> int:
    """The number of unread bytes in a pipe."""
    n_bytes = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, n_bytes)
    return n_bytes[0]
