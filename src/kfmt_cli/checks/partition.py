"""What must be true of a directory: of the names in it, and of its segments among one another.

Source: `org.apache.kafka.storage.internals.log.LogLoader` (which names it takes an offset from,
what becomes of `.swap` files), `kafka.log.LogManager.loadLogs` and
`org.apache.kafka.storage.internals.log.UnifiedLog.parseTopicPartitionName`. Compaction leaves
offsets out inside of segments and between them, retention and tiered storage take segments from the
front: neither is accused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from kfmt_cli.checks.extent import Extent
from kfmt_cli.core.finding import Finding
from kfmt_cli.files import directory_codes as codes
from kfmt_cli.files.discover import Folder, Input, printable
from kfmt_cli.files.log import MAX_RELATIVE_OFFSET
from kfmt_cli.formats.checkpoint import CHECKPOINTS

_SEGMENT = re.compile(r"^\d{20}\.log$")
_SWAP = re.compile(r"^\d{20}\.log\.swap$")
# Names that a broker takes an offset from, which is what stands before the first dot.
_WITH_OFFSET = re.compile(r"\.(?:log|index|timeindex|txnindex|snapshot)$")
_NUMBER = re.compile(r"^[+-]?\d{1,20}$")
_MOST = (1 << 63) - 1
# What a broker that manages logs writes into each of its log directories.
_OF_LOG_DIRECTORY = frozenset(CHECKPOINTS) - {"leader-epoch-checkpoint"}
_PARTITION = re.compile(r"^.+-(\+?\d+)$")
_MOVING = re.compile(r"^(\S+-\S+)\.\S+-(?:delete|future|stray)$")
_NOT_LOGS = frozenset({"remote-log-index-cache"})  # directories that a broker passes over
_MOST_PARTITION = (1 << 31) - 1


def is_segment(file: Input) -> bool:
    """Whether the file is named as a broker names the logs of a partition's segments."""
    return _SEGMENT.match(file.path.rpartition(os.sep)[2]) is not None


def check_names(folder: Folder) -> Iterator[Finding]:
    """What the names in a directory say, without opening anything."""
    yield from _not_partitions(folder)
    if not any(map(_is_of_partition, folder.files)):
        return
    yield from _swapped(folder)
    for name in folder.files:
        if _lacks_offset(name):
            message = f"{printable(name)!r} does not begin with an offset"
            yield Finding(folder.input(name).name, codes.NAME_NOT_NUMERIC, None, message)


# Partitions have files of the same names, so that few are looked at.
@lru_cache(maxsize=4096)
def _is_of_partition(name: str) -> bool:
    return _SEGMENT.match(name) is not None or _SWAP.match(name) is not None


@lru_cache(maxsize=4096)
def _lacks_offset(name: str) -> bool:
    """Whether a broker takes an offset from a name that has none."""
    return _WITH_OFFSET.search(name) is not None and not _is_offset(name.partition(".")[0])


def _is_offset(text: str) -> bool:
    return _NUMBER.match(text) is not None and -_MOST - 1 <= int(text) <= _MOST


def _swapped(folder: Folder) -> Iterator[Finding]:
    """Logs that a start puts in their place; not those that it deletes as unfinished."""
    if not any(name.endswith(".swap") for name in folder.files):
        return
    made = [
        int(name.partition(".")[0])
        for name in folder.files
        if name.endswith(".cleaned") and _is_offset(name.partition(".")[0])
    ]
    for name in folder.files:
        offset = int(name.partition(".")[0]) if _SWAP.match(name) else None
        if offset is None or (made and offset >= min(made)):
            continue
        of = name.removesuffix(".swap")
        there = "it replaces that log" if of in folder.files else "there is no log of that name"
        message = f"a broker was stopped before it made this {of}: {there}"
        yield Finding(folder.input(name).name, codes.SWAP_FILE, None, message, offset)


def _not_partitions(folder: Folder) -> Iterator[Finding]:
    if _OF_LOG_DIRECTORY.isdisjoint(folder.files):
        return
    for name in folder.folders:
        if name not in _NOT_LOGS and not _names_partition(name):
            message = f"{printable(name)!r} does not end in - and the number of a partition"
            found = folder.input(name).name
            yield Finding(found, codes.DIRECTORY_NOT_A_PARTITION, None, message)


def _names_partition(name: str) -> bool:
    moving = _MOVING.match(name)
    partition = _PARTITION.match(moving[1] if moving else name)
    return partition is not None and int(partition[1]) <= _MOST_PARTITION


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """A segment's log. name: to show it. size: in bytes. extent: the offsets that it holds."""

    name: str
    base_offset: int
    size: int
    batches: int
    extent: Extent


@dataclass(slots=True)
class PartitionCheck:
    """Takes the segments of a partition in their order."""

    _findings: list[Finding] = field(default_factory=list)
    _empty: list[SegmentFacts] = field(default_factory=list)
    _before: SegmentFacts | None = None
    # The highest last offset so far, and the segment that it is in.
    _highest: tuple[int, str] | None = None

    def take(self, segment: SegmentFacts) -> None:
        """The next segment."""
        self._findings += self._emptied()
        self._findings += self._overlap(segment)
        self._findings += self._gap(segment)
        if not segment.size:
            self._empty.append(segment)
            self._before = None  # what is missing behind it is said of the empty one
        last = segment.extent.last
        # An offset that the segment cannot have is damage, and says nothing about others.
        if last is not None and last - segment.base_offset <= MAX_RELATIVE_OFFSET:
            self._before = segment
            if self._highest is None or last > self._highest[0]:
                self._highest = last, segment.name
        elif segment.size:
            self._before = None

    def pass_over(self) -> None:
        """The next segment could not be read: nothing is known of what lies on its two sides."""
        self._findings += self._emptied()
        self._before = None

    def finish(self) -> list[Finding]:
        """What was found; behind the last segment, which may be empty."""
        self._empty.clear()
        return self._findings

    def _emptied(self) -> Iterator[Finding]:
        """The segment before, if it is empty: now it is known not to be the last."""
        for segment in self._empty:
            message = "0 bytes, and it is not the last segment"
            yield Finding(segment.name, codes.LOG_EMPTY, None, message, segment.base_offset)
        self._empty.clear()

    def _overlap(self, segment: SegmentFacts) -> Iterator[Finding]:
        begins, known = segment.base_offset, segment.extent.first
        begins = begins if known is None else min(begins, known)
        if self._highest is None or begins > self._highest[0]:
            return
        last, other = self._highest
        message = f"begins at offset {begins}, but {other} goes up to {last}"
        ends = segment.extent.last
        if known is not None and ends is not None and known <= last:
            message += f": the counts have offsets {known}–{min(last, ends)} twice"
        yield Finding(segment.name, codes.SEGMENTS_OVERLAP, None, message, begins, last + 1, begins)

    def _gap(self, segment: SegmentFacts) -> Iterator[Finding]:
        """Offsets that are missing between two segments that miss none themselves."""
        before, extent = self._before, segment.extent
        if before is None or self._highest is None:
            return
        begins = segment.base_offset if extent.first is None else extent.first
        after = self._highest[0] + 1
        if begins <= after or before.extent.has_holes or extent.has_holes:
            return
        message = f"offsets {after}–{begins - 1} are neither in it nor in {before.name}"
        yield Finding(segment.name, codes.SEGMENTS_GAP, None, message, after, after, begins)
