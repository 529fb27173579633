"""Files that are unpacked into a temporary directory, completely or only their start."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO

from kfmt_cli.core.source import Source
from kfmt_cli.errors import InputError, UnreadableBytesError

READ_CHUNK_BYTES = 1 << 20
_ZERO_CHUNK = bytes(READ_CHUNK_BYTES)
_MAX_TIME_SECONDS = 1 << 33


def create_scratch_directory() -> str:
    """A temporary directory that is deleted when the process ends."""
    import atexit
    import shutil

    from kfmt_cli.core.temporary_locks import create_locked_directory

    scratch_lock = create_locked_directory("archive")

    def remove_directory() -> None:
        shutil.rmtree(scratch_lock.files_directory, ignore_errors=True)
        scratch_lock.remove_and_unlock()  # also removes files created meanwhile

    atexit.register(remove_directory)
    return str(scratch_lock.files_directory)


def unpack_failure_text() -> str:
    """The message for a failure to unpack: into which directory, and how to change it."""
    return f"cannot unpack into {tempfile.gettempdir()} (set TMPDIR to change it)"


def write_sparse_file(path: Path, modified_seconds: float, content_file: IO[bytes]) -> None:
    """Write a file with its time; pages of zeros become holes, as indexes are mostly zeros."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        while chunk := content_file.read(READ_CHUNK_BYTES):
            if chunk == _ZERO_CHUNK[: len(chunk)]:
                file.seek(len(chunk), os.SEEK_CUR)
            else:
                file.write(chunk)
        file.truncate(file.tell())
    _set_time(path, modified_seconds)


def mark_unreadable_tail(path: Path, modified_seconds: float) -> None:
    """Mark a partly unpacked file, so that `UnreadableTailSource` reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, path.stat().st_size + 1)
    _set_time(path, modified_seconds)


def _set_time(path: Path, modified_seconds: float) -> None:
    # A header may contain any number.
    modified_seconds = modified_seconds if 0 <= modified_seconds < _MAX_TIME_SECONDS else 0.0
    os.utime(path, (modified_seconds, modified_seconds))


class UnreadableTailSource(Source):
    """A file that can be decompressed only in part, from its start.

    Its size is one byte more than that start, so that readers report the rest as unreadable
    instead of treating the start as the whole file.
    """

    def __init__(self, source: Source, error: InputError) -> None:
        self.name = source.name
        self.size = source.size
        self._source, self._error = source, error

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        readable_bytes = (self.size or 1) - 1 - position
        if readable_bytes < max(min_length, 1):
            if self.size == 1:  # nothing can be read
                raise self._error
            raise UnreadableBytesError(str(self._error), position + max(readable_bytes, 0))
        return self._source.read_block(position, min(length, readable_bytes), min_length)

    def close(self) -> None:
        self._source.close()
