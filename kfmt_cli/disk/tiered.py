"""Segments in tiered storage, in the form they would have on a broker's disk.

Aiven's plug-in stores three objects per segment: its log in chunks, which may be compressed and
encrypted; its concatenated indexes; a manifest with the locations of all parts. Source:
`io.aiven.kafka.tieredstorage`, its packages `manifest`, `transform` and `security`.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path, PurePath
from typing import IO, ClassVar

import zstandard

from kfmt_cli.core.parallel import MAX_CONNECTIONS, map_ordered
from kfmt_cli.core.source import BytesSource, Source
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.file_access import open_binary, open_source, stat_path
from kfmt_cli.disk.file_names import (
    MANIFEST_SUFFIX,
    REMOTE_INDEXES_SUFFIX,
    REMOTE_SEGMENT_NAME,
    parse_remote_topic_partition,
)
from kfmt_cli.disk.mounts import (
    DirectoryEntries,
    MemoryListing,
    OverlayTree,
    ReadProblem,
    join_subpath,
    messages_below,
)
from kfmt_cli.disk.tiered_keys import DecryptFunction, PrivateKey
from kfmt_cli.disk.tiered_manifest import (
    ChunkEncoding,
    EncryptionMetadata,
    SegmentIndexLocation,
    SegmentManifest,
    chunk_sizes,
    decompress_zstd,
    parse_manifest,
)
from kfmt_cli.errors import InputError, UnreadableBytesError

LOG_SUFFIX = ".log"
EPOCH_CHECKPOINT_NAME = "leader-epoch-checkpoint"
MAX_POSITION = 1 << 62  # bytes
READ_BYTES = 1 << 20


NamedSourceOpener = Callable[[str, str], Source]
"""Opens a path or a URL; the second argument is its name for display."""


@dataclass(frozen=True, slots=True)
class ChunkedLog:
    """A log in chunks."""

    chunking: ChunkEncoding
    path: str
    """The object that contains the chunks."""
    chunk_ends: list[int]
    """The end of each chunk, in stored bytes."""
    stored_size: int
    """The size of the object; less than the last end if it is truncated."""
    decrypt: DecryptFunction | None
    open_object: NamedSourceOpener = open_source
    modified_ns: int = 0
    """When it was stored, in nanoseconds; 0 if unknown."""

    @property
    def chunk_size(self) -> int:
        """The original size of each chunk but the last."""
        return self.chunking.chunk_index.original_chunk_size

    @property
    def size(self) -> int:
        """The original size of the log, in bytes."""
        total = self.chunking.chunk_index.original_file_size
        return min(total, len(self.chunk_ends) * self.chunk_size)

    @property
    def missing_bytes(self) -> int:
        """The bytes by which the object is too short; negative if it has bytes after the chunks."""
        return (self.chunk_ends[-1] if self.chunk_ends else 0) - self.stored_size

    def read_chunk(self, chunk_index: int, source: Source) -> bytes:
        """A chunk as the broker had it; raises InputError, and UnreadableBytesError if the chunk is
        damaged. source: the object."""
        if self.chunk_ends[chunk_index] > self.stored_size:
            raise self._chunk_error(
                chunk_index, f"is missing: the object is {self.missing_bytes} bytes too short"
            )
        start = self.chunk_ends[chunk_index - 1] if chunk_index else 0
        expected_size = min(self.chunk_size, self.size - chunk_index * self.chunk_size)
        stored_length = self.chunk_ends[chunk_index] - start
        data = source.read_block(start, stored_length, stored_length)
        try:
            if len(data) != stored_length:
                raise InputError(f"is {stored_length - len(data)} bytes too short")
            data = _decrypt(self.chunking.encryption, data, self.decrypt)
            if self.chunking.compression:
                data = decompress_zstd(data, expected_size)
            if len(data) != expected_size:
                raise InputError(f"has {len(data)} bytes instead of {expected_size}")
        except (zstandard.ZstdError, ValueError) as error:
            raise self._chunk_error(chunk_index, f"cannot be decompressed: {error}") from error
        except InputError as error:
            raise self._chunk_error(chunk_index, str(error)) from error
        return data

    def _chunk_error(self, chunk_index: int, reason: str) -> UnreadableBytesError:
        reason = f"chunk {chunk_index} {reason}"
        return UnreadableBytesError(
            f"{format_display_name(self.path)}: {reason}", chunk_index * self.chunk_size, reason
        )


class ChunkedSource(Source):
    """A log in chunks, which are read on demand."""

    def __init__(self, log: ChunkedLog, name: str) -> None:
        self.name = name
        self.size = log.size
        self.unreadable_block_bytes = log.chunk_size
        self._log = log
        self._object_source = log.open_object(log.path, format_display_name(log.path))
        self._cached_chunk: tuple[int, bytes] = -1, b""

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        end, required_end = min(position + length, self._log.size), position + min_length
        chunk_size = self._log.chunk_size
        parts: list[bytes] = []
        while position < end:
            chunk_index, start_in_chunk = divmod(position, chunk_size)
            cached_chunk = self._cached_chunk  # other threads may also read
            if cached_chunk[0] != chunk_index:
                try:
                    cached_chunk = self._cached_chunk = (
                        chunk_index,
                        self._log.read_chunk(chunk_index, self._object_source),
                    )
                except UnreadableBytesError as error:
                    if not parts or position < required_end:
                        error.position = chunk_index * chunk_size  # the byte of the log
                        raise
                    break
            parts.append(cached_chunk[1][start_in_chunk : start_in_chunk + end - position])
            position += len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        self._object_source.close()


@dataclass(frozen=True, slots=True)
class _RemoteSegment:
    """A segment in tiered storage."""

    manifest: SegmentManifest
    log: ChunkedLog
    display_path: str
    index_by_name: dict[str, bytes]
    """By their names on a broker's disk."""
    problems: list[str]
    """The problems with its log and its indexes."""


@dataclass(slots=True)
class TieredStorageTree(OverlayTree):
    """A bucket, a copy of one, or a part of it, as the log directory that it came from."""

    is_remote: ClassVar[bool] = True

    private_key: PrivateKey | None = None
    has_only_segments: bool = False
    """Whether the path has nothing but tiered segments, so that its own files are not listed."""
    _problems: list[ReadProblem] = field(default_factory=list)
    """The problems with unreadable or incomplete objects."""
    _unread_directories: dict[str, str] = field(default_factory=dict)
    """The object directory of each partition with skipped objects, by partition name."""
    _log_by_path: dict[str, ChunkedLog] = field(default_factory=dict)
    _file_by_path: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    """The bytes of the other files, and their times."""
    _origin_by_directory: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The topic id of each partition and the directory of its objects, by its directory."""
    _listing: MemoryListing | None = None

    def list_assembled_entries(self, path: str) -> DirectoryEntries:
        """The entries of an assembled directory; raises OSError."""
        return self._assembled_listing.entries(path[len(self.mount_point) :].strip(os.sep))

    @property
    def _assembled_listing(self) -> MemoryListing:
        if self._listing is None:
            self._listing = MemoryListing()
            self._listing.add_directory("")
            for subpath, log in self._log_by_path.items():
                self._listing.add_file(subpath, log.size, log.modified_ns)
            for subpath, (data, modified_ns) in self._file_by_path.items():
                self._listing.add_file(subpath, len(data), modified_ns)
        return self._listing

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been added."""
        return not self._log_by_path and not self._problems

    def is_tiered(self, subpath: str) -> bool:
        if not subpath:
            return self.has_only_segments
        return (
            subpath in self._origin_by_directory
            or subpath in self._log_by_path
            or subpath in self._file_by_path
        )

    def _exists_underneath(self, subpath: str) -> bool:
        try:
            OverlayTree.stat(self, subpath)
        except OSError:
            return False
        return True

    def list_entries(self, subpath: str) -> DirectoryEntries:
        return (
            self._assembled_listing.entries(subpath)
            if self.is_tiered(subpath)
            else OverlayTree.list_entries(self, subpath)
        )

    def stat(self, subpath: str) -> os.stat_result:
        return (
            self._assembled_listing.status(subpath)
            if self.is_tiered(subpath)
            else OverlayTree.stat(self, subpath)
        )

    def open_source(self, subpath: str) -> Source:
        name = format_display_name(f"{self.mount_point}{os.sep}{subpath}")
        if subpath in self._log_by_path:
            return ChunkedSource(self._log_by_path[subpath], name)
        if subpath in self._file_by_path:
            return BytesSource(self._file_by_path[subpath][0], name)
        return OverlayTree.open_source(self, subpath)

    def local_path(self, subpath: str) -> str | None:
        return None if self.is_tiered(subpath) else OverlayTree.local_path(self, subpath)

    def identity(self, subpath: str) -> str:
        if subpath in self._log_by_path:
            return self._log_by_path[subpath].path
        directory, _, name = subpath.rpartition(os.sep)
        if subpath in self._file_by_path:
            return join_subpath(self._origin_by_directory[directory][1], name)
        return (
            self._origin_by_directory[subpath][1]
            if subpath in self._origin_by_directory
            else OverlayTree.identity(self, subpath)
        )

    def read_problems(self, subpath: str) -> list[str]:
        object_path = self._object_path(subpath)
        return [
            *OverlayTree.read_problems(self, object_path),
            *messages_below(self._problems, object_path),
        ]

    def _object_path(self, subpath: str) -> str:
        """The path of the objects that a log or a partition is assembled from, or would be if they
        were readable."""
        if subpath in self._log_by_path or subpath in self._origin_by_directory:
            return self._subpath(self.identity(subpath).removesuffix(LOG_SUFFIX))
        return self._unread_directories.get(subpath, subpath)

    def _subpath(self, path: str) -> str:
        """The path of an object in this tree."""
        return path.removeprefix(self.mount_point).strip(os.sep)

    def add_directory(self, directory: DirectoryListing) -> None:
        """Assemble every segment in a directory, in order."""
        files = [Path(name) for name in directory.files]
        base_names = [file.stem for file in files if file.suffix == MANIFEST_SUFFIX]
        base_and_display_paths = [
            (f"{directory.path}/{name}", f"{directory.name}/{name}") for name in base_names
        ]
        segments = map_ordered(self._try_read_segment, base_and_display_paths, MAX_CONNECTIONS)
        for (base_path, _), segment in zip(base_and_display_paths, segments, strict=True):
            self._add_files(base_path, segment)
        for file in files:
            is_segment_object = file.suffix in (
                LOG_SUFFIX,
                REMOTE_INDEXES_SUFFIX,
            ) and REMOTE_SEGMENT_NAME.match(file.stem)
            if is_segment_object and file.stem not in base_names:
                message = f"{directory.name}/{file.name}: no manifest, skipped"
                self._add_problem(f"{directory.path}/{file.stem}", message)

    def add_segment(self, base_path: str, display_path: str) -> str:
        """Assemble a segment, and return the path of its log in this tree; raises InputError.

        base_path: the path of its objects without their suffixes. display_path: the same, for
        display.
        """
        if self._log_by_path:
            return next(iter(self._log_by_path))
        log_path = self._add_files(base_path, self._try_read_segment((base_path, display_path)))
        if log_path is None:
            raise InputError(self._problems.pop()[1])
        return log_path

    def _try_read_segment(self, base_and_display_path: tuple[str, str]) -> _RemoteSegment | str:
        """A segment, or the reason why it cannot be read."""
        base_path, display_path = base_and_display_path
        try:
            return self._read_segment(base_path, display_path)
        except InputError as error:
            message = str(error)
            return message if message.startswith(display_path) else f"{display_path}: {message}"
        except OSError as error:
            name = Path(error.filename or "").name
            return f"{display_path}: {name}: {error.strerror}"

    def _read_segment(self, base_path: str, display_path: str) -> _RemoteSegment:
        status = stat_path(f"{base_path}{LOG_SUFFIX}")
        manifest = read_manifest(f"{base_path}{MANIFEST_SUFFIX}")
        log = open_chunked_log(base_path, status.st_size, manifest.chunking, self.private_key)
        log = replace(log, modified_ns=status.st_mtime_ns)
        index_by_name, problems = _read_indexes(manifest, base_path, log.decrypt)
        if log.missing_bytes < 0:
            problems.append("its log has extra bytes after the last chunk")
        return _RemoteSegment(
            manifest,
            log,
            display_path,
            index_by_name,
            [f"{display_path}: {text}" for text in problems],
        )

    def _add_problem(self, base_path: str, message: str) -> None:
        """Add a problem with the objects of a segment."""
        self._problems.append((self._subpath(base_path), message))
        topic, partition = parse_remote_topic_partition(f"{base_path}{LOG_SUFFIX}")
        if topic is not None:
            object_directory = self._subpath(base_path.rpartition(os.sep)[0])
            self._unread_directories.setdefault(f"{topic}-{partition}", object_directory)

    def _add_files(self, base_path: str, segment: _RemoteSegment | str) -> str | None:
        """Add the files of a segment; returns the path of its log, None if it is skipped."""
        if isinstance(segment, str):
            self._add_problem(base_path, segment)
            return None
        segment_id = segment.manifest.remote_log_segment_metadata.remote_log_segment_id
        topic_partition = segment_id.topic_id_partition.topic_partition
        directory = f"{topic_partition.topic}-{topic_partition.partition}"
        topic_id = segment_id.topic_id_partition.topic_id
        object_directory = segment.log.path.rpartition(os.sep)[0]
        # A topic of the same name may have been deleted.
        known_topic_id, _ = self._origin_by_directory.get(directory, (topic_id, object_directory))
        # A broker's own directory may have newer segments.
        if known_topic_id != topic_id or self._exists_underneath(directory):
            directory = join_subpath(self._subpath(object_directory), directory)
        base_offset = _base_offset(PurePath(base_path).name, segment.manifest)
        log_path = f"{directory}/{base_offset:020}{LOG_SUFFIX}"
        if log_path in self._log_by_path:
            existing_path = format_display_name(
                self._log_by_path[log_path].path.removesuffix(LOG_SUFFIX)
            )
            reason = f"{existing_path} has the same base offset; this copy is skipped"
            self._add_problem(base_path, f"{segment.display_path}: {reason}")
            return None
        self._origin_by_directory.setdefault(directory, (topic_id, object_directory))
        self._log_by_path[log_path] = segment.log
        self._listing = None
        for problem in segment.problems:
            self._add_problem(base_path, problem)
        metadata_by_name = {"partition.metadata": f"version: 0\ntopic_id: {topic_id}".encode()}
        for name, data in (metadata_by_name | segment.index_by_name).items():
            path = f"{directory}/{name}"
            if name == EPOCH_CHECKPOINT_NAME and path in self._file_by_path:
                data = _merge_epoch_checkpoints(self._file_by_path[path][0], data)  # noqa: PLW2901
            self._file_by_path[path] = data, segment.log.modified_ns
        return log_path


def read_manifest(path: str, open_object: NamedSourceOpener = open_source) -> SegmentManifest:
    """The manifest at a path or a URL; raises InputError."""
    with closing(open_object(path, format_display_name(path))) as source:
        return parse_manifest(source)


def open_chunked_log(
    base_path: str,
    stored_size: int,
    chunking: ChunkEncoding,
    private_key: PrivateKey | None,
    open_object: NamedSourceOpener = open_source,
) -> ChunkedLog:
    """A log, from its manifest; raises InputError.

    base_path: the path of its objects without their suffixes. stored_size: the size in bytes of the
    object with the chunks. chunking: from its manifest.
    """
    decrypt = None
    if chunking.encryption is not None:
        if private_key is None:
            key_name = chunking.encryption.data_key.rpartition(":")[0]
            message = f"encrypted with key {key_name}; pass --rsm-private-key FILE to read it"
            raise InputError(message)
        decrypt = private_key.unwrap_data_key(chunking.encryption.data_key)
    chunk_ends = list(accumulate(chunk_sizes(chunking)))
    return ChunkedLog(
        chunking, f"{base_path}{LOG_SUFFIX}", chunk_ends, stored_size, decrypt, open_object
    )


def _base_offset(name: str, manifest: SegmentManifest) -> int:
    """The base offset of a segment, from its name or else from its manifest."""
    match = REMOTE_SEGMENT_NAME.match(name)
    return int(match[1]) if match else manifest.remote_log_segment_metadata.start_offset


def _read_indexes(
    manifest: SegmentManifest, base_path: str, decrypt: DecryptFunction | None
) -> tuple[dict[str, bytes], list[str]]:
    """The indexes of a segment, by their names on a broker's disk, and why some are missing."""
    locations = manifest.segment_indexes
    base_offset = _base_offset(PurePath(base_path).name, manifest)
    end_offset = manifest.remote_log_segment_metadata.end_offset + 1
    index_by_name: dict[str, bytes] = {}
    problems: list[str] = []
    location_by_name = {
        f"{base_offset:020}.index": locations.offset,
        f"{base_offset:020}.timeindex": locations.timestamp,
        f"{base_offset:020}.txnindex": locations.transaction,
        f"{end_offset:020}.snapshot": locations.producer_snapshot,
        EPOCH_CHECKPOINT_NAME: locations.leader_epoch,
    }
    try:
        with open_binary(f"{base_path}{REMOTE_INDEXES_SUFFIX}") as file:
            for name, location in location_by_name.items():
                if location is None:
                    continue
                try:
                    data = _read_index(file, location)
                    index_by_name[name] = _decrypt(manifest.encryption, data, decrypt)
                except InputError as error:
                    problems.append(f"{error}; its log is read without {name}")
    except (OSError, InputError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).rpartition(": ")[2]
        problems.append(f"{REMOTE_INDEXES_SUFFIX}: {reason}; its log is read without its indexes")
    return index_by_name, problems


def _decrypt(
    encryption: EncryptionMetadata | None, data: bytes, decrypt: DecryptFunction | None
) -> bytes:
    if decrypt is None or encryption is None:
        return data
    try:
        aad = base64.b64decode(encryption.aad)
    except ValueError as error:
        raise InputError(f"its manifest is malformed: aad: {error}") from error
    return decrypt(data, aad)


def _merge_epoch_checkpoints(left: bytes, right: bytes) -> bytes:
    """Two checkpoints of leader epochs merged: each epoch begins at its lowest offset."""
    start_by_epoch: dict[int, int] = {}
    for data in (left, right):
        for line in data.split(b"\n")[2:]:
            columns = line.split()
            if len(columns) == 2 and all(column.isdigit() for column in columns):
                epoch, start = map(int, columns)
                start_by_epoch[epoch] = min(start, start_by_epoch.get(epoch, start))
    lines = [f"{epoch} {start}" for epoch, start in sorted(start_by_epoch.items())]
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def _read_index(file: IO[bytes], location: SegmentIndexLocation) -> bytes:
    """The bytes of one index; raises InputError if the object has fewer."""
    position = location.position
    if location.size < 0 or not 0 <= position < MAX_POSITION:
        raise InputError(f"its manifest puts an index of {location.size} bytes at {position}")
    file.seek(position)
    chunks: list[bytes] = []
    remaining = location.size
    while remaining > 0 and (chunk := file.read(min(remaining, READ_BYTES))):
        chunks.append(chunk)
        remaining -= len(chunk)
    if remaining:
        raise InputError(f"{Path(file.name).suffix[1:]} is {remaining} bytes too short")
    return b"".join(chunks)
