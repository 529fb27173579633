"""Segments in tiered storage, in the form they would have on a broker's disk.

Aiven's plug-in stores three objects per segment: its log in chunks, which may be compressed and
encrypted; its concatenated indexes; a manifest with the locations of all parts. Source:
`io.aiven.kafka.tieredstorage`, its packages `manifest`, `transform` and `security`.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import IO, ClassVar

from kfmt_cli.core.integers import parse_int
from kfmt_cli.core.parallel import MAX_CONNECTIONS, map_ordered
from kfmt_cli.core.source import BytesSource, Source
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.chunked_log import (
    LOG_SUFFIX,
    ChunkedLog,
    ChunkedSource,
    NamedSourceOpener,
    decrypt_if_needed,
    open_chunked_log,
)
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
    messages_under_path,
)
from kfmt_cli.disk.tiered_keys import DecryptFunction, PrivateKey
from kfmt_cli.disk.tiered_manifest import (
    SegmentIndexLocation,
    SegmentManifest,
    parse_manifest,
)
from kfmt_cli.errors import InputError

EPOCH_CHECKPOINT_NAME = "leader-epoch-checkpoint"
MAX_POSITION = 1 << 62  # bytes
READ_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _RemoteSegment:
    """A segment in tiered storage."""

    manifest: SegmentManifest
    log: ChunkedLog
    display_path: str
    index_bytes_by_name: dict[str, bytes]
    """By their names on a broker's disk."""
    problems: list[str]
    """The problems with its log and its indexes."""


@dataclass(slots=True)
class TieredStorageTree(OverlayTree):
    """A bucket, a copy of one, or a part of it, as the log directory that it came from."""

    is_remote: ClassVar[bool] = True

    private_key: PrivateKey | None = None
    has_only_tiered_segments: bool = False
    """Whether the path has nothing but tiered segments, so that its own files are not listed."""
    _problems: list[ReadProblem] = field(default_factory=list)
    """The problems with unreadable or incomplete objects."""
    _object_directory_by_partition: dict[str, str] = field(default_factory=dict)
    """The object directory of each partition with skipped objects, by partition name."""
    _log_by_path: dict[str, ChunkedLog] = field(default_factory=dict)
    _bytes_and_time_by_path: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    """The bytes of the other files, and their times."""
    _topic_id_and_origin_by_directory: dict[str, tuple[str, str]] = field(default_factory=dict)
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
            for subpath, (file_bytes, modified_ns) in self._bytes_and_time_by_path.items():
                self._listing.add_file(subpath, len(file_bytes), modified_ns)
        return self._listing

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been added."""
        return not self._log_by_path and not self._problems

    def is_tiered(self, subpath: str) -> bool:
        if not subpath:
            return self.has_only_tiered_segments
        return (
            subpath in self._topic_id_and_origin_by_directory
            or subpath in self._log_by_path
            or subpath in self._bytes_and_time_by_path
        )

    def _is_in_underlying_tree(self, subpath: str) -> bool:
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
        display_name = format_display_name(f"{self.mount_point}{os.sep}{subpath}")
        if subpath in self._log_by_path:
            return ChunkedSource(self._log_by_path[subpath], display_name)
        if subpath in self._bytes_and_time_by_path:
            return BytesSource(self._bytes_and_time_by_path[subpath][0], display_name)
        return OverlayTree.open_source(self, subpath)

    def local_path(self, subpath: str) -> str | None:
        return None if self.is_tiered(subpath) else OverlayTree.local_path(self, subpath)

    def identity_path(self, subpath: str) -> str:
        if subpath in self._log_by_path:
            return self._log_by_path[subpath].path
        directory, _, file_name = subpath.rpartition(os.sep)
        if subpath in self._bytes_and_time_by_path:
            return join_subpath(self._topic_id_and_origin_by_directory[directory][1], file_name)
        return (
            self._topic_id_and_origin_by_directory[subpath][1]
            if subpath in self._topic_id_and_origin_by_directory
            else OverlayTree.identity_path(self, subpath)
        )

    def problem_messages(self, subpath: str) -> list[str]:
        object_path = self._object_path(subpath)
        return [
            *OverlayTree.problem_messages(self, object_path),
            *messages_under_path(self._problems, object_path),
        ]

    def _object_path(self, subpath: str) -> str:
        """The path of the objects that a log or a partition is assembled from, or would be if they
        were readable."""
        if subpath in self._log_by_path or subpath in self._topic_id_and_origin_by_directory:
            return self._object_subpath(self.identity_path(subpath).removesuffix(LOG_SUFFIX))
        return self._object_directory_by_partition.get(subpath, subpath)

    def _object_subpath(self, path: str) -> str:
        """The path of an object in this tree."""
        return path.removeprefix(self.mount_point).strip(os.sep)

    def assemble_segments(self, listing: DirectoryListing) -> None:
        """Assemble every segment in a directory, in order."""
        file_paths = [Path(base_name) for base_name in listing.files]
        base_names = [file.stem for file in file_paths if file.suffix == MANIFEST_SUFFIX]
        base_and_display_paths = [
            (f"{listing.path}/{base_name}", f"{listing.name}/{base_name}")
            for base_name in base_names
        ]
        segments = map_ordered(self._try_read_segment, base_and_display_paths, MAX_CONNECTIONS)
        for (base_path, _), segment in zip(base_and_display_paths, segments, strict=True):
            self._add_segment_files(base_path, segment)
        for file_path in file_paths:
            is_segment_object = file_path.suffix in (
                LOG_SUFFIX,
                REMOTE_INDEXES_SUFFIX,
            ) and REMOTE_SEGMENT_NAME.match(file_path.stem)
            if is_segment_object and file_path.stem not in base_names:
                message = f"{listing.name}/{file_path.name}: no manifest, skipped"
                self._add_problem(f"{listing.path}/{file_path.stem}", message)

    def assemble_segment(self, base_path: str, display_path: str) -> str:
        """Assemble a segment, and return the path of its log in this tree; raises InputError.

        base_path: the path of its objects without their suffixes. display_path: the same, for
        display.
        """
        if self._log_by_path:
            return next(iter(self._log_by_path))
        log_path = self._add_segment_files(
            base_path, self._try_read_segment((base_path, display_path))
        )
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
            file_name = Path(error.filename or "").name
            return f"{display_path}: {file_name}: {error.strerror}"

    def _read_segment(self, base_path: str, display_path: str) -> _RemoteSegment:
        status = stat_path(f"{base_path}{LOG_SUFFIX}")
        manifest = read_manifest(f"{base_path}{MANIFEST_SUFFIX}")
        log = open_chunked_log(base_path, status.st_size, manifest.chunk_encoding, self.private_key)
        log = replace(log, modified_ns=status.st_mtime_ns)
        index_by_name, problems = _read_indexes(manifest, base_path, log.decrypt)
        if log.missing_bytes < 0:
            problems.append("its log has extra bytes after the last chunk")
        return _RemoteSegment(
            manifest,
            log,
            display_path,
            index_by_name,
            [f"{display_path}: {problem}" for problem in problems],
        )

    def _add_problem(self, base_path: str, message: str) -> None:
        """Add a problem with the objects of a segment."""
        self._problems.append((self._object_subpath(base_path), message))
        topic, partition = parse_remote_topic_partition(f"{base_path}{LOG_SUFFIX}")
        if topic is not None:
            object_directory = self._object_subpath(base_path.rpartition(os.sep)[0])
            self._object_directory_by_partition.setdefault(f"{topic}-{partition}", object_directory)

    def _add_segment_files(self, base_path: str, segment: _RemoteSegment | str) -> str | None:
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
        existing_topic_id, _ = self._topic_id_and_origin_by_directory.get(
            directory, (topic_id, object_directory)
        )
        # A broker's own directory may have newer segments.
        if existing_topic_id != topic_id or self._is_in_underlying_tree(directory):
            directory = join_subpath(self._object_subpath(object_directory), directory)
        base_offset = _base_offset(PurePath(base_path).name, segment.manifest)
        log_path = f"{directory}/{base_offset:020}{LOG_SUFFIX}"
        if log_path in self._log_by_path:
            existing_display_path = format_display_name(
                self._log_by_path[log_path].path.removesuffix(LOG_SUFFIX)
            )
            reason = f"{existing_display_path} has the same base offset; this copy is skipped"
            self._add_problem(base_path, f"{segment.display_path}: {reason}")
            return None
        self._topic_id_and_origin_by_directory.setdefault(directory, (topic_id, object_directory))
        self._log_by_path[log_path] = segment.log
        self._listing = None
        for problem in segment.problems:
            self._add_problem(base_path, problem)
        metadata_bytes_by_name = {
            "partition.metadata": f"version: 0\ntopic_id: {topic_id}".encode()
        }
        for file_name, stored_bytes in (
            metadata_bytes_by_name | segment.index_bytes_by_name
        ).items():
            file_path = f"{directory}/{file_name}"
            file_bytes = stored_bytes
            if file_name == EPOCH_CHECKPOINT_NAME and file_path in self._bytes_and_time_by_path:
                file_bytes = _merge_epoch_checkpoints(
                    self._bytes_and_time_by_path[file_path][0], stored_bytes
                )
            self._bytes_and_time_by_path[file_path] = file_bytes, segment.log.modified_ns
        return log_path


def read_manifest(path: str, open_object: NamedSourceOpener = open_source) -> SegmentManifest:
    """The manifest at a path or a URL; raises InputError."""
    with closing(open_object(path, format_display_name(path))) as source:
        return parse_manifest(source)


def _base_offset(object_name: str, manifest: SegmentManifest) -> int:
    """The base offset of a segment, from its name or else from its manifest."""
    name_match = REMOTE_SEGMENT_NAME.match(object_name)
    return int(name_match[1]) if name_match else manifest.remote_log_segment_metadata.start_offset


def _read_indexes(
    manifest: SegmentManifest, base_path: str, decrypt: DecryptFunction | None
) -> tuple[dict[str, bytes], list[str]]:
    """The indexes of a segment, by their names on a broker's disk, and why some are missing."""
    index_locations = manifest.segment_indexes
    base_offset = _base_offset(PurePath(base_path).name, manifest)
    end_offset = manifest.remote_log_segment_metadata.end_offset + 1
    index_bytes_by_name: dict[str, bytes] = {}
    problems: list[str] = []
    location_by_name = {
        f"{base_offset:020}.index": index_locations.offset,
        f"{base_offset:020}.timeindex": index_locations.timestamp,
        f"{base_offset:020}.txnindex": index_locations.transaction,
        f"{end_offset:020}.snapshot": index_locations.producer_snapshot,
        EPOCH_CHECKPOINT_NAME: index_locations.leader_epoch,
    }
    try:
        with open_binary(f"{base_path}{REMOTE_INDEXES_SUFFIX}") as file:
            for file_name, location in location_by_name.items():
                if location is None:
                    continue
                try:
                    stored_index = _read_index(file, location)
                    index_bytes_by_name[file_name] = decrypt_if_needed(
                        manifest.encryption, stored_index, decrypt
                    )
                except InputError as error:
                    problems.append(f"{error}; its log is read without {file_name}")
    except (OSError, InputError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).rpartition(": ")[2]
        problems.append(f"{REMOTE_INDEXES_SUFFIX}: {reason}; its log is read without its indexes")
    return index_bytes_by_name, problems


def _merge_epoch_checkpoints(left: bytes, right: bytes) -> bytes:
    """Two checkpoints of leader epochs merged: each epoch begins at its lowest offset."""
    start_offset_by_epoch: dict[int, int] = {}
    for checkpoint_bytes in (left, right):
        for line in checkpoint_bytes.split(b"\n")[2:]:
            numbers = [parse_int(column.decode(errors="replace")) for column in line.split()]
            match numbers:
                case [int(epoch), int(start_offset)] if epoch >= 0 and start_offset >= 0:
                    start_offset_by_epoch[epoch] = min(
                        start_offset, start_offset_by_epoch.get(epoch, start_offset)
                    )
    lines = [f"{epoch} {start}" for epoch, start in sorted(start_offset_by_epoch.items())]
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def _read_index(file: IO[bytes], location: SegmentIndexLocation) -> bytes:
    """The bytes of one index; raises InputError if the object has fewer."""
    position = location.position
    if location.size < 0 or not 0 <= position < MAX_POSITION:
        raise InputError(f"its manifest puts an index of {location.size} bytes at {position}")
    file.seek(position)
    chunks: list[bytes] = []
    remaining_bytes = location.size
    while remaining_bytes > 0 and (chunk := file.read(min(remaining_bytes, READ_CHUNK_BYTES))):
        chunks.append(chunk)
        remaining_bytes -= len(chunk)
    if remaining_bytes:
        raise InputError(f"{Path(file.name).suffix[1:]} is {remaining_bytes} bytes too short")
    return b"".join(chunks)
