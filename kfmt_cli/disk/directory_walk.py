"""Walks directory trees as a broker sees them: links to directories count as directories."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from kfmt_cli.disk.changes import LISTED_DIRECTORIES
from kfmt_cli.disk.mounts import MOUNTS, DirectoryEntries, OverlayTree, join_subpath


class DirectoryWalk:
    """A directory and the subdirectories that `add_subdirectories` names, each once, whatever paths
    lead to it.

    Links come after all other directories. A link to a directory that contains the link or the
    root is not followed.
    """

    def __init__(self, root: str) -> None:
        self._real_root = os.path.realpath(root)
        self._pending_directories = [(root, self._real_root)]
        self._pending_links = deque[tuple[str, str]]()
        self._visited_real_paths: set[str] = set()
        self._current_real_path = self._real_root

    def __iter__(self) -> Iterator[str]:
        while self._pending_directories or self._pending_links:
            if self._pending_directories:
                path, real_path = self._pending_directories.pop()
            else:
                path, real_parent = self._pending_links.popleft()
                real_path = os.path.realpath(path)
                if _is_at_or_below(self._real_root, real_path) or _is_at_or_below(
                    real_parent, real_path
                ):
                    continue
            if real_path not in self._visited_real_paths:
                self._visited_real_paths.add(real_path)
                self._current_real_path = real_path
                yield path

    def add_subdirectories(
        self, directory: str, directory_names: Iterable[str], link_names: Iterable[str]
    ) -> None:
        """Add names in the directory yielded last. link_names: names of links to directories."""
        path_prefix, real_path_prefix = (
            os.path.join(directory, ""),  # noqa: PTH118
            os.path.join(self._current_real_path, ""),  # noqa: PTH118
        )
        self._pending_directories += [
            (path_prefix + child_name, real_path_prefix + child_name)
            for child_name in directory_names
        ]
        self._pending_links += [
            (path_prefix + child_name, self._current_real_path)
            for child_name in sorted(link_names, key=_link_sort_key)
        ]


def _link_sort_key(link_name: str) -> tuple[bool, str]:
    """Sort key: of several links to a directory, the first counts, so those named like partitions
    precede others."""
    _, dash, suffix = link_name.rpartition("-")
    return not (dash and suffix.isdigit()), link_name


def broken_link_reason(link_path: str) -> str:
    """Why a link cannot be followed; empty if it can, or if the path does not exist."""
    try:
        os.stat(link_path)  # noqa: PTH116 (text)
    except FileNotFoundError:
        with suppress(OSError):
            return f"links to {os.readlink(link_path)}, which does not exist"  # noqa: PTH115
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _is_at_or_below(path: str, directory: str) -> bool:
    """Whether a path is the directory or below it."""
    return path == directory or path.startswith(os.path.join(directory, ""))  # noqa: PTH118 (many)


def list_broker_entries(directory: str) -> DirectoryEntries:
    """The entries of a directory as on a broker's disk; raises OSError, InputError."""
    LISTED_DIRECTORIES.add(directory.rstrip(os.sep) or os.sep)
    tree, subpath = MOUNTS.tree_and_subpath(directory)
    return tree.list_entries(subpath)


def list_stored_entries(directory: str) -> DirectoryEntries:
    """The entries of a directory as they are stored, compressed or in chunks; raises OSError,
    InputError."""
    tree, subpath = MOUNTS.tree_and_subpath(directory)
    while isinstance(tree, OverlayTree) and not (subpath and tree.is_tiered(subpath)):
        subpath, tree = join_subpath(tree.underlying_path, subpath), tree.underlying
    return tree.list_entries(subpath)


def iter_directories(
    root: str,
    on_error: Callable[[str, str], None],
    list_entries: Callable[[str], DirectoryEntries] = list_broker_entries,
) -> Iterator[tuple[str, DirectoryEntries]]:
    """A directory and its subdirectories of any depth, each with its entries.

    on_error: receives a directory that cannot be listed, and the reason. list_entries: lists a
    directory; raises OSError.
    """
    for directory in (walk := DirectoryWalk(root)):
        try:
            directory_entries = list_entries(directory)
        except OSError as error:
            on_error(directory, error.strerror or str(error))
            continue
        walk.add_subdirectories(
            directory, directory_entries.directories, directory_entries.directory_links
        )
        yield directory, directory_entries
