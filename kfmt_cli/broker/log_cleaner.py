"""The log cleaner's rules: the batches, transactions, tombstones and markers that it keeps.

Source: `kafka.log.LogCleaner` (`buildOffsetMapForSegment`, `cleanInto`, `shouldRetainRecord`,
`CleanedTransactionMetadata`), `org.apache.kafka.common.record.MemoryRecords.filterTo`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from kfmt_cli.broker.log_reading.offset_map import OffsetMap, hash_keys
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
        self._has_batches_by_aborted_producer: dict[int, bool] = {}
        self._committed_producers: set[int] = set()

    def add_aborted_transaction(self, transaction: AbortedTransaction) -> None:
        """Add a transaction that ends in an abort."""
        heappush(self._pending_aborts, transaction)

    def removable_batch_mask(self, block: Block) -> BoolArray:
        """Which batches are removable: batches of aborted transactions, and markers of transactions
        without remaining batches."""
        batches = block.batches
        is_removable = np.zeros(len(batches), np.bool_)
        is_v2 = batches.is_v2 == 1
        transactional_rows = np.flatnonzero(
            is_v2 & ((batches.control == 1) | (batches.transactional == 1))
        )
        if not len(transactional_rows):
            return is_removable
        fill_control_types(block)
        column_values = (
            batches[column_name][transactional_rows].tolist()
            for column_name in _TRANSACTION_COLUMNS
        )
        for row, producer_id, last_offset, is_control, control_type, records_count in zip(
            transactional_rows.tolist(), *column_values, strict=True
        ):
            while self._pending_aborts and self._pending_aborts[0][0] <= last_offset:
                _, _, aborted_producer_id = heappop(self._pending_aborts)
                self._has_batches_by_aborted_producer.setdefault(aborted_producer_id, False)
            if is_control:
                is_removable[row] = self._is_marker_removable(
                    producer_id, control_type if records_count else None
                )
            elif producer_id in self._has_batches_by_aborted_producer:
                self._has_batches_by_aborted_producer[producer_id] = True
                is_removable[row] = True
            else:
                self._committed_producers.add(producer_id)
        return is_removable

    def _is_marker_removable(self, producer_id: int, control_type: int | None) -> bool:
        """Whether a marker is removable because no batch of its transaction remains."""
        if control_type is None:
            return True
        if control_type == ABORT:
            return not self._has_batches_by_aborted_producer.pop(producer_id, False)
        if control_type == COMMIT:
            has_batches = producer_id in self._committed_producers
            self._committed_producers.discard(producer_id)
            return not has_batches
        return False


def fill_offset_map(
    offset_map: OffsetMap,
    run: Block,
    records: RecordColumns,
    removable_batch_mask: BoolArray,
    first_dirty_offset: int,
) -> bool:
    """Put the keys of a run into the map; returns whether all of them fitted.

    removable_batch_mask: which batches belong to aborted transactions; their records are not added,
    nor are records before `first_dirty_offset`.
    """
    record_rows = records.rows
    batch_rows = records.batch_of_row
    is_control = (run.batches.control == 1) & (run.batches.is_v2 == 1)
    is_mapped = (
        ~(removable_batch_mask | is_control)[batch_rows]
        & (record_rows.key_size >= 0)
        & (record_rows.offset >= first_dirty_offset)
    )
    rows_to_map = np.flatnonzero(is_mapped)
    key_hashes = hash_keys(
        records.data, record_rows.key[rows_to_map], record_rows.key_size[rows_to_map]
    )
    mapped_offsets = record_rows.offset[rows_to_map]
    n_added = offset_map.add_keys(key_hashes, mapped_offsets)
    has_added_all = n_added == len(rows_to_map)
    last_offsets = run.batches.last_offset
    mapped_last_offsets = (
        last_offsets[last_offsets >= first_dirty_offset]
        if has_added_all
        else np.append(
            last_offsets[last_offsets < mapped_offsets[n_added]], mapped_offsets[:n_added][-1:]
        )
    )
    offset_map.latest_offset = int(mapped_last_offsets.max(initial=offset_map.latest_offset))
    return has_added_all


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

    n_retained: int = 0
    n_removed: int = 0
    n_retained_tombstones: int = 0
    """Tombstones kept."""
    n_retained_markers: int = 0
    """Markers kept."""
    n_keyless: int = 0
    """Records without a key, which are removed."""
    n_aborted: int = 0
    """Records of aborted transactions."""
    n_replaced: int = 0
    next_delete_horizon: int | None = None
    """When the first of the kept tombstones and markers can be removed, if known."""


def retained_record_mask(
    run: Block,
    records: RecordColumns,
    removable_batch_mask: BoolArray,
    rules: CleaningRules,
    counts: CleaningCounts,
) -> BoolArray:
    """Which records of a run are kept; adds the counts to `counts`."""
    batches, record_rows = run.batches, records.rows
    batch_rows = records.batch_of_row
    is_v2 = batches.is_v2 == 1
    is_control = is_v2 & (batches.control == 1)
    has_delete_horizon = is_v2 & (batches.delete_horizon == 1)
    is_past_delete_horizon = has_delete_horizon & (batches.base_timestamp <= rules.now_ms)
    removed_batch_mask = np.where(
        is_control, removable_batch_mask & is_past_delete_horizon, removable_batch_mask
    )
    is_in_removed_batch = removed_batch_mask[batch_rows]
    record_offsets = record_rows.offset
    is_cleanable = (
        ~is_control[batch_rows]
        & ~is_in_removed_batch
        & (record_offsets <= rules.offset_map.latest_offset)
    )
    is_keyless = is_cleanable & (record_rows.key_size < 0)
    is_retained: BoolArray = ~(is_keyless | is_in_removed_batch)
    keyed_rows = np.flatnonzero(is_cleanable & ~is_keyless)
    latest_offsets = rules.offset_map.find_latest_offsets(
        hash_keys(records.data, record_rows.key[keyed_rows], record_rows.key_size[keyed_rows])
    )
    is_latest = record_offsets[keyed_rows] >= latest_offsets
    has_value = record_rows.value_size[keyed_rows] >= 0
    is_tombstone_retained = np.where(
        is_v2[batch_rows[keyed_rows]],
        ~is_past_delete_horizon[batch_rows[keyed_rows]],
        rules.retains_legacy_tombstones,
    )
    is_retained[keyed_rows] = is_latest & (has_value | is_tombstone_retained)
    n_retained = int(is_retained.sum())
    counts.n_retained += n_retained
    counts.n_removed += len(is_retained) - n_retained
    counts.n_keyless += int(is_keyless.sum())
    counts.n_aborted += int((is_in_removed_batch & ~is_control[batch_rows]).sum())
    counts.n_replaced += int((~is_retained & ~is_keyless & ~is_in_removed_batch).sum())
    is_marker = is_retained & is_control[batch_rows]
    is_tombstone = is_retained & (record_rows.value_size < 0) & ~is_control[batch_rows]
    counts.n_retained_markers += int(is_marker.sum())
    counts.n_retained_tombstones += int(is_tombstone.sum())
    expiring_batch_rows = np.unique(batch_rows[is_tombstone | is_marker])
    delete_horizons = batches.base_timestamp[expiring_batch_rows][
        has_delete_horizon[expiring_batch_rows]
    ]
    if len(delete_horizons):
        earliest_horizon = int(delete_horizons.min())
        counts.next_delete_horizon = (
            earliest_horizon
            if counts.next_delete_horizon is None
            else min(counts.next_delete_horizon, earliest_horizon)
        )
    return is_retained


@dataclass(slots=True)
class DirtyRange:
    """The dirty range of a partition."""

    first_dirty_offset: int
    """The first dirty offset."""
    first_uncleanable_offset: int
    """The first offset that the cleaner does not clean, for the reason in `why`."""
    uncleanable_reason: str
    clean_bytes: int
    """Bytes before the first dirty offset."""
    dirty_bytes: int
    """Bytes from the first dirty offset to `end`."""
    is_forced: bool = False

    @property
    def dirty_ratio(self) -> float:
        """Dirty bytes as a share of all cleanable bytes."""
        cleanable_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / cleanable_bytes if cleanable_bytes else 0.0


@dataclass(frozen=True, slots=True)
class CleanerSegment:
    """The facts about a segment that the cleaner uses. largest_timestamp: the timestamp that a
    broker regards as the largest. first_timestamp: the first batch's timestamp."""

    base_offset: int
    size: int
    largest_timestamp: int
    first_timestamp: int | None = None


def _iter_lag_limits(
    dirty_segments: Sequence[CleanerSegment], min_compaction_lag_ms: int, now_ms: int
) -> Iterator[tuple[int, str]]:
    """The base offset of the first segment with records that are too new to be cleaned, if any."""
    if min_compaction_lag_ms > 0:
        for log_segment in dirty_segments:
            if log_segment.largest_timestamp > now_ms - min_compaction_lag_ms:
                yield log_segment.base_offset, "records newer than min.compaction.lag.ms"
                return


def _floor_base_offset(segments: Sequence[CleanerSegment], offset: int, default: int) -> int:
    """The base offset of the last segment that begins at an offset or before it."""
    base_offsets = (segment.base_offset for segment in segments)
    return max((base for base in base_offsets if base <= offset), default=default)


def compute_dirty_range(
    segments: list[CleanerSegment],
    checkpoint_offset: int | None,
    log_start_offset: int,
    log_end_offset: int,
    last_stable_offset: int,
    min_compaction_lag_ms: int,
    max_compaction_lag_ms: int,
    now_ms: int,
) -> DirtyRange:
    """The dirty range of a log and the part of it that can be cleaned now.

    Source: `kafka.log.LogCleanerManager.cleanableOffsets`, `calculateCleanableBytes`.
    """
    first_dirty_offset = log_start_offset if checkpoint_offset is None else checkpoint_offset
    if first_dirty_offset < log_start_offset or first_dirty_offset > log_end_offset:
        first_dirty_offset = log_start_offset
    closed_segments = segments[:-1]
    first_dirty_base_offset = _floor_base_offset(closed_segments, first_dirty_offset, 0)
    dirty_segments = [
        log_segment
        for log_segment in closed_segments
        if log_segment.base_offset >= first_dirty_base_offset
    ]
    limits_with_reasons = [
        (segments[-1].base_offset, "the active segment"),
        (last_stable_offset, "the last stable offset"),
        *_iter_lag_limits(dirty_segments, min_compaction_lag_ms, now_ms),
    ]
    limit_offset, limit_reason = min(limits_with_reasons)
    limit_offset = max(first_dirty_offset, limit_offset)
    # End at the base offset of the segment that contains the limit.
    end_offset = _floor_base_offset(segments, limit_offset, segments[0].base_offset)
    clean_segments = _segments_between(segments, 0, first_dirty_offset)
    cleanable_segments = _segments_between(
        segments, min(first_dirty_offset, end_offset), end_offset
    )
    clean_bytes = sum(segment.size for segment in clean_segments)
    dirty_bytes = sum(segment.size for segment in cleanable_segments)
    first_timestamps = [
        segment.first_timestamp
        for segment in dirty_segments
        if segment.first_timestamp is not None and segment.first_timestamp > 0
    ]
    is_forced = (
        bool(first_timestamps)
        and 0 <= max_compaction_lag_ms < now_ms
        and min(first_timestamps) < now_ms - max_compaction_lag_ms
    )
    return DirtyRange(
        first_dirty_offset,
        end_offset,
        limit_reason,
        clean_bytes,
        dirty_bytes,
        is_forced and dirty_bytes > 0,
    )


def _segments_between(
    segments: list[CleanerSegment], start_offset: int, end_offset: int
) -> list[CleanerSegment]:
    """The segments from the one that contains `start_offset` to the last one before
    `end_offset`."""
    if start_offset == end_offset:
        return []
    floor_base_offsets = [
        segment.base_offset for segment in segments if segment.base_offset <= start_offset
    ]
    first_base_offset = floor_base_offsets[-1] if floor_base_offsets else start_offset
    return [
        segment for segment in segments if first_base_offset <= segment.base_offset < end_offset
    ]
