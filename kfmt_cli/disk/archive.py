"""Archives as directories, unpacked on first access. Files keep their times and their holes."""

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

from kfmt_cli.core.compressed_files import compressed_suffix, decompressing_reader
from kfmt_cli.core.source import Source, open_as_file
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.mounts import FileTree, ReadProblem, join_subpath, messages_under_path
from kfmt_cli.errors import InputError

_OPENER_BY_SUFFIX: dict[str, Any] = {".bz2": bz2.open, ".xz": lzma.open}
# Errors caused by a member's name, such as a file with the name of a directory.
_NAME_ERRNOS = frozenset({errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG})
# zipfile raises the last two for some invalid fields, such as a name that is not UTF-8.
_CORRUPT_ERRORS = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError),
    *(struct.error, ValueError),
)
READ_CHUNK_BYTES = 1 << 20
_ZERO_CHUNK = bytes(READ_CHUNK_BYTES)
_ENCRYPTED_FLAG = 1  # a bit of a zip member's flags
_MAX_LINK_TARGET_BYTES = 4096
_MAX_TIME_SECONDS = 1 << 33
_MAX_SPARSE_BYTES = 1 << 33  # of a file with holes, which take time to read

ArchiveMember = tuple[str, float, IO[bytes]]
"""The name of a file in an archive, its time in seconds, and its bytes."""


@dataclass(slots=True)
class ArchiveTree(FileTree):
    """The archive at a path. underlying: the tree that contains it. underlying_path: its path in
    that tree."""

    underlying: FileTree
    underlying_path: str
    _unpacked_size_and_time: tuple[int, int] | None = None
    """The size and time of the archive file when it was unpacked."""
    _scratch_directory: str = ""
    _error: InputError | None = None
    """Why the archive cannot be read."""
    _problems: list[ReadProblem] = field(default_factory=list)

    def local_path(self, subpath: str) -> str:
        if self._error is not None:
            raise self._error
        if not self._scratch_directory:
            self._unpacked_size_and_time = self._archive_size_and_time()
            scratch_directory = create_scratch_directory()
            try:
                self._problems = _unpack_archive(
                    self.mount_point, self._open_archive, scratch_directory
                )
            except InputError as error:
                self._error = error
                raise
            self._scratch_directory = scratch_directory
        return join_subpath(self._scratch_directory, subpath)

    def is_unchanged(self) -> bool:
        return self._unpacked_size_and_time == self._archive_size_and_time()

    def _archive_size_and_time(self) -> tuple[int, int] | None:
        try:
            status = self.underlying.stat(self.underlying_path)
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns

    def _open_archive(self) -> Source:
        return self.underlying.open_source(self.underlying_path)

    def problem_messages(self, subpath: str) -> list[str]:
        return messages_under_path(self._problems, subpath)


def create_scratch_directory() -> str:
    """A temporary directory that is deleted when the process ends."""
    import atexit
    import shutil

    from kfmt_cli.core.temporary_locks import create_locked_directory

    scratch_lock = create_locked_directory()

    def remove_directory() -> None:
        shutil.rmtree(scratch_lock.files_directory, ignore_errors=True)
        scratch_lock.remove_and_unlock()  # also removes files created meanwhile

    atexit.register(remove_directory)
    return str(scratch_lock.files_directory)


def _unpack_archive(
    archive_path: str, open_archive: Callable[[], Source], target_directory: str
) -> list[ReadProblem]:
    """Unpack an archive into a directory; returns the members that were skipped, with reasons.
    Raises InputError."""
    display_path = format_display_name(archive_path)
    links_and_problems = _LinksAndProblems()
    try:
        for member_path, modified_seconds, content_file in _iter_members(
            archive_path, open_archive, links_and_problems
        ):
            write_sparse_file(Path(target_directory) / member_path, modified_seconds, content_file)
        _create_links(Path(target_directory), links_and_problems.target_by_link)
    except _CORRUPT_ERRORS as error:
        raise InputError(f"{display_path}: truncated or corrupt archive: {error}") from error
    except (RuntimeError, NotImplementedError) as error:  # encrypted, or an unsupported method
        raise InputError(f"{display_path}: cannot be read: {error}") from error
    except OSError as error:
        raise InputError(
            f"{display_path}: {_unpack_error_reason(error, target_directory)}"
        ) from error
    return links_and_problems.problems


def _unpack_error_reason(error: OSError, target_directory: str) -> str:
    """Why an archive cannot be unpacked: its data, a name in it, or the directory for it."""
    if error.errno is None:
        return "its data is corrupt"
    if error.errno in _NAME_ERRNOS and isinstance(error.filename, str | os.PathLike):
        member_path = os.path.relpath(error.filename, target_directory)
        return f"{format_display_name(member_path)}: cannot be unpacked: {error.strerror}"
    return f"{unpack_failure_text()}: {error.strerror}"


def unpack_failure_text() -> str:
    """The message for a failure to unpack: into which directory, and how to change it."""
    return f"cannot unpack into {tempfile.gettempdir()} (set TMPDIR to change it)"


@dataclass(slots=True)
class _LinksAndProblems:
    """The links in an archive, and the problems with its members."""

    target_by_link: dict[str, str] = field(default_factory=dict)
    """The target of each link, by name."""
    problems: list[ReadProblem] = field(default_factory=list)
    """Skipped members, with reasons."""


def _iter_members(
    archive_path: str, open_archive: Callable[[], Source], links_and_problems: _LinksAndProblems
) -> Iterator[ArchiveMember]:
    """The regular files of an archive; adds links, and members that are skipped, to
    `links_and_problems`."""
    with open_as_file(open_archive()) as archive_file:
        if archive_path.endswith(".zip"):
            yield from _iter_zip_members(
                archive_file, format_display_name(archive_path), links_and_problems
            )
            return
        compression_suffix = (
            ".gz" if archive_path.endswith(".tgz") else compressed_suffix(archive_path)
        )
        open_decompressed = next(
            (
                open_file
                for ending, open_file in _OPENER_BY_SUFFIX.items()
                if archive_path.endswith(ending)
            ),
            None,
        )
        tar_stream: Any = (
            archive_file if open_decompressed is None else open_decompressed(archive_file)
        )
        if compression_suffix:
            tar_stream = SimpleNamespace(
                read=decompressing_reader(
                    archive_file, compression_suffix, format_display_name(archive_path)
                )
            )
        yield from _iter_tar_members(
            tar_stream, format_display_name(archive_path), links_and_problems
        )
        while tar_stream.read(READ_CHUNK_BYTES):  # to verify the checksum at its end
            pass


def _iter_zip_members(
    archive_file: Any, archive_name: str, links_and_problems: _LinksAndProblems
) -> Iterator[ArchiveMember]:
    with zipfile.ZipFile(archive_file) as zip_file:
        for zip_info in zip_file.infolist():
            if not zip_info.filename:
                links_and_problems.problems.append(
                    ("", f"{archive_name}: a member without a name, skipped")
                )
                continue
            member_path = _member_path(zip_info.filename, archive_name, links_and_problems)
            if zip_info.is_dir() or not member_path:
                continue
            if zip_info.flag_bits & _ENCRYPTED_FLAG:
                raise RuntimeError(f"{format_display_name(member_path)} is encrypted")
            with zip_file.open(zip_info) as content_file:
                if stat.S_ISLNK(zip_info.external_attr >> 16):
                    stored_target = os.fsdecode(content_file.read(_MAX_LINK_TARGET_BYTES))
                    links_and_problems.target_by_link[member_path] = _link_target(
                        member_path, stored_target
                    )
                else:
                    yield member_path, _zip_modified_seconds(zip_info), content_file


def _iter_tar_members(
    tar_stream: Any, archive_name: str, links_and_problems: _LinksAndProblems
) -> Iterator[ArchiveMember]:
    with tarfile.open(fileobj=tar_stream, mode="r|", tarinfo=_ValidatedTarInfo) as tar_file:
        for member in tar_file:
            member_path = _member_path(member.name, archive_name, links_and_problems)
            if member_path and member.isreg():
                if member.sparse and member.size > _MAX_SPARSE_BYTES:
                    reason = f"sparse file of {member.size} bytes, skipped"
                    links_and_problems.problems.append(
                        (
                            member_path,
                            f"{archive_name}: {format_display_name(member_path)}: {reason}",
                        )
                    )
                    continue
                yield member_path, member.mtime, cast(IO[bytes], tar_file.extractfile(member))
            elif member_path and member.islnk():
                links_and_problems.target_by_link[member_path] = _path_in_archive(member.linkname)
            elif member_path and member.issym():
                links_and_problems.target_by_link[member_path] = _link_target(
                    member_path, member.linkname
                )


def _member_path(stored_name: str, archive_name: str, links_and_problems: _LinksAndProblems) -> str:
    """The path of a member inside the archive; empty, with a new problem, if it points outside."""
    member_path = _path_in_archive(stored_name)
    if not member_path and PurePosixPath(stored_name).name:
        message = (
            f"{archive_name}: {format_display_name(stored_name)}: points outside the "
            "archive, skipped"
        )
        links_and_problems.problems.append(("", message))
    return member_path


class _ValidatedTarInfo(tarfile.TarInfo):
    """A header that must be valid: tarfile treats a damaged one as the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile_: Any) -> Any:
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"a header is missing or damaged: {error}") from error


def _path_in_archive(stored_name: str) -> str:
    """A relative path inside the archive; empty for a name that points outside."""
    path_parts = [
        path_part for path_part in PurePosixPath(stored_name).parts if path_part not in ("/", ".")
    ]
    return "" if ".." in path_parts or "\0" in stored_name else "/".join(path_parts)


def _link_target(link_path: str, stored_target: str) -> str:
    """The file that a symbolic link in an archive points to; empty if it is outside the archive."""
    return _path_in_archive(os.path.normpath(f"{link_path.rpartition('/')[0]}/{stored_target}"))


def _zip_modified_seconds(zip_info: zipfile.ZipInfo) -> float:
    """The time of a file; 0 if it is not valid."""
    try:
        return time.mktime((*zip_info.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return 0.0


def _create_links(target_directory: Path, target_by_link: dict[str, str]) -> None:
    """Create links to files in the archive as hard links."""
    for link_path, target in target_by_link.items():
        visited_paths = {link_path}
        final_target = target
        while final_target in target_by_link and final_target not in visited_paths:
            visited_paths.add(final_target)
            final_target = target_by_link[final_target]
        if (
            final_target
            and (target_directory / final_target).is_file()
            and not (target_directory / link_path).exists()
        ):
            (target_directory / link_path).parent.mkdir(parents=True, exist_ok=True)
            (target_directory / link_path).hardlink_to(target_directory / final_target)


def write_sparse_file(path: Path, modified_seconds: float, content_file: IO[bytes]) -> None:
    """Write a file with its time; pages of zeros become holes, as indexes are mostly zeros."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        while chunk := content_file.read(READ_CHUNK_BYTES):
            if chunk == _ZERO_CHUNK[: len(chunk)]:
                file.seek(len(chunk), os.SEEK_CUR)
            else:
                file.write(chunk)
        file.truncate(file.tell())
    # A header may contain any number.
    modified_seconds = modified_seconds if 0 <= modified_seconds < _MAX_TIME_SECONDS else 0.0
    os.utime(path, (modified_seconds, modified_seconds))
