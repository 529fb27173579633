"""The objects of a store as a tree."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar

from kfmt_cli.core.small_objects import fetch_object
from kfmt_cli.core.source import Source
from kfmt_cli.core.stored_source import StoredSource
from kfmt_cli.core.stores import StoredFile, list_files, stat_file
from kfmt_cli.disk.mounts import (
    DirectoryEntries,
    FileTree,
    MemoryListing,
    ReadProblem,
    is_at_or_below,
    messages_under_path,
)
from kfmt_cli.errors import InputError

MAX_CACHED_OBJECTS = 256
MAX_CACHED_OBJECT_BYTES = 64 << 10  # per object
MAX_OBJECT_BYTES = 1 << 50  # no store accepts larger objects
CACHE_SECONDS = 10.0


@dataclass(slots=True)
class RecentObjectCache:
    """The small objects fetched a moment ago: commands read them more than once."""

    time_and_bytes_by_url: dict[str, tuple[float, bytes]] = field(default_factory=dict)
    """The time of each fetch (monotonic, in seconds) and the object's bytes, by URL."""

    def fetch_or_reuse_object(self, url: str, max_bytes: int) -> bytes | None:
        """A small object's bytes, fetched now or a moment ago; None if `fetch_object` returns
        None."""
        time_and_bytes = self.time_and_bytes_by_url.get(url)
        if time_and_bytes is not None and time.monotonic() - time_and_bytes[0] < CACHE_SECONDS:
            return time_and_bytes[1]
        object_bytes = fetch_object(url, max_bytes)
        if object_bytes is not None:
            self.time_and_bytes_by_url.pop(url, None)  # a new entry is the last one
            self.time_and_bytes_by_url[url] = time.monotonic(), object_bytes
        for oldest_url in list(self.time_and_bytes_by_url)[:-MAX_CACHED_OBJECTS]:
            self.time_and_bytes_by_url.pop(oldest_url, None)
        return object_bytes


@dataclass(slots=True)
class ObjectStoreTree(FileTree):
    """The objects of a scheme's stores that have been listed. mount_point: the scheme with its
    colon."""

    is_remote: ClassVar[bool] = True

    _listing: MemoryListing = field(default_factory=MemoryListing)
    _cache: RecentObjectCache = field(default_factory=RecentObjectCache)
    _problems_by_directory: dict[str, list[ReadProblem]] = field(default_factory=dict)
    """Problems with objects that cannot be files in a directory, by the directory listed."""
    _fully_listed_directories: set[str] = field(default_factory=set)
    """The directories that were listed recursively."""

    def load_listing(self, subpath: str) -> None:
        """List the objects below a path, or next to it if it is an object; raises InputError."""
        if any(
            is_at_or_below(subpath, listed_directory)
            for listed_directory in self._fully_listed_directories
        ):
            return
        url = self._object_url(subpath)
        if ".." in subpath.split("/"):
            raise InputError(f'{url}: ".." has no meaning in the URL of a store')
        try:
            is_directory = stat_file(url) is None
        except InputError as error:
            if error.is_missing:  # reading the path reports it
                return
            raise
        directory = subpath if is_directory else subpath.rpartition("/")[0]
        if is_directory or directory not in self._problems_by_directory:
            self._listing.add_directory(directory)
            stored_files = list_files(self._object_url(directory), recursive=is_directory)
            self._problems_by_directory[directory] = list(self._add_objects(stored_files))
        if is_directory:
            self._fully_listed_directories.add(directory)

    def load_object_entry(self, subpath: str) -> None:
        """Find the object at a path, if it exists and may be read."""
        if "/" in subpath:  # not a bucket
            with suppress(InputError):
                stored_file = stat_file(self._object_url(subpath))
                list(self._add_objects(iter([] if stored_file is None else [stored_file])))

    def _add_objects(self, stored_files: Iterator[StoredFile]) -> Iterator[ReadProblem]:
        """Add the objects that can be files in a directory; yields the problems with the others."""
        for stored_file in stored_files:
            subpath = stored_file.path.partition("://")[2]
            if stored_file.error:
                yield subpath, f"{stored_file.path}: {stored_file.error}"
            elif "//" in subpath or {"..", "."} & set(subpath.split("/")):
                yield subpath, f"{stored_file.path}: not a valid file name"
            elif not 0 <= stored_file.size <= MAX_OBJECT_BYTES:
                reason = f"the store lists an impossible size, {stored_file.size} bytes"
                yield subpath, f"{stored_file.path}: {reason}"
            else:
                self._listing.add_file(subpath, stored_file.size, stored_file.modified_ns)

    def _object_url(self, subpath: str) -> str:
        return f"{self.mount_point}//{subpath}"

    def list_entries(self, subpath: str) -> DirectoryEntries:
        return self._listing.entries(subpath)

    def stat(self, subpath: str) -> os.stat_result:
        return self._listing.status(subpath)

    def open_source(self, subpath: str) -> Source:
        try:
            size: int | None = self._listing.status(subpath).st_size
        except FileNotFoundError:
            size = None
        is_cacheable = size is not None and size <= MAX_CACHED_OBJECT_BYTES
        return StoredSource(
            self._object_url(subpath),
            size,
            self._cache.fetch_or_reuse_object if is_cacheable else fetch_object,
        )

    def local_path(self, subpath: str) -> None:
        del subpath

    def problem_messages(self, subpath: str) -> list[str]:
        return messages_under_path(
            chain.from_iterable(self._problems_by_directory.values()), subpath
        )
