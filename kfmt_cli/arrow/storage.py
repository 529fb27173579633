"""Files, local or of whatever pyarrow.fs speaks: listing them, and reading them in blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from kfmt_cli.core.source import Source, open_source
from kfmt_cli.errors import InputError

LARGEST = 1 << 31
MOST_WORDS = 300  # characters of why a store does not answer
_NATIVE = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs", "mock")
_SAME = {"s3a": "s3", "s3n": "s3"}  # what Hadoop calls it
_OF_HADOOP = ("hdfs", "viewfs")
_HADOOP = ("HADOOP_HOME", "ARROW_LIBHDFS_DIR", "CLASSPATH")
# What is small is one request, and not the three of an upload in parts.
_OPTIONS = {"s3": "?allow_delayed_open=true"}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file."""

    path: str
    size: int
    modified: int
    """Nanoseconds since the epoch, 0 where the storage does not say."""
    trouble: str | None = None
    """Why the directory could not be listed that this is in place of."""


def is_local(path: str) -> bool:
    """Whether a path is one of this machine's file systems."""
    return "://" not in path or path.startswith("file://")


def local(path: str) -> str:
    """A local path without its scheme."""
    return path.removeprefix("file://")


@cache
def _file_system(scheme: str, host: str) -> fs.FileSystem:
    """The file system of a host; raises InputError, with one line of why."""
    name = f"{scheme}://{host}"
    known = _SAME.get(scheme, scheme)
    if known in _OF_HADOOP and not any(map(os.environ.get, _HADOOP)):
        words = f"needs Hadoop's client: none of {', '.join(_HADOOP)} says where it is"
        raise InputError(f"{name}: {words}")
    try:
        return fs.FileSystem.from_uri(f"{known}://{host}/{_OPTIONS.get(known, '')}")[0]
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        if known in _NATIVE:
            raise InputError(f"{name}: {_one_line(error)}") from error
    try:
        from fsspec.core import url_to_fs

        return fs.PyFileSystem(fs.FSSpecHandler(url_to_fs(f"{scheme}://{host}/")[0]))
    except (ImportError, OSError, ValueError, TypeError) as error:
        words = f"no file system is installed for {scheme}://"
        raise InputError(f"{name}: {words}: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    """The first line of what an error says, which may go on with a stack of calls."""
    return (str(error).splitlines() or [type(error).__name__])[0][:MOST_WORDS]


def _at(path: str) -> tuple[fs.FileSystem, str, str]:
    """The file system, what goes before its own paths, and the path there."""
    scheme, rest = path.split("://", 1)
    host, _, below = rest.partition("/")
    system = _file_system(scheme, host)
    if scheme in ("hdfs", "viewfs", "mock"):
        return system, f"{scheme}://{host}", f"/{below}"
    return system, f"{scheme}://", f"{host}/{below}"


def file_system_at(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path with a scheme, and the path there; raises InputError."""
    system, _, below = _at(path)
    return system, below


def listing(path: str) -> Iterator[StoredFile]:
    """The files below a directory, or the file itself; raises InputError for what is not there.

    A local directory that cannot be listed to its end is named by its trouble.
    """
    if is_local(path):
        yield from _local_listing(local(path))
        return
    system, prefix, below = _at(path)
    try:
        info = system.get_file_info(below)
        found = [info]
        if info.type is fs.FileType.Directory:
            found = system.get_file_info(fs.FileSelector(below, recursive=True))
    except OSError as error:
        raise InputError(f"{path}: {_one_line(error)}") from error
    if info.type is fs.FileType.NotFound:
        raise InputError(f"{path}: is not there")
    for item in found:
        if item.type is fs.FileType.File:
            yield StoredFile(prefix + item.path, item.size, item.mtime_ns or 0)


def _local_listing(path: str) -> Iterator[StoredFile]:
    top = os.path.abspath(path)  # noqa: PTH100 (links stay as they are named)
    if not Path(top).is_dir():
        try:
            about = Path(top).stat()
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        yield StoredFile(top, about.st_size, about.st_mtime_ns)
        return
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir():
                        folders.append(entry.path)
                    elif entry.is_file():
                        about = entry.stat()
                        yield StoredFile(entry.path, about.st_size, about.st_mtime_ns)
        except OSError as error:
            yield StoredFile(folder, 0, 0, error.strerror or str(error))


class StoredSource:
    """A file of an object store or a distributed file system."""

    largest = LARGEST

    def __init__(self, path: str) -> None:
        self.name = path
        system, _, below = _at(path)
        try:
            self._file = system.open_input_file(below)
            self.size: int | None = self._file.size()
        except OSError as error:
            raise InputError(f"{path}: {_one_line(error)}") from error

    def block(self, position: int, length: int, least: int) -> bytes:
        del least  # a read gives all there is
        assert self.size is not None
        room = max(min(length, self.size - position), 0)
        try:
            data: bytes = self._file.read_at(room, position) if room else b""
        except OSError as error:
            raise InputError(
                f"{self.name} byte {position}: cannot be read: {_one_line(error)}"
            ) from error
        return data

    def prefetch(self, position: int, length: int) -> None:
        pass

    def release(self, position: int) -> None:
        pass

    def close(self) -> None:
        self._file.close()


def open_stored(path: str) -> Source:
    """A file to read in blocks; raises InputError."""
    return open_source(local(path), path) if is_local(path) else StoredSource(path)
