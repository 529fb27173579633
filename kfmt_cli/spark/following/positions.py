"""Positions of a stream: where it is in each partition, as a checkpoint stores it.

A key names a partition, not a directory: a partition that moves to another disk keeps its position.
`orders-0@<topic id>` is the key of most; `orders-0` if no topic id is known; the path of a
directory that is not a partition's. In checkpoints of older versions, all keys are paths.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import Any

from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.names import place_of
from kfmt_cli.spark.following.copies import PartitionLogs

_KEY = re.compile(r"(?P<name>.+-\d+)@(?P<topic_id>[\w-]{22})\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Position:
    """The position reached in a partition."""

    offset: int = 0
    """The next offset."""
    segment: int = 0
    """The base offset of the segment that contains the next offset, or will contain it."""
    byte: int = 0
    """The byte at which its batch begins in the segment."""
    last: int = -1
    """The byte at which the batch before it begins in the same segment; -1 if that is not known."""
    epoch: int = -1
    """The leader epoch of the batch before it; -1 if that is not known."""
    first: int = -1
    """The offset from which the partition is read; -1 for what was there at the beginning."""
    restarts: int = 0
    """How often reading went on at another offset than the next one, because data was lost."""

    @classmethod
    def at(cls, offset: int, restarts: int = 0) -> Position:
        """A position at which reading begins, in the segment with this base offset or before."""
        return cls(offset, offset, 0, first=offset, restarts=restarts)

    def kept(self) -> dict[str, int]:
        """The position as stored in a checkpoint, without what is not known."""
        unknown = {"last": -1, "epoch": -1, "first": -1, "restarts": 0}
        return {name: at for name, at in asdict(self).items() if unknown.get(name) != at}


@dataclass(slots=True)
class Resumed:
    """The positions of a checkpoint, by the partitions that are there."""

    found: dict[str, Position] = field(default_factory=dict)
    """By the keys of partitions."""
    gone: dict[str, Position] = field(default_factory=dict)
    """Of partitions that are not there, by the checkpoint's keys."""
    recreated: dict[str, str] = field(default_factory=dict)
    """Keys in `gone` by the key of a partition with the same name and another topic id."""


def resumed(kept: Mapping[str, Any], there: Mapping[str, PartitionLogs]) -> Resumed:
    """Find the partition of each position in a checkpoint."""
    made = Resumed({key: Position(**kept[key]) for key in there if key in kept})
    made.gone = {key: Position(**at) for key, at in kept.items() if key not in there}
    if not made.gone:
        return made
    folders = {copy.folder for partition in there.values() for copy in partition.copies}
    by_name = defaultdict[str, list[str]](list)
    for key in made.gone:
        by_name[name_of(key)].append(key)
    for key, partition in there.items():
        if key in made.found:
            continue
        of_name = [old for old in by_name.get(partition.name, []) if old in made.gone]
        own = [copy.folder for copy in partition.copies if copy.folder in made.gone]
        own += [old for old in of_name if _is_same(old, partition, folders) and old not in own]
        if own:
            made.found[key] = max((made.gone.pop(old) for old in own), key=attrgetter("offset"))
        elif of_name:
            made.recreated[key] = of_name[0]
    return made


def _is_same(old: str, partition: PartitionLogs, folders: set[str]) -> bool:
    """Whether a position with the partition's name is its own: not if both have topic ids, which
    differ, nor if its directory is there, as that of another partition."""
    has_ids = _KEY.match(old) is not None and partition.topic_id is not None
    return not has_ids and old not in folders


def name_of(key: str) -> str:
    """The topic and partition in a key; the path of a directory that is not a partition's."""
    if (named := _KEY.match(key)) is not None:
        return named["name"]
    if "/" not in key:
        return key
    topic, partition = place_of(key.rpartition("/")[2])
    return key if topic is None else f"{name_text(topic)}-{partition}"


def words_of(key: str) -> str:
    """A key for people."""
    named = _KEY.match(key)
    return key if named is None else f"{named['name']} (topic id {named['topic_id']})"


def at_most(
    position: Position, before: Position | None, until: Mapping[str, int] | None
) -> Position:
    """A position, but not beyond another one; and not before the one that was reached."""
    if until is None:
        return position if before is None else before
    most = Position(**until)
    if position.offset <= most.offset:
        return position
    begin = beginning(before, position)
    if most.offset <= begin.offset:
        return begin
    return replace(most, first=position.first, restarts=position.restarts)


def beginning(start: Position | None, end: Position) -> Position:
    """Where the data up to a position begins, after another one."""
    if start is None or end.restarts > start.restarts:
        begin = max(end.first, 0)
        return Position(begin, begin, first=end.first, restarts=end.restarts)
    return start
