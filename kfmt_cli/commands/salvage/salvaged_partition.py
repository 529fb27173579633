"""The logs of a partition to salvage, and whether they can be written one by one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from kfmt_cli.commands.log_settings import compacts
from kfmt_cli.disk.kinds.kind import SWAP, Input
from kfmt_cli.disk.names import folder_of_log, offset_of_name, place_of
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.writing.salvage.salvager import LogExtent


@dataclass(frozen=True, slots=True)
class SalvagedPartition:
    """The logs of a partition, in order."""

    below: PurePath
    """Their folder under DST."""
    logs: list[Input]
    more: list[Input] = field(default_factory=list)
    """Other files with batches that a broker would treat as logs or swap in for them."""

    @property
    def _folder(self) -> Path:
        """Their directory in SRC."""
        return folder_of_log([*self.logs, *self.more][0].path)

    @property
    def place(self) -> tuple[str | None, int | None]:
        """The topic and partition in the name of their directory in SRC."""
        return place_of(self._folder.name)

    @property
    def is_compacted(self) -> bool:
        """Whether the topic is compacted, according to the metadata log next to it; raises
        InputError."""
        return compacts(self.place[0], self._folder.parent) is True

    @property
    def name(self) -> str:
        """Their directory in SRC, for output."""
        folder, _, _ = [*self.logs, *self.more][0].name.rpartition(os.sep)
        return folder or os.curdir


Extents = dict[str, LogExtent | None]
"""The extent of the undamaged batches of each log that can be read, None without any."""


def base_of(log: Input) -> int | None:
    """The base offset that a broker reads from a log's name; None without one."""
    if log.base_offset is not None:
        return log.base_offset
    base = offset_of_name(PurePath(log.path).name)
    return base if base is not None and base >= 0 else None


def is_swap(log: Input) -> bool:
    return log.path.endswith(SWAP)


def is_orderly(partition: SalvagedPartition, extents: Extents) -> bool:
    """Whether every undamaged batch is in its place, so that logs can be written one by one."""
    if any(extents.get(file.path) for file in partition.more):
        return False
    end = -1
    for log in partition.logs:
        extent = extents.get(log.path)
        if extent is None:
            continue
        base = log.base
        if not extent.is_ordered or extent.first < base or base <= end:
            return False
        if extent.last - base > MAX_RELATIVE_OFFSET:
            return False
        end = extent.last
    return True
