"""Paths to data that is not on the disk in a broker's form: archives, tiered storage, URLs.

Reading a broker's directory takes many files at once, so a stream of them is not enough. They are
created in a temporary directory and shown by the path given. The copies are deleted when the
process ends.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from kfmt_cli.core.credentials import without_credentials
from kfmt_cli.core.placeholders import COPIES, is_elsewhere
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.disk.names import MANIFEST, STORED_STEM, has_other_form, is_packed
from kfmt_cli.disk.tree import Folder, is_folder, printable, walk
from kfmt_cli.errors import InputError, UsageError

if TYPE_CHECKING:
    from kfmt_cli.disk.tiered import Bucket

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.lz4", ".tar.bz2", ".tar.xz", ".zip")
RSM_PRIVATE_KEY: ContextVar[str | None] = ContextVar("rsm_private_key", default=None)
"""The file with the private key for encrypted segments that this run reads."""


def made_of(path: str) -> str:
    """The path itself, or that of a temporary copy of a URL, of an archive, of a segment in tiered
    storage, or of what is in one of them; raises InputError, UsageError."""
    path = without_credentials(path)
    if not is_local(path):
        from kfmt_cli.disk.remote import placed

        return made_of(placed(path.rstrip("/"), _temporary))
    path = _plain(local(path))
    archive = _archive_in(path)
    if archive is not None:
        return made_of(_inside(archive, path) or _unpacked_archive(archive, path))
    if manifest_of(Path(path)) is not None:
        return _inside(path, path) or _one_segment(path)
    above = _directory_above(path)
    if above is None:
        return path
    known = _inside(above, path)
    if known is None and (folders := _stored(walk(above, lambda _: None))):
        known = put_together(above, folders) + path[len(above) :]
    return known or path


def _inside(source: str, path: str) -> str | None:
    """The path in the temporary copy of `source`, if there is one; raises InputError for a path
    that leads out of it."""
    if os.pardir in Path(path[len(source) :]).parts:
        raise InputError(f"{printable(path)}: points outside {printable(source)}")
    copy = COPIES.of(source)
    return None if copy is None else copy.path + path[len(source) :]


def _unpacked_archive(archive: str, path: str) -> str:
    from kfmt_cli.disk.archive import unpack

    folder = _temporary()
    COPIES.add(folder, archive).troubles[folder] = unpack(archive, folder)
    return folder + path[len(archive) :]


def _stored(folders: Iterable[Folder]) -> list[Folder]:
    """The directories with segments in tiered storage."""
    return [folder for folder in folders if any(map(_is_manifest, folder.files))]


def _is_manifest(name: str) -> bool:
    return name.endswith(MANIFEST)


def _bucket(folder: str) -> Bucket:
    """A bucket that puts its segments together in a temporary directory."""
    from kfmt_cli.disk.tiered import Bucket
    from kfmt_cli.disk.tiered_keys import PrivateKey

    key = RSM_PRIVATE_KEY.get()
    return Bucket(Path(folder), None if key is None else PrivateKey.at(key))


def _one_segment(path: str) -> str:
    """The log of a segment in tiered storage; raises InputError."""
    bucket = _bucket(_temporary())
    stem = path.removesuffix(".log")
    log = bucket.segment(Path(stem), printable(stem))
    if log is None:
        raise InputError(bucket.troubles[0])
    COPIES.add(str(log), path, bucket.opened).is_tiered = True
    return str(log)


def put_together(top: str, folders: Iterable[Folder]) -> str:
    """A temporary log directory with the segments of directories in tiered storage below `top`;
    raises UsageError."""
    top = top.rstrip(os.sep) or top
    if (known := _inside(top, top)) is not None:
        return known
    folder = _temporary()
    bucket = _bucket(folder)
    copy = COPIES.add(folder, top, bucket.opened)
    copy.is_tiered, copy.troubles[folder] = True, bucket.troubles
    for stored in folders:
        bucket.take(stored)
    return folder


def in_brokers_form(top: str, folders: list[Folder]) -> tuple[str | None, list[Folder]]:
    """Another directory to read, and which of these to read as they are. None if all are.

    Files compressed as a whole are unpacked, with links to all others; segments in tiered storage
    are put together. top: the directory of these. Raises InputError, UsageError.
    """
    if not any(has_other_form(folder.files) for folder in folders):
        return None, folders
    if any(map(is_packed, chain.from_iterable(folder.files for folder in folders))):
        return _unpacked(top), []
    stored = _stored(folders)
    rest = [folder for folder in folders if folder not in stored]
    is_mixed = any(any(map(folder.takes, folder.files)) for folder in rest)
    return put_together(top, stored), rest if is_mixed else []


def is_tiered(folder: Folder) -> bool:
    """Whether a directory has been put together from tiered storage."""
    return COPIES.is_tiered(folder.path)


def listed_form(path: str) -> str:
    """The path whose listing has what a broker has at this one; raises InputError, UsageError."""
    if not is_folder(path):
        return path
    made, rest = in_brokers_form(path, walk(path, lambda _: None))
    if made is None or not rest:
        return made or path
    if is_elsewhere(path):
        words = "has broker directories next to tiered storage; name them one by one"
        raise UsageError(f"{printable(path)}: {words}")
    return path  # a listing takes segments of tiered storage as they are


def _unpacked(path: str) -> str:
    """A copy of a directory, with files compressed as a whole unpacked; raises InputError."""
    from kfmt_cli.disk.archive import unpack_files

    path = path.rstrip(os.sep) or path
    if (known := _inside(path, path)) is not None:
        return known
    folder = _temporary()
    copy = COPIES.add(folder, path)
    copy.troubles[folder] = unpack_files(path, folder, copy.files)
    return folder


def _plain(path: str) -> str:
    """A path without redundant slashes, because names are compared as written."""
    short = re.sub(f"{re.escape(os.sep)}+", lambda _: os.sep, path)
    return short.rstrip(os.sep) or short


def _temporary() -> str:
    import atexit
    import shutil

    from kfmt_cli.core.claims import claim_scratch

    claim = claim_scratch()

    def take_away() -> None:
        shutil.rmtree(claim.inside, ignore_errors=True)
        claim.give_up()  # also of files created meanwhile

    atexit.register(take_away)
    return str(claim.inside)


def _directory_above(path: str) -> str | None:
    """The nearest directory above a path where there is nothing; None for other paths."""
    found = path
    while found and not os.path.lexists(found):
        found = found.rstrip(os.sep).rpartition(os.sep)[0]
    is_above = found not in ("", path) and os.path.isdir(found)  # noqa: PTH112 (text, as it was given)
    return found if is_above else None


def _archive_in(path: str) -> str | None:
    """The part of a path that is an archive, or None."""
    if not any(suffix in path for suffix in ARCHIVES):
        return None
    found = path.rstrip(os.sep)
    while found:
        if found.endswith(ARCHIVES):
            with suppress(OSError):
                if stat.S_ISREG(os.stat(found).st_mode):  # noqa: PTH116 (text, as it was given)
                    return found
        found = found.rpartition(os.sep)[0]
    return None


def manifest_of(path: Path) -> Path | None:
    """The manifest of a segment's log, or None."""
    if path.suffix != ".log" or not STORED_STEM.match(path.stem):
        return None
    manifest = path.with_suffix(MANIFEST)
    return manifest if manifest.is_file() else None
