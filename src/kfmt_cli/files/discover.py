"""Which files there are and what their names say.

Source: `org.apache.kafka.storage.internals.log.LogFileUtils`, `kafka.log.LocalLog`: segments are
named for their base offset in 20 digits, partition directories `<topic>-<partition>`.
"""

from __future__ import annotations

import enum
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
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


def is_empty(file: Input) -> bool:
    """Whether the file is known to have no bytes."""
    try:
        return file.path != "-" and Path(file.path).stat().st_size == 0
    except OSError:
        return False


# `<topic>-<partition>`, then what brokers add to directories that move or go, or a topic's id.
_FOLDER = re.compile(r"^(.+)-(\d+)(?:-[\w-]{22}|\.[0-9a-f]{32}-(?:future|delete|stray))?$")


def partition_of(path: str) -> tuple[str | None, int | None]:
    """The topic and the partition that the directory of a file is named for."""
    named = _FOLDER.match(Path(path).parent.name)
    return (named[1], int(named[2])) if named else (None, None)


def printable(name: str) -> str:
    """A name as text, with the bytes that are no UTF-8 as \\xhh."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def discover(
    path: str,
    kinds: frozenset[FileKind],
    several: bool,
    passed_over: Counter[str] | None = None,
) -> Iterator[Input]:
    """The file given, or below the directory given those of the wanted kinds.

    Files that a broker has marked as deleted or not finished are taken only when they are given.
    Names are the path below the directory; where the user gave several paths, they begin with the
    directory, so that each names one file. passed_over: counts the other files of a directory, by
    their kind, `other`, or the suffix of one that a broker is done with. Raises InputError for a
    path that is not there, and for a directory without any such file.
    """
    if path == "-" or not Path(path).is_dir():
        yield classify(path, path)
        return
    passed_over = Counter() if passed_over is None else passed_over
    found = sorted(_walk(path, kinds, passed_over), key=_order)
    if not found:
        raise InputError(f"{printable(path)}: no log in this directory or below it")
    for file in found:
        full = str(Path(path) / file)
        yield classify(full, full if several else file)


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


def _walk(top: str, kinds: frozenset[FileKind], passed_over: Counter[str]) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise InputError(f"{printable(error.filename)}: {error.strerror}") from error

    for folder, _, files in os.walk(top, onerror=fail):
        for file in files:
            path = Path(folder) / file
            transient = _TRANSIENT.search(file)
            kind = classify(file, file).kind
            if transient or kind not in kinds:
                unknown = "other" if kind is FileKind.UNKNOWN else kind.value
                passed_over[transient[1] if transient else unknown] += 1
                continue
            # A pipe would keep everything waiting; a link that leads nowhere is an error.
            if path.is_file() or not path.exists():
                yield os.path.relpath(path, top)


def _order(name: str) -> tuple[list[tuple[str, int]], str]:
    """Topics by name, partitions by number, segments by base offset."""
    path = Path(name)
    folders = []
    for part in path.parent.parts:
        partition = _PARTITION.match(part)
        folders.append((partition[1], int(partition[2])) if partition else (part, -1))
    return folders, path.name
