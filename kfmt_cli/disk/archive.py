"""Unpack archives; files keep their times, and holes stay holes."""

from __future__ import annotations

import bz2
import lzma
import os
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from kfmt_cli.core.packed import packed_suffix, reader
from kfmt_cli.core.source import file_at
from kfmt_cli.disk.names import is_packed
from kfmt_cli.disk.tree import UNPACKED_FILES, printable
from kfmt_cli.errors import InputError

_OTHERS: dict[str, Any] = {".bz2": bz2.open, ".xz": lzma.open}
PIECE = 1 << 20
_ZEROS = bytes(PIECE)

Member = tuple[str, float, IO[bytes]]
"""The name of a file in an archive, its time in seconds, and its bytes."""


def unpack(archive: str, to: str) -> None:
    """Unpack an archive into a directory; raises InputError."""
    try:
        links: dict[str, str] = {}
        for name, at, content in _members(archive, links):
            _write(Path(to) / name, at, content)
        _link(Path(to), links)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{printable(archive)}: truncated or corrupt archive: {error}") from error
    except (RuntimeError, NotImplementedError) as error:  # encrypted, or an unsupported method
        raise InputError(f"{printable(archive)}: cannot be read: {error}") from error
    except OSError as error:
        words = f"cannot unpack into {tempfile.gettempdir()} (set TMPDIR to change it)"
        why = error.strerror or "its data is corrupt"
        raise InputError(f"{printable(archive)}: {words}: {why}") from error


def unpack_files(top: str, to: str) -> None:
    """Link the files of a directory into another, unpacking those compressed as a whole; raises
    InputError."""
    for folder, folders, files in os.walk(top):
        here = Path(to) / os.path.relpath(folder, top)
        folders.sort()
        try:
            here.mkdir(exist_ok=True)
            for name in files:
                path = Path(folder).absolute() / name
                suffix = packed_suffix(name)
                plain = name.removesuffix(suffix)
                if not is_packed(name):
                    (here / name).symlink_to(path)
                elif plain not in files:
                    UNPACKED_FILES[str(here / plain)] = os.path.join(folder, name)  # noqa: PTH118 (as given)
                    with file_at(str(path)) as packed:
                        stream = _Stream(reader(packed, suffix, printable(str(path))))
                        _write(here / plain, path.stat().st_mtime, cast(IO[bytes], stream))
        except (EOFError, zlib.error) as error:
            raise InputError(f"{printable(folder)}: {name}: incomplete: {error}") from error
        except OSError as error:
            words = f"cannot unpack into {tempfile.gettempdir()} (set TMPDIR to change it)"
            why = error.strerror or str(error)
            raise InputError(f"{printable(folder)}: {words}: {why}") from error


def _members(archive: str, links: dict[str, str]) -> Iterator[Member]:
    """The files of an archive, without those outside it and devices. links: receives the names and
    targets of links."""
    if archive.endswith(".zip"):
        with file_at(archive) as file, zipfile.ZipFile(file) as packed:
            for info in packed.infolist():
                if not info.is_dir() and (name := _below(info.filename)):
                    at = time.mktime((*info.date_time, 0, 0, -1))
                    with packed.open(info) as content:
                        yield name, at, content
        return
    suffix = ".gz" if archive.endswith(".tgz") else packed_suffix(archive)
    other = next((opened for end, opened in _OTHERS.items() if archive.endswith(end)), None)
    with file_at(archive) as file:
        source: Any = file if other is None else other(file)
        if suffix:
            source = _Stream(reader(file, suffix, printable(archive)))
        with tarfile.open(fileobj=source, mode="r|", tarinfo=_Header) as tar:
            for member in tar:
                name = _below(member.name)
                if name and member.isreg():
                    yield name, member.mtime, cast(IO[bytes], tar.extractfile(member))
                elif name and (member.islnk() or member.issym()):
                    links[name] = _below(
                        member.linkname
                        if member.islnk()
                        else os.path.normpath(f"{name.rpartition('/')[0]}/{member.linkname}")
                    )
        while source.read(PIECE):  # to verify the checksum at its end
            pass


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


class _Stream:
    """Decompressed bytes as a file that can only be read sequentially."""

    def __init__(self, read: Any) -> None:
        self.read = read


def _below(name: str) -> str:
    """A relative path inside the archive; empty for a name that points outside."""
    parts = [part for part in PurePosixPath(name).parts if part not in ("/", ".")]
    return "" if ".." in parts else "/".join(parts)


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


def _write(path: Path, at: float, content: IO[bytes]) -> None:
    """Write a file with its time; pages of zeros become holes, as indexes are mostly zeros."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        while piece := content.read(PIECE):
            if piece == _ZEROS[: len(piece)]:
                out.seek(len(piece), os.SEEK_CUR)
            else:
                out.write(piece)
        out.truncate(out.tell())
    os.utime(path, (at, at))
