"""What lies at the paths that a user gives, in the form that a broker has: see `disk/trees.py`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import PurePath
from typing import TYPE_CHECKING

from kfmt_cli.core.compressed_files import PACKED_SUFFIXES
from kfmt_cli.core.urls import is_local, name_text, plain
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.names import MANIFEST, is_packed, place_of
from kfmt_cli.disk.opening import is_file, is_folder, is_there
from kfmt_cli.disk.tree import Folder, classify, is_stored, walk
from kfmt_cli.disk.trees import TREES
from kfmt_cli.errors import InputError

if TYPE_CHECKING:
    from kfmt_cli.disk.remote import Store
    from kfmt_cli.disk.tiered import Bucket

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.lz4", ".tar.bz2", ".tar.xz", ".zip")
RSM_PRIVATE_KEY: ContextVar[str | None] = ContextVar("rsm_private_key", default=None)
"""The file with the private key for encrypted segments that this run reads."""


def private_key_bytes() -> bytes | None:
    """The bytes of that file; raises UsageError."""
    from kfmt_cli.disk.tiered_keys import key_bytes

    path = RSM_PRIVATE_KEY.get()
    return None if path is None else key_bytes(path)


def located(path: str) -> str:
    """The path in the form in which it is shown, once the tree that it leads to is known; raises
    InputError."""
    path = plain(path)
    if os.sep not in path and not is_there(path) and _is_packed_at(path):
        path = f"{os.curdir}{os.sep}{path}"  # its tree begins at the directory
    if not is_local(path):
        store, below = _store_at(path)
        store.find(below)
        if not is_there(path) and (top := _log_directory_of(below)):
            store.find(top)  # the partition may be in tiered storage
    while (archive := _archive_in(path)) is not None and TREES.beginning(archive) is None:
        from kfmt_cli.disk.archive import Archive

        if os.pardir in PurePath(path[len(archive) :]).parts:
            raise InputError(f"{name_text(path)}: points outside {name_text(archive)}")
        TREES.add(Archive(archive, *TREES.stored_at(archive)))
    above = _directory_above(path)
    if above is not None and _has_other_form(path, above):
        folders_at(above, lambda _: None)
    return path


def _store_at(url: str) -> tuple[Store, str]:
    """The stores of a URL's scheme, and the path in them."""
    from kfmt_cli.disk.remote import Store

    scheme, _, below = url.partition("://")
    store = TREES.beginning(f"{scheme}:")
    if not isinstance(store, Store):
        store = Store(f"{scheme}:")
        TREES.add(store)
    return store, below


def file_given(path: str) -> Input:
    """The file at a path; raises InputError. A segment in tiered storage is its log."""
    stem = path.removesuffix(".log")
    if not (is_stored(PurePath(path).name) and is_file(stem + MANIFEST)):
        return classify(path, path)
    log = _bucket(path).segment(stem, name_text(stem))
    return classify(f"{path}/{log}", path)


def _bucket(path: str) -> Bucket:
    """The bucket at a path; raises UsageError."""
    from kfmt_cli.disk.tiered import Bucket
    from kfmt_cli.disk.tiered_keys import PrivateKey

    bucket = TREES.beginning(path)
    if not isinstance(bucket, Bucket):
        key = RSM_PRIVATE_KEY.get()
        its_key = None if key is None else PrivateKey.at(key)
        bucket = Bucket(path, *TREES.stored_at(path), its_key)
        TREES.add(bucket)
    return bucket


def folders_at(path: str, skip: Callable[[str], None]) -> list[Folder]:
    """A directory and those under it as a broker has them: files compressed as a whole are
    unpacked, and segments in tiered storage are put together. skip: receives messages about
    unreadable ones. Raises InputError, UsageError."""
    folders = walk(path, skip)
    if any(any(map(is_packed, folder.files)) for folder in folders):
        from kfmt_cli.disk.archive import scratch
        from kfmt_cli.disk.packed import PackedFiles

        TREES.add(PackedFiles(path, *TREES.stored_at(path), scratch()))
        folders = walk(path, skip)
    stored = [of for of in folders if any(name.endswith(MANIFEST) for name in of.files)]
    if not stored:
        return folders
    bucket = _bucket(path)
    if bucket.is_empty:
        for folder in stored:
            bucket.take(folder)
    rest = [folder for folder in folders if folder not in stored]
    bucket.is_whole = not any(folder.is_of_kafka for folder in rest)
    return [*(() if bucket.is_whole else rest), *walk(path, skip, bucket.listed)]


def listed_form(path: str) -> str:
    """A path whose listing has what a broker has there; raises InputError, UsageError."""
    path = located(path)
    if is_folder(path):
        folders_at(path, lambda _: None)
    return path


def troubles(path: str) -> list[str]:
    """Messages about what cannot be read in a directory besides those of its listing."""
    at = TREES.at(path)
    return [] if at is None else at[0].troubles(at[1])


def is_tiered(path: str) -> bool:
    """Whether a file or a directory has been put together from tiered storage."""
    at = TREES.at(path)
    return at is not None and at[0].is_tiered(at[1])


def is_in_other_form(path: str) -> bool:
    """Whether files of a directory are stored compressed or in chunks."""
    at = TREES.at(path)
    return at is not None and at[0].is_in_other_form(at[1])


def _log_directory_of(path: str) -> str:
    """The directory above that of a partition, which a path leads to or into; else empty."""
    for partition in (PurePath(path), PurePath(path).parent):
        if place_of(partition.name)[0] is not None:
            return str(partition.parent).removeprefix(os.curdir)
    return ""


def _directory_above(path: str) -> str | None:
    """The nearest directory above a path where there is nothing; None for other paths."""
    found = path
    while found and not is_there(found):
        found = found.rstrip(os.sep).rpartition(os.sep)[0]
    return found if found not in ("", path) and is_folder(found) else None


def _has_other_form(path: str, above: str) -> bool:
    """Whether what a path leads to may be stored in another form: a file compressed as a whole, or
    a partition in tiered storage. above: the nearest directory that is there."""
    name, _, below = path[len(above) :].strip(os.sep).partition(os.sep)
    if not below and _is_packed_at(path):
        return True
    if place_of(name)[0] is None:
        return False
    files = (file for folder in walk(above, lambda _: None) for file in folder.files)
    return any(file.endswith(MANIFEST) for file in files)


def _is_packed_at(path: str) -> bool:
    """Whether the file that a path leads to is there compressed as a whole."""
    packed = (path + suffix for suffix in PACKED_SUFFIXES)
    return any(is_packed(PurePath(file).name) and is_there(file) for file in packed)


def _archive_in(path: str) -> str | None:
    """The part of a path that is an archive, or None."""
    if not any(suffix in path for suffix in ARCHIVES):
        return None
    found = path.rstrip(os.sep)
    is_unknown = not is_local(path) and not is_there(path)
    while found:
        if found.endswith(ARCHIVES):
            if is_unknown and found != path:
                store, below = _store_at(found)
                store.find_object(below)
            if is_file(found):
                return found
        found = found.rpartition(os.sep)[0]
    return None
