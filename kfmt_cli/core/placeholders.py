"""Files whose bytes are elsewhere: in a store, in an archive, in the chunks of tiered storage.

Those of a store or of tiered storage have placeholders in a temporary directory: sparse files of
their sizes and times. Code that reads names, sizes and times needs no special case; only code that
opens files asks here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kfmt_cli.core.urls import is_local
from kfmt_cli.errors import InputError

if TYPE_CHECKING:
    from kfmt_cli.core.source import Source

Opener = Callable[[str], "Source | None"]
"""Opens a path under its directory; None for a file that is really there."""

CONNECTIONS = 8  # to stores, at once


@dataclass(slots=True)
class LocalCopy:
    """A temporary directory, or a file, that is read in place of what a user gave."""

    path: str
    given: str
    opener: Opener | None = None
    """Opens its placeholders."""
    troubles: dict[str, list[str]] = field(default_factory=dict)
    """Messages about unreadable content, by the directories that lack it."""
    is_tiered: bool = False
    """Whether it was put together from tiered storage."""
    files: dict[str, str] = field(default_factory=dict)
    """Where its unpacked files come from, by their paths."""


class LocalCopies:
    """The copies that this process has made; they are deleted when it ends."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self._copies: list[LocalCopy] = []
        self._openers: dict[str, Opener] = {}

    def add(self, path: str, given: str, opener: Opener | None = None) -> LocalCopy:
        """A new copy."""
        made = LocalCopy(path, given, opener)
        self._copies.append(made)
        return made

    def given(self, path: str) -> str:
        """A path as the user gave it; unpacked files are shown in their archive."""
        for copy in self._copies:
            if path.startswith(copy.path):
                return self.given(copy.files.get(path) or copy.given + path[len(copy.path) :])
        return path

    def of(self, given: str) -> LocalCopy | None:
        """The copy of what a user gave."""
        return next((copy for copy in self._copies if copy.given == given), None)

    def troubles(self, path: str) -> list[str]:
        """Messages about unreadable content of a directory."""
        path = path.rstrip(os.sep)
        return [words for copy in self._copies for words in copy.troubles.get(path, ())]

    def is_tiered(self, path: str) -> bool:
        """Whether a path is in a copy that was put together from tiered storage."""
        return any(copy.is_tiered and path.startswith(copy.path) for copy in self._copies)

    @property
    def are_elsewhere(self) -> bool:
        """Whether some of them have placeholders."""
        return any(copy.opener is not None for copy in self._copies)

    def is_placeholder(self, path: str) -> bool:
        """Whether a path is that of a placeholder, if it exists."""
        if path in self._openers:
            return True
        if not self._copies:  # as of every file of a disk
            return False
        return any(copy.opener is not None and path.startswith(copy.path) for copy in self._copies)

    def opened(self, path: str) -> Source | None:
        """Open a placeholder's bytes; None for any other file. Raises InputError."""
        if path in self._openers:
            return self._openers[path](path)
        for copy in self._copies:
            if copy.opener is not None and path.startswith(copy.path):
                source = copy.opener(path)
                if source is not None:
                    return source
        return None

    @contextmanager
    def opening(self, openers: Mapping[str, Opener]) -> Iterator[None]:
        """Open some paths in another way for the time of a block."""
        self._openers.update(openers)
        try:
            yield
        finally:
            for path in openers:
                del self._openers[path]


COPIES = LocalCopies()


def placeholder(path: Path, size: int, modified: int) -> None:
    """Make a sparse file with a size in bytes and a time in nanoseconds; raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, size)
        if modified:
            os.utime(fd, ns=(modified, modified))
    finally:
        os.close(fd)


def is_elsewhere(path: str) -> bool:
    """Whether a file's bytes are elsewhere, if it exists."""
    return not is_local(path) or COPIES.is_placeholder(path)


def opened_elsewhere(path: str) -> Source | None:
    """Open a placeholder's bytes or a URL; None for any other file. Raises InputError."""
    try:
        source = COPIES.opened(path)
        if source is None and not is_local(path):
            from kfmt_cli.core.stored_source import StoredSource

            source = StoredSource(path)
        return source
    except InputError as error:
        if error.is_gone:
            error.file = path
        raise
