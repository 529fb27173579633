"""Which files there are and what their names say.

Source: `org.apache.kafka.storage.internals.log.LogFileUtils`, `kafka.log.LocalLog`: segments are
named for their base offset in 20 digits, partition directories `<topic>-<partition>`.
"""

from __future__ import annotations

import enum
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kfmt_cli.errors import InputError
from kfmt_cli.formats.checkpoint import CHECKPOINTS


class FileKind(enum.Enum):
    """What a file holds, by its name."""

    LOG = "log"
    KRAFT_SNAPSHOT = "kraft_snapshot"
    OFFSET_INDEX = "offset_index"
    TIME_INDEX = "time_index"
    TRANSACTION_INDEX = "transaction_index"
    PRODUCER_SNAPSHOT = "producer_snapshot"
    CHECKPOINT = "checkpoint"
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        """The kind with its article, for messages."""
        name = self.value.replace("_", " ")
        return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"

    @property
    def holds_batches(self) -> bool:
        """Whether the file is a sequence of record batches."""
        return self in (FileKind.LOG, FileKind.KRAFT_SNAPSHOT)


LOGS = frozenset(kind for kind in FileKind if kind.holds_batches)

SUFFIXES = {
    ".log": FileKind.LOG,
    ".index": FileKind.OFFSET_INDEX,
    ".timeindex": FileKind.TIME_INDEX,
    ".txnindex": FileKind.TRANSACTION_INDEX,
    ".snapshot": FileKind.PRODUCER_SNAPSHOT,
}
_TRANSIENT = re.compile(r"\.(deleted|cleaned|swap)$")  # a file that a broker is done with, or makes
# Segments are named for their base offset; so are the files of remote storage and its cache.
_SEGMENT = re.compile(r"^(?:(\d{20})(?=[.-])|(\d{1,20})(?=_))")
_KRAFT = re.compile(r"^(\d{20}-\d{10}|bootstrap)\.checkpoint$")
_PARTITION = re.compile(r"^(.+)-(\d+)$")


@dataclass(frozen=True, slots=True)
class Input:
    """A file to read. path: to open it; name: to show it. base_offset: of a segment's name."""

    path: str
    name: str
    kind: FileKind
    base_offset: int | None = None

    @property
    def named_by_kafka(self) -> bool:
        """Whether the name is one that brokers give to logs and snapshots."""
        return self.base_offset is not None or self.kind is FileKind.KRAFT_SNAPSHOT


def classify(path: str, name: str) -> Input:
    """What the file's name says."""
    kind, base_offset, _ = kind_of(Path(path).name)
    return Input(path, printable(name), kind, base_offset)


@lru_cache(maxsize=4096)
def kind_of(file: str) -> tuple[FileKind, int | None, str]:
    """What a name without its directory says: kind, base offset, and the suffix of a file that a
    broker is done with, or has not finished, empty for any other.

    Partitions have files of the same names, so that few are looked at.
    """
    transient = _TRANSIENT.search(file)
    suffix = transient[1] if transient else ""
    base = file[: transient.start()] if transient else file
    if _KRAFT.match(base):
        return FileKind.KRAFT_SNAPSHOT, None, suffix
    if base in CHECKPOINTS or base.endswith(".leader_epoch_checkpoint"):
        return FileKind.CHECKPOINT, None, suffix
    kind = SUFFIXES.get(os.path.splitext(base)[1], FileKind.UNKNOWN)  # noqa: PTH122
    segment = _SEGMENT.match(base)
    named = segment is not None and kind is not FileKind.UNKNOWN
    offset = int(segment[1] or segment[2]) if segment and named else None
    return kind, offset, suffix


def is_transient(name: str) -> bool:
    """Whether a file is one that a broker is done with, or has not finished."""
    return _TRANSIENT.search(name) is not None


def size_of(file: Input) -> int:
    """The file's bytes, as far as they can be told."""
    return _known_size(file) or 0


def is_empty(file: Input) -> bool:
    """Whether the file is known to have no bytes."""
    return _known_size(file) == 0


def _known_size(file: Input) -> int | None:
    try:
        return None if file.path == "-" else os.stat(file.path).st_size  # noqa: PTH116 (many)
    except OSError:
        return None


# `<topic>-<partition>`, then what brokers add to directories that move or go, or a topic's id.
_FOLDER = re.compile(r"^(.+)-(\d+)(?:-[\w-]{22}|\.[0-9a-f]{32}-(?:future|delete|stray))?$")


def partition_of(path: str) -> tuple[str | None, int | None]:
    """The topic and the partition that the directory of a file is named for."""
    named = _FOLDER.match(Path(path).parent.name)
    return (named[1], int(named[2])) if named else (None, None)


def printable(name: str) -> str:
    """A name as text, with the bytes that are no UTF-8 as \\xhh."""
    if name.isascii():
        return name
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def is_folder(path: str) -> bool:
    """Whether a path is a directory, as far as it can be told; - is none."""
    try:
        return path != "-" and Path(path).is_dir()
    except OSError:  # whoever opens it says why it cannot be read
        return False


def discover(
    path: str,
    kinds: frozenset[FileKind],
    several: bool,
    skip: Callable[[str], None],
    passed_over: Counter[str] | None = None,
) -> Iterator[Input]:
    """The file given, or below the directory given those of the wanted kinds.

    Files that a broker has marked as deleted or not finished are taken only when they are given.
    Names are the path below the directory; where the user gave several paths, they begin with the
    directory, so that each names one file. skip: is told of each directory that could not be
    listed; the walk goes on behind it. passed_over: counts the other files, see `inputs_in`. Raises
    InputError for a directory without any such file.
    """
    if not is_folder(path):
        yield classify(path, path)
        return
    unread: list[str] = []
    found = list(inputs_in(walk(path, several, unread.append), kinds, passed_over))
    for words in unread:
        skip(words)
    if not found and not unread:
        raise InputError(no_log(path))
    yield from found


def no_log(path: str) -> str:
    """The words for a directory that holds nothing of what is looked for."""
    return f"{printable(path)}: no log in this directory or below it"


def distinct(files: Iterable[Input], seen: set[str]) -> Iterator[Input]:
    """The files that were not seen before, by whatever path. seen: real paths, added to."""
    for file in files:
        path = real_path(file.path)
        if path not in seen:
            yield file
            seen.add(path)


def real_path(path: str) -> str:
    """The path without symbolic links."""
    folder, name = os.path.split(path)
    if os.path.islink(path):  # noqa: PTH114 (28,000 of these are to cost nothing)
        return os.path.realpath(path)
    return f"{_real_folder(folder)}{os.sep}{name}" if name else _real_folder(folder)


@lru_cache(maxsize=1024)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory as it was listed.

    path: to open it. below: what the names of its files begin with. folders, files: the names in
    it, in order. special: those of the files that are pipes, sockets or devices.
    """

    path: str
    below: str
    folders: tuple[str, ...]
    files: tuple[str, ...]
    special: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """What it is shown as: like its files, it is named below the directory that was given."""
        return printable(self.below)

    def input(self, file: str) -> Input:
        """A file of it."""
        kind, base_offset, _ = kind_of(file)
        name = file if self.below == os.curdir else f"{self.below}{os.sep}{file}"
        path = f"{self.path.rstrip(os.sep) or os.sep}{os.sep}{file}"
        return Input(path, printable(name), kind, base_offset)


def walk(top: str, several: bool, skip: Callable[[str], None]) -> list[Folder]:
    """A directory and those below it, topics by name and partitions by number.

    several and skip: as for `discover`. Links to directories are not followed.
    """
    found: list[tuple[str, Folder]] = []
    places = [os.curdir]
    while places:
        place = places.pop()
        path = top if place == os.curdir else os.path.join(top, place)  # noqa: PTH118 (many)
        try:
            with os.scandir(path) as listed:
                folder, inside = _folder(path, path if several else place, listed)
        except OSError as error:
            skip(f"{printable(str(error.filename or path))}: {error.strerror}")
            continue
        found.append((place, folder))
        places += inside if place == os.curdir else [f"{place}{os.sep}{it}" for it in inside]
    found.sort(key=lambda it: _order(it[0]))
    return [folder for _, folder in found]


def _folder(path: str, below: str, listed: Iterable[os.DirEntry[str]]) -> tuple[Folder, list[str]]:
    """A directory, and which of the directories in it are to be listed as well."""
    folders: list[str] = []
    files: list[str] = []
    inside: list[str] = []
    special: list[str] = []
    for entry in listed:
        if _is_folder(entry):
            folders.append(entry.name)
            if not entry.is_symlink():
                inside.append(entry.name)
            continue
        files.append(entry.name)
        if _is_special(entry):
            special.append(entry.name)
    names = tuple(sorted(folders)), tuple(sorted(files))
    return Folder(path, below, *names, frozenset(special)), inside


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_special(entry: os.DirEntry[str]) -> bool:
    """Whether opening a file would keep everything waiting.

    One that cannot even be looked at is opened, which says why.
    """
    try:
        return not entry.is_file() and not stat.S_ISREG(entry.stat().st_mode)
    except OSError:
        return False


def inputs_in(
    folders: Iterable[Folder],
    kinds: frozenset[FileKind],
    passed_over: Counter[str] | None = None,
) -> Iterator[Input]:
    """The files of the wanted kinds that a broker is neither done with nor still making.

    passed_over: counts the others, by their kind, `other`, or the suffix of one that a broker is
    done with.
    """
    for folder in folders:
        for file in folder.files:
            kind, _, transient = kind_of(file)
            if transient or kind not in kinds or file in folder.special:
                if passed_over is not None:
                    unknown = "other" if kind is FileKind.UNKNOWN else kind.value
                    passed_over[transient or unknown] += 1
                continue
            yield folder.input(file)


def _order(place: str) -> list[tuple[str, int]]:
    """Topics by name, partitions by number; the directory itself comes before what is in it."""
    folders = []
    for part in () if place == os.curdir else place.split(os.sep):  # noqa: PTH206 (many)
        partition = _PARTITION.match(part)
        folders.append((partition[1], int(partition[2])) if partition else (part, -1))
    return folders
