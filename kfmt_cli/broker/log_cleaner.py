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

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._pending_aborts = sorted(aborted)  # a sorted list is a heap
        # By producer: whether a batch of its aborted transaction has been seen.
        self._aborted_producers: dict[int, bool] = {}
        self._committed_producers: set[int] = set()

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add a transaction that ends in an abort."""
        heappush(self._pending_aborts, aborted)

    def removable_mask(self, block: Block) -> BoolArray:
        """Which batches are removable: batches of aborted transactions, and markers of transactions
        without remaining batches."""
        batches = block.batches
        removable = np.zeros(len(batches), np.bool_)
        v2 = batches.is_v2 == 1
        rows = np.flatnonzero(v2 & ((batches.control == 1) | (batches.transactional == 1)))
        if not len(rows):
            return removable
        fill_control_types(block)
        columns = (batches[name][rows].tolist() for name in _TRANSACTION_COLUMNS)
        for row, producer_id, last, control, kind, count in zip(
            rows.tolist(), *columns, strict=True
        ):
            while self._pending_aborts and self._pending_aborts[0][0] <= last:
                _, _, aborted_producer = heappop(self._pending_aborts)
                self._aborted_producers.setdefault(aborted_producer, False)
            if control:
                removable[row] = self._is_marker_removable(producer_id, kind if count else None)
            elif producer_id in self._aborted_producers:
                self._aborted_producers[producer_id] = True
                removable[row] = True
            else:
                self._committed_producers.add(producer_id)
        return removable

    def _is_marker_removable(self, producer_id: int, kind: int | None) -> bool:
        """Whether a marker is removable because no batch of its transaction remains."""
        if kind is None:
            return True
        if kind == ABORT:
            return not self._aborted_producers.pop(producer_id, False)
        if kind == COMMIT:
            has_batches = producer_id in self._committed_producers
            self._committed_producers.discard(producer_id)
            return not has_batches
        return False


def fill_offset_map(
    map_: OffsetMap,
    run: Block,
    records: RecordColumns,
    removable: BoolArray,
    first_dirty_offset: int,
) -> bool:
    """Put the keys of a run into the map; returns whether all of them fitted.

    removable: which batches belong to aborted transactions; their records are not added, nor are
    records before `first_dirty_offset`.
    """
    rows = records.rows
    batch_index = records.batch_of_row
    control = (run.batches.control == 1) & (run.batches.is_v2 == 1)
    is_mapped = (
        ~(removable | control)[batch_index]
        & (rows.key_size >= 0)
        & (rows.offset >= first_dirty_offset)
    )
    rows_to_map = np.flatnonzero(is_mapped)
    hashes = hash_keys(records.data, rows.key[rows_to_map], rows.key_size[rows_to_map])
    offsets = rows.offset[rows_to_map]
    n = map_.put(hashes, offsets)
    fits = n == len(rows_to_map)
    last_offsets = run.batches.last_offset
    mapped_last_offsets = (
        last_offsets[last_offsets >= first_dirty_offset]
        if fits
        else np.append(last_offsets[last_offsets < offsets[n]], offsets[:n][-1:])
    )
    map_.latest_offset = int(mapped_last_offsets.max(initial=map_.latest_offset))
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
    removable: BoolArray,
    rules: CleaningRules,
    counts: CleaningCounts,
) -> BoolArray:
    """Which records of a run are kept; adds the counts to `counts`."""
    batches, rows = run.batches, records.rows
    batch_index = records.batch_of_row
    v2 = batches.is_v2 == 1
    control = v2 & (batches.control == 1)
    has_horizon = v2 & (batches.delete_horizon == 1)
    is_due = has_horizon & (batches.base_timestamp <= rules.now_ms)
    removed_batches = np.where(control, removable & is_due, removable)
    in_removed_batch = removed_batches[batch_index]
    offset = rows.offset
    is_cleanable = (
        ~control[batch_index] & ~in_removed_batch & (offset <= rules.offset_map.latest_offset)
    )
    keyless = is_cleanable & (rows.key_size < 0)
    retained: BoolArray = ~(keyless | in_removed_batch)
    keyed_rows = np.flatnonzero(is_cleanable & ~keyless)
    latest = rules.offset_map.get(
        hash_keys(records.data, rows.key[keyed_rows], rows.key_size[keyed_rows])
    )
    is_latest = offset[keyed_rows] >= latest
    is_value = rows.value_size[keyed_rows] >= 0
    tombstone_retained = np.where(
        v2[batch_index[keyed_rows]],
        ~is_due[batch_index[keyed_rows]],
        rules.retains_legacy_tombstones,
    )
    retained[keyed_rows] = is_latest & (is_value | tombstone_retained)
    n_kept = int(retained.sum())
    counts.retained += n_kept
    counts.removed += len(retained) - n_kept
    counts.keyless += int(keyless.sum())
    counts.aborted += int((in_removed_batch & ~control[batch_index]).sum())
    counts.replaced += int((~retained & ~keyless & ~in_removed_batch).sum())
    markers = retained & control[batch_index]
    tombstones = retained & (rows.value_size < 0) & ~control[batch_index]
    counts.markers += int(markers.sum())
    counts.tombstones += int(tombstones.sum())
    horizon_batches = np.unique(batch_index[tombstones | markers])
    horizons = batches.base_timestamp[horizon_batches][has_horizon[horizon_batches]]
    if len(horizons):
        earliest_horizon = int(horizons.min())
        counts.next_delete_horizon = (
            earliest_horizon
            if counts.next_delete_horizon is None
            else min(counts.next_delete_horizon, earliest_horizon)
        )
    return retained


@dataclass(slots=True)
class DirtyRange:
    """The dirty range of a partition."""

    first: int
    """The first dirty offset."""
    end: int
    """The first offset that the cleaner does not clean, for the reason in `why`."""
    why: str
    clean_bytes: int
    """Bytes before the first dirty offset."""
    dirty_bytes: int
    """Bytes from the first dirty offset to `end`."""
    forced: bool = False

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
    checkpoint: int | None,
    log_start: int,
    log_end: int,
    stable: int,
    min_lag: int,
    max_lag: int,
    now: int,
) -> DirtyRange:
    """The dirty range of a log and the part of it that can be cleaned now.

    Source: `kafka.log.LogCleanerManager.cleanableOffsets`, `calculateCleanableBytes`.
    """
    first = log_start if checkpoint is None else checkpoint
    if first < log_start or first > log_end:
        first = log_start
    active = segments[-1].base_offset
    bounds = [(active, "the active segment"), (stable, "the last stable offset")]
    floor_bases = [segment.base_offset for segment in segments[:-1] if segment.base_offset <= first]
    dirty_segments = [
        segment
        for segment in segments[:-1]
        if segment.base_offset >= (floor_bases[-1] if floor_bases else 0)
    ]
    if min_lag > 0:
        recent_segment = next(
            (segment for segment in dirty_segments if segment.largest_timestamp > now - min_lag),
            None,
        )
        if recent_segment is not None:
            bounds.append((recent_segment.base_offset, "records newer than min.compaction.lag.ms"))
    limit, limit_reason = min(bounds)
    limit = max(first, limit)
    # End at the base offset of the segment that contains the limit.
    reached_bases = [
        segment.base_offset for segment in segments if segment.base_offset <= limit
    ] or [segments[0].base_offset]
    end = reached_bases[-1]
    clean = sum(segment.size for segment in _segments_between(segments, 0, first))
    dirty = sum(segment.size for segment in _segments_between(segments, min(first, end), end))
    first_timestamps = [
        segment.first_timestamp
        for segment in dirty_segments
        if segment.first_timestamp is not None and segment.first_timestamp > 0
    ]
    forced = bool(first_timestamps) and 0 <= max_lag < now and min(first_timestamps) < now - max_lag
    return DirtyRange(first, end, limit_reason, clean, dirty, forced and dirty > 0)


def _segments_between(segments: list[CleanerSegment], start: int, end: int) -> list[CleanerSegment]:
    """The segments from the one that contains `start` to the last one before `end`."""
    if start == end:
        return []
    floor_bases = [segment.base_offset for segment in segments if segment.base_offset <= start]
    floor = floor_bases[-1] if floor_bases else start
    return [segment for segment in segments if floor <= segment.base_offset < end]
