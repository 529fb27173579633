"""The contents of a replica's log, from its batch headers: undamaged offsets, leader epochs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from kfmt_cli.broker.log_reading.offset_intervals import (
    OffsetIntervals,
    intersect_intervals,
    merge_intervals,
    read_log_offsets,
    subtract_intervals,
)
from kfmt_cli.broker.start.checkpoints import LEADER_EPOCH_CHECKPOINT, read_valid_epoch_entries
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.source import TruncatedSource
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import is_error
from kfmt_cli.log.reader import LogReader
from kfmt_cli.rows.log_tables import BatchTable

SAMPLED_FRACTION = 64  # a sample is one batch of this number, besides the first of a log
N_FIRST_SAMPLES = 16
EpochInterval = tuple[int, int, int]
"""A leader epoch, and the first and last offset of consecutive batches with it."""
BatchSample = tuple[int, int]
"""The base offset and the checksum of a batch."""


@dataclass(slots=True)
class ReplicaLogContents:
    """The batches of a log."""

    path: str
    base_offset: int
    undamaged_intervals: OffsetIntervals = field(default_factory=list)
    damaged_intervals: OffsetIntervals = field(default_factory=list)
    """The offsets that are only in damaged batches."""
    epoch_intervals: list[EpochInterval] = field(default_factory=list)
    """In the order of the file; batches without a leader epoch are omitted."""
    samples: frozenset[BatchSample] = frozenset()
    """Some undamaged batches: replicas of a log that share a batch have the same samples of it."""
    is_damaged: bool = False
    """Whether some bytes are no undamaged batch, or cannot be read."""
    has_gaps: bool = False
    """Whether offsets are missing between undamaged neighbours, as after compaction."""
    read_error: str | None = None
    """Why the log cannot be read to its end."""

    @property
    def latest_epoch(self) -> int:
        """The latest leader epoch; -1 if there is none."""
        return max((epoch for epoch, _, _ in self.epoch_intervals), default=-1)

    def restrict_to(self, intervals: OffsetIntervals) -> ReplicaLogContents:
        """The undamaged batches within intervals."""
        return ReplicaLogContents(
            self.path,
            self.base_offset,
            intersect_intervals(self.undamaged_intervals, intervals),
            epoch_intervals=[
                (epoch, first, last)
                for epoch, *offsets in self.epoch_intervals
                for first, last in intersect_intervals([(offsets[0], offsets[1])], intervals)
            ],
        )


def read_log_contents(file_and_size: tuple[InputFile, int]) -> ReplicaLogContents:
    """The contents of a log up to a size in bytes. A log that cannot be read is damaged."""
    file, size = file_and_size
    contents = ReplicaLogContents(file.path, file.base_offset_or_zero)
    has_unknown_base_offsets = False
    samples: set[BatchSample] = set()
    previous_last_offset: int | None = None
    try:
        with closing(open_source(file.path, file.name)) as source:
            limited_source = TruncatedSource(source, min(size, source.size or 0))
            for block in LogReader(limited_source, file.base_offset).iter_blocks():
                batches = block.batches
                contents.is_damaged |= any(map(is_error, block.findings))
                contents.is_damaged |= bool((batches.crc_valid == 0).any())
                has_unknown_base_offsets |= bool((batches.has_base_offset == 0).any())
                valid_batches = _select_valid_batches(batches)
                if not len(valid_batches):
                    continue
                new_intervals = _consecutive_intervals(valid_batches)
                if previous_last_offset not in (None, new_intervals[0][0] - 1):
                    contents.has_gaps = True
                contents.has_gaps |= len(new_intervals) > 1
                contents.undamaged_intervals += new_intervals
                previous_last_offset = new_intervals[-1][1]
                contents.epoch_intervals += _epoch_intervals(valid_batches)
                samples |= _sample_batches(valid_batches, N_FIRST_SAMPLES - len(samples))
        if contents.is_damaged or has_unknown_base_offsets:
            log_offsets = read_log_offsets(file, contents.base_offset)
            contents.undamaged_intervals = merge_intervals(log_offsets.undamaged_offsets())
            contents.damaged_intervals = subtract_intervals(
                log_offsets.contained_offsets(None), contents.undamaged_intervals
            )
    except InputError as error:
        contents.is_damaged, contents.read_error = True, str(error)
    contents.undamaged_intervals = merge_intervals(contents.undamaged_intervals)
    contents.samples = frozenset(samples)
    return contents


def _select_valid_batches(batches: BatchTable) -> BatchTable:
    is_valid = (batches.crc_valid == 1) & (batches.last_offset >= batches.base_offset)
    return batches.select_rows(is_valid & (batches.base_offset >= 0))


def _consecutive_intervals(batches: BatchTable) -> OffsetIntervals:
    """The offsets of batches, with neighbours merged."""
    is_start = np.ones(len(batches), np.bool_)
    is_start[1:] = batches.base_offset[1:] != batches.last_offset[:-1] + 1
    starts = np.flatnonzero(is_start)
    ends = np.append(starts[1:], len(batches)) - 1
    return list(
        zip(batches.base_offset[starts].tolist(), batches.last_offset[ends].tolist(), strict=True)
    )


def _epoch_intervals(batches: BatchTable) -> list[EpochInterval]:
    """The leader epochs of batches, and their offsets. Source: the field partitionLeaderEpoch of
    `org.apache.kafka.common.record.DefaultRecordBatch`."""
    epochs: IntArray = np.where(batches.is_v2 == 1, batches.partition_leader_epoch, -1)
    starts = np.flatnonzero(np.diff(epochs, prepend=epochs[0] - 1))
    ends = np.append(starts[1:], len(batches)) - 1
    columns = epochs[starts], batches.base_offset[starts], batches.last_offset[ends]
    return [
        (epoch, first_offset, last_offset)
        for epoch, first_offset, last_offset in zip(*(c.tolist() for c in columns), strict=True)
        if epoch >= 0
    ]


def _sample_batches(batches: BatchTable, n_first_batches: int) -> set[BatchSample]:
    is_sample = batches.crc % SAMPLED_FRACTION == 0
    is_sample[: max(n_first_batches, 0)] = True
    return set(
        zip(batches.base_offset[is_sample].tolist(), batches.crc[is_sample].tolist(), strict=True)
    )


def read_checkpoint_entries(directory: str) -> list[tuple[int, int]]:
    """The leader epochs in the checkpoint of a partition's directory; none if it cannot be read."""
    path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        return read_valid_epoch_entries(classify_file(path, path))
    except InputError:
        return []


@dataclass(slots=True, eq=False)
class ReplicaContents:
    """The logs of a replica: a partition's directory on a disk."""

    directory: str
    topic_id: str | None = None
    logs: Sequence[ReplicaLogContents] = ()
    """In the order of their base offsets."""
    checkpoint_entries: Sequence[tuple[int, int]] = ()
    """The leader epochs in leader-epoch-checkpoint, each with its first offset."""

    @property
    def is_compacted(self) -> bool:
        """Whether offsets are missing between undamaged batches of a log."""
        return any(log.has_gaps and not log.is_damaged for log in self.logs)

    @property
    def undamaged_intervals(self) -> OffsetIntervals:
        """The offsets in undamaged batches. In a compacted log, offsets between two undamaged logs
        count too, because the log cleaner removed them."""
        intervals = merge_intervals(
            interval for log in self.logs for interval in log.undamaged_intervals
        )
        if not self.is_compacted:
            return intervals
        damaged_intervals = [interval for log in self.logs for interval in log.damaged_intervals]
        unread_intervals = [
            (log.base_offset, next_log.base_offset - 1)
            for log, next_log in pairwise(self.logs)
            if log.is_damaged and not log.undamaged_intervals
        ]
        gaps = [(left[1] + 1, right[0] - 1) for left, right in pairwise(intervals)]
        return merge_intervals(
            [*intervals, *subtract_intervals(gaps, damaged_intervals + unread_intervals)]
        )

    @property
    def epoch_intervals(self) -> list[EpochInterval]:
        """The leader epochs of all logs, and those in its checkpoint that begin before the log end,
        even if all their batches are damaged."""
        damaged_intervals = (interval for log in self.logs for interval in log.damaged_intervals)
        end_offset = max([self.end_offset, *(last + 1 for _, last in damaged_intervals)])
        intervals = [interval for log in self.logs for interval in log.epoch_intervals]
        return intervals + [
            (epoch, first_offset, first_offset)
            for epoch, first_offset in self.checkpoint_entries
            if first_offset < end_offset
        ]

    @property
    def samples(self) -> frozenset[BatchSample]:
        """The samples of all logs."""
        return frozenset[BatchSample]().union(*(log.samples for log in self.logs))

    @property
    def end_offset(self) -> int:
        """The offset after the last undamaged one; the base offset of the last log if it has
        none."""
        last_offsets = [interval[1] for log in self.logs for interval in log.undamaged_intervals]
        return max([*(log.base_offset for log in self.logs[-1:]), *(o + 1 for o in last_offsets)])

    @property
    def latest_epoch(self) -> int:
        """The latest leader epoch; -1 if there is none."""
        return max((epoch for epoch, _, _ in self.epoch_intervals), default=-1)
