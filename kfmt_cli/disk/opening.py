"""Opens and examines the file at a path, wherever its bytes are: see `disk/trees.py`."""

from __future__ import annotations

import os
import select
import stat
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import BinaryIO

from kfmt_cli.core.compressed_files import packed_suffix, reader
from kfmt_cli.core.source import (
    PIPE,
    READ_ONLY,
    FileSource,
    Source,
    StreamSource,
    as_file,
)
from kfmt_cli.core.urls import is_local, local, name_text
from kfmt_cli.disk.trees import TREES, Tree
from kfmt_cli.errors import NO_INPUT, InputError

PATIENCE_MS = 2000  # for the first byte of a named pipe


def status_of(path: str) -> os.stat_result:
    """The size and times of a file or directory; raises OSError, InputError."""
    try:
        return os.stat(path)  # noqa: PTH116 (many)
    except (FileNotFoundError, NotADirectoryError):
        if (at := TREES.at(path)) is None:
            raise
        tree, below = at
        return tree.status(below)


def _not_on_disk(path: str) -> tuple[Tree, str] | None:
    """The tree that has a path that the disk does not have, with the path in it."""
    at = TREES.at(path)
    return None if at is None or os.path.lexists(path) else at


def is_folder(path: str) -> bool:
    """Whether a path is known to be a directory, which an archive is; - is not. Raises InputError
    for an archive that cannot be read."""
    if path == PIPE:
        return False
    try:
        if os.path.isdir(path):  # noqa: PTH112 (many)
            return True
        at = TREES.at(path)
        return at is not None and stat.S_ISDIR(at[0].status(at[1]).st_mode)
    except (OSError, ValueError):  # opening it reports the error
        return False


def is_file(path: str) -> bool:
    """Whether a path is known to be a regular file."""
    try:
        return stat.S_ISREG(status_of(path).st_mode)
    except (OSError, ValueError):
        return False


def real(path: str) -> str | None:
    """The path of a file on the disk with the bytes of the one at a path; None if there is none."""
    if TREES.opener(path) is not None:
        return None
    if (at := TREES.at(path)) is None:
        return path if is_local(path) else None
    tree, below = at
    return tree.real(below)


def is_there(path: str) -> bool:
    """Whether there is something at a path, be it a link that leads nowhere; raises InputError."""
    if os.path.lexists(path):
        return True
    try:
        status_of(path)
    except (OSError, ValueError):
        return False
    return True


def is_on_disk(path: str) -> bool:
    """Whether a path is that of a file or directory of this machine's disk as it is stored."""
    there = real(path)
    return there == path or (
        there is not None and os.path.realpath(there) == os.path.realpath(path)
    )


def is_elsewhere(path: str) -> bool:
    """Whether a file's bytes are not on this machine's disk."""
    return real(path) is None


def descriptor(path: str) -> int:
    """Open a file of this machine's disk; raises OSError, InputError."""
    at = _not_on_disk(path)
    there = None if at is None else at[0].real(at[1])
    return os.open(there or path, READ_ONLY)


def opened_elsewhere(path: str) -> Source | None:
    """Open a file of another tree, or a URL; None for a file on the disk. Raises InputError."""
    try:
        if (opener := TREES.opener(path)) is not None:
            return opener(path)
        if (at := _not_on_disk(path)) is not None:
            tree, below = at
            return tree.opened(below)
        if not is_local(path):
            from kfmt_cli.core.stored_source import StoredSource

            return StoredSource(path)
    except InputError as error:
        if error.is_gone:
            error.file = path
        raise
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError)
        words = f"{name_text(path)}: {error.strerror}"
        raise InputError(words, file=path, is_gone=is_gone) from error
    return None


def file_at(path: str) -> BinaryIO:
    """Open a file for reading, wherever its bytes are; raises InputError, OSError."""
    source = opened_elsewhere(path)
    return open(path, "rb") if source is None else as_file(source)  # noqa: PTH123 (many)


def _is_written(fd: int) -> bool:
    """Whether a pipe receives bytes, or its writer closes it, within `PATIENCE_MS`."""
    waiting = select.poll()
    waiting.register(fd, select.POLLIN | select.POLLHUP)
    return bool(waiting.poll(PATIENCE_MS))


def open_source(path: str, name: str | None = None) -> Source:
    """Open the file at a path or a URL, or standard input for `-`; raises InputError."""
    if path == PIPE:
        if sys.stdin is None:
            raise InputError(NO_INPUT)
        return StreamSource(name or PIPE, partial(os.read, sys.stdin.fileno()))
    path, name = local(path), name or path
    source = opened_elsewhere(path)
    if source is None:
        source = _opened_here(path, name)
    source.name = name
    suffix = packed_suffix(path)
    if not suffix or isinstance(source, StreamSource):
        return source
    file = as_file(source)
    return StreamSource(name, reader(file, suffix, name_text(name)), file.close)


def _opened_here(path: str, name: str) -> Source:
    """Open a file or a named pipe of this machine's disk; raises InputError."""
    shown = name_text(path)
    try:
        fd = os.open(path, READ_ONLY)
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError) and not Path(path).is_symlink()
        raise InputError(f"{shown}: {error.strerror}", file=path, is_gone=is_gone) from error
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return FileSource(fd, name)
    if stat.S_ISFIFO(mode):
        if not path.startswith("/dev/") and not _is_written(fd):
            os.close(fd)
            raise InputError(f"{shown}: a named pipe with no writer")
        os.set_blocking(fd, True)
        return StreamSource(name, partial(os.read, fd), partial(os.close, fd))
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise InputError(f"{shown}: is a directory")
    raise InputError(f"{shown}: is neither a file nor a pipe")


def bytes_at(path: str, position: int, size: int, name: str | None = None) -> bytes:
    """Bytes of the file at a path; fewer at its end. Raises InputError."""
    with closing(open_source(path, name)) as source:
        return source.block(position, size, size)[:size]
