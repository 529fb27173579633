"""What lies at a path: the disk, an archive, a store, a bucket of tiered storage.

Everything has the path that a user gave, or one below that, wherever its bytes are: a member of an
archive is `backup.tar.gz/orders-0/…`, an object of a store has its URL. What the disk does not have
at a path, the tree that begins there or above has. Nothing is unpacked or listed before it is asked
for.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import ENOENT
from typing import ClassVar

from kfmt_cli.core.source import READ_ONLY, FileSource, Source
from kfmt_cli.core.urls import absolute, name_text, url_text
from kfmt_cli.errors import InputError

Opener = Callable[[str], Source]
"""Opens a path; raises InputError."""
Trouble = tuple[str, str]
"""The path in a tree of what cannot be read, and a message."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A file in a directory that is not on a disk; used as `os.DirEntry`."""

    name: str
    status: os.stat_result
    stored_as: str = ""
    """Its name there if it is compressed as a whole."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Its size and times."""
        del follow_symlinks
        return self.status

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """True."""
        del follow_symlinks
        return True

    def is_symlink(self) -> bool:
        """False."""
        return False


FileEntry = os.DirEntry[str] | StoredEntry


@dataclass(slots=True)
class DirectoryEntries:
    """The entries of a directory."""

    folders: list[str] = field(default_factory=list)
    """The names of its subdirectories."""
    links: list[str] = field(default_factory=list)
    """The names of links to directories."""
    files: list[FileEntry] = field(default_factory=list)
    """All others."""


def is_directory(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a directory or leads to one."""
    try:
        return entry.is_dir()
    except OSError:  # opening it reports the error
        return False


def entries_on_disk(folder: str) -> DirectoryEntries:
    """The entries of a directory of this machine's disk; raises OSError."""
    found = DirectoryEntries()
    with os.scandir(folder) as entries:
        for entry in entries:
            if not is_directory(entry):
                found.files.append(entry)
            else:
                (found.links if entry.is_symlink() else found.folders).append(entry.name)
    return found


def opened_on_disk(path: str, name: str) -> FileSource:
    """Open a regular file of this machine's disk, as it is stored; raises InputError."""
    try:
        return FileSource(os.open(path, READ_ONLY), name)
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError)
        words = f"{name_text(name)}: {error.strerror}"
        raise InputError(words, file=path, is_gone=is_gone) from error


def path_in(folder: str, below: str) -> str:
    """The path of something in a directory; its own for an empty one."""
    return f"{folder.rstrip(os.sep)}{os.sep}{below}" if folder and below else folder or below


@dataclass(slots=True)
class Tree:
    """Directories and files below a path of the disk; other trees have them elsewhere.

    Paths are relative to it, and empty for itself. `entries`, `status` and `opened` raise OSError
    if there is nothing; all raise InputError.
    """

    is_elsewhere: ClassVar[bool] = False
    """Whether its files are not on this machine's disk."""

    path: str
    """Where it begins."""

    def real(self, below: str) -> str | None:
        """The path on the disk that has the bytes of a file; None if none has."""
        return path_in(self.path, below)

    def entries(self, below: str) -> DirectoryEntries:
        """The entries of a directory."""
        return entries_on_disk(self.real(below) or "")

    def status(self, below: str) -> os.stat_result:
        """The size and times of a file, as `os.stat`."""
        return os.stat(self.real(below) or "")  # noqa: PTH116 (text)

    def opened(self, below: str) -> Source:
        """The bytes of a file."""
        return opened_on_disk(self.real(below) or "", path_in(self.path, below))

    def troubles(self, below: str) -> list[str]:
        """Messages about what cannot be read at a path and below it."""
        del below
        return []

    def is_current(self) -> bool:
        """Whether it is known to be as it was when it was found."""
        return False

    def is_tiered(self, below: str) -> bool:
        """Whether something has been put together from tiered storage."""
        del below
        return False

    def identity(self, below: str) -> str:
        """A path that no two paths of this run have in common unless they lead to one thing."""
        return path_in(self.path, below)

    def is_in_other_form(self, below: str) -> bool:
        """Whether the files of a directory are stored compressed or in chunks."""
        return self.is_tiered(below)


@dataclass(slots=True)
class Overlay(Tree):
    """Shows what another tree has at a path. stored: that tree. top: the path in it."""

    stored: Tree
    top: str

    def real(self, below: str) -> str | None:
        return self.stored.real(path_in(self.top, below))

    def entries(self, below: str) -> DirectoryEntries:
        return self.stored.entries(path_in(self.top, below))

    def status(self, below: str) -> os.stat_result:
        return self.stored.status(path_in(self.top, below))

    def opened(self, below: str) -> Source:
        return self.stored.opened(path_in(self.top, below))

    def troubles(self, below: str) -> list[str]:
        return self.stored.troubles(path_in(self.top, below))

    def is_tiered(self, below: str) -> bool:
        return self.stored.is_tiered(path_in(self.top, below))


class Trees:
    """The trees that the paths of this run lead to, by where they begin."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self._at: dict[str, Tree] = {}
        self._openers: dict[str, Opener] = {}
        self._n_blocks: Counter[str] = Counter()

    def take(self, others: Trees) -> None:
        """Take those of another process."""
        self._at, self._openers = others._at, others._openers

    def add(self, tree: Tree) -> None:
        """A tree that begins at a path."""
        # A name in it may come from the absolute path of its directory.
        for path in {tree.path, absolute(tree.path), os.path.realpath(tree.path)}:
            self._at[path] = tree

    def stored_at(self, path: str) -> tuple[Tree, str]:
        """The tree that has what is stored at a path, be it the disk, with the path in it."""
        return self.at(path) or (Tree(path), "")

    def forget(self, path: str) -> None:
        """Forget the trees above and below a path that may have changed."""
        self._at = {
            top: tree
            for top, tree in self._at.items()
            if tree.is_current() or not (is_at(tree.path, path) or is_at(path, tree.path))
        }

    def beginning(self, top: str) -> Tree | None:
        """The tree that begins at a path."""
        return self._at.get(top)

    def at(self, path: str) -> tuple[Tree, str] | None:
        """The tree that has a path, with the path in it."""
        if not self._at:  # as for every file of a disk
            return None
        path = url_text(path)
        found = max(filter(lambda top: is_at(path, top), self._at), key=len, default=None)
        return None if found is None else (self._at[found], path[len(found) :].strip(os.sep))

    @property
    def are_elsewhere(self) -> bool:
        """Whether files of some of them are not on this machine's disk."""
        return any(tree.is_elsewhere for tree in self._at.values())

    def opener(self, path: str) -> Opener | None:
        """What opens a path now instead of the disk."""
        return self._openers.get(path)

    @contextmanager
    def opening(self, openers: Mapping[str, Opener]) -> Iterator[None]:
        """Open some paths in another way for the time of a block, maybe in one of several threads
        that open the same."""
        self._openers.update(openers)
        self._n_blocks.update(openers.keys())
        try:
            yield
        finally:
            self._n_blocks.subtract(openers.keys())
            for path in openers:
                if self._n_blocks[path] < 1:
                    del self._n_blocks[path]
                    self._openers.pop(path, None)


TREES = Trees()


def is_at(path: str, top: str) -> bool:
    """Whether a path is `top` or below it."""
    return path.startswith(top) and path[len(top) : len(top) + 1] in ("", os.sep)


def told_of(troubles: Iterable[Trouble], path: str) -> list[str]:
    """The messages about what is at a path of a tree or below it."""
    return [words for place, words in troubles if not path or is_at(place, path)]


def status_with(size: int, modified: int) -> os.stat_result:
    """The status of a file with a size in bytes and a time in nanoseconds; it takes no blocks."""
    seconds = modified // 1_000_000_000
    numbers = (stat.S_IFREG | 0o400, 0, 0, 1, 0, 0, size, seconds, seconds, seconds)
    return os.stat_result(numbers, {"st_mtime_ns": modified, "st_blocks": None})


_FOLDER = os.stat_result((stat.S_IFDIR | 0o500, 0, 0, 2, 0, 0, 0, 0, 0, 0))


def missing(path: str) -> FileNotFoundError:
    """The error for a path where there is nothing."""
    return FileNotFoundError(ENOENT, os.strerror(ENOENT), path)


@dataclass(slots=True)
class Listing:
    """Directories and files that are known from a listing."""

    _folders: dict[str, DirectoryEntries] = field(default_factory=dict)
    _files: dict[str, os.stat_result] = field(default_factory=dict)

    def add_folder(self, below: str) -> None:
        """A directory, with those above it."""
        if below not in self._folders:
            self._folders[below] = DirectoryEntries()
            above, _, name = below.rpartition(os.sep)
            if below:
                self.add_folder(above)
                self._folders[above].folders.append(name)

    def add(self, below: str, size: int, modified: int) -> None:
        """A file, with the directories above it, unless there is one with this name."""
        if below in self._files:
            return
        folder, _, name = below.rpartition(os.sep)
        self.add_folder(folder)
        status = self._files[below] = status_with(size, modified)
        self._folders[folder].files.append(StoredEntry(name, status))

    def entries(self, below: str) -> DirectoryEntries:
        """The entries of a directory; raises FileNotFoundError."""
        if below not in self._folders:
            raise missing(below)
        return self._folders[below]

    def status(self, below: str) -> os.stat_result:
        """The size and times of a file; raises FileNotFoundError."""
        found = self._files.get(below) or (_FOLDER if below in self._folders else None)
        if found is None:
            raise missing(below)
        return found
