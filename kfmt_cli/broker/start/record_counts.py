"""Counts a partition's records in offset ranges; gaps between batches contain none."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from operator import itemgetter

import numpy as np

from kfmt_cli.broker.log_reading.not_files import start_file_names
from kfmt_cli.broker.log_reading.offset_intervals import (
    BatchOffsets,
    LogOffsets,
    OffsetInterval,
    OffsetIntervals,
    intersect_intervals,
    merge_intervals,
    read_log_offsets,
)
from kfmt_cli.broker.log_reading.seek import read_blocks_from
from kfmt_cli.broker.transactions.transactions import read_committed_records
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.disk.directory_listing import DirectoryListing, is_segment_log
from kfmt_cli.disk.kinds.kind import InputFile


@dataclass(slots=True)
class RecordCounter:
    """Counts the records in the undamaged batches of a partition's logs, which it reads on
    demand."""

    listing: DirectoryListing
    offsets_by_log: dict[tuple[str, int], LogOffsets] = field(default_factory=dict)
    """The batches of the logs read so far, by path and base offset."""

    def count(self, intervals: Iterable[OffsetInterval]) -> int:
        """The number of records in some offsets; raises InputError."""
        merged_intervals = merge_intervals(intervals)
        if not merged_intervals:
            return 0
        n_records_by_offset: dict[int, int] = {}  # logs of an interrupted cleaning overlap
        for log, next_log in zip_longest(logs := self._logs, logs[1:]):
            end = MAX_OFFSET if next_log is None else next_log.base_offset_or_zero - 1
            log_interval = log.base_offset_or_zero, max(end, log.base_offset_or_zero)
            if not intersect_intervals(merged_intervals, [log_interval]):
                continue
            for batch in self._read_offsets(log).batches:
                if not batch.is_valid or not batch.n_records:
                    continue
                n_records = _count_in_batch(batch, merged_intervals)
                if n_records:
                    previous = n_records_by_offset.get(batch.first_offset, 0)
                    n_records_by_offset[batch.first_offset] = max(n_records, previous)
        return sum(n_records_by_offset.values())

    def count_committed(self, interval: OffsetInterval) -> int:
        """The number of committed records in an offset range, even after the last stable offset;
        raises InputError."""
        logs = self._logs
        committed = read_committed_records(
            logs, (block for log in logs for block in read_blocks_from(log)), raises_unread=True
        )
        n_records = 0
        for log in logs:
            for block in read_blocks_from(log):
                batches = block.batches
                is_counted = (batches.crc_valid == 1) & committed.delivered_mask(batches)
                is_counted &= batches.base_offset >= interval[0]
                is_counted &= batches.last_offset <= interval[1]
                n_records += int(batches.records_count[np.flatnonzero(is_counted)].sum())
        return n_records

    @property
    def _logs(self) -> Sequence[InputFile]:
        files = map(self.listing.input_file, start_file_names(self.listing))
        return sorted(filter(is_segment_log, files), key=lambda log: log.base_offset_or_zero)

    def _read_offsets(self, log: InputFile) -> LogOffsets:
        key = log.path, log.base_offset_or_zero
        if key not in self.offsets_by_log:
            self.offsets_by_log[key] = read_log_offsets(log, log.base_offset_or_zero)
        return self.offsets_by_log[key]


def _count_in_batch(batch: BatchOffsets, intervals: OffsetIntervals) -> int:
    """The number of a batch's records in some offsets. If only some of its offsets are there, and
    compaction has removed records, at most that many."""
    n_offsets = 0
    index = bisect_left(intervals, batch.first_offset, key=itemgetter(1))
    for first_offset, last_offset in islice(intervals, index, None):
        if first_offset > batch.last_offset:
            break
        first_offset = max(first_offset, batch.first_offset)  # noqa: PLW2901
        n_offsets += min(last_offset, batch.last_offset) - first_offset + 1
    return min(batch.n_records, n_offsets)
