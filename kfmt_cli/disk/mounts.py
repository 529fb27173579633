"""The trees that contain the files at paths: the disk, an archive, a store, tiered storage.

Every file has a path at or under one that the user gave, wherever its bytes are: a member of an
archive is `backup.tar.gz/orders-0/…`, an object of a store has its URL. A path that does not exist
on the disk belongs to the tree that is mounted there or at the nearest parent. Nothing is unpacked
or listed before it is needed.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import ENOENT
from typing import ClassVar

from kfmt_cli.core.regular_files import open_regular_file
from kfmt_cli.core.source import FileSource, Source
from kfmt_cli.core.urls import absolute_path, format_display_name, restore_url_slashes
from kfmt_cli.errors import InputError

SourceOpener = Callable[[str], Source]
"""Opens a path; raises InputError."""
ReadProblem = tuple[str, str]
"""The path of an unreadable file or directory in a tree, and a message."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A file in a directory that is not on a disk; used as `os.DirEntry`."""

    name: str
    status: os.stat_result
    stored_name: str = ""
    """Its stored name if it is compressed as a whole."""

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

    directories: list[str] = field(default_factory=list)
    """The names of its subdirectories."""
    directory_links: list[str] = field(default_factory=list)
    """The names of links to directories."""
    files: list[FileEntry] = field(default_factory=list)
    """All other entries."""


def is_directory_entry(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a directory or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # opening it reports the error
        return False


def list_disk_entries(directory: str) -> DirectoryEntries:
    """The entries of a directory on this machine's disk; raises OSError."""
    directory_entries = DirectoryEntries()
    with os.scandir(directory) as disk_entries:
        for entry in disk_entries:
            if not is_directory_entry(entry):
                directory_entries.files.append(entry)
            else:
                (
                    directory_entries.directory_links
                    if entry.is_symlink()
                    else directory_entries.directories
                ).append(entry.name)
    return directory_entries


def open_disk_source(path: str, display_name: str) -> FileSource:
    """Open a regular file on this machine's disk, as it is stored; raises InputError."""
    try:
        return FileSource(open_regular_file(path), display_name)
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        message = f"{format_display_name(display_name)}: {error.strerror}"
        raise InputError(message, file=path, is_missing=is_missing) from error


def join_subpath(directory: str, subpath: str) -> str:
    """A directory's path joined with a path in it; either may be empty."""
    return (
        f"{directory.rstrip(os.sep)}{os.sep}{subpath}"
        if directory and subpath
        else directory or subpath
    )


@dataclass(slots=True)
class FileTree:
    """Directories and files under a path; in this class on the disk, in subclasses elsewhere.

    subpath: a path relative to the mount point; empty for the mount point. `list_entries`, `stat`
    and `open_source` raise OSError if the path does not exist; all raise InputError.
    """

    is_remote: ClassVar[bool] = False
    """Whether its files are not on this machine's disk."""

    mount_point: str
    """The path at which the tree begins."""

    def local_path(self, subpath: str) -> str | None:
        """The path on the disk of the file with a file's bytes; None if no such file exists."""
        return join_subpath(self.mount_point, subpath)

    def list_entries(self, subpath: str) -> DirectoryEntries:
        """The entries of a directory."""
        return list_disk_entries(self.local_path(subpath) or "")

    def stat(self, subpath: str) -> os.stat_result:
        """The size and times of a file, as `os.stat`."""
        return os.stat(self.local_path(subpath) or "")  # noqa: PTH116 (text)

    def open_source(self, subpath: str) -> Source:
        """The bytes of a file."""
        return open_disk_source(
            self.local_path(subpath) or "", join_subpath(self.mount_point, subpath)
        )

    def problem_messages(self, subpath: str) -> list[str]:
        """Messages about unreadable files and directories at or below a path."""
        del subpath
        return []

    def is_unchanged(self) -> bool:
        """Whether the tree is known not to have changed since it was read."""
        return False

    def is_tiered(self, subpath: str) -> bool:
        """Whether a file or directory was assembled from tiered storage."""
        del subpath
        return False

    def identity_path(self, subpath: str) -> str:
        """A path that is the same for two paths of this run only if they lead to the same file."""
        return join_subpath(self.mount_point, subpath)

    def is_compressed_or_chunked(self, subpath: str) -> bool:
        """Whether the files of a directory are stored compressed or in chunks."""
        return self.is_tiered(subpath)


@dataclass(slots=True)
class OverlayTree(FileTree):
    """Shows another tree's contents at a path. underlying: that tree. underlying_path: the path in
    it."""

    underlying: FileTree
    underlying_path: str

    def local_path(self, subpath: str) -> str | None:
        return self.underlying.local_path(join_subpath(self.underlying_path, subpath))

    def list_entries(self, subpath: str) -> DirectoryEntries:
        return self.underlying.list_entries(join_subpath(self.underlying_path, subpath))

    def stat(self, subpath: str) -> os.stat_result:
        return self.underlying.stat(join_subpath(self.underlying_path, subpath))

    def open_source(self, subpath: str) -> Source:
        return self.underlying.open_source(join_subpath(self.underlying_path, subpath))

    def problem_messages(self, subpath: str) -> list[str]:
        return self.underlying.problem_messages(join_subpath(self.underlying_path, subpath))

    def is_tiered(self, subpath: str) -> bool:
        return self.underlying.is_tiered(join_subpath(self.underlying_path, subpath))


class MountTable:
    """The trees that the paths of this run lead to, by mount point."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all trees and openers."""
        self._tree_by_mount_point: dict[str, FileTree] = {}
        self._opener_by_path: dict[str, SourceOpener] = {}
        self._n_overrides_by_path: Counter[str] = Counter()
        self._overrides_lock = threading.Lock()

    def copy_mounts(self, other: MountTable) -> None:
        """Use the trees and openers of another process."""
        self._tree_by_mount_point = other._tree_by_mount_point
        self._opener_by_path = other._opener_by_path

    def add_tree(self, tree: FileTree) -> None:
        """Mount a tree."""
        # Paths in it may be derived from its absolute or real path.
        for path in {
            tree.mount_point,
            absolute_path(tree.mount_point),
            os.path.realpath(tree.mount_point),
        }:
            self._tree_by_mount_point[path] = tree

    def tree_and_subpath(self, path: str) -> tuple[FileTree, str]:
        """The tree that contains a path, which may be the disk, and the subpath in it."""
        return self.find_tree_and_subpath(path) or (FileTree(path), "")

    def forget_trees(self, path: str) -> None:
        """Forget the trees at parents and subpaths of a path that may have changed."""
        self._tree_by_mount_point = {
            mount_point: tree
            for mount_point, tree in self._tree_by_mount_point.items()
            if tree.is_unchanged()
            or not (
                is_at_or_below(tree.mount_point, path) or is_at_or_below(path, tree.mount_point)
            )
        }

    def mounted_tree(self, mount_point: str) -> FileTree | None:
        """The tree mounted at exactly this path, or None."""
        return self._tree_by_mount_point.get(mount_point)

    def find_tree_and_subpath(self, path: str) -> tuple[FileTree, str] | None:
        """The mounted tree that contains a path, and the subpath in it; None for other paths."""
        if not self._tree_by_mount_point:  # the usual case
            return None
        path = restore_url_slashes(path)
        mount_point = max(
            filter(lambda candidate: is_at_or_below(path, candidate), self._tree_by_mount_point),
            key=len,
            default=None,
        )
        return (
            None
            if mount_point is None
            else (self._tree_by_mount_point[mount_point], path[len(mount_point) :].strip(os.sep))
        )

    @property
    def has_remote_trees(self) -> bool:
        """Whether any tree has files that are not on this machine's disk."""
        return any(tree.is_remote for tree in self._tree_by_mount_point.values())

    def overriding_opener(self, path: str) -> SourceOpener | None:
        """The opener that currently replaces the usual one for a path, or None."""
        return self._opener_by_path.get(path)

    @contextmanager
    def override_openers(self, opener_by_path: Mapping[str, SourceOpener]) -> Iterator[None]:
        """Open some paths in another way until the block ends; several threads may do so at the
        same time."""
        with self._overrides_lock:
            self._opener_by_path.update(opener_by_path)
            self._n_overrides_by_path.update(opener_by_path.keys())
        try:
            yield
        finally:
            with self._overrides_lock:
                self._n_overrides_by_path.subtract(opener_by_path.keys())
                for path in opener_by_path:
                    if self._n_overrides_by_path[path] < 1:
                        del self._n_overrides_by_path[path]
                        self._opener_by_path.pop(path, None)


MOUNTS = MountTable()


def is_at_or_below(path: str, root: str) -> bool:
    """Whether a path is `root` or below it."""
    return path.startswith(root) and path[len(root) : len(root) + 1] in ("", os.sep)


def messages_under_path(problems: Iterable[ReadProblem], path: str) -> list[str]:
    """The messages of problems at or below a path of a tree."""
    return [
        message
        for problem_path, message in problems
        if not path or is_at_or_below(problem_path, path)
    ]


def file_stat(size: int, modified_ns: int) -> os.stat_result:
    """The status of a file of this size in bytes and time in nanoseconds, without disk blocks."""
    modified_seconds = modified_ns // 1_000_000_000
    stat_fields = (
        stat.S_IFREG | 0o400,
        0,
        0,
        1,
        0,
        0,
        size,
        modified_seconds,
        modified_seconds,
        modified_seconds,
    )
    return os.stat_result(stat_fields, {"st_mtime_ns": modified_ns, "st_blocks": None})


_DIRECTORY_STAT = os.stat_result((stat.S_IFDIR | 0o500, 0, 0, 2, 0, 0, 0, 0, 0, 0))


def not_found_error(path: str) -> FileNotFoundError:
    """The error for a path that does not exist."""
    return FileNotFoundError(ENOENT, os.strerror(ENOENT), path)


@dataclass(slots=True)
class MemoryListing:
    """Directories and files that are known from a listing."""

    _entries_by_directory: dict[str, DirectoryEntries] = field(default_factory=dict)
    _stat_by_path: dict[str, os.stat_result] = field(default_factory=dict)

    def add_directory(self, subpath: str) -> None:
        """Add a directory and its parents."""
        if subpath not in self._entries_by_directory:
            self._entries_by_directory[subpath] = DirectoryEntries()
            parent, _, name = subpath.rpartition(os.sep)
            if subpath:
                self.add_directory(parent)
                self._entries_by_directory[parent].directories.append(name)

    def add_file(self, subpath: str, size: int, modified_ns: int) -> None:
        """Add a file and its parent directories, unless a file with this path exists."""
        if subpath in self._stat_by_path:
            return
        parent, _, name = subpath.rpartition(os.sep)
        self.add_directory(parent)
        status = self._stat_by_path[subpath] = file_stat(size, modified_ns)
        self._entries_by_directory[parent].files.append(StoredEntry(name, status))

    def entries(self, subpath: str) -> DirectoryEntries:
        """The entries of a directory; raises FileNotFoundError."""
        if subpath not in self._entries_by_directory:
            raise not_found_error(subpath)
        return self._entries_by_directory[subpath]

    def status(self, subpath: str) -> os.stat_result:
        """The size and times of a file; raises FileNotFoundError."""
        stat_result = self._stat_by_path.get(subpath) or (
            _DIRECTORY_STAT if subpath in self._entries_by_directory else None
        )
        if stat_result is None:
            raise not_found_error(subpath)
        return stat_result
