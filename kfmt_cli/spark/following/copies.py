"""The partitions that a stream finds, each with the copies of its log."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.sharing.piece import Piece

BASE = attrgetter("base")
"""The base offset of a segment."""
Signature = tuple[tuple[str, str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """The segments of a partition in a directory, after those in tiered storage, if there are any.

    Each begins at a higher offset than the one before.
    """

    folder: str
    logs: tuple[Piece, ...]

    @property
    def first(self) -> int:
        """The base offset of its first segment."""
        return self.logs[0].base


@dataclass(frozen=True, slots=True)
class PartitionLogs:
    """A partition, or another directory with logs."""

    key: str
    """What a checkpoint calls it; see `positions`."""
    name: str
    """Topic and partition, or the path of the directory."""
    topic_id: str | None
    copies: tuple[Copy, ...]
    """In the order in which the paths were given."""

    @property
    def signature(self) -> Signature:
        """It changes with the beginning and the end of each copy."""
        return tuple(
            (copy.logs[0].path, copy.logs[-1].path, copy.logs[-1].size, copy.logs[-1].modified)
            for copy in self.copies
        )


def partitions_in(
    files: Iterable[Piece], id_of: Callable[[Piece], str | None], paths: Sequence[str]
) -> dict[str, PartitionLogs]:
    """The partitions of a listing by their keys, in order. id_of: the topic id of a segment. paths:
    as they were given; with equal claims, a copy in an earlier one is read."""
    folders = defaultdict[str, list[Piece]](list)
    for file in files:
        if file.kind is LOG and file.base_offset is not None and not file.trouble:
            folders[file.folder].append(file)
    grouped = defaultdict[tuple[str, str | None], list[list[Piece]]](list)
    for folder, logs in folders.items():
        logs.sort(key=BASE)
        topic, number = logs[0].place
        if topic is None or number is None:
            grouped[folder, None].append(logs)
        else:
            grouped[f"{name_text(topic)}-{number}", id_of(logs[0])].append(logs)

    def in_order(logs: list[Piece]) -> tuple[int, str]:
        path = logs[0].path
        return next((i for i, one in enumerate(paths) if path.startswith(one)), len(paths)), path

    found: dict[str, PartitionLogs] = {}
    for name, topic_id in sorted(grouped, key=lambda one: (one[0], one[1] or "")):
        its = grouped[name, topic_id]
        key = name if topic_id is None else f"{name}@{topic_id}"
        copies = _copies(sorted(its, key=in_order) if len(its) > 1 else its)
        found[key] = PartitionLogs(key, name, topic_id, copies)
    return found


def _copies(folders: list[list[Piece]]) -> tuple[Copy, ...]:
    """The copies of a partition, from the segments in each of its directories."""
    tiered = [logs for logs in folders if logs[0].tiered]
    local = [logs for logs in folders if not logs[0].tiered]
    if not tiered or not local:
        return tuple(Copy(logs[0].folder, tuple(logs)) for logs in folders)
    return tuple(
        Copy(logs[0].folder, (*older[: bisect_left(older, logs[0].base, key=BASE)], *logs))
        for logs in local
        for older in tiered
    )
