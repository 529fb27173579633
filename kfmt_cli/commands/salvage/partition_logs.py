"""The logs of a partition to salvage, and whether they can be written one by one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from kfmt_cli.commands.settings_resolver import is_topic_compacted
from kfmt_cli.disk.file_names import (
    log_partition_directory,
    parse_offset_name,
    parse_topic_partition,
)
from kfmt_cli.disk.kinds.kind import SWAP_SUFFIX, InputFile
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.writers.salvage.salvager import LogOffsetRange


@dataclass(frozen=True, slots=True)
class SalvagedPartition:
    """The logs of a partition, in order."""

    output_directory: PurePath
    """Their directory under DST."""
    logs: list[InputFile]
    other_logs: list[InputFile] = field(default_factory=list)
    """Other files with batches that a broker would treat as logs or swap in for them."""

    @property
    def _source_directory(self) -> Path:
        """Their directory in SRC."""
        return log_partition_directory([*self.logs, *self.other_logs][0].path)

    @property
    def topic_partition(self) -> tuple[str | None, int | None]:
        """The topic and partition in the name of their directory in SRC."""
        return parse_topic_partition(self._source_directory.name)

    @property
    def is_compacted(self) -> bool:
        """Whether the topic is compacted, according to the metadata log next to it; raises
        InputError."""
        return is_topic_compacted(self.topic_partition[0], self._source_directory.parent) is True

    @property
    def display_path(self) -> str:
        """Their directory in SRC, for output."""
        directory, _, _ = [*self.logs, *self.other_logs][0].name.rpartition(os.sep)
        return directory or os.curdir


OffsetRangeByPath = dict[str, LogOffsetRange | None]
"""Offset range of the undamaged batches of each readable log, by path; None without any."""


def base_offset_in_name(log: InputFile) -> int | None:
    """The base offset that a broker reads from a log's name; None without one."""
    if log.base_offset is not None:
        return log.base_offset
    base_offset = parse_offset_name(PurePath(log.path).name)
    return base_offset if base_offset is not None and base_offset >= 0 else None


def is_swap_file(log: InputFile) -> bool:
    return log.path.endswith(SWAP_SUFFIX)


def is_in_order(partition: SalvagedPartition, range_by_path: OffsetRangeByPath) -> bool:
    """Whether all undamaged batches are in order, so that logs can be written one by one."""
    if any(range_by_path.get(file.path) for file in partition.other_logs):
        return False
    last_offset = -1
    for log in partition.logs:
        offset_range = range_by_path.get(log.path)
        if offset_range is None:
            continue
        base_offset = log.base_offset_or_zero
        if (
            not offset_range.is_ordered
            or offset_range.first_offset < base_offset
            or base_offset <= last_offset
        ):
            return False
        if offset_range.last_offset - base_offset > MAX_RELATIVE_OFFSET:
            return False
        last_offset = offset_range.last_offset
    return True
