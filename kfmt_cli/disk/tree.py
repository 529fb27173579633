"""Directories on a disk, with their partitions and segments.

One model for every command: a broker's directories are walked once, into a `Folder` each, which
provides everything else. Source: `kafka.log.LocalLog`: segments are named after their base offset
in 20 digits, partition directories `<topic>-<partition>`.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from kfmt_cli.core.compressed_files import packed_suffix
from kfmt_cli.core.source import PIPE
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.directories import each_directory, entries_of, link_trouble
from kfmt_cli.disk.kinds import UNKNOWN, in_order, kind_of
from kfmt_cli.disk.kinds.kind import Input, Kind, Level
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT, LOG
from kfmt_cli.disk.names import (
    STORED_STEM,
    has_other_form,
    identity,
    mark_of,
    partition_of,
    place_of,
)
from kfmt_cli.disk.opening import bytes_at, status_of
from kfmt_cli.disk.segment import Segment, group
from kfmt_cli.disk.trees import DirectoryEntries, FileEntry, StoredEntry
from kfmt_cli.errors import InputError
from kfmt_cli.topics import CLUSTER_METADATA

_SEGMENT = re.compile(r"^\d{20}\.log$")
_PARTITION = re.compile(r"^(.+)-(\d+)$")
_OTHER_LOG = re.compile(r"\.log(?:[.~_-].*)?$")
# Of a batch's start: its bytes up to the magic, the longest that is likely, the newest magic.
_START, _LONGEST, _LAST_MAGIC = 17, 1 << 30, 2


def classify(path: str, name: str) -> Input:
    """The input file with the kind that its name implies; a log may be compressed as a whole."""
    stem = path.rpartition(os.sep)[2]
    stem = stem.removesuffix(packed_suffix(stem))
    kind, base_offset, _ = kind_of(stem)
    return Input(path, name_text(name), kind, base_offset)


def is_segment(file: Input) -> bool:
    """Whether the file has a broker's name for a segment's log."""
    is_named = _SEGMENT.match(file.path.rpartition(os.sep)[2]) is not None
    return is_named and file.base_offset is not None  # 20 digits can exceed the largest offset


def is_stored(name: str) -> bool:
    """Whether the name is that of a log in tiered storage."""
    return name.endswith(".log") and STORED_STEM.match(name.removesuffix(".log")) is not None


def size_of(file: Input) -> int:
    """The file's size in bytes, 0 if unknown."""
    return _known_size(file) or 0


def modified_ms(file: Input) -> int:
    """When the file was last changed, in milliseconds; 0 if unknown."""
    try:
        return status_of(file.path).st_mtime_ns // 1_000_000
    except (OSError, InputError):
        return 0


def is_empty(file: Input) -> bool:
    """Whether the file is known to have no bytes."""
    return _known_size(file) == 0


def _known_size(file: Input) -> int | None:
    try:
        return None if file.path == PIPE else status_of(file.path).st_size
    except (OSError, InputError):  # opening it reports the error
        return None


def topic_of(file: Input) -> str | None:
    """The topic of a file, from its directory or its kind; None if neither has it."""
    return CLUSTER_METADATA if file.kind is KRAFT_SNAPSHOT else partition_of(file.path)[0]


def no_log(path: str) -> str:
    """The message for a directory without the files looked for."""
    return f"{name_text(path)}: no log segments in or under this directory"


def distinct(files: Iterable[Input], seen: set[str]) -> Iterator[Input]:
    """The files not seen before, by real path; adds the paths to `seen`."""
    for file in files:
        path = identity(file.stored_path, file.may_be_link)
        if path not in seen:
            yield file
            seen.add(path)


@dataclass(frozen=True)
class Folder:
    """A directory with the names in it."""

    path: str
    """The path that opens it: as given, with the path under that."""
    below: str
    """The path under the directory given."""
    folders: tuple[str, ...]
    """The names of its subdirectories, in order."""
    files: tuple[str, ...]
    """The names of its files, in order."""
    special: frozenset[str] = frozenset()
    """The files that are pipes, sockets or devices."""
    links: frozenset[str] = frozenset()
    """The files that are symbolic links."""
    prefix: str | None = None
    """The prefix of its files' names, if it is not the path."""
    stored_as: Mapping[str, str] = field(default_factory=dict)
    """The names under which files are stored that are compressed as a whole."""

    @property
    def name(self) -> str:
        """Its name for display: the path that opens it."""
        return name_text(self.path)

    def input(self, file: str) -> Input:
        """One of its files."""
        found = self._inputs.get(file)
        if found is None:
            kind, base_offset, _ = kind_of(file)
            if self.takes_any and file in self.other_logs:
                kind = LOG
            path = f"{self.path.rstrip(os.sep)}{os.sep}{file}"
            name = path if self.prefix is None else self.prefix + file
            stored_as = self.stored_as.get(file, "")
            if stored_as:
                name = name.removesuffix(file) + stored_as
            is_link = file in self.links
            found = Input(path, name_text(name), kind, base_offset, is_link, stored_as)
            self._inputs[file] = found
        return found

    @cached_property
    def _inputs(self) -> dict[str, Input]:
        """Its files requested so far."""
        return {}

    @cached_property
    def takes_any(self) -> bool:
        """Whether logs with other names count, because no segment is next to them."""
        return not any(kind_of(file)[1] is not None for file in self.files)

    @cached_property
    def other_logs(self) -> frozenset[str]:
        """The files that may be logs under another name, such as copies."""
        named = (file for file in self.readable if _is_named_like_log(file))
        return frozenset(file for file in named if _begins_like_log(f"{self.path}{os.sep}{file}"))

    def takes(self, file: str) -> bool:
        """Whether one of its files counts: a broker's, or a log under another name, with its
        indexes."""
        if is_of_broker(file):
            return True
        suffix = kind_of(file)[0].suffix
        log = file.removesuffix(suffix) + LOG.suffix if suffix else file
        return self.takes_any and log in self.other_logs

    @property
    def is_of_kafka(self) -> bool:
        """Whether one of its files counts."""
        return any(map(self.takes, self.files))

    @property
    def readable(self) -> tuple[str, ...]:
        """The names of its files without pipes and the like, which would block a reader."""
        return tuple(file for file in self.files if file not in self.special)

    @property
    def partitions(self) -> list[str]:
        """Its subdirectories that a broker loads as partitions, by name."""
        places = ((name, place_of(name)[0]) for name in self.folders)
        return [name for name, topic in places if topic is not None and not mark_of(name)]

    @property
    def logs(self) -> list[Input]:
        """The logs of its segments, in base offset order."""
        files = (self.input(file) for file in self.files if file not in self.special)
        return sorted(filter(is_segment, files), key=lambda file: file.base)

    @property
    def stored_logs(self) -> list[Input]:
        """Its logs with tiered storage names, in base offset order."""
        files = (self.input(file) for file in self.readable if is_stored(file))
        return sorted(files, key=lambda file: file.base)

    @cached_property
    def segments(self) -> list[Segment]:
        """The segments whose files are in the directory, in the order of their names.

        Leftover and unfinished files form segments of their own.
        """
        return group(self.input(file) for file in self.files if file not in self.special)

    @property
    def used_segments(self) -> Iterator[Segment]:
        """The segments that a broker uses, or any if the directory has no broker files."""
        for segment in self.segments:
            name = segment.any_file.path.rpartition(os.sep)[2]
            if self.takes(name) and not kind_of(name)[2]:
                if kind_of(name)[0] is UNKNOWN:
                    segment.wanted = frozenset()
                yield segment


def walk(
    top: str,
    skip: Callable[[str], None],
    entries: Callable[[str], DirectoryEntries] = entries_of,
) -> list[Folder]:
    """A directory and those under it, topics by name and partitions by number.

    skip: receives errors about unreadable directories. entries: lists one, see `each_directory`.
    """
    prefix = os.path.join(top, "")  # noqa: PTH118 (text, as it was given)
    found = []
    for path, its in each_directory(top, unlisted(skip), entries):
        place = path.removeprefix(prefix) if path != top else os.curdir
        found.append((place, _folder(path, place, its)))
    found.sort(key=lambda found: _order(found[0]))
    parents = _parents(found)
    for place, folder in found:
        if place in parents:
            _complain_of_links(folder, unlisted(skip))
    return _of_brokers(found, parents)


def _complain_of_links(folder: Folder, complain: Callable[[str, str], None]) -> None:
    """Complain about the partitions of a log directory that are links which lead nowhere."""
    for name in sorted(folder.links):
        path = f"{folder.path}{os.sep}{name}"
        is_partition = place_of(name)[0] is not None and not mark_of(name)
        if is_partition and (words := link_trouble(path)):
            complain(path, words)


def _parents(found: list[tuple[str, Folder]]) -> set[str]:
    """The places of log directories: those with a broker's files, or with partitions."""
    parents = set()
    for place, folder in found:
        names = [kind_of(file) for file in folder.files]
        known = (kind for kind, _, _ in names if kind is not UNKNOWN)
        if any(kind.level is Level.LOG_DIRECTORY for kind in known):
            parents.add(place)
        if any(offset is not None for _, offset, _ in names):
            parents.add(place.rpartition(os.sep)[0] or os.curdir)
    return parents


def _of_brokers(found: list[tuple[str, Folder]], parents: set[str]) -> list[Folder]:
    """The directory given and those in a tree that a broker would use: directories with broker
    files and their siblings, as a broker treats every directory in its log directory as a
    partition; and those with logs under other names. Other programs also have directories named
    like version-2, and *.log files."""
    return [
        folder
        for place, folder in found
        if place == os.curdir
        or (place.rpartition(os.sep)[0] or os.curdir) in parents
        or folder.is_of_kafka
        or has_other_form(folder.files)
    ]


@lru_cache(maxsize=4096)
def _is_named_like_log(file: str) -> bool:
    """Whether a name that no broker gives is that of a log, a copy or a compressed one."""
    return _OTHER_LOG.search(file) is not None and kind_of(file)[1:] == (None, "")


def _begins_like_log(path: str) -> bool:
    """Whether two of the first batch's offset, length and magic are possible."""
    try:
        start = bytes_at(path, 0, _START)
    except InputError:  # reading it reports the error
        return True
    if len(start) < _START:
        return False
    offset, length, magic = start[:2], int.from_bytes(start[8:12], "big"), start[16]
    return (offset == bytes(2)) + (0 < length < _LONGEST) + (magic <= _LAST_MAGIC) > 1


def is_of_broker(file: str) -> bool:
    """Whether a broker writes files with such a name; segment files begin with an offset."""
    kind, base_offset, _ = kind_of(file)
    if kind.level is Level.SEGMENT and kind.suffix:
        return base_offset is not None
    return kind is not UNKNOWN


def listing(path: str, prefix: str | None = None) -> Folder:
    """A directory without what is in its subdirectories; raises InputError. prefix: that of its
    files' names, if it is not the path."""
    try:
        return replace(_folder(path, os.curdir, entries_of(path)), prefix=prefix)
    except OSError as error:
        raise InputError(f"{name_text(path)}: {error.strerror}") from error


def _folder(path: str, below: str, its: DirectoryEntries) -> Folder:
    """A directory with its entries."""
    others = [entry for entry in its.files if not entry.is_file(follow_symlinks=False)]  # few
    return Folder(
        path,
        below,
        tuple(sorted([*its.folders, *its.links])),
        tuple(sorted(entry.name for entry in its.files)),
        frozenset(entry.name for entry in others if _is_special(entry)),
        frozenset(entry.name for entry in others if entry.is_symlink()),
        stored_as={
            entry.name: entry.stored_as
            for entry in its.files
            if isinstance(entry, StoredEntry) and entry.stored_as
        },
    )


def unlisted(complain: Callable[[str], None]) -> Callable[[str, str], None]:
    """What `each_directory` calls to complain about a directory that cannot be listed."""
    return lambda path, why: complain(f"{name_text(path)}: {why}")


def _is_special(entry: FileEntry) -> bool:
    """Whether opening a file would block.

    A file that cannot be examined is opened, which reports why.
    """
    try:
        return not entry.is_file() and not stat.S_ISREG(entry.stat().st_mode)
    except OSError:
        return False


def inputs_in(
    folders: Iterable[Folder],
    kinds: frozenset[Kind],
    passed_over: Counter[str] | None = None,
) -> Iterator[Input]:
    """The files of the wanted kinds, without leftover and unfinished ones.

    passed_over: counts the other files: by kind, as `other`, or by the suffix of a leftover file.
    """
    for folder in folders:
        for file in folder.files:
            kind, _, transient = kind_of(file)
            is_foreign = not folder.takes(file)
            if not is_foreign and not is_of_broker(file):
                kind = folder.input(file).kind
            if transient or kind not in kinds or file in folder.special or is_foreign:
                if passed_over is not None:
                    named = (kind.suffix or kind.holds_batches) and not is_foreign
                    passed_over[transient or (kind.name if named else "other")] += 1
                continue
            yield folder.input(file)


def every_input(folders: Iterable[Folder]) -> Iterator[Input]:
    """All files except pipes and the like, in display order."""
    for folder in folders:
        for file in in_order(folder.files):
            if file not in folder.special:
                yield folder.input(file)


def _order(place: str) -> list[tuple[str, int]]:
    """Sort key: topics by name, partitions by number; a directory before its contents."""
    folders = []
    for part in () if place == os.curdir else place.split(os.sep):  # noqa: PTH206 (many)
        partition = _PARTITION.match(part)
        folders.append((partition[1], int(partition[2])) if partition else (part, -1))
    return folders
