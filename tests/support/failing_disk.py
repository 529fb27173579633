"""A disk that has lost some bytes of a file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest


def lose(
    path: Path, lost: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, why: int = errno.EIO
) -> list[int]:
    """Make the disk lose ranges of a file's bytes, from the first to the end; returns the positions
    of failed reads."""
    real, failed = os.pread, list[int]()

    def pread(handle: int, length: int, position: int) -> bytes:
        if Path(f"/proc/self/fd/{handle}").readlink() == path:
            for first, end in lost:
                if first <= position < end:
                    failed.append(position)
                    raise OSError(why, os.strerror(why))
                if position < first:
                    length = min(length, first - position)
        return real(handle, length, position)

    monkeypatch.setattr(os, "pread", pread)
    return failed
