"""Listings for a stream, which asks for them again and again.

A local directory is read again only if its own time has changed. A broker writes to the last
segment only, so that its size is asked for each time, and that of one other file in turn. An entry
added within the resolution of the clock does not change the directory's time, so that its entries
are believed only if they were read a while after its time was first seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path

from kfmt_cli.arrow.topic_ids import METADATA, topic_id_in
from kfmt_cli.core.stores import StoredFile
from kfmt_cli.core.urls import absolute, is_local, local
from kfmt_cli.disk.directories import Directories
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.listings import LocalListing, listing, scanned
from kfmt_cli.disk.names import MANIFEST
from kfmt_cli.errors import InputError
from kfmt_cli.sharing.piece import Piece

SETTLED = 2.0  # seconds; no file system's times are coarser
MOST_READS = 4  # of a directory that changes all the time
_GROWING = (LOG.suffix, MANIFEST, METADATA)


@dataclass(slots=True)
class _Folder:
    """The entries of a directory."""

    modified: int
    """Its time, in nanoseconds."""
    since: float
    """When this time was first seen, on a monotonic clock."""
    read: float = 0.0
    """When its entries were read."""
    its: LocalListing = field(default_factory=LocalListing)
    _last: int | None = None
    """The number of its last segment."""
    _others: Iterator[int] = field(default_factory=lambda: iter(()))
    """The numbers of other files that may change, again and again."""

    def keep(self, its: LocalListing) -> bool:
        """Take its entries; whether they are others than before."""
        changed, self.its, files = its != self.its, its, its.files
        of_kinds = [i for i, file in enumerate(files) if file.path.endswith(_GROWING)]
        segments = [i for i in of_kinds if files[i].path.endswith(LOG.suffix)]
        self._last = max(segments, key=lambda i: files[i].path, default=None)
        self._others = cycle(i for i in of_kinds if i != self._last)
        return changed

    def grown(self) -> bool:
        """Ask for sizes; whether one has changed. Raises OSError."""
        changed = False
        for i in (self._last, next(self._others, None)):
            if i is not None:
                files, file = self.its.files, self.its.files[i]
                status = os.stat(file.path)  # noqa: PTH116 (many)
                if (status.st_size, status.st_mtime_ns) != (file.size, file.modified):
                    changed = True
                    files[i] = replace(file, size=status.st_size, modified=status.st_mtime_ns)
        return changed


@dataclass(slots=True)
class Listings:
    """The files below the paths of a stream."""

    paths: tuple[str, ...]
    files: dict[str, list[StoredFile]] = field(default_factory=dict)
    """As listed last, by path; paths without files, and those that cannot be listed, are left
    out."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why a path, or a directory or link below one, could not be read, as listed last."""
    _folders: dict[str, _Folder] = field(default_factory=dict)
    _ids: dict[str, tuple[tuple[int, int], str]] = field(default_factory=dict)
    _metadata: dict[str, tuple[int, int]] = field(default_factory=dict)

    def update(self) -> bool:
        """List the paths again; whether anything has changed."""
        before, self.failed = (self.files, self.failed), {}
        self.files, changed = {}, False
        for path in self.paths:
            try:
                if is_local(path) and Path(local(path)).is_dir():
                    files, grown = self._below(absolute(local(path)))
                    changed = changed or grown
                else:
                    files = list(listing(path))
                    changed = changed or files != before[0].get(path)
            except InputError as error:
                self.failed[path] = str(error).removeprefix(f"{path}: ")
                continue
            self.failed |= {file.path: file.trouble for file in files if file.trouble}
            if files:
                self.files[path] = files
        changed = changed or self.failed != before[1] or self.files.keys() != before[0].keys()
        if changed:
            self._metadata = {
                file.path[: -len(METADATA) - 1]: (file.size, file.modified)
                for files in self.files.values()
                for file in files
                if file.path.endswith(METADATA)
            }
        return changed

    def _below(self, top: str) -> tuple[list[StoredFile], bool]:
        """The files below a local directory, and whether any has changed."""
        found: list[StoredFile] = []
        changed = False
        for folder in (directories := Directories(top)):
            now, known = time.monotonic(), self._folders.get(folder)
            try:
                modified = os.stat(folder).st_mtime_ns  # noqa: PTH116 (many)
                if known is None or known.modified != modified:
                    known = _Folder(modified, now)
                if known.read - known.since >= SETTLED:
                    changed = known.grown() or changed
                else:
                    changed = known.keep(_entries(folder, modified)) or changed
                    known.read = 0.0 if any(file.trouble for file in known.its.files) else now
                self._folders[folder] = known
            except OSError as error:
                self._folders.pop(folder, None)
                found.append(StoredFile(folder, 0, 0, error.strerror or str(error)))
                changed = True
                continue
            found += known.its.files
            directories.add(folder, known.its.folders, known.its.links)
        return found, changed

    def topic_id(self, piece: Piece) -> str | None:
        """The topic id of a segment's partition, None if it has none or none that can be read. A
        partition.metadata is read again only if it has changed."""
        if piece.named is not None:
            return piece.named[2]
        stated = self._metadata.get(piece.folder)
        if stated is None:
            return None
        known = self._ids.get(piece.folder)
        if known is None or known[0] != stated:
            found = topic_id_in(piece.folder)
            if found is None:
                return None
            known = self._ids[piece.folder] = stated, found
        return known[1]


def _entries(folder: str, modified: int) -> LocalListing:
    """The entries of a directory, read again if it has changed meanwhile: a file that was renamed
    may be missing under both names. modified: its time before. Raises OSError."""
    for _ in range(MOST_READS):
        its = scanned(folder)
        before, modified = modified, os.stat(folder).st_mtime_ns  # noqa: PTH116 (many)
        if modified == before:
            break
    return its
