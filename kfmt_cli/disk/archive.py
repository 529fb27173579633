"""Archives as directories, unpacked on first access. Files keep their times and their holes."""

from __future__ import annotations

import bz2
import errno
import lzma
import os
import stat
import struct
import tarfile
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
from kfmt_cli.disk.mounts import (
    DirectoryEntries,
    FileTree,
    ReadProblem,
    join_subpath,
    list_disk_entries,
    messages_under_path,
    open_disk_source,
)
from kfmt_cli.disk.unpacked_files import (
    READ_CHUNK_BYTES,
    UnreadableTailSource,
    create_scratch_directory,
    mark_unreadable_tail,
    unpack_failure_text,
    write_sparse_file,
)
from kfmt_cli.errors import InputError

_OPENER_BY_SUFFIX: dict[str, Any] = {".bz2": bz2.open, ".xz": lzma.open}
# Errors caused by a member's name, such as a file with the name of a directory.
_NAME_ERRNOS = frozenset({errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG})
# zipfile raises the last two for some invalid fields, such as a name that is not UTF-8.
_CORRUPT_ERRORS = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError),
    *(struct.error, ValueError),
)
_ENCRYPTED_FLAG = 1  # a bit of a zip member's flags
_MAX_LINK_TARGET_BYTES = 4096
_MAX_PADDING_BYTES = 4 * READ_CHUNK_BYTES
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
    _unpacked: _UnpackedMembers | None = None

    def local_path(self, subpath: str) -> str | None:
        unpacked_path = self._unpacked_path(subpath)
        is_partial = self._unpacked is not None and subpath in self._unpacked.error_by_path
        return None if is_partial else unpacked_path

    def list_entries(self, subpath: str) -> DirectoryEntries:
        return list_disk_entries(self._unpacked_path(subpath))

    def stat(self, subpath: str) -> os.stat_result:
        return os.stat(self._unpacked_path(subpath))  # noqa: PTH116 (text)

    def open_source(self, subpath: str) -> Source:
        display_name = join_subpath(self.mount_point, subpath)
        source = open_disk_source(self._unpacked_path(subpath), display_name)
        error = None if self._unpacked is None else self._unpacked.error_by_path.get(subpath)
        return source if error is None else UnreadableTailSource(source, error)

    def _unpacked_path(self, subpath: str) -> str:
        """The path of an unpacked file or directory; unpacks the archive before."""
        if self._error is not None:
            raise self._error
        if not self._scratch_directory:
            self._unpacked_size_and_time = self._archive_size_and_time()
            scratch_directory = create_scratch_directory()
            try:
                self._unpacked = _unpack_archive(
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
        if self._unpacked is None:
            return []
        return [
            *messages_under_path(self._unpacked.problems, subpath),
            *self._unpacked.unread_rest,  # which may have been of any path
        ]


def _unpack_archive(
    archive_path: str, open_archive: Callable[[], Source], target_directory: str
) -> _UnpackedMembers:
    """Unpack an archive into a directory, up to the byte that cannot be read.

    Raises InputError if no member can be read, or the directory cannot be written.
    """
    unpacked = _UnpackedMembers(format_display_name(archive_path))
    n_members = 0
    try:
        for member in _iter_members(archive_path, open_archive, unpacked):
            _unpack_member(member, Path(target_directory), unpacked)
            n_members += 1
        _create_links(Path(target_directory), unpacked.target_by_link)
        error_message = "" if unpacked.read_error is None else str(unpacked.read_error)
    except (InputError, *_CORRUPT_ERRORS) as error:
        error_message = str(unpacked.read_error or error)
        if not n_members:
            error_message = f"truncated or corrupt archive: {error_message}"
    except OSError as error:
        if error.errno is not None:
            raise InputError(
                f"{unpacked.archive_name}: {unpack_failure_text()}: {error.strerror}"
            ) from error
        error_message = f"its data is corrupt: {error}"
    error_message = error_message.removeprefix(f"{unpacked.archive_name}: ")
    if error_message and not n_members:
        raise InputError(f"{unpacked.archive_name}: {error_message}")
    if unpacked.unreadable_members and not n_members:
        raise InputError(unpacked.unreadable_members[0])
    if error_message and not unpacked.unread_rest:
        unpacked.unread_rest.append(
            f"{unpacked.archive_name}: the end of the archive cannot be read: {error_message}"
        )
    return unpacked


def _unpack_member(
    member: ArchiveMember, target_directory: Path, unpacked: _UnpackedMembers
) -> None:
    """Write a member, or the part of it that can be read; raises OSError if the directory cannot be
    written."""
    member_path, modified_seconds, content_file = member
    path = target_directory / member_path
    try:
        write_sparse_file(path, modified_seconds, content_file)
    except (InputError, OSError, *_CORRUPT_ERRORS) as error:
        if isinstance(error, OSError) and _is_about_name(error):
            unpacked.add_problem(member_path, f"cannot be unpacked: {error.strerror}")
            return
        if isinstance(error, OSError) and error.errno is not None:
            raise
        unpacked.add_unread_rest(member_path, str(unpacked.read_error or error))
        mark_unreadable_tail(path, modified_seconds)


def _is_about_name(error: OSError) -> bool:
    """Whether a file cannot be created because of its name, such as that of a directory."""
    return error.errno in _NAME_ERRNOS and isinstance(error.filename, str | os.PathLike)


@dataclass(slots=True)
class _UnpackedMembers:
    """What an archive has, other than whole files."""

    archive_name: str
    """Its name for display."""
    target_by_link: dict[str, str] = field(default_factory=dict)
    """The target of each link, by name."""
    problems: list[ReadProblem] = field(default_factory=list)
    """Members that were skipped or read in part, with reasons."""
    unreadable_members: list[str] = field(default_factory=list)
    """The reasons for completely unreadable members, which are also problems."""
    error_by_path: dict[str, InputError] = field(default_factory=dict)
    """Why the rest of a member cannot be read, by its path."""
    unread_rest: list[str] = field(default_factory=list)
    """Why the rest of a tar, which may have a part of every path, cannot be read."""
    stream: _PaddedStream | None = None
    """The stream of the archive, if it is a tar."""

    @property
    def read_error(self) -> Exception | None:
        """Why the archive could not be read to its end."""
        return None if self.stream is None else self.stream.error

    def add_problem(self, member_path: str, reason: str) -> str:
        """Add a problem with a member; returns its message."""
        message = f"{self.archive_name}: {format_display_name(member_path)}: {reason}"
        self.problems.append((member_path, message))
        return message

    def add_unread_rest(self, member_path: str, reason: str) -> None:
        """Note that a member can be read in part, and in a tar nothing after it."""
        reason = reason.removeprefix(f"{self.archive_name}: ")
        if self.stream is None:
            message = self.add_problem(member_path, f"its end cannot be read: {reason}")
        else:
            member_name = format_display_name(member_path)
            message = (
                f"{self.archive_name}: the end of {member_name}, and what follows it in the "
                f"archive, cannot be read: {reason}"
            )
            self.unread_rest.append(message)
        self.error_by_path[member_path] = InputError(message)


def _iter_members(
    archive_path: str, open_archive: Callable[[], Source], unpacked: _UnpackedMembers
) -> Iterator[ArchiveMember]:
    """The regular files of an archive; adds links, and members that are skipped, to `unpacked`."""
    with open_as_file(open_archive()) as archive_file:
        if archive_path.endswith(".zip"):
            yield from _iter_zip_members(archive_file, unpacked)
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
                read=decompressing_reader(archive_file, compression_suffix, unpacked.archive_name)
            )
        unpacked.stream = _PaddedStream(tar_stream.read)
        yield from _iter_tar_members(unpacked.stream, unpacked)
        while unpacked.stream.read_stored(READ_CHUNK_BYTES):  # to verify the checksum at its end
            pass


class _PaddedStream:
    """A stream that continues with zeros where it ends or cannot be read any more: tarfile would
    withhold what it has read of a file before that. n_bytes: without these zeros."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.error: Exception | None = None
        self.n_bytes = 0
        self._n_padding_bytes = 0

    def read(self, n_bytes: int) -> bytes:
        """The next bytes; raises EOFError far after the end, as a size may be any number."""
        if data := self.read_stored(n_bytes):
            return data
        self._n_padding_bytes += n_bytes
        if self._n_padding_bytes > _MAX_PADDING_BYTES:
            raise EOFError("unexpected end of data")
        return bytes(n_bytes)

    def read_stored(self, n_bytes: int) -> bytes:
        """The next bytes; none at the end or after an error."""
        if self.error is not None:
            return b""
        try:
            data = self._read(n_bytes)
        except (InputError, OSError, *_CORRUPT_ERRORS) as error:
            self.error = error
            return b""
        self.n_bytes += len(data)
        return data


class _TarContent:
    """The bytes of a file in a tar. start: where they begin in the stream."""

    def __init__(self, content_file: IO[bytes], stream: _PaddedStream, start: int) -> None:
        self._content_file, self._stream = content_file, stream
        self._position = start

    def read(self, n_bytes: int) -> bytes:
        """The next bytes; raises EOFError if the stream ends before the file."""
        data = self._content_file.read(n_bytes)
        n_stored = self._stream.n_bytes - self._position
        self._position += len(data)
        if len(data) <= n_stored:
            return data
        if n_stored <= 0:
            raise EOFError("unexpected end of data")
        return data[:n_stored]


def _iter_zip_members(archive_file: Any, unpacked: _UnpackedMembers) -> Iterator[ArchiveMember]:
    with zipfile.ZipFile(archive_file) as zip_file:
        for zip_info in zip_file.infolist():
            if not zip_info.filename:
                unpacked.problems.append(
                    ("", f"{unpacked.archive_name}: a member without a name, skipped")
                )
                continue
            member_path = _member_path(zip_info.filename, unpacked)
            if zip_info.is_dir() or not member_path:
                continue
            expected_crc = zip_info.CRC
            del zip_info.CRC  # zipfile would withhold the last bytes of a file if it does not match
            try:
                content_file = zip_file.open(zip_info)
            except (RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
                is_encrypted = zip_info.flag_bits & _ENCRYPTED_FLAG
                reason = "is encrypted" if is_encrypted else f"cannot be read: {error}"
                unpacked.unreadable_members.append(unpacked.add_problem(member_path, reason))
                continue
            with content_file:
                if stat.S_ISLNK(zip_info.external_attr >> 16):
                    stored_target = os.fsdecode(content_file.read(_MAX_LINK_TARGET_BYTES))
                    unpacked.target_by_link[member_path] = _link_target(member_path, stored_target)
                    continue
                stream = _ChecksummedStream(content_file)
                yield member_path, _zip_modified_seconds(zip_info), cast(IO[bytes], stream)
                if stream.is_at_end and stream.crc != expected_crc:
                    unpacked.add_problem(
                        member_path, "its checksum in the archive does not match its bytes"
                    )


class _ChecksummedStream:
    """A stream with the CRC-32 of the bytes that were read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.crc = 0
        self.is_at_end = False

    def read(self, n_bytes: int) -> bytes:
        data = self._stream.read(n_bytes)
        self.is_at_end = not data
        self.crc = zlib.crc32(data, self.crc)
        return data


def _iter_tar_members(
    tar_stream: _PaddedStream, unpacked: _UnpackedMembers
) -> Iterator[ArchiveMember]:
    with tarfile.open(
        fileobj=cast(Any, tar_stream), mode="r|", tarinfo=_ValidatedTarInfo
    ) as tar_file:
        for member in tar_file:
            member_path = _member_path(member.name, unpacked)
            if member_path and member.isreg():
                if member.sparse and member.size > _MAX_SPARSE_BYTES:
                    unpacked.add_problem(
                        member_path, f"sparse file of {member.size} bytes, skipped"
                    )
                    continue
                content_file = cast(IO[bytes], tar_file.extractfile(member))
                if not member.sparse:
                    content = _TarContent(content_file, tar_stream, member.offset_data)
                    content_file = cast(IO[bytes], content)
                yield member_path, member.mtime, content_file
                if member_path in unpacked.error_by_path:
                    return
            elif member_path and member.islnk():
                unpacked.target_by_link[member_path] = _path_in_archive(member.linkname)
            elif member_path and member.issym():
                unpacked.target_by_link[member_path] = _link_target(member_path, member.linkname)
        if tar_stream.n_bytes < tar_file.offset + tarfile.BLOCKSIZE:
            raise tarfile.ReadError("unexpected end of data")


def _member_path(stored_name: str, unpacked: _UnpackedMembers) -> str:
    """The path of a member inside the archive; empty, with a new problem, if it points outside."""
    member_path = _path_in_archive(stored_name)
    if not member_path and PurePosixPath(stored_name).name:
        message = f"{format_display_name(stored_name)}: points outside the archive, skipped"
        unpacked.problems.append(("", f"{unpacked.archive_name}: {message}"))
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
