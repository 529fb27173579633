"""Segments in tiered storage, in the form they would have on a broker's disk.

Aiven's plug-in stores three objects per segment: its log in chunks, which may be compressed and
encrypted; its concatenated indexes; a manifest with the places of all parts. Source:
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

from kfmt_cli.core.parallel import CONNECTIONS, map_ordered
from kfmt_cli.core.source import BytesSource, Source
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.names import MANIFEST, STORED_INDEXES, STORED_STEM, stored_place
from kfmt_cli.disk.opening import file_at, open_source, status_of
from kfmt_cli.disk.tiered_keys import PrivateKey, Unlock
from kfmt_cli.disk.tiered_manifest import (
    Chunking,
    Encryption,
    IndexPlace,
    Manifest,
    chunk_sizes,
    expanded,
    manifest_at,
)
from kfmt_cli.disk.tree import Folder
from kfmt_cli.disk.trees import DirectoryEntries, Listing, Overlay, Trouble, path_in, told_of
from kfmt_cli.errors import InputError, LostBytesError

LOG = ".log"
EPOCHS = "leader-epoch-checkpoint"
MOST_POSITION = 1 << 62  # bytes
PIECE = 1 << 20


Opened = Callable[[str, str], Source]
"""Opens a path or a URL; the second argument is its name for display."""


@dataclass(frozen=True, slots=True)
class StoredLog:
    """A log in chunks."""

    chunking: Chunking
    path: str
    """The object that contains the chunks."""
    ends: list[int]
    """The end of each chunk, in stored bytes."""
    there: int
    """The size of the object; less than the last end if it is cut."""
    unlock: Unlock | None
    opened: Opened = open_source
    modified: int = 0
    """When it was stored, in nanoseconds; 0 if unknown."""

    @property
    def chunk_size(self) -> int:
        """The original size of each chunk but the last."""
        return self.chunking.chunk_index.original_chunk_size

    @property
    def size(self) -> int:
        """The original bytes."""
        total = self.chunking.chunk_index.original_file_size
        return min(total, len(self.ends) * self.chunk_size)

    @property
    def missing(self) -> int:
        """The bytes by which the object is too short; negative if it has more than the chunks."""
        return (self.ends[-1] if self.ends else 0) - self.there

    def chunk(self, number: int, stored: Source) -> bytes:
        """A chunk as the broker had it; raises InputError, and LostBytesError if it is damaged.
        stored: the object."""
        if self.ends[number] > self.there:
            raise self._lost(number, f"is missing: the object is {self.missing} bytes too short")
        start = self.ends[number - 1] if number else 0
        plain = min(self.chunk_size, self.size - number * self.chunk_size)
        length = self.ends[number] - start
        data = stored.block(start, length, length)
        try:
            if len(data) != length:
                raise InputError(f"is {length - len(data)} bytes too short")
            data = _unlocked(self.chunking.encryption, data, self.unlock)
            if self.chunking.compression:
                data = expanded(data, plain)
            if len(data) != plain:
                raise InputError(f"has {len(data)} bytes instead of {plain}")
        except (zstandard.ZstdError, ValueError) as error:
            raise self._lost(number, f"cannot be decompressed: {error}") from error
        except InputError as error:
            raise self._lost(number, str(error)) from error
        return data

    def _lost(self, number: int, why: str) -> LostBytesError:
        why = f"chunk {number} {why}"
        return LostBytesError(f"{name_text(self.path)}: {why}", number * self.chunk_size, why)


class ChunkedSource(Source):
    """A log in chunks, which are read on demand."""

    def __init__(self, log: StoredLog, name: str) -> None:
        self.name = name
        self.size = log.size
        self.unit = log.chunk_size
        self._log = log
        self._stored = log.opened(log.path, name_text(log.path))
        self._held: tuple[int, bytes] = -1, b""

    def block(self, position: int, length: int, least: int) -> bytes:
        end, needed = min(position + length, self._log.size), position + least
        size = self._log.chunk_size
        parts: list[bytes] = []
        while position < end:
            number, at = divmod(position, size)
            held = self._held  # other threads may read, too
            if held[0] != number:
                try:
                    held = self._held = number, self._log.chunk(number, self._stored)
                except LostBytesError as error:
                    if not parts or position < needed:
                        error.at = number * size  # the byte of the log
                        raise
                    break
            parts.append(held[1][at : at + end - position])
            position += len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        self._stored.close()


@dataclass(frozen=True, slots=True)
class _Segment:
    """A segment in tiered storage."""

    manifest: Manifest
    log: StoredLog
    shown: str
    indexes: dict[str, bytes]
    """By their names on a broker's disk."""
    troubles: list[str]
    """The problems with its log and its indexes."""


@dataclass(slots=True)
class Bucket(Overlay):
    """A bucket, a copy of one, or a part of it, as the log directory that it came from."""

    is_elsewhere: ClassVar[bool] = True

    key: PrivateKey | None = None
    is_whole: bool = False
    """Whether nothing else is to be read there."""
    _left_out: list[Trouble] = field(default_factory=list)
    """What is wrong with objects that are unreadable or incomplete."""
    _unread_folders: dict[str, str] = field(default_factory=dict)
    """The directory of the objects of a partition of which some are left out, by its name."""
    _logs: dict[str, StoredLog] = field(default_factory=dict)
    _files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    """The bytes of the other files, and their times."""
    _folders: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The topic id of each partition and the directory of its objects, by its directory."""
    _listing: Listing | None = None

    def listed(self, path: str) -> DirectoryEntries:
        """The entries of one of its directories; raises OSError."""
        return self._known.entries(path[len(self.path) :].strip(os.sep))

    @property
    def _known(self) -> Listing:
        if self._listing is None:
            self._listing = Listing()
            self._listing.add_folder("")
            for below, log in self._logs.items():
                self._listing.add(below, log.size, log.modified)
            for below, (data, modified) in self._files.items():
                self._listing.add(below, len(data), modified)
        return self._listing

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been taken."""
        return not self._logs and not self._left_out

    def is_tiered(self, below: str) -> bool:
        if not below:
            return self.is_whole
        return below in self._folders or below in self._logs or below in self._files

    def _is_stored(self, below: str) -> bool:
        try:
            Overlay.status(self, below)
        except OSError:
            return False
        return True

    def entries(self, below: str) -> DirectoryEntries:
        return self._known.entries(below) if self.is_tiered(below) else Overlay.entries(self, below)

    def status(self, below: str) -> os.stat_result:
        return self._known.status(below) if self.is_tiered(below) else Overlay.status(self, below)

    def opened(self, below: str) -> Source:
        name = name_text(f"{self.path}{os.sep}{below}")
        if below in self._logs:
            return ChunkedSource(self._logs[below], name)
        if below in self._files:
            return BytesSource(self._files[below][0], name)
        return Overlay.opened(self, below)

    def real(self, below: str) -> str | None:
        return None if self.is_tiered(below) else Overlay.real(self, below)

    def identity(self, below: str) -> str:
        if below in self._logs:
            return self._logs[below].path
        folder, _, name = below.rpartition(os.sep)
        if below in self._files:
            return path_in(self._folders[folder][1], name)
        return self._folders[below][1] if below in self._folders else Overlay.identity(self, below)

    def troubles(self, below: str) -> list[str]:
        objects = self._objects_of(below)
        return [*Overlay.troubles(self, objects), *told_of(self._left_out, objects)]

    def _objects_of(self, below: str) -> str:
        """The path of the objects that a log or a partition has been put together from, or would
        have been if they could be read."""
        if below in self._logs or below in self._folders:
            return self._below(self.identity(below).removesuffix(LOG))
        return self._unread_folders.get(below, below)

    def _below(self, path: str) -> str:
        """The path of an object in this tree."""
        return path.removeprefix(self.path).strip(os.sep)

    def take(self, folder: Folder) -> None:
        """Put together every segment in a directory, in order."""
        files = [Path(name) for name in folder.files]
        stems = [file.stem for file in files if file.suffix == MANIFEST]
        named = [(f"{folder.path}/{stem}", f"{folder.name}/{stem}") for stem in stems]
        segments = map_ordered(self._read, named, CONNECTIONS)
        for (stem, _), segment in zip(named, segments, strict=True):
            self._put(stem, segment)
        for file in files:
            is_part = file.suffix in (LOG, STORED_INDEXES) and STORED_STEM.match(file.stem)
            if is_part and file.stem not in stems:
                words = f"{folder.name}/{file.name}: no manifest, skipped"
                self._leave_out(f"{folder.path}/{file.stem}", words)

    def segment(self, stem: str, shown: str) -> str:
        """Put a segment together, and return the path of its log below this one; raises InputError.

        stem: the path of its objects without their suffixes. shown: the same, for display.
        """
        if self._logs:
            return next(iter(self._logs))
        log = self._put(stem, self._read((stem, shown)))
        if log is None:
            raise InputError(self._left_out.pop()[1])
        return log

    def _read(self, named: tuple[str, str]) -> _Segment | str:
        """A segment, or the reason why it cannot be read."""
        stem, shown = named
        try:
            return self._segment(stem, shown)
        except InputError as error:
            words = str(error)
            return words if words.startswith(shown) else f"{shown}: {words}"
        except OSError as error:
            name = Path(error.filename or "").name
            return f"{shown}: {name}: {error.strerror}"

    def _segment(self, stem: str, shown: str) -> _Segment:
        status = status_of(f"{stem}{LOG}")
        manifest = read_manifest(f"{stem}{MANIFEST}")
        log = stored_log(stem, status.st_size, manifest.chunking, self.key)
        log = replace(log, modified=status.st_mtime_ns)
        indexes, troubles = _indexes(manifest, stem, log.unlock)
        if log.missing < 0:
            troubles.append("its log has extra bytes after the last chunk")
        return _Segment(manifest, log, shown, indexes, [f"{shown}: {each}" for each in troubles])

    def _leave_out(self, stem: str, words: str) -> None:
        """Remember what is wrong with the objects of a segment."""
        self._left_out.append((self._below(stem), words))
        topic, partition = stored_place(f"{stem}{LOG}")
        if topic is not None:
            above = self._below(stem.rpartition(os.sep)[0])
            self._unread_folders.setdefault(f"{topic}-{partition}", above)

    def _put(self, stem: str, segment: _Segment | str) -> str | None:
        """Take the files of a segment; returns the path of its log. stem: of its objects."""
        if isinstance(segment, str):
            self._leave_out(stem, segment)
            return None
        place = segment.manifest.remote_log_segment_metadata.remote_log_segment_id
        named = place.topic_id_partition.topic_partition
        folder = f"{named.topic}-{named.partition}"
        topic_id = place.topic_id_partition.topic_id
        above = segment.log.path.rpartition(os.sep)[0]
        known_id, _ = self._folders.get(folder, (topic_id, above))  # maybe of a deleted topic
        if known_id != topic_id or self._is_stored(folder):  # of a broker that has newer segments
            folder = path_in(self._below(above), folder)
        log = f"{folder}/{_base_of(PurePath(stem).name, segment.manifest):020}{LOG}"
        if log in self._logs:
            first = name_text(self._logs[log].path.removesuffix(LOG))
            words = f"{first} has the same base offset; this copy is skipped"
            self._leave_out(stem, f"{segment.shown}: {words}")
            return None
        self._folders.setdefault(folder, (topic_id, above))
        self._logs[log] = segment.log
        self._listing = None
        for trouble in segment.troubles:
            self._leave_out(stem, trouble)
        of_partition = {"partition.metadata": f"version: 0\ntopic_id: {topic_id}".encode()}
        for name, data in (of_partition | segment.indexes).items():
            path = f"{folder}/{name}"
            known = self._files[path][0] if name == EPOCHS and path in self._files else None
            held = data if known is None else _both_epochs(known, data)
            self._files[path] = held, segment.log.modified
        return log


def read_manifest(path: str, opened: Opened = open_source) -> Manifest:
    """The manifest at a path or a URL; raises InputError."""
    with closing(opened(path, name_text(path))) as source:
        return manifest_at(source)


def stored_log(
    stem: str,
    there: int,
    chunking: Chunking,
    key: PrivateKey | None,
    opened: Opened = open_source,
) -> StoredLog:
    """A log, from its manifest; raises InputError.

    stem: the path of its objects without their suffixes. there: the bytes of the object with the
    chunks.
    """
    unlock = None
    if chunking.encryption is not None:
        if key is None:
            name = chunking.encryption.data_key.rpartition(":")[0]
            words = f"encrypted with key {name}; pass --rsm-private-key FILE to read it"
            raise InputError(words)
        unlock = key.unwrapped(chunking.encryption.data_key)
    ends = list(accumulate(chunk_sizes(chunking)))
    return StoredLog(chunking, f"{stem}{LOG}", ends, there, unlock, opened)


def _base_of(stem: str, manifest: Manifest) -> int:
    """The base offset of a segment, from its name or else from its manifest."""
    found = STORED_STEM.match(stem)
    return int(found[1]) if found else manifest.remote_log_segment_metadata.start_offset


def _indexes(
    manifest: Manifest, stem: str, unlock: Unlock | None
) -> tuple[dict[str, bytes], list[str]]:
    """The indexes of a segment, by their names on a broker's disk, and why some are missing."""
    places, base = manifest.segment_indexes, _base_of(PurePath(stem).name, manifest)
    end = manifest.remote_log_segment_metadata.end_offset + 1
    found: dict[str, bytes] = {}
    troubles: list[str] = []
    named = {
        f"{base:020}.index": places.offset,
        f"{base:020}.timeindex": places.timestamp,
        f"{base:020}.txnindex": places.transaction,
        f"{end:020}.snapshot": places.producer_snapshot,
        EPOCHS: places.leader_epoch,
    }
    try:
        with file_at(f"{stem}{STORED_INDEXES}") as stored:
            for name, place in named.items():
                if place is None:
                    continue
                try:
                    data = _part(stored, place)
                    found[name] = _unlocked(manifest.encryption, data, unlock)
                except InputError as error:
                    troubles.append(f"{error}; its log is read without {name}")
    except (OSError, InputError) as error:
        words = error.strerror if isinstance(error, OSError) else str(error).rpartition(": ")[2]
        troubles.append(f"{STORED_INDEXES}: {words}; its log is read without its indexes")
    return found, troubles


def _both_epochs(ours: bytes, theirs: bytes) -> bytes:
    """Two checkpoints of leader epochs merged: each epoch begins at its lowest offset."""
    starts: dict[int, int] = {}
    for data in (ours, theirs):
        for line in data.split(b"\n")[2:]:
            words = line.split()
            if len(words) == 2 and all(word.isdigit() for word in words):
                epoch, start = map(int, words)
                starts[epoch] = min(start, starts.get(epoch, start))
    lines = [f"{epoch} {start}" for epoch, start in sorted(starts.items())]
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def _unlocked(encryption: Encryption | None, data: bytes, unlock: Unlock | None) -> bytes:
    if unlock is None or encryption is None:
        return data
    try:
        aad = base64.b64decode(encryption.aad)
    except ValueError as error:
        raise InputError(f"its manifest is malformed: aad: {error}") from error
    return unlock(data, aad)


def _part(stored: IO[bytes], place: IndexPlace) -> bytes:
    """The bytes of one index; raises InputError if there are fewer."""
    if place.size < 0 or not 0 <= place.position < MOST_POSITION:
        raise InputError(f"its manifest puts an index of {place.size} bytes at {place.position}")
    stored.seek(place.position)
    parts: list[bytes] = []
    left = place.size
    while left > 0 and (part := stored.read(min(left, PIECE))):
        parts.append(part)
        left -= len(part)
    if left:
        raise InputError(f"{Path(stored.name).suffix[1:]} is {left} bytes too short")
    return b"".join(parts)
