"""Listings of files with their sizes and times, local or in stores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kfmt_cli.core.stores import StoredFile, about, files_in
from kfmt_cli.core.urls import absolute, is_local, local
from kfmt_cli.disk.directories import Directories, entries_of, link_trouble
from kfmt_cli.disk.opening import is_folder, status_of
from kfmt_cli.disk.trees import TREES, FileEntry
from kfmt_cli.errors import InputError


def listing(path: str) -> Iterator[StoredFile]:
    """The files under a directory, or the file itself; raises InputError if it does not exist.

    A local directory that cannot be listed completely comes as an entry with its `trouble`.
    """
    if is_local(path) or TREES.at(path) is not None:
        yield from _local_listing(local(path))
        return
    file = about(path)
    if file is None:
        yield from files_in(path)
    else:
        yield file


def _local_listing(path: str) -> Iterator[StoredFile]:
    top = absolute(path)
    if not is_folder(path):
        try:
            status = status_of(path)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        yield StoredFile(top, status.st_size, status.st_mtime_ns)
        return
    for folder in (directories := Directories(top)):
        its = scanned(folder)
        directories.add(folder, its.folders, its.links)
        yield from its.files


@dataclass(slots=True)
class LocalListing:
    """The entries of a local directory: names of directories and of links to them, and files."""

    folders: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    files: list[StoredFile] = field(default_factory=list)


def scanned(folder: str) -> LocalListing:
    """The entries of a local directory; its `trouble` if it cannot be listed. A file that is
    deleted meanwhile is not in it."""
    found = LocalListing()
    try:
        its = entries_of(folder)
        found.folders, found.links = its.folders, its.links
        found.files.extend(_stated(folder, its.files))
    except OSError as error:
        found.files.append(StoredFile(folder, 0, 0, error.strerror or str(error)))
    return found


def _stated(folder: str, entries: Iterable[FileEntry]) -> Iterator[StoredFile]:
    for entry in entries:
        path = f"{folder.rstrip(os.sep)}{os.sep}{entry.name}"
        try:
            status = entry.stat() if entry.is_file() else None
        except FileNotFoundError:  # deleted meanwhile
            continue
        except OSError as error:
            yield StoredFile(path, 0, 0, error.strerror or str(error))
            continue
        if status is not None:
            yield StoredFile(path, status.st_size, status.st_mtime_ns)
        elif words := entry.is_symlink() and link_trouble(path):
            yield StoredFile(path, 0, 0, words)
