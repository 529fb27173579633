"""The log cleaner's rules: the batches, transactions, tombstones and markers that it keeps.

Source: `kafka.log.LogCleaner` (`buildOffsetMapForSegment`, `cleanInto`, `shouldRetainRecord`,
`CleanedTransactionMetadata`), `org.apache.kafka.common.record.MemoryRecords.filterTo`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from kfmt_cli.broker.offsets.offset_map import OffsetMap, hash_keys
from kfmt_cli.core.table import BoolArray
from kfmt_cli.formats.control import ABORT, COMMIT
from kfmt_cli.log.block import Block
from kfmt_cli.log.control import fill_control_types
from kfmt_cli.log.records import RecordColumns

AbortedTransaction = tuple[int, int, int]  # first offset, last offset, producer
_TRANSACTION_COLUMNS = ("producer_id", "last_offset", "control", "control_type", "records_count")


class CleanedTransactionMetadata:
    """Tracks open transactions batch by batch. aborted: the transactions that end in an abort."""

    def __init__(self, aborted_transactions: Iterable[AbortedTransaction]) -> None:
        self._pending_aborts = sorted(aborted_transactions)  # a sorted list is a heap
        # By producer: whether a batch of its aborted transaction has been seen.
        self._aborted_producers: dict[int, bool] = {}
        self._committed_producers: set[int] = set()

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Add a transaction that ends in an abort."""
        heappush(self._pending_aborts, transaction)

    def removable_mask(self, block: Block) -> BoolArray:
        """Which batches are removable: batches of aborted transactions, and markers of transactions
        without remaining batches."""
        batches = block.batches
        removable = np.zeros(len(batches), np.bool_)
        is_v2 = batches.is_v2 == 1
        rows = np.flatnonzero(is_v2 & ((batches.control == 1) | (batches.transactional == 1)))
        if not len(rows):
            return removable
        fill_control_types(block)
        columns = (batches[name][rows].tolist() for name in _TRANSACTION_COLUMNS)
        for row, producer_id, last_offset, control, control_type, records_count in zip(
            rows.tolist(), *columns, strict=True
        ):
            while self._pending_aborts and self._pending_aborts[0][0] <= last_offset:
                _, _, aborted_producer = heappop(self._pending_aborts)
                self._aborted_producers.setdefault(aborted_producer, False)
            if control:
                removable[row] = self._is_marker_removable(
                    producer_id, control_type if records_count else None
                )
            elif producer_id in self._aborted_producers:
                self._aborted_producers[producer_id] = True
                removable[row] = True
            else:
                self._committed_producers.add(producer_id)
        return removable

    def _is_marker_removable(self, producer_id: int, control_type: int | None) -> bool:
        """Whether a marker is removable because no batch of its transaction remains."""
        if control_type is None:
            return True
        if control_type == ABORT:
            return not self._aborted_producers.pop(producer_id, False)
        if control_type == COMMIT:
            has_batches = producer_id in self._committed_producers
            self._committed_producers.discard(producer_id)
            return not has_batches
        return False


def fill_offset_map(
    offset_map: OffsetMap,
    run: Block,
    records: RecordColumns,
    removable_batches: BoolArray,
    first_dirty_offset: int,
) -> bool:
    """Put the keys of a run into the map; returns whether all of them fitted.

    removable_batches: which batches belong to aborted transactions; their records are not added,
    nor are records before `first_dirty_offset`.
    """
    rows = records.rows
    batch_index = records.batch_of_row
    is_control = (run.batches.control == 1) & (run.batches.is_v2 == 1)
    is_mapped = (
        ~(removable_batches | is_control)[batch_index]
        & (rows.key_size >= 0)
        & (rows.offset >= first_dirty_offset)
    )
    rows_to_map = np.flatnonzero(is_mapped)
    hashes = hash_keys(records.data, rows.key[rows_to_map], rows.key_size[rows_to_map])
    offsets = rows.offset[rows_to_map]
    n_added = offset_map.put(hashes, offsets)
    fits = n_added == len(rows_to_map)
    last_offsets = run.batches.last_offset
    mapped_last_offsets = (
        last_offsets[last_offsets >= first_dirty_offset]
        if fits
        else np.append(last_offsets[last_offsets < offsets[n_added]], offsets[:n_added][-1:])
    )
    offset_map.latest_offset = int(mapped_last_offsets.max(initial=offset_map.latest_offset))
    return fits


@dataclass(frozen=True, slots=True)
class CleaningRules:
    """The input that decides which records one cleaning keeps."""

    offset_map: OffsetMap
    now_ms: int
    retains_legacy_tombstones: bool = True
    """Whether tombstones of magic 0 and 1 are kept in this segment."""


@dataclass(slots=True)
class CleaningCounts:
    """Counts of the records kept and removed so far."""

    retained: int = 0
    removed: int = 0
    tombstones: int = 0
    """Tombstones kept."""
    markers: int = 0
    """Markers kept."""
    keyless: int = 0
    """Records without a key, which are removed."""
    aborted: int = 0
    """Records of aborted transactions."""
    replaced: int = 0
    next_delete_horizon: int | None = None
    """When the first of the kept tombstones and markers can be removed, if known."""


def retained_mask(
    run: Block,
    records: RecordColumns,
    removable_batches: BoolArray,
    rules: CleaningRules,
    counts: CleaningCounts,
) -> BoolArray:
    """Which records of a run are kept; adds the counts to `counts`."""
    batches, rows = run.batches, records.rows
    batch_index = records.batch_of_row
    is_v2 = batches.is_v2 == 1
    is_control = is_v2 & (batches.control == 1)
    has_horizon = is_v2 & (batches.delete_horizon == 1)
    is_due = has_horizon & (batches.base_timestamp <= rules.now_ms)
    removed_batches = np.where(is_control, removable_batches & is_due, removable_batches)
    in_removed_batch = removed_batches[batch_index]
    offsets = rows.offset
    is_cleanable = (
        ~is_control[batch_index] & ~in_removed_batch & (offsets <= rules.offset_map.latest_offset)
    )
    is_keyless = is_cleanable & (rows.key_size < 0)
    retained: BoolArray = ~(is_keyless | in_removed_batch)
    keyed_rows = np.flatnonzero(is_cleanable & ~is_keyless)
    latest_offsets = rules.offset_map.get(
        hash_keys(records.data, rows.key[keyed_rows], rows.key_size[keyed_rows])
    )
    is_latest = offsets[keyed_rows] >= latest_offsets
    has_value = rows.value_size[keyed_rows] >= 0
    tombstone_retained = np.where(
        is_v2[batch_index[keyed_rows]],
        ~is_due[batch_index[keyed_rows]],
        rules.retains_legacy_tombstones,
    )
    retained[keyed_rows] = is_latest & (has_value | tombstone_retained)
    n_retained = int(retained.sum())
    counts.retained += n_retained
    counts.removed += len(retained) - n_retained
    counts.keyless += int(is_keyless.sum())
    counts.aborted += int((in_removed_batch & ~is_control[batch_index]).sum())
    counts.replaced += int((~retained & ~is_keyless & ~in_removed_batch).sum())
    is_marker = retained & is_control[batch_index]
    is_tombstone = retained & (rows.value_size < 0) & ~is_control[batch_index]
    counts.markers += int(is_marker.sum())
    counts.tombstones += int(is_tombstone.sum())
    horizon_batches = np.unique(batch_index[is_tombstone | is_marker])
    delete_horizons = batches.base_timestamp[horizon_batches][has_horizon[horizon_batches]]
    if len(delete_horizons):
        earliest_horizon = int(delete_horizons.min())
        counts.next_delete_horizon = (
            earliest_horizon
            if counts.next_delete_horizon is None
            else min(counts.next_delete_horizon, earliest_horizon)
        )
    return retained


@dataclass(slots=True)
class DirtyRange:
    """The dirty range of a partition."""

    first_dirty_offset: int
    """The first dirty offset."""
    first_uncleanable_offset: int
    """The first offset that the cleaner does not clean, for the reason in `why`."""
    why: str
    clean_bytes: int
    """Bytes before the first dirty offset."""
    dirty_bytes: int
    """Bytes from the first dirty offset to `end`."""
    is_forced: bool = False

    @property
    def ratio(self) -> float:
        """Dirty bytes as a share of all cleanable bytes."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


@dataclass(frozen=True, slots=True)
class CleanerSegment:
    """The facts about a segment that the cleaner uses. largest_timestamp: the timestamp that a
    broker regards as the largest. first_timestamp: the first batch's timestamp."""

    base_offset: int
    size: int
    largest_timestamp: int
    first_timestamp: int | None = None


def compute_dirty_range(
    segments: list[CleanerSegment],
    checkpoint_offset: int | None,
    log_start: int,
    log_end: int,
    last_stable_offset: int,
    min_lag_ms: int,
    max_lag_ms: int,
    now_ms: int,
) -> DirtyRange:
    """The dirty range of a log and the part of it that can be cleaned now.

    Source: `kafka.log.LogCleanerManager.cleanableOffsets`, `calculateCleanableBytes`.
    """
    first_dirty_offset = log_start if checkpoint_offset is None else checkpoint_offset
    if first_dirty_offset < log_start or first_dirty_offset > log_end:
        first_dirty_offset = log_start
    active_base_offset = segments[-1].base_offset
    bounds = [
        (active_base_offset, "the active segment"),
        (last_stable_offset, "the last stable offset"),
    ]
    closed_segments = segments[:-1]
    floor_bases = [s.base_offset for s in closed_segments if s.base_offset <= first_dirty_offset]
    first_dirty_base = floor_bases[-1] if floor_bases else 0
    dirty_segments = [s for s in closed_segments if s.base_offset >= first_dirty_base]
    if min_lag_ms > 0:
        recent = (s for s in dirty_segments if s.largest_timestamp > now_ms - min_lag_ms)
        if (recent_segment := next(recent, None)) is not None:
            bounds.append((recent_segment.base_offset, "records newer than min.compaction.lag.ms"))
    limit, limit_reason = min(bounds)
    limit = max(first_dirty_offset, limit)
    # End at the base offset of the segment that contains the limit.
    reached_bases = [s.base_offset for s in segments if s.base_offset <= limit]
    end = reached_bases[-1] if reached_bases else segments[0].base_offset
    clean_segments = _segments_between(segments, 0, first_dirty_offset)
    uncleaned_segments = _segments_between(segments, min(first_dirty_offset, end), end)
    clean_bytes = sum(segment.size for segment in clean_segments)
    dirty_bytes = sum(segment.size for segment in uncleaned_segments)
    first_timestamps = [
        segment.first_timestamp
        for segment in dirty_segments
        if segment.first_timestamp is not None and segment.first_timestamp > 0
    ]
    is_forced = (
        bool(first_timestamps)
        and 0 <= max_lag_ms < now_ms
        and min(first_timestamps) < now_ms - max_lag_ms
    )
    return DirtyRange(
        first_dirty_offset,
        end,
        limit_reason,
        clean_bytes,
        dirty_bytes,
        is_forced and dirty_bytes > 0,
    )


def _segments_between(segments: list[CleanerSegment], start: int, end: int) -> list[CleanerSegment]:
    """The segments from the one that contains `start` to the last one before `end`."""
    if start == end:
        return []
    floor_bases = [segment.base_offset for segment in segments if segment.base_offset <= start]
    floor = floor_bases[-1] if floor_bases else start
    return [segment for segment in segments if floor <= segment.base_offset < end]
