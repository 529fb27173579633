"""Archives as directories, unpacked when something in them is asked for; files keep their times,
and holes stay holes."""

from __future__ import annotations

import bz2
import errno
import lzma
import os
import stat
import struct
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import IO, Any, cast

from kfmt_cli.core.compressed_files import packed_suffix, reader
from kfmt_cli.core.source import Source, as_file
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.trees import Tree, Trouble, path_in, told_of
from kfmt_cli.errors import InputError

_OTHERS: dict[str, Any] = {".bz2": bz2.open, ".xz": lzma.open}
# Errors of a name in an archive, as of one that is also the name of a directory.
_OF_NAMES = frozenset({errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG})
# The last two are what zipfile raises for some fields, such as a name that is not UTF-8.
_CORRUPT = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError),
    *(struct.error, ValueError),
)
PIECE = 1 << 20
_ZEROS = bytes(PIECE)
_ENCRYPTED = 1  # a bit of a file's flags
_LONGEST = 4096  # bytes of the target of a link
_LATEST = 1 << 33  # seconds
_MOST_SPARSE = 1 << 33  # bytes of a file with holes, which take time to read

Member = tuple[str, float, IO[bytes]]
"""The name of a file in an archive, its time in seconds, and its bytes."""


@dataclass(slots=True)
class Archive(Tree):
    """The archive at a path. stored: the tree that has it, at the path `top` in it."""

    stored: Tree
    top: str
    _unpacked: tuple[int, int] | None = None
    """The size and time of the file that was unpacked."""
    _folder: str = ""
    _trouble: InputError | None = None
    """Why it cannot be read."""
    _left_out: list[Trouble] = field(default_factory=list)

    def real(self, below: str) -> str:
        if self._trouble is not None:
            raise self._trouble
        if not self._folder:
            self._unpacked = self._version()
            folder = scratch()
            try:
                self._left_out = _unpack(self.path, self._file, folder)
            except InputError as error:
                self._trouble = error
                raise
            self._folder = folder
        return path_in(self._folder, below)

    def is_current(self) -> bool:
        return self._unpacked == self._version()

    def _version(self) -> tuple[int, int] | None:
        try:
            status = self.stored.status(self.top)
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns

    def _file(self) -> Source:
        return self.stored.opened(self.top)

    def troubles(self, below: str) -> list[str]:
        return told_of(self._left_out, below)


def scratch() -> str:
    """A temporary directory that is deleted when the process ends."""
    import atexit
    import shutil

    from kfmt_cli.core.claims import claim_scratch

    claim = claim_scratch()

    def remove() -> None:
        shutil.rmtree(claim.inside, ignore_errors=True)
        claim.give_up()  # also of files created meanwhile

    atexit.register(remove)
    return str(claim.inside)


def _unpack(archive: str, opened: Callable[[], Source], to: str) -> list[Trouble]:
    """Unpack an archive into a directory; the members that are left out, with reasons. Raises
    InputError."""
    shown = name_text(archive)
    found = _Contents()
    try:
        for name, at, content in _members(archive, opened, found):
            write_file(Path(to) / name, at, content)
        _link(Path(to), found.links)
    except _CORRUPT as error:
        raise InputError(f"{shown}: truncated or corrupt archive: {error}") from error
    except (RuntimeError, NotImplementedError) as error:  # encrypted, or an unsupported method
        raise InputError(f"{shown}: cannot be read: {error}") from error
    except OSError as error:
        raise InputError(f"{shown}: {_unpacking(error, to)}") from error
    return found.troubles


def _unpacking(error: OSError, to: str) -> str:
    """Why an archive cannot be unpacked: its data, a name in it, or the directory for it."""
    if error.errno is None:
        return "its data is corrupt"
    if error.errno in _OF_NAMES and isinstance(error.filename, str | os.PathLike):
        name = os.path.relpath(error.filename, to)
        return f"{name_text(name)}: cannot be unpacked: {error.strerror}"
    return f"{unpacking_words()}: {error.strerror}"


def unpacking_words() -> str:
    """Where files cannot be unpacked, and what to do."""
    return f"cannot unpack into {tempfile.gettempdir()} (set TMPDIR to change it)"


@dataclass(slots=True)
class _Contents:
    """What an archive has besides files."""

    links: dict[str, str] = field(default_factory=dict)
    """Names and targets of links."""
    troubles: list[Trouble] = field(default_factory=list)
    """Members that are left out, with reasons."""


def _members(archive: str, opened: Callable[[], Source], found: _Contents) -> Iterator[Member]:
    """The files of an archive, without devices, and without those outside it, which are named."""
    with as_file(opened()) as file:
        if archive.endswith(".zip"):
            yield from _of_zip(file, name_text(archive), found)
            return
        suffix = ".gz" if archive.endswith(".tgz") else packed_suffix(archive)
        other = next((opened for end, opened in _OTHERS.items() if archive.endswith(end)), None)
        source: Any = file if other is None else other(file)
        if suffix:
            source = SimpleNamespace(read=reader(file, suffix, name_text(archive)))
        yield from _of_tar(source, name_text(archive), found)
        while source.read(PIECE):  # to verify the checksum at its end
            pass


def _of_zip(file: Any, archive: str, found: _Contents) -> Iterator[Member]:
    with zipfile.ZipFile(file) as packed:
        for info in packed.infolist():
            if not info.filename:
                found.troubles.append(("", f"{archive}: a member without a name, skipped"))
                continue
            name = _named(info.filename, archive, found)
            if info.is_dir() or not name:
                continue
            if info.flag_bits & _ENCRYPTED:
                raise RuntimeError(f"{name_text(name)} is encrypted")
            with packed.open(info) as content:
                if stat.S_ISLNK(info.external_attr >> 16):
                    target = os.fsdecode(content.read(_LONGEST))
                    found.links[name] = _target(name, target)
                else:
                    yield name, _zip_time(info), content


def _of_tar(source: Any, archive: str, found: _Contents) -> Iterator[Member]:
    with tarfile.open(fileobj=source, mode="r|", tarinfo=_Header) as tar:
        for member in tar:
            name = _named(member.name, archive, found)
            if name and member.isreg():
                if member.sparse and member.size > _MOST_SPARSE:
                    words = f"sparse file of {member.size} bytes, skipped"
                    found.troubles.append((name, f"{archive}: {name_text(name)}: {words}"))
                    continue
                yield name, member.mtime, cast(IO[bytes], tar.extractfile(member))
            elif name and member.islnk():
                found.links[name] = _below(member.linkname)
            elif name and member.issym():
                found.links[name] = _target(name, member.linkname)


def _named(name: str, archive: str, found: _Contents) -> str:
    """The path of a member inside the archive; empty for one outside, which is named."""
    below = _below(name)
    if not below and PurePosixPath(name).name:
        words = f"{archive}: {name_text(name)}: points outside the archive, skipped"
        found.troubles.append(("", words))
    return below


class _Header(tarfile.TarInfo):
    """A header that must be valid: tarfile treats a damaged one as the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile_: Any) -> Any:
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"a header is missing or damaged: {error}") from error


def _below(name: str) -> str:
    """A relative path inside the archive; empty for a name that points outside."""
    parts = [part for part in PurePosixPath(name).parts if part not in ("/", ".")]
    return "" if ".." in parts or "\0" in name else "/".join(parts)


def _target(name: str, link: str) -> str:
    """The file that a symbolic link of an archive points to; empty outside the archive."""
    return _below(os.path.normpath(f"{name.rpartition('/')[0]}/{link}"))


def _zip_time(info: zipfile.ZipInfo) -> float:
    """The time of a file; 0 if it is not valid."""
    try:
        return time.mktime((*info.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return 0.0


def _link(top: Path, links: dict[str, str]) -> None:
    """Create links to files in the archive as hard links."""
    for name, target in links.items():
        seen = {name}
        found = target
        while found in links and found not in seen:
            seen.add(found)
            found = links[found]
        if found and (top / found).is_file() and not (top / name).exists():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).hardlink_to(top / found)


def write_file(path: Path, at: float, content: IO[bytes]) -> None:
    """Write a file with its time; pages of zeros become holes, as indexes are mostly zeros."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        while piece := content.read(PIECE):
            if piece == _ZEROS[: len(piece)]:
                out.seek(len(piece), os.SEEK_CUR)
            else:
                out.write(piece)
        out.truncate(out.tell())
    # Any number may be in a header.
    at = at if 0 <= at < _LATEST else 0.0
    os.utime(path, (at, at))
