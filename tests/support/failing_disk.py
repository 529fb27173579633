"""A disk that cannot read some bytes of a file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest


def make_unreadable(
    path: Path,
    unreadable_ranges: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    error_number: int = errno.EIO,
) -> list[int]:
    """Make ranges (first byte, end) of a file unreadable; return the positions of failed reads."""
    original_pread, failed_positions = os.pread, list[int]()

    def pread(handle: int, length: int, position: int) -> bytes:
        if Path(f"/proc/self/fd/{handle}").readlink() == path:
            for first, end in unreadable_ranges:
                if first <= position < end:
                    failed_positions.append(position)
                    raise OSError(error_number, os.strerror(error_number))
                if position < first:
                    length = min(length, first - position)
        return original_pread(handle, length, position)

    monkeypatch.setattr(os, "pread", pread)
    return failed_positions
