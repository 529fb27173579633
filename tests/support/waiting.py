"""Waiting for what will happen, in place of a time in which it should have."""

from __future__ import annotations

import array
import fcntl
import termios
import time
from collections.abc import Callable

PATIENCE = 60.0  # seconds, of a machine that is busy with something else


def wait_for(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Ask until something is so; raises AssertionError when it never is."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def waiting_in(pipe: int) -> int:
    """The bytes in a pipe that nobody has read."""
    found = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, found)
    return found[0]
