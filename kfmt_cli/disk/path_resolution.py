"""Resolves the paths of the user to files as on a broker's disk: see `disk/mounts.py`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import PurePath
from typing import TYPE_CHECKING

from kfmt_cli.core.compressed_files import COMPRESSED_SUFFIXES
from kfmt_cli.core.urls import format_display_name, is_local, normalize_path
from kfmt_cli.disk.directory_listing import (
    DirectoryListing,
    classify_file,
    is_remote_log_name,
    walk_directories,
)
from kfmt_cli.disk.file_access import is_directory, is_file, path_exists
from kfmt_cli.disk.file_names import (
    MANIFEST_SUFFIX,
    is_compressed_segment_name,
    parse_topic_partition,
)
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.mounts import MOUNTS
from kfmt_cli.errors import InputError

if TYPE_CHECKING:
    from kfmt_cli.disk.object_stores import ObjectStoreTree
    from kfmt_cli.disk.tiered import TieredStorageTree

ARCHIVE_SUFFIXES = (
    ".tar",
    ".tar.gz",
    ".tgz",
    ".tar.zst",
    ".tar.lz4",
    ".tar.bz2",
    ".tar.xz",
    ".zip",
)
RSM_PRIVATE_KEY_PATH: ContextVar[str | None] = ContextVar("rsm_private_key", default=None)
"""The path of the private key for encrypted segments in this run."""


def read_private_key() -> bytes | None:
    """The bytes of the private key file, None without one; raises UsageError."""
    from kfmt_cli.disk.tiered_keys import read_key_file

    path = RSM_PRIVATE_KEY_PATH.get()
    return None if path is None else read_key_file(path)


def mount_and_resolve_path(path: str) -> str:
    """Mount the trees that a path leads to; returns the path in its display form. Raises
    InputError."""
    path = normalize_path(path)
    if os.sep not in path and not path_exists(path) and _has_compressed_file(path):
        path = f"{os.curdir}{os.sep}{path}"  # its tree is mounted at the directory
    if not is_local(path):
        store, subpath = _mount_store(path)
        store.load_listing(subpath)
        if not path_exists(path) and (log_directory_path := _log_directory_path(subpath)):
            store.load_listing(log_directory_path)  # the partition may be in tiered storage
    while (archive_path := _find_archive_path(path)) is not None and MOUNTS.mounted_tree(
        archive_path
    ) is None:
        from kfmt_cli.disk.archive import ArchiveTree

        if os.pardir in PurePath(path[len(archive_path) :]).parts:
            raise InputError(
                f"{format_display_name(path)}: points outside {format_display_name(archive_path)}"
            )
        MOUNTS.add_tree(ArchiveTree(archive_path, *MOUNTS.tree_and_subpath(archive_path)))
    nearest_directory = _nearest_directory(path)
    if nearest_directory is not None and _may_be_compressed_or_tiered(path, nearest_directory):
        list_broker_directories(nearest_directory, lambda _: None)
    return path


def _mount_store(url: str) -> tuple[ObjectStoreTree, str]:
    """The tree of a URL's scheme, mounted if necessary, and the subpath in it."""
    from kfmt_cli.disk.object_stores import ObjectStoreTree

    url_scheme, _, subpath = url.partition("://")
    store = MOUNTS.mounted_tree(f"{url_scheme}:")
    if not isinstance(store, ObjectStoreTree):
        store = ObjectStoreTree(f"{url_scheme}:")
        MOUNTS.add_tree(store)
    return store, subpath


def resolve_input_file(path: str) -> InputFile:
    """The file at a path; for a segment in tiered storage, its log. Raises InputError."""
    base_path = path.removesuffix(".log")
    if not (is_remote_log_name(PurePath(path).name) and is_file(base_path + MANIFEST_SUFFIX)):
        return classify_file(path, path)
    log_subpath = _mount_tiered_storage(path).assemble_segment(
        base_path, format_display_name(base_path)
    )
    return classify_file(f"{path}/{log_subpath}", path)


def _mount_tiered_storage(path: str) -> TieredStorageTree:
    """The tiered storage at a path, mounted if necessary; raises UsageError."""
    from kfmt_cli.disk.tiered import TieredStorageTree
    from kfmt_cli.disk.tiered_keys import PrivateKey

    tree = MOUNTS.mounted_tree(path)
    if not isinstance(tree, TieredStorageTree):
        key_path = RSM_PRIVATE_KEY_PATH.get()
        private_key = None if key_path is None else PrivateKey.from_file(key_path)
        tree = TieredStorageTree(path, *MOUNTS.tree_and_subpath(path), private_key)
        MOUNTS.add_tree(tree)
    return tree


def list_broker_directories(path: str, on_error: Callable[[str], None]) -> list[DirectoryListing]:
    """A directory and those under it as on a broker's disk: files compressed as a whole are
    unpacked, and segments in tiered storage are assembled. on_error: receives messages about
    unreadable directories. Raises InputError, UsageError."""
    directories = walk_directories(path, on_error)
    if any(any(map(is_compressed_segment_name, directory.files)) for directory in directories):
        from kfmt_cli.disk.compressed import CompressedFilesOverlay
        from kfmt_cli.disk.unpacked_files import create_scratch_directory

        MOUNTS.add_tree(
            CompressedFilesOverlay(path, *MOUNTS.tree_and_subpath(path), create_scratch_directory())
        )
        directories = walk_directories(path, on_error)
    tiered_directories = [
        directory
        for directory in directories
        if any(file_name.endswith(MANIFEST_SUFFIX) for file_name in directory.files)
    ]
    if not tiered_directories:
        return directories
    tiered_tree = _mount_tiered_storage(path)
    if tiered_tree.is_empty:
        for directory in tiered_directories:
            tiered_tree.assemble_segments(directory)
    other_directories = [
        directory for directory in directories if directory not in tiered_directories
    ]
    tiered_tree.has_only_tiered_segments = not any(
        directory.has_broker_files for directory in other_directories
    )
    return [
        *(() if tiered_tree.has_only_tiered_segments else other_directories),
        *walk_directories(path, on_error, tiered_tree.list_assembled_entries),
    ]


def prepare_listable_path(path: str) -> str:
    """The display form of a path, prepared so that listing it shows files as on a broker's disk;
    raises InputError, UsageError."""
    path = mount_and_resolve_path(path)
    if is_directory(path):
        list_broker_directories(path, lambda _: None)
    return path


def problem_messages(path: str) -> list[str]:
    """Messages about unreadable files at or below a path, besides those of its listing."""
    tree_and_subpath = MOUNTS.find_tree_and_subpath(path)
    return (
        []
        if tree_and_subpath is None
        else tree_and_subpath[0].problem_messages(tree_and_subpath[1])
    )


def is_tiered(path: str) -> bool:
    """Whether a file or directory was assembled from tiered storage."""
    tree_and_subpath = MOUNTS.find_tree_and_subpath(path)
    return tree_and_subpath is not None and tree_and_subpath[0].is_tiered(tree_and_subpath[1])


def is_compressed_or_chunked(path: str) -> bool:
    """Whether files of a directory are stored compressed or in chunks."""
    tree_and_subpath = MOUNTS.find_tree_and_subpath(path)
    return tree_and_subpath is not None and tree_and_subpath[0].is_compressed_or_chunked(
        tree_and_subpath[1]
    )


def _log_directory_path(path: str) -> str:
    """The parent of the partition directory that a path leads to or into; empty for other paths."""
    for partition_path in (PurePath(path), PurePath(path).parent):
        if parse_topic_partition(partition_path.name)[0] is not None:
            return str(partition_path.parent).removeprefix(os.curdir)
    return ""


def _nearest_directory(path: str) -> str | None:
    """The nearest existing directory above a path that does not exist; None for other paths."""
    parent = path
    while parent and not path_exists(parent):
        parent = parent.rstrip(os.sep).rpartition(os.sep)[0]
    return parent if parent not in ("", path) and is_directory(parent) else None


def _may_be_compressed_or_tiered(path: str, nearest_directory: str) -> bool:
    """Whether a missing path may be stored in another form: a file compressed as a whole, or a
    partition in tiered storage. nearest_directory: the nearest existing directory above it."""
    first_component, _, deeper_subpath = (
        path[len(nearest_directory) :].strip(os.sep).partition(os.sep)
    )
    if not deeper_subpath and _has_compressed_file(path):
        return True
    if parse_topic_partition(first_component)[0] is None:
        return False
    file_names = (
        file_name
        for directory in walk_directories(nearest_directory, lambda _: None)
        for file_name in directory.files
    )
    return any(file_name.endswith(MANIFEST_SUFFIX) for file_name in file_names)


def _has_compressed_file(path: str) -> bool:
    """Whether the file at a path exists compressed as a whole."""
    compressed_paths = (path + suffix for suffix in COMPRESSED_SUFFIXES)
    return any(
        is_compressed_segment_name(PurePath(compressed_path).name) and path_exists(compressed_path)
        for compressed_path in compressed_paths
    )


def _find_archive_path(path: str) -> str | None:
    """The part of a path that is an archive, or None."""
    if not any(suffix in path for suffix in ARCHIVE_SUFFIXES):
        return None
    candidate_path = path.rstrip(os.sep)
    is_unlisted = not is_local(path) and not path_exists(path)
    while candidate_path:
        if candidate_path.endswith(ARCHIVE_SUFFIXES):
            if is_unlisted and candidate_path != path:
                store, subpath = _mount_store(candidate_path)
                store.load_object_entry(subpath)
            if is_file(candidate_path):
                return candidate_path
        candidate_path = candidate_path.rpartition(os.sep)[0]
    return None
