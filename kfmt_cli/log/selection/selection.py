"""Select batches and records by ranges of offsets and times.

All commands share one rule. A batch is selected if one of its records can be: its offsets and
timestamps, if known, overlap the bounds. A row without a timestamp (magic 0, or -1 from producers
and brokers) is outside any time bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

import numpy as np

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import NO_TIMESTAMP, Block, split_runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.decompression import decompress_ahead
from kfmt_cli.log.derived_columns import read_complete_records
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.log.selection.committed_records import CommittedRecords
from kfmt_cli.log.selection.record_filter import RecordFilter
from kfmt_cli.rows.log_tables import BatchTable

LOG_APPEND_TIME = 1
NO_EPOCH_LIMIT = 1 << 31  # leader epochs have 32 bits


@dataclass(frozen=True, slots=True)
class Selection:
    """Bounds and criteria that select records. Bounds are inclusive, None for no bound; times are
    in milliseconds."""

    first_offset: int | None = None
    last_offset: int | None = None
    first_time: int | None = None
    last_time: int | None = None
    record_filter: RecordFilter = field(default_factory=RecordFilter)
    committed: CommittedRecords | None = None
    """The records of the partition that read_committed consumers receive; None for no such
    limit."""
    offset_intervals: tuple[tuple[int, int], ...] = ()
    """Only offsets within these intervals, in order; empty for no such limit."""
    latest_epoch: int = NO_EPOCH_LIMIT
    """No batches of later leader epochs."""

    def __bool__(self) -> bool:
        """Whether it excludes anything."""
        return self != Selection()

    def starting_at(self, offset: int) -> Selection:
        """The same selection, starting at an offset."""
        return replace(self, first_offset=max(offset, self.first_offset or 0))

    def intersect(self, other: Selection) -> Selection:
        """The same selection, but also within the bounds of another one."""
        return replace(
            self,
            first_offset=_tighter_bound(max, self.first_offset, other.first_offset),
            last_offset=_tighter_bound(min, self.last_offset, other.last_offset),
            first_time=_tighter_bound(max, self.first_time, other.first_time),
            last_time=_tighter_bound(min, self.last_time, other.last_time),
        )

    def select_logs(self, logs: Sequence[InputFile]) -> Sequence[InputFile]:
        """The logs of a partition, in order of base offset, that can contain selected records."""
        return [
            log
            for log, next_log in zip_longest(logs, logs[1:])
            if not self._begins_after_log(log, next_log)
            and (self.last_offset is None or log.base_offset_or_zero <= self.last_offset)
        ]

    def _begins_after_log(self, log: InputFile, next_log: InputFile | None) -> bool:
        """Whether all selected records come after a log. next_log: the next log, which begins after
        it unless one of them is a copy."""
        if self.first_offset is None or next_log is None or next_log.base_offset is None:
            return False
        return log.base_offset_or_zero < next_log.base_offset <= self.first_offset

    @property
    def _has_time_bounds(self) -> bool:
        return self.first_time is not None or self.last_time is not None

    def contains_offsets(self, offsets: IntArray) -> BoolArray:
        """Which offsets are within the bounds."""
        is_within = _within_bounds_mask(offsets, self.first_offset, self.last_offset)
        return is_within & self._interval_mask(offsets, offsets)

    def _interval_mask(self, first_offsets: IntArray, last_offsets: IntArray) -> BoolArray:
        """Which ranges of offsets overlap `offset_intervals`."""
        if not self.offset_intervals:
            return np.ones(len(first_offsets), np.bool_)
        interval_firsts, interval_lasts = np.array(self.offset_intervals, np.int64).T
        next_intervals = np.searchsorted(interval_lasts, first_offsets)  # that do not end before
        has_next_interval = next_intervals < len(interval_firsts)
        next_firsts = interval_firsts[np.minimum(next_intervals, len(interval_firsts) - 1)]
        mask: BoolArray = has_next_interval & (next_firsts <= last_offsets)
        return mask

    def select_batches(self, block: Block, limit: DecompressionLimit | None = None) -> Block:
        """The block with only its selected batches, and all its findings.

        Only decompression shows where a wrapper of magic 0 or 1 begins. limit: decompress wrappers
        whose selection depends on it, and fill the base offsets of the selected ones; None: select
        them all, for a caller that decodes the records anyway and then calls `select_records`.
        """
        candidates = _filter_batches(block, self._batch_mask(block.batches))
        has_unknown_base_offset = candidates.batches.has_base_offset == 0
        has_offset_bounds = bool(
            self.first_offset is not None or self.last_offset is not None or self.offset_intervals
        )
        if limit is None or not has_offset_bounds or not has_unknown_base_offset.any():
            return candidates
        wrappers = replace(
            candidates, batches=candidates.batches.select_rows(has_unknown_base_offset), findings=[]
        )
        read_records(wrappers, limit)
        for name in ("base_offset", "has_base_offset"):
            candidates.batches[name][has_unknown_base_offset] = wrappers.batches[name]
        return _filter_batches(candidates, self._batch_mask(candidates.batches))

    def select_records(self, run: Block, records: RecordColumns) -> tuple[Block, RecordColumns]:
        """The selected batches of a decoded run, and their selected records."""
        is_selected = self.record_mask(run, records)
        batch_mask = self._batch_mask(run.batches)
        if self.record_filter.needs_records:  # then a batch counts only for its records
            n_selected_before_end = np.concatenate([[0], np.cumsum(is_selected)])[records.row_ends]
            batch_mask &= np.diff(n_selected_before_end, prepend=0) > 0
        if is_selected.all() and batch_mask.all():
            return run, records
        row_counts = records.row_counts
        is_selected &= np.repeat(batch_mask, row_counts)
        n_selected_before = np.concatenate([[0], np.cumsum(is_selected)])
        row_ends = n_selected_before[records.row_ends][batch_mask]
        return _filter_batches(run, batch_mask), replace(
            records, rows=records.rows.select_rows(is_selected), row_ends=row_ends
        )

    def iter_candidate_runs(
        self, block: Block, limit: DecompressionLimit
    ) -> Iterator[tuple[Block, RecordColumns]]:
        """The batches of a block that can contain selected records, run by run, with all their
        records; `record_mask` returns which are selected."""
        for decompressed_block in decompress_ahead(self.select_batches(block), limit):
            for run in map(self.record_filter.prefilter_batches, split_runs(decompressed_block)):
                yield run, read_complete_records(run, limit)

    def iter_narrowed_batches(
        self, block: Block, limit: DecompressionLimit, findings: list[Finding]
    ) -> Iterator[Block]:
        """The batches with selected records; their offsets and record counts cover only these
        records. findings: receives the findings about batches that cannot be decoded."""
        for run, records in self.iter_candidate_runs(replace(block, findings=[]), limit):
            findings += [*run.findings, *records.findings]
            selected_rows = np.flatnonzero(self.record_mask(run, records))
            row_ends = np.searchsorted(selected_rows, records.row_ends)
            selected_counts = np.diff(row_ends, prepend=0)
            nonempty_block = _filter_batches(run, selected_counts > 0)
            batches = nonempty_block.batches.copy()
            row_ends = row_ends[selected_counts > 0]
            selected_counts = selected_counts[selected_counts > 0]
            offsets = records.rows.offset[selected_rows]
            batches.records_count, batches.has_base_offset = selected_counts, 1
            batches.base_offset = offsets[row_ends - selected_counts]
            batches.last_offset = offsets[row_ends - 1]
            yield replace(nonempty_block, batches=batches, findings=[])

    def record_mask(self, run: Block, records: RecordColumns) -> BoolArray:
        """Which records are selected."""
        is_selected = self.contains_offsets(records.rows.offset)
        if self._has_time_bounds:
            timestamps = records.rows.timestamp
            is_selected &= (records.rows.has_timestamp == 1) & (timestamps != NO_TIMESTAMP)
            is_selected &= _within_bounds_mask(timestamps, self.first_time, self.last_time)
        if self.record_filter:
            is_matching = np.zeros(len(is_selected), np.bool_)
            is_matching[
                self.record_filter.matching_rows(run, records, np.flatnonzero(is_selected))
            ] = True
            is_selected = is_matching
        return is_selected

    def _batch_mask(self, batches: BatchTable) -> BoolArray:
        """Which batches can contain a selected record."""
        can_match = np.ones(len(batches), np.bool_)
        if self.first_offset is not None:
            can_match &= (batches.last_offset >= self.first_offset) | _unknown_offsets_mask(batches)
        if self.last_offset is not None:
            can_match &= (batches.base_offset <= self.last_offset) | (batches.has_base_offset == 0)
        if self.latest_epoch != NO_EPOCH_LIMIT:
            can_match &= batches.partition_leader_epoch <= self.latest_epoch
        if self.offset_intervals:
            can_match &= self._interval_mask(batches.base_offset, batches.last_offset) | (
                batches.has_base_offset == 0
            )
        if self._has_time_bounds:
            can_match &= self._time_mask(batches)
        if self.committed is not None:
            can_match &= self.committed.delivered_mask(batches)
        return can_match & self.record_filter.batch_mask(batches)

    def _time_mask(self, batches: BatchTable) -> BoolArray:
        max_timestamps = batches.max_timestamp
        can_match: BoolArray = (batches.has_timestamp == 1) & (max_timestamps != NO_TIMESTAMP)
        if self.first_time is not None:
            can_match &= max_timestamps >= self.first_time
        if self.last_time is not None:
            # The max timestamp is the only one if the broker set it, or in an uncompressed message.
            is_uncompressed_message = (batches.is_v2 == 0) & (batches.compression == 0)
            has_single_time = is_uncompressed_message | (batches.timestamp_type == LOG_APPEND_TIME)
            can_match &= ~has_single_time | (max_timestamps <= self.last_time)
        return can_match


@dataclass(frozen=True, slots=True)
class SelectionOptions:
    """Which records of every partition are selected; `create_partition_selection` creates the
    selection for one partition."""

    selection: Selection = field(default_factory=Selection)
    n_last_records: int | None = None
    """Only this many of the last selected records; None for all."""
    only_committed: bool = False
    """Only records that read_committed consumers receive."""
    only_latest: bool = False
    """Only the latest selected record of each key; the caller finds it."""
    commits_unknown: bool = False
    """Whether transactions whose outcome is unknown count as committed, not as aborted."""

    def __bool__(self) -> bool:
        """Whether it excludes anything."""
        return self != SelectionOptions()

    @property
    def needs_logs(self) -> bool:
        """Whether a partition's logs must be read to know its selected records."""
        return self.n_last_records is not None or self.only_committed or self.only_latest

    def create_partition_selection(
        self,
        find_last_records_start: Callable[[int, Selection], int],
        find_committed_records: Callable[[], CommittedRecords],
    ) -> Selection:
        """The selection for a partition.

        find_last_records_start: returns the offset of the first of the last N selected records.
        find_committed_records: returns the records that read_committed consumers receive. Each
        reads logs, and is called only if needed.
        """
        selection = self.selection
        if self.only_committed:
            selection = replace(selection, committed=find_committed_records())
        if self.n_last_records is not None:
            selection = selection.starting_at(
                find_last_records_start(self.n_last_records, selection)
            )
        return selection


def _tighter_bound(choose_bound: Callable[[list[int]], int], *bounds: int | None) -> int | None:
    present_bounds = [bound for bound in bounds if bound is not None]
    return choose_bound(present_bounds) if present_bounds else None


def _unknown_offsets_mask(batches: BatchTable) -> BoolArray:
    """Wrappers whose own offset does not bound their messages' offsets.

    In magic 1 it may be 0, as librdkafka wrote it; in magic 0 only the messages' offsets count.
    """
    is_unreliable = (batches.magic == 0) | (batches.last_offset == 0)
    is_unknown: BoolArray = is_unreliable & (batches.has_base_offset == 0)
    return is_unknown


def _within_bounds_mask(
    values: IntArray, min_value: int | None, max_value: int | None
) -> BoolArray:
    is_within = np.ones(len(values), np.bool_)
    if min_value is not None:
        is_within &= values >= min_value
    if max_value is not None:
        is_within &= values <= max_value
    return is_within


def _filter_batches(block: Block, batch_mask: BoolArray) -> Block:
    """The block with only these batches; the block itself if that is all of them."""
    if batch_mask.all():
        return block
    return replace(block, batches=block.batches.select_rows(batch_mask), decompressed=None)
