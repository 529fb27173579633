"""Which files there are and what their names say.

Source: `org.apache.kafka.storage.internals.log.LogFileUtils`, `kafka.log.LocalLog`: segments are
named for their base offset in 20 digits, partition directories `<topic>-<partition>`.
"""

from __future__ import annotations

import enum
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
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
    base = _TRANSIENT.sub("", Path(path).name)
    if _KRAFT.match(base):
        return Input(path, printable(name), FileKind.KRAFT_SNAPSHOT)
    if base in CHECKPOINTS or base.endswith(".leader_epoch_checkpoint"):
        return Input(path, printable(name), FileKind.CHECKPOINT)
    kind = SUFFIXES.get(Path(base).suffix, FileKind.UNKNOWN)
    segment = _SEGMENT.match(base)
    named = segment is not None and kind is not FileKind.UNKNOWN
    offset = int(segment[1] or segment[2]) if segment and named else None
    return Input(path, printable(name), kind, offset)


def is_transient(name: str) -> bool:
    """Whether a file is one that a broker is done with, or has not finished."""
    return _TRANSIENT.search(name) is not None


def size_of(file: Input) -> int:
    """The file's bytes, as far as they can be told."""
    try:
        return 0 if file.path == "-" else Path(file.path).stat().st_size
    except OSError:
        return 0


# `<topic>-<partition>`, then what brokers add to directories that move or go, or a topic's id.
_FOLDER = re.compile(r"^(.+)-(\d+)(?:-[\w-]{22}|\.[0-9a-f]{32}-(?:future|delete|stray))?$")


def partition_of(path: str) -> tuple[str | None, int | None]:
    """The topic and the partition that the directory of a file is named for."""
    named = _FOLDER.match(Path(path).parent.name)
    return (named[1], int(named[2])) if named else (None, None)


def printable(name: str) -> str:
    """A name as text, with the bytes that are no UTF-8 as \\xhh."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def is_folder(path: str) -> bool:
    """Whether a path is a directory, as far as it can be told; - is none."""
    try:
        return path != "-" and Path(path).is_dir()
    except OSError:  # whoever opens it says why it cannot be read
        return False


def discover(
    path: str, kinds: frozenset[FileKind], several: bool, skip: Callable[[str], None]
) -> Iterator[Input]:
    """The file given, or below the directory given those of the wanted kinds.

    Files that a broker has marked as deleted or not finished are taken only when they are given.
    Names are the path below the directory; where the user gave several paths, they begin with the
    directory, so that each names one file. skip: is told of each directory that could not be
    listed; the walk goes on behind it. Raises InputError for a directory without any such file.
    """
    if not is_folder(path):
        yield classify(path, path)
        return
    unread: list[str] = []
    found = list(inputs_in(walk(path, several, unread.append), kinds))
    for words in unread:
        skip(words)
    if not found and not unread:
        raise InputError(no_log(path))
    yield from found


def no_log(path: str) -> str:
    """The words for a directory that holds nothing of what is looked for."""
    return f"{printable(path)}: no log in this directory or below it"


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory as it was listed.

    path: to open it. below: what the names of its files begin with. folders, files: the names in
    it, in order.
    """

    path: str
    below: str
    folders: tuple[str, ...]
    files: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is shown as: like its files, it is named below the directory that was given."""
        return printable(self.below)

    def input(self, file: str) -> Input:
        """A file of it."""
        return classify(str(Path(self.path) / file), str(Path(self.below) / file))


def walk(top: str, several: bool, skip: Callable[[str], None]) -> list[Folder]:
    """A directory and those below it, topics by name and partitions by number.

    several and skip: as for `discover`.
    """

    def fail(error: OSError) -> None:
        skip(f"{printable(error.filename)}: {error.strerror}")

    found: list[tuple[str, Folder]] = []
    for path, folders, files in os.walk(top, onerror=fail):
        place = os.path.relpath(path, top)
        below = path if several else place
        folder = Folder(path, below, tuple(sorted(folders)), tuple(sorted(files)))
        found.append((place, folder))
    found.sort(key=lambda it: _order(it[0]))
    return [folder for _, folder in found]


def inputs_in(folders: Iterable[Folder], kinds: frozenset[FileKind]) -> Iterator[Input]:
    """The files of the wanted kinds that a broker is neither done with nor still making."""
    for folder in folders:
        for file in folder.files:
            if is_transient(file) or classify(file, file).kind not in kinds:
                continue
            if _can_be_read(Path(folder.path) / file):
                yield folder.input(file)


def _can_be_read(path: Path) -> bool:
    """Whether a file is to be opened: a pipe would keep everything waiting.

    One that cannot even be looked at is opened, which says why.
    """
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return True


def _order(place: str) -> list[tuple[str, int]]:
    """Topics by name, partitions by number; the directory itself comes before what is in it."""
    folders = []
    for part in Path(place).parts:
        partition = _PARTITION.match(part)
        folders.append((partition[1], int(partition[2])) if partition else (part, -1))
    return folders
