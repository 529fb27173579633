"""Paths to data that is not on the disk in a broker's form: archives, tiered storage, URLs.

Reading a broker's directory takes many files at once, so a stream of them is not enough. They are
created in a temporary directory and shown by the path given. The copies are deleted when the
process ends.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from kfmt_cli.core.credentials import without_credentials
from kfmt_cli.core.elsewhere import OPENERS
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.disk.names import MANIFEST, STORED_STEM, is_packed
from kfmt_cli.disk.tree import TROUBLES, UNPACKED, classify, is_folder, is_segment, printable
from kfmt_cli.errors import InputError

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.lz4", ".tar.bz2", ".tar.xz", ".zip")
DEPTH = 6  # levels of directories above the objects: a prefix, the topic, the partition
FEW = 3  # directories searched on each level
SOME = 64  # names checked in each directory
# The directories that contain the placeholders of tiered segments.
_TIERED: list[str] = []


def made_of(path: str, key_file: str | None = None) -> str:
    """The path itself, or the temporary copy of a URL, archive, tiered storage or path in one;
    raises InputError, UsageError. key_file: the private key of encrypted data."""
    path = without_credentials(path)
    if not is_local(path):
        from kfmt_cli.disk.remote import placed

        return made_of(placed(path.rstrip("/"), _temporary), key_file)
    path = _plain(local(path))
    archive = _archive_in(path)
    source = archive or _tiered_in(path)
    if source is None and is_folder(path) and has_packed(Path(path)):
        return _unpacked(path)
    if source is None:
        return path
    if os.pardir in Path(path[len(source) :]).parts:
        raise InputError(f"{printable(path)}: points outside {printable(source)}")
    for folder, known in UNPACKED.items():
        if known == source:
            return folder + path[len(source) :]
    folder = _temporary()
    if archive is not None:
        from kfmt_cli.disk.archive import unpack

        UNPACKED[folder] = source
        TROUBLES[folder] = unpack(source, folder)
        return made_of(folder + path[len(source) :], key_file)
    from kfmt_cli.disk.tiered import Bucket
    from kfmt_cli.disk.tiered_keys import PrivateKey

    _TIERED.append(folder)
    bucket = Bucket(Path(folder), None if key_file is None else PrivateKey.at(key_file))
    OPENERS[folder] = bucket.opened
    if manifest_of(Path(source)) is not None:
        stem = source.removesuffix(".log")
        log = bucket.segment(Path(stem), printable(stem))
        if log is None:
            raise InputError(bucket.troubles[0])
        UNPACKED[str(log)] = source
        return str(log)
    UNPACKED[folder] = source
    bucket.take(Path(source), printable(source).rstrip(os.sep))
    TROUBLES[folder] = bucket.troubles
    return folder + path[len(source) :]


def without_doubles(paths: Sequence[str]) -> tuple[str, ...]:
    """Remove placeholders of tiered segments that local logs also contain; returns the same
    paths."""
    given = [folder for folder in _TIERED if any(path.startswith(folder) for path in paths)]
    local = [Path(path) for path in paths if not path.startswith(tuple(given))] if given else []
    for partition in [path for folder in given for path in Path(folder).iterdir()]:
        own = [path if path.name == partition.name else path / partition.name for path in local]
        logs = [classify(str(log), log.name) for path in own for log in path.glob("*.log")]
        bases = [log.base_offset or 0 for log in logs if is_segment(log)]
        for file in list(partition.iterdir()) if bases else ():
            if file.stem.isdigit() and int(file.stem) >= min(bases):
                file.unlink()
    return tuple(paths)


def _unpacked(path: str) -> str:
    """A copy of a directory, with files compressed as a whole unpacked; raises InputError."""
    from kfmt_cli.disk.archive import unpack_files

    for folder, known in UNPACKED.items():
        if known == path:
            return folder
    folder = _temporary()
    UNPACKED[folder] = path
    unpack_files(path, folder)
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


def _tiered_in(path: str) -> str | None:
    """The part of a path that is a directory of tiered storage, or a log in it."""
    if not path:
        return None
    if manifest_of(Path(path)) is not None:
        return path
    found = path
    while found and not os.path.lexists(found):
        found = found.rstrip(os.sep).rpartition(os.sep)[0]
    is_there = found and os.path.isdir(found)  # noqa: PTH112 (text, as it was given)
    return found if is_there and has_manifests(Path(found)) else None


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


def has_manifests(top: Path) -> bool:
    """Whether there is a manifest under a directory; searches only a few directories."""
    return _has(top, lambda name: name.endswith(MANIFEST), DEPTH)


def has_packed(top: Path) -> bool:
    """Whether there is a segment file compressed as a whole under a directory; searches only a few
    directories."""
    return _has(top, is_packed, DEPTH)


def _has(top: Path, is_sought: Callable[[str], bool], depth: int) -> bool:
    folders: list[Path] = []
    try:
        with os.scandir(top) as entries:
            for entry in islice(entries, SOME):
                if is_sought(entry.name):
                    return True
                if len(folders) < FEW and entry.is_dir():
                    folders.append(top / entry.name)
    except OSError:
        return False
    return depth > 0 and any(_has(folder, is_sought, depth - 1) for folder in folders)
