"""The directories below one, as a broker sees them: links to directories count as directories."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from kfmt_cli.disk.trees import TREES, DirectoryEntries, Overlay, path_in


class Directories:
    """A directory and those below it that `add` names, each once, whatever leads to it.

    Links come after all other directories. One to a directory that contains the link, or the
    directory at the top, is not followed.
    """

    def __init__(self, top: str) -> None:
        self._top = os.path.realpath(top)
        self._plain = [(top, self._top)]
        self._links = deque[tuple[str, str]]()
        self._seen: set[str] = set()
        self._real = self._top

    def __iter__(self) -> Iterator[str]:
        while self._plain or self._links:
            if self._plain:
                path, real = self._plain.pop()
            else:
                path, parent = self._links.popleft()
                real = os.path.realpath(path)
                if _is_below(self._top, real) or _is_below(parent, real):
                    continue
            if real not in self._seen:
                self._seen.add(real)
                self._real = real
                yield path

    def add(self, folder: str, names: Iterable[str], links: Iterable[str]) -> None:
        """Names in the directory that was yielded last: of directories, and of links to them."""
        prefix, real = os.path.join(folder, ""), os.path.join(self._real, "")  # noqa: PTH118 (many)
        self._plain += [(prefix + name, real + name) for name in names]
        self._links += [(prefix + name, self._real) for name in sorted(links, key=_like_partitions)]


def _like_partitions(name: str) -> tuple[bool, str]:
    """Sort key: of several links to a directory, one that is named like a partition counts."""
    _, dash, number = name.rpartition("-")
    return not (dash and number.isdigit()), name


def link_trouble(path: str) -> str:
    """Why a link cannot be followed; empty if it can, or if nothing is there."""
    try:
        os.stat(path)  # noqa: PTH116 (text)
    except FileNotFoundError:
        with suppress(OSError):
            return f"links to {os.readlink(path)}, which does not exist"  # noqa: PTH115
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _is_below(path: str, folder: str) -> bool:
    """Whether a path is that of a directory, or below it."""
    return path == folder or path.startswith(os.path.join(folder, ""))  # noqa: PTH118 (many)


def entries_of(folder: str) -> DirectoryEntries:
    """The entries of a directory as a broker has them; raises OSError, InputError."""
    tree, below = TREES.stored_at(folder)
    return tree.entries(below)


def stored_entries(folder: str) -> DirectoryEntries:
    """The same as they are stored: compressed, or in chunks."""
    tree, below = TREES.stored_at(folder)
    while isinstance(tree, Overlay) and not (below and tree.is_tiered(below)):
        below, tree = path_in(tree.top, below), tree.stored
    return tree.entries(below)


def each_directory(
    top: str,
    skip: Callable[[str, str], None],
    entries: Callable[[str], DirectoryEntries] = entries_of,
) -> Iterator[tuple[str, DirectoryEntries]]:
    """A directory and those below it, each with its entries.

    skip: receives a directory that cannot be listed, and why. entries: lists one; raises OSError.
    """
    for folder in (directories := Directories(top)):
        try:
            its = entries(folder)
        except OSError as error:
            skip(folder, error.strerror or str(error))
            continue
        directories.add(folder, its.folders, its.links)
        yield folder, its
