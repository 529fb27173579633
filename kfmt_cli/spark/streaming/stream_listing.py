"""Lists the paths of a stream repeatedly.

A local directory is read again only if its own modification time has changed. A broker writes only
to the last segment, so each listing reads its size, and the size of one other file in turn. An
entry added within the resolution of the clock does not change the directory's time, so entries are
trusted only if they were read a while after this time was first seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path

from kfmt_cli.arrow.topic_ids import PARTITION_METADATA_NAME, read_directory_topic_id
from kfmt_cli.core.stores import StoredFile
from kfmt_cli.core.urls import absolute_path, is_local, strip_file_scheme
from kfmt_cli.disk.directory_walk import DirectoryWalk
from kfmt_cli.disk.file_listing import LocalEntries, iter_files, scan_directory
from kfmt_cli.disk.file_names import MANIFEST_SUFFIX, parse_directory_topic_id
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit

MIN_STABLE_SECONDS = 2.0  # no file system's times are coarser
MAX_DIRECTORY_READS = 4  # of a directory that changes all the time
_GROWING_SUFFIXES = (LOG_KIND.suffix, MANIFEST_SUFFIX, PARTITION_METADATA_NAME)


@dataclass(slots=True)
class _CachedDirectory:
    """The entries of a directory."""

    modified_ns: int
    """Its modification time, in nanoseconds."""
    first_seen_seconds: float
    """When this time was first seen, on a monotonic clock."""
    read_seconds: float = 0.0
    """When its entries were read."""
    entries: LocalEntries = field(default_factory=LocalEntries)
    _last_segment_index: int | None = None
    """The index of its last segment."""
    _other_growing_indexes: Iterator[int] = field(default_factory=lambda: iter(()))
    """The indexes of the other files that may change, repeated endlessly."""

    def update_entries(self, entries: LocalEntries) -> bool:
        """Store new entries; returns whether they differ from the previous ones."""
        has_changed, self.entries, files = entries != self.entries, entries, entries.files
        growing_indexes = [
            i for i, file in enumerate(files) if file.path.endswith(_GROWING_SUFFIXES)
        ]
        segment_indexes = [i for i in growing_indexes if files[i].path.endswith(LOG_KIND.suffix)]
        self._last_segment_index = max(segment_indexes, key=lambda i: files[i].path, default=None)
        self._other_growing_indexes = cycle(
            i for i in growing_indexes if i != self._last_segment_index
        )
        return has_changed

    def refresh_file_sizes(self) -> bool:
        """Read the sizes of two files again; returns whether one has changed. Raises OSError."""
        has_changed = False
        for i in (self._last_segment_index, next(self._other_growing_indexes, None)):
            if i is not None:
                files, file = self.entries.files, self.entries.files[i]
                file_stat = os.stat(file.path)  # noqa: PTH116 (many)
                if (file_stat.st_size, file_stat.st_mtime_ns) != (file.size, file.modified_ns):
                    has_changed = True
                    files[i] = replace(
                        file, size=file_stat.st_size, modified_ns=file_stat.st_mtime_ns
                    )
        return has_changed


@dataclass(slots=True)
class StreamListing:
    """The files under the paths of a stream."""

    paths: tuple[str, ...]
    files_by_path: dict[str, list[StoredFile]] = field(default_factory=dict)
    """The files listed last, by path; paths without files, and paths that cannot be listed, are
    omitted."""
    read_errors: dict[str, str] = field(default_factory=dict)
    """The reasons why a path, or a directory or link under one, could not be read."""
    _directories: dict[str, _CachedDirectory] = field(default_factory=dict)
    _topic_id_by_directory: dict[str, tuple[tuple[int, int], str]] = field(default_factory=dict)
    _metadata_file_state_by_directory: dict[str, tuple[int, int]] = field(default_factory=dict)

    def update_listing(self) -> bool:
        """List the paths again; returns whether anything has changed."""
        previous_listing, self.read_errors = (self.files_by_path, self.read_errors), {}
        self.files_by_path, is_listing_changed = {}, False
        for path in self.paths:
            try:
                if is_local(path) and Path(strip_file_scheme(path)).is_dir():
                    files, has_changed = self._list_files_below(
                        absolute_path(strip_file_scheme(path))
                    )
                    is_listing_changed = is_listing_changed or has_changed
                else:
                    files = list(iter_files(path))
                    is_listing_changed = is_listing_changed or files != previous_listing[0].get(
                        path
                    )
            except InputError as error:
                self.read_errors[path] = str(error).removeprefix(f"{path}: ")
                continue
            self.read_errors |= {file.path: file.error for file in files if file.error}
            if files:
                self.files_by_path[path] = files
        is_listing_changed = (
            is_listing_changed
            or self.read_errors != previous_listing[1]
            or self.files_by_path.keys() != previous_listing[0].keys()
        )
        if is_listing_changed:
            self._metadata_file_state_by_directory = {
                file.path[: -len(PARTITION_METADATA_NAME) - 1]: (file.size, file.modified_ns)
                for files in self.files_by_path.values()
                for file in files
                if file.path.endswith(PARTITION_METADATA_NAME)
            }
        return is_listing_changed

    def _list_files_below(self, root: str) -> tuple[list[StoredFile], bool]:
        """The files under a local directory, and whether any has changed."""
        files: list[StoredFile] = []
        has_changed = False
        for directory in (directory_walk := DirectoryWalk(root)):
            now_seconds, cached_directory = time.monotonic(), self._directories.get(directory)
            try:
                modified_ns = os.stat(directory).st_mtime_ns  # noqa: PTH116 (many)
                if cached_directory is None or cached_directory.modified_ns != modified_ns:
                    cached_directory = _CachedDirectory(modified_ns, now_seconds)
                if (
                    cached_directory.read_seconds - cached_directory.first_seen_seconds
                    >= MIN_STABLE_SECONDS
                ):
                    has_changed = cached_directory.refresh_file_sizes() or has_changed
                else:
                    has_changed = (
                        cached_directory.update_entries(
                            _read_stable_entries(directory, modified_ns)
                        )
                        or has_changed
                    )
                    cached_directory.read_seconds = (
                        0.0
                        if any(file.error for file in cached_directory.entries.files)
                        else now_seconds
                    )
                self._directories[directory] = cached_directory
            except OSError as error:
                self._directories.pop(directory, None)
                files.append(StoredFile(directory, 0, 0, error.strerror or str(error)))
                has_changed = True
                continue
            files += cached_directory.entries.files
            directory_walk.add_subdirectories(
                directory,
                cached_directory.entries.directories,
                cached_directory.entries.directory_links,
            )
        return files, has_changed

    def find_topic_id(self, split: FileSplit) -> str | None:
        """The topic id of a segment's partition; None if there is none. A partition.metadata is
        read again only if it has changed. Raises InputError."""
        if split.topic_id_partition is not None:
            return split.topic_id_partition[2]
        metadata_file_state = self._metadata_file_state_by_directory.get(split.directory)
        if metadata_file_state is None:
            return parse_directory_topic_id(split.directory.rpartition("/")[2])
        cached_topic_id = self._topic_id_by_directory.get(split.directory)
        if cached_topic_id is None or cached_topic_id[0] != metadata_file_state:
            topic_id_text = read_directory_topic_id(split.directory)
            if topic_id_text is None:
                return None
            cached_topic_id = self._topic_id_by_directory[split.directory] = (
                metadata_file_state,
                topic_id_text,
            )
        return cached_topic_id[1]


def _read_stable_entries(directory: str, modified_ns: int) -> LocalEntries:
    """The entries of a directory, read again if it has changed meanwhile: a file that was renamed
    may be missing under both names. modified_ns: its time before. Raises OSError."""
    for _ in range(MAX_DIRECTORY_READS):
        entries = scan_directory(directory)
        previous_modified_ns, modified_ns = modified_ns, os.stat(directory).st_mtime_ns  # noqa: PTH116 (many)
        if modified_ns == previous_modified_ns:
            break
    return entries
