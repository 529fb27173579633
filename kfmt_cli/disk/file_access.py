"""Opens and examines the file at a path, wherever its bytes are: see `disk/mounts.py`."""

from __future__ import annotations

import os
import select
import stat
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import BinaryIO

from kfmt_cli.core.compressed_files import compressed_suffix, decompressing_reader
from kfmt_cli.core.regular_files import open_regular_file, regular_file
from kfmt_cli.core.source import (
    READ_ONLY_FLAGS,
    STDIN_PATH,
    FileSource,
    Source,
    StreamSource,
    open_as_file,
)
from kfmt_cli.core.urls import format_display_name, is_local, strip_file_scheme
from kfmt_cli.disk.mounts import MOUNTS, FileTree
from kfmt_cli.errors import NO_INPUT_MESSAGE, InputError

PIPE_TIMEOUT_MS = 2000  # for the first byte of a named pipe
_PEEKED_BYTES = 1 << 16
_TEXT_BYTES = bytes({*range(32, 127), *b"\t\r\n"})
_UTF8_BOM = "\ufeff".encode()


class StandardInput:
    """Standard input, whose first bytes can be examined before it is read."""

    def __init__(self) -> None:
        self._peeked = b""

    def read(self, n_bytes: int) -> bytes:
        """Up to a number of the next bytes, none at the end; raises OSError, InputError."""
        if not self._peeked:
            if sys.stdin is None:
                raise InputError(NO_INPUT_MESSAGE)
            return os.read(sys.stdin.fileno(), n_bytes)
        data, self._peeked = self._peeked[:n_bytes], self._peeked[n_bytes:]
        return data

    def drain(self, max_bytes: int) -> bytes:
        """All bytes to the end, or `max_bytes`; raises InputError."""
        source = StreamSource(STDIN_PATH, self.read)
        return source.read_block(0, max_bytes, max_bytes)

    def peek_text(self, max_bytes: int) -> str | None:
        """All of it if it is ASCII text, else None; a later read starts with the same bytes. Raises
        InputError."""
        try:
            self._peeked = self.read(_PEEKED_BYTES)
        except OSError as error:
            raise InputError(f"{STDIN_PATH}: cannot be read: {error.strerror}") from error
        if not self._peeked or self._peeked.removeprefix(_UTF8_BOM).translate(None, _TEXT_BYTES):
            return None
        self._peeked = self.drain(max_bytes)
        return self._peeked.decode("utf-8-sig", "replace")


STDIN = StandardInput()


def stat_path(path: str) -> os.stat_result:
    """The size and times of a file or directory; raises OSError, InputError."""
    try:
        return os.stat(path)  # noqa: PTH116 (many)
    except (FileNotFoundError, NotADirectoryError):
        if (tree_and_subpath := MOUNTS.find_tree_and_subpath(path)) is None:
            raise
        tree, subpath = tree_and_subpath
        return tree.stat(subpath)


def _find_virtual_tree_and_subpath(path: str) -> tuple[FileTree, str] | None:
    """The mounted tree that contains a path missing on the disk, and the subpath in it."""
    tree_and_subpath = MOUNTS.find_tree_and_subpath(path)
    return None if tree_and_subpath is None or os.path.lexists(path) else tree_and_subpath


def is_directory(path: str) -> bool:
    """Whether a path is known to be a directory or an archive; False for `-`. Raises InputError for
    an archive that cannot be read."""
    if path == STDIN_PATH:
        return False
    try:
        if os.path.isdir(path):  # noqa: PTH112 (many)
            return True
        tree_and_subpath = MOUNTS.find_tree_and_subpath(path)
        return tree_and_subpath is not None and stat.S_ISDIR(
            tree_and_subpath[0].stat(tree_and_subpath[1]).st_mode
        )
    except (OSError, ValueError):  # opening it reports the error
        return False


def is_file(path: str) -> bool:
    """Whether a path is known to be a regular file."""
    try:
        return stat.S_ISREG(stat_path(path).st_mode)
    except (OSError, ValueError):
        return False


def find_disk_path(path: str) -> str | None:
    """The path on the disk of the file with a path's bytes; None if no such file exists."""
    if MOUNTS.overriding_opener(path) is not None:
        return None
    if (tree_and_subpath := MOUNTS.find_tree_and_subpath(path)) is None:
        return path if is_local(path) else None
    tree, subpath = tree_and_subpath
    return tree.local_path(subpath)


def path_exists(path: str) -> bool:
    """Whether a path exists, if only as a broken link; raises InputError."""
    if os.path.lexists(path):
        return True
    try:
        stat_path(path)
    except (OSError, ValueError):
        return False
    return True


def is_ordinary_disk_path(path: str) -> bool:
    """Whether a path is a file or directory on this machine's disk, read as it is stored."""
    disk_path = find_disk_path(path)
    return disk_path == path or (
        disk_path is not None and os.path.realpath(disk_path) == os.path.realpath(path)
    )


def is_remote_path(path: str) -> bool:
    """Whether a file's bytes are not on this machine's disk."""
    return find_disk_path(path) is None


def open_file_descriptor(path: str) -> int:
    """Open a regular file on this machine's disk and return its descriptor; raises OSError,
    InputError."""
    tree_and_subpath = _find_virtual_tree_and_subpath(path)
    disk_path = (
        None if tree_and_subpath is None else tree_and_subpath[0].local_path(tree_and_subpath[1])
    )
    return open_regular_file(disk_path or path)


def open_remote_source(path: str) -> Source | None:
    """Open a file in a mounted tree or at a URL; None for a file on the disk. Raises InputError."""
    try:
        if (opener := MOUNTS.overriding_opener(path)) is not None:
            return opener(path)
        if (tree_and_subpath := _find_virtual_tree_and_subpath(path)) is not None:
            tree, subpath = tree_and_subpath
            return tree.open_source(subpath)
        if not is_local(path):
            from kfmt_cli.core.stored_source import StoredSource

            return StoredSource(path)
    except InputError as error:
        if error.is_missing:
            error.file = path
        raise
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        message = f"{format_display_name(path)}: {error.strerror}"
        raise InputError(message, file=path, is_missing=is_missing) from error
    return None


def open_binary(path: str) -> BinaryIO:
    """Open a regular file for reading, wherever its bytes are; raises InputError, OSError."""
    source = open_remote_source(path)
    return regular_file(path) if source is None else open_as_file(source)


def _has_writer(pipe_descriptor: int) -> bool:
    """Whether a pipe receives bytes, or its writer closes it, within `PIPE_TIMEOUT_MS`."""
    poller = select.poll()
    poller.register(pipe_descriptor, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(PIPE_TIMEOUT_MS))


def open_source(path: str, display_name: str | None = None) -> Source:
    """Open the file at a path or a URL, or standard input for `-`; raises InputError."""
    if path == STDIN_PATH:
        if sys.stdin is None:
            raise InputError(NO_INPUT_MESSAGE)
        return StreamSource(display_name or STDIN_PATH, STDIN.read)
    path, display_name = strip_file_scheme(path), display_name or path
    source = open_remote_source(path)
    if source is None:
        source = _open_local_source(path, display_name)
    source.name = display_name
    compression_suffix = compressed_suffix(path)
    if not compression_suffix or isinstance(source, StreamSource):
        return source
    compressed_file = open_as_file(source)
    return StreamSource(
        display_name,
        decompressing_reader(
            compressed_file, compression_suffix, format_display_name(display_name)
        ),
        compressed_file.close,
    )


def _open_local_source(path: str, display_name: str) -> Source:
    """Open a file or a named pipe on this machine's disk; raises InputError."""
    display_path = format_display_name(path)
    try:
        fd = os.open(path, READ_ONLY_FLAGS)
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError) and not Path(path).is_symlink()
        raise InputError(
            f"{display_path}: {error.strerror}", file=path, is_missing=is_missing
        ) from error
    file_mode = os.fstat(fd).st_mode
    if stat.S_ISREG(file_mode):
        return FileSource(fd, display_name)
    if stat.S_ISFIFO(file_mode):
        if not path.startswith("/dev/") and not _has_writer(fd):
            os.close(fd)
            raise InputError(f"{display_path}: a named pipe with no writer")
        os.set_blocking(fd, True)
        return StreamSource(display_name, partial(os.read, fd), partial(os.close, fd))
    os.close(fd)
    if stat.S_ISDIR(file_mode):
        raise InputError(f"{display_path}: is a directory")
    raise InputError(f"{display_path}: is neither a file nor a pipe")


def read_whole_file(path: str, max_bytes: int) -> bytes:
    """The bytes of a small file that the user named, or of a pipe; raises InputError, also if there
    are more than `max_bytes`."""
    with closing(open_source(path)) as source:
        data = source.read_block(0, max_bytes + 1, max_bytes + 1)
    if len(data) > max_bytes:
        raise InputError(f"{format_display_name(path)}: is larger than {max_bytes} bytes")
    return data


def read_bytes_at(path: str, position: int, size: int, display_name: str | None = None) -> bytes:
    """`size` bytes of a file, from `position` onward; fewer at its end. Raises InputError."""
    with closing(open_source(path, display_name)) as source:
        return source.read_block(position, size, size)[:size]
