"""Placeholders in a temporary directory for files at a URL: see `core/placeholders.py`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from kfmt_cli.core.placeholders import COPIES, placeholder
from kfmt_cli.core.small_objects import fetched
from kfmt_cli.core.source import Source
from kfmt_cli.core.stored_source import StoredSource
from kfmt_cli.core.stores import StoredFile, about, files_in
from kfmt_cli.errors import InputError

MOST_KEPT = 256  # objects
MOST_KEPT_BYTES = 64 << 10  # size limit per object
MOST_BYTES = 1 << 50  # of an object; no store takes more
MOMENT = 10.0  # seconds that they are cached


def placed(url: str, temporary: Callable[[], str]) -> str:
    """The path of placeholders for a URL: a directory with its contents, or a file with its
    siblings; raises InputError. temporary: creates a directory that is deleted with the process."""
    scheme, _, rest = url.partition("://")
    store = f"{scheme}:/"
    if (copy := COPIES.of(store)) is None:
        folder = temporary()
        copy = COPIES.add(folder, store, _opener(folder, store))
    path = f"{copy.path}/{rest}"
    if ".." in PurePosixPath(rest).parts:
        raise InputError(f'{url}: ".." has no meaning in the URL of a store')
    try:
        file = about(url)
    except InputError as error:
        if error.is_gone:  # reading the path reports it
            return path
        raise
    listed = files_in(url) if file is None else files_in(url.rpartition("/")[0], recursive=False)
    top = Path(path if file is None else path.rpartition("/")[0])
    top.mkdir(parents=True, exist_ok=True)
    copy.troubles[str(top)] = list(_place(f"{copy.path}/", listed))
    return path


def _opener(folder: str, store: str) -> Callable[[str], Source | None]:
    recent = RecentObjects()

    def opened(path: str) -> Source | None:
        try:
            listed = Path(path).stat().st_size
        except OSError:  # not listed
            listed = None
        is_kept = listed is not None and listed <= MOST_KEPT_BYTES
        url = store + path[len(folder) :]
        return StoredSource(url, listed, recent.fetched if is_kept else fetched)

    return opened


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


def _place(top: str, listed: Iterable[StoredFile]) -> Iterable[str]:
    """Create placeholders; yields messages about files that have no place in a directory."""
    made = set[str]()
    for file in listed:
        if file.trouble:
            yield f"{file.path}: {file.trouble}"
            continue
        below = file.path.partition("://")[2]
        folder = top + below.rpartition("/")[0]
        if "//" in below or {"..", "."} & set(below.split("/")):
            yield f"{file.path}: not a valid file name"
            continue
        if not 0 <= file.size <= MOST_BYTES:
            yield f"{file.path}: the store lists an impossible size, {file.size} bytes"
            continue
        try:
            if folder not in made:
                Path(folder).mkdir(parents=True, exist_ok=True)
                made.add(folder)
            placeholder(Path(top + below), file.size, file.modified)
        except FileExistsError:
            continue
        except OSError as error:
            yield f"{file.path}: cannot be created in {folder}: {error.strerror}"
