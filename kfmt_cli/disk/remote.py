"""The objects of a store as a tree."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar

from kfmt_cli.core.small_objects import fetched
from kfmt_cli.core.source import Source
from kfmt_cli.core.stored_source import StoredSource
from kfmt_cli.core.stores import StoredFile, about, files_in
from kfmt_cli.disk.trees import DirectoryEntries, Listing, Tree, Trouble, is_at, told_of
from kfmt_cli.errors import InputError

MOST_KEPT = 256  # objects
MOST_KEPT_BYTES = 64 << 10  # size limit per object
MOST_BYTES = 1 << 50  # of an object; no store takes more
MOMENT = 10.0  # seconds that they are cached


@dataclass(slots=True)
class RecentObjects:
    """The small objects fetched a moment ago: commands read them more than once."""

    kept: dict[str, tuple[float, bytes]] = field(default_factory=dict)
    """When each was fetched, and its bytes, by URL."""

    def fetched(self, url: str, most: int) -> bytes | None:
        """A small object's bytes, fetched now or a moment ago."""
        kept = self.kept.get(url)
        if kept is not None and time.monotonic() - kept[0] < MOMENT:
            return kept[1]
        data = fetched(url, most)
        if data is not None:
            self.kept[url] = time.monotonic(), data
        for oldest in list(self.kept)[:-MOST_KEPT]:
            self.kept.pop(oldest, None)
        return data


@dataclass(slots=True)
class Store(Tree):
    """The objects of a scheme's stores that have been listed. path: the scheme with its colon."""

    is_elsewhere: ClassVar[bool] = True

    _listing: Listing = field(default_factory=Listing)
    _recent: RecentObjects = field(default_factory=RecentObjects)
    _troubles: dict[str, list[Trouble]] = field(default_factory=dict)
    """Messages about the objects that have no place in a directory, by the directory listed."""
    _whole: set[str] = field(default_factory=set)
    """The directories that were listed with all that is below them."""

    def find(self, below: str) -> None:
        """List what is below a path, or next to it if it is an object's; raises InputError."""
        if any(is_at(below, top) for top in self._whole):
            return
        url = self._url(below)
        if ".." in below.split("/"):
            raise InputError(f'{url}: ".." has no meaning in the URL of a store')
        try:
            is_folder = about(url) is None
        except InputError as error:
            if error.is_gone:  # reading the path reports it
                return
            raise
        top = below if is_folder else below.rpartition("/")[0]
        if is_folder or top not in self._troubles:
            self._listing.add_folder(top)
            listed = files_in(self._url(top), recursive=is_folder)
            self._troubles[top] = list(self._put(listed))
        if is_folder:
            self._whole.add(top)

    def find_object(self, below: str) -> None:
        """Find the object at a path, if there is one that may be read."""
        if "/" in below:  # not a bucket
            with suppress(InputError):
                found = about(self._url(below))
                list(self._put(iter([] if found is None else [found])))

    def _put(self, listed: Iterator[StoredFile]) -> Iterator[Trouble]:
        """Take the objects that can be files in a directory; yields messages about the others."""
        for file in listed:
            below = file.path.partition("://")[2]
            if file.trouble:
                yield below, f"{file.path}: {file.trouble}"
            elif "//" in below or {"..", "."} & set(below.split("/")):
                yield below, f"{file.path}: not a valid file name"
            elif not 0 <= file.size <= MOST_BYTES:
                words = f"the store lists an impossible size, {file.size} bytes"
                yield below, f"{file.path}: {words}"
            else:
                self._listing.add(below, file.size, file.modified)

    def _url(self, below: str) -> str:
        return f"{self.path}//{below}"

    def entries(self, below: str) -> DirectoryEntries:
        return self._listing.entries(below)

    def status(self, below: str) -> os.stat_result:
        return self._listing.status(below)

    def opened(self, below: str) -> Source:
        try:
            size: int | None = self._listing.status(below).st_size
        except FileNotFoundError:
            size = None
        is_kept = size is not None and size <= MOST_KEPT_BYTES
        return StoredSource(self._url(below), size, self._recent.fetched if is_kept else fetched)

    def real(self, below: str) -> None:
        del below

    def troubles(self, below: str) -> list[str]:
        return told_of(chain.from_iterable(self._troubles.values()), below)
