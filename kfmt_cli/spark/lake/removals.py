"""Decides which rows of a table a run replaces or removes, by partition rather than by path.

A row's identity is topic id, partition, offset and leader epoch. Paths change: partitions move,
disks have replicas, logs are truncated and rewritten under the same names. While part of a
partition cannot be read, none of its rows are removed for being missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kfmt_cli.arrow.split_checks import count_severities
from kfmt_cli.broker.log_reading.offset_intervals import (
    OffsetIntervals,
    intersect_intervals,
    merge_intervals,
)
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.disk.file_names import file_topic_partition, parse_topic_partition
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.spark.job import StoredResult
from kfmt_cli.spark.split_processing import is_input_unreadable

MIN_OFFSET, MAX_OFFSET = -1 << 63, (1 << 63) - 1
ALL_OFFSETS: OffsetIntervals = [(MIN_OFFSET, MAX_OFFSET)]
SourcePartition = tuple[Any, Any]
"""Topic id, or topic without one, or path without a topic; and partition."""


@dataclass(slots=True)
class RemovedOffsets:
    """The offsets of an input whose rows a run removes."""

    intervals: OffsetIntervals = field(default_factory=list)
    """In order, without overlaps."""
    truncated_from: int = MAX_OFFSET
    """The offset from which they are removed because the log was truncated."""

    @property
    def are_all(self) -> bool:
        """Whether all rows are removed."""
        return self.intervals == ALL_OFFSETS


@dataclass(slots=True)
class _ReadLog:
    """A log of a partition in a directory, as a run read it."""

    row_intervals: OffsetIntervals = field(default_factory=list)
    """The offsets of the rows of each split."""
    first_base_offset: int = MAX_OFFSET
    end_offset: int = 0
    """After its last row, and at least the base offset of its last segment."""
    latest_epoch: int = -1
    n_bytes: int = 0
    is_complete: bool = True
    """Whether all of its segments were read to the end."""
    is_damaged: bool = False
    """Whether there are errors in its segments, so that its end may be unknown."""


@dataclass(slots=True)
class InputObservations:
    """Facts about its inputs that a run collects."""

    has_stale_rows: bool = True
    """Whether the table has rows of inputs that have changed, or are not part of this run."""
    unreadable_paths: set[str] = field(default_factory=set)
    """Paths of inputs that could not be read to the end."""
    _unread_partitions: set[SourcePartition] = field(default_factory=set)
    """By topic id, and by topic."""
    _is_any_partition_unread: bool = False
    """Whether a directory could not be listed that may have any partition."""
    _logs: dict[SourcePartition, dict[str, _ReadLog]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(_ReadLog))
    )
    """By partition and directory."""

    def add_unlistable_paths(self, paths: Iterable[str]) -> None:
        """Add the directories and files that could not be listed."""
        for path in paths:
            topic, partition = parse_topic_partition(path.rpartition("/")[2])
            if topic is None:
                topic, partition = file_topic_partition(path)
            if topic is None:
                self._is_any_partition_unread = True
            else:
                self._unread_partitions.add((topic, partition))

    def add_result(self, split: FileSplit, result: StoredResult) -> None:
        """Add the result of a split."""
        is_unreadable = is_input_unreadable(result)
        source_input = result.input
        if is_unreadable:
            self.unreadable_paths.add(split.path)
            self._unread_partitions |= {*_source_partitions(source_input)}
        if not self.has_stale_rows or split.kind is not LOG_KIND:
            return
        log = self._logs[_source_partition(source_input)][split.directory]
        log.is_complete &= not is_unreadable and not split.offset_intervals
        log.n_bytes += split.end - split.start
        log.is_damaged |= bool(count_severities(result["codes"])["errors"])
        log.first_base_offset = min(log.first_base_offset, split.base_offset_or_zero)
        log.end_offset = max(log.end_offset, split.base_offset_or_zero)
        log.latest_epoch = max(log.latest_epoch, result.get("epoch", -1))
        first_offset, last_offset = result.offsets
        if first_offset is not None and not is_unreadable:
            log.row_intervals.append((first_offset, last_offset))
            log.end_offset = max(log.end_offset, last_offset + 1)

    def is_partition_read(self, source_input: FieldDict) -> bool:
        """Whether everything of the partition of an input was read."""
        return not self._is_any_partition_unread and self._unread_partitions.isdisjoint(
            _source_partitions(source_input)
        )

    def _iter_logs(self, source_input: FieldDict) -> Iterator[tuple[str, _ReadLog]]:
        yield from self._logs.get(_source_partition(source_input), {}).items()

    def is_log_empty(self, source_input: FieldDict) -> bool:
        """Whether an input is a log in whose directory no log has bytes now, as on a new disk."""
        logs, directory = dict(self._iter_logs(source_input)), source_input.path.rpartition("/")[0]
        is_log = source_input.path.endswith(LOG_KIND.suffix)  # not a snapshot next to one
        return is_log and directory in logs and not logs[directory].n_bytes

    def covered_offsets(self, result: StoredResult) -> OffsetIntervals:
        """The offsets of a result's rows that this run read from other inputs, or that the log
        cleaner has removed according to these inputs."""
        if result.offsets[0] is None:
            return []
        covered_intervals: OffsetIntervals = []
        is_read = self.is_partition_read(result.input)  # else a gap may be a segment that is there
        for _, log in self._iter_logs(result.input):
            if is_read and log.is_complete and log.row_intervals:
                last_offset = max(last for _, last in log.row_intervals)
                covered_intervals.append((log.first_base_offset, last_offset))
            else:
                covered_intervals += log.row_intervals
        return intersect_intervals([tuple(result.offsets)], covered_intervals)

    def find_replaced_offsets(self, result: StoredResult) -> RemovedOffsets:
        """All offsets of an input that was read again, of which a truncation may have removed some
        from the log; damage hides whether it did."""
        logs = self._iter_logs(result.input)
        is_end_known = not any(log.is_damaged for _, log in logs)
        truncation_offset = self.find_truncation_offset(result) if is_end_known else None
        if truncation_offset is None:
            return RemovedOffsets(ALL_OFFSETS)
        return RemovedOffsets(ALL_OFFSETS, truncation_offset)

    def find_truncation_offset(self, result: StoredResult) -> int | None:
        """The offset from which a result's rows are no longer in the log, because it was truncated;
        None if it was not.

        The end of a log only moves back when it is truncated; an empty log may be that of a new
        disk. A log elsewhere may be a replica that lags: it shows a truncation if it has a later
        epoch than the rows.
        """
        if result.offsets[0] is None or not self.is_partition_read(result.input):
            return None
        directory = result.input.path.rpartition("/")[0]
        logs = dict(self._iter_logs(result.input))
        end_offset = max((log.end_offset for log in logs.values()), default=0)
        own_log = logs.get(directory)
        epoch = result.get("epoch", -1)
        latest_epoch = max((log.latest_epoch for log in logs.values()), default=-1)
        is_own_shorter = own_log is not None and own_log.is_complete and own_log.row_intervals
        is_truncated = bool(is_own_shorter) or -1 < epoch < latest_epoch
        return end_offset if logs and is_truncated and end_offset <= result.offsets[1] else None

    def find_removed_offsets(self, result: StoredResult, *, is_gone: bool) -> RemovedOffsets:
        """The offsets of an input's rows that other inputs have, or that a truncation removed.
        is_gone: whether the input is missing, rather than unreadable."""
        removed = RemovedOffsets(self.covered_offsets(result))
        truncation_offset = self.find_truncation_offset(result) if is_gone else None
        if truncation_offset is not None:
            removed.truncated_from = truncation_offset
            removed.intervals = merge_intervals(
                [*removed.intervals, (truncation_offset, MAX_OFFSET)]
            )
        if removed.truncated_from == MAX_OFFSET and removed.intervals == [tuple(result.offsets)]:
            removed.intervals = ALL_OFFSETS
        return removed


def _source_partitions(source_input: FieldDict) -> Iterator[SourcePartition]:
    """The partition of an input by topic id, and by topic, as some inputs have no id."""
    yield _source_partition(source_input)
    if source_input.topic is not None:
        yield source_input.topic, source_input.partition


def _source_partition(source_input: FieldDict) -> SourcePartition:
    return source_input.topic_id or source_input.topic or source_input.path, source_input.partition
