"""Listings of files with their sizes and times, local or in stores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kfmt_cli.core.stores import StoredFile, list_files, stat_file
from kfmt_cli.core.urls import absolute_path, format_display_name, is_local, strip_file_scheme
from kfmt_cli.disk.directory_walk import DirectoryWalk, broken_link_reason, list_broker_entries
from kfmt_cli.disk.file_access import is_directory, stat_path
from kfmt_cli.disk.mounts import MOUNTS, FileEntry
from kfmt_cli.errors import InputError


def iter_files(path: str) -> Iterator[StoredFile]:
    """The files under a directory, or the file itself; raises InputError if it does not exist.

    A local directory that cannot be listed completely yields an entry with an `error`.
    """
    if is_local(path) or MOUNTS.find_tree_and_subpath(path) is not None:
        yield from _iter_local_files(strip_file_scheme(path))
        return
    stored_file = stat_file(path)
    if stored_file is None:
        yield from list_files(path)
    else:
        yield stored_file


def _iter_local_files(path: str) -> Iterator[StoredFile]:
    root = absolute_path(path)
    if not is_directory(path):
        try:
            status = stat_path(path)
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError)
            message = f"{format_display_name(path)}: {error.strerror}"
            raise InputError(message, is_missing=is_missing) from error
        yield StoredFile(root, status.st_size, status.st_mtime_ns)
        return
    for directory in (walk := DirectoryWalk(root)):
        entries = scan_directory(directory)
        walk.add_subdirectories(directory, entries.directories, entries.directory_links)
        yield from entries.files


@dataclass(slots=True)
class LocalEntries:
    """The entries of a local directory: names of directories and of links to them, and files."""

    directories: list[str] = field(default_factory=list)
    directory_links: list[str] = field(default_factory=list)
    files: list[StoredFile] = field(default_factory=list)


def scan_directory(directory: str) -> LocalEntries:
    """The entries of a local directory, or one with an `error` if it cannot be listed. Files that
    are deleted in the meantime are skipped."""
    local_entries = LocalEntries()
    try:
        entries = list_broker_entries(directory)
        local_entries.directories, local_entries.directory_links = (
            entries.directories,
            entries.directory_links,
        )
        local_entries.files.extend(_iter_stored_files(directory, entries.files))
    except OSError as error:
        local_entries.files.append(StoredFile(directory, 0, 0, error.strerror or str(error)))
    return local_entries


def _iter_stored_files(directory: str, entries: Iterable[FileEntry]) -> Iterator[StoredFile]:
    for entry in entries:
        path = f"{directory.rstrip(os.sep)}{os.sep}{entry.name}"
        try:
            status = entry.stat() if entry.is_file() else None
        except FileNotFoundError:  # deleted meanwhile
            continue
        except OSError as error:
            yield StoredFile(path, 0, 0, error.strerror or str(error))
            continue
        if status is not None:
            yield StoredFile(path, status.st_size, status.st_mtime_ns)
        elif reason := entry.is_symlink() and broken_link_reason(path):
            yield StoredFile(path, 0, 0, reason)
