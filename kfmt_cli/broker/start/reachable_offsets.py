"""The offsets of a partition that consumers can reach: the answers to a seek to each of them.

A broker looks for an offset in the segment with the nearest name at or below it, starting at the
byte that its index returns. It sends up to 1 MiB from the batch that it finds. An offset is
therefore unreachable if another segment is searched than the one that contains it, if the index
points past its batch, if the consumer cannot read the batch, or if a batch shortly after it makes
the consumer's whole poll fail. Source: `LocalLog.read`, `LogSegment.translateOffset`,
`CompletedFetch`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from kfmt_cli.broker.log_reading.batch_walker import BatchWalker
from kfmt_cli.broker.log_reading.consumer import (
    ConsumerFault,
    DeliveredOffsets,
    read_delivered_offsets,
    read_header_fault,
)
from kfmt_cli.broker.log_reading.offset_intervals import (
    LogOffsets,
    OffsetInterval,
    OffsetIntervals,
    merge_intervals,
)
from kfmt_cli.broker.log_reading.stored_batches import StartError, StoredBatch
from kfmt_cli.broker.start.recovery_segment import RecoverySegment
from kfmt_cli.core.offsets import MAX_OFFSET

MAX_FETCH_BYTES = 1 << 20  # max.partition.fetch.bytes
MAX_POLL_RECORDS = 500  # max.poll.records


@dataclass(slots=True)
class ReachableOffsetSearch:
    """The offsets that consumers receive from a partition's segments, in order."""

    segments: list[RecoverySegment]
    log_end_offset: int
    offset_interval_by_base: Mapping[int, tuple[int, int]]
    """The offsets of each segment with a valid log and index; such a segment is not opened."""
    log_offsets_by_base: Mapping[int, LogOffsets]
    """The batches that kfmt finds in each of the other logs, by base offset."""
    malformed_positions_by_base: Mapping[int, frozenset[int]]
    """Positions of batches with a known fault other than the checksum, by the log's base offset."""
    _search_by_base_offset: dict[int, _SegmentSearch] = field(default_factory=dict)

    def find_reachable_offsets(self, log_start_offset: int) -> OffsetIntervals:
        """The offsets that consumers receive."""
        reachable_intervals: OffsetIntervals = []
        for i, segment in enumerate(self.segments):
            next_base_offset = (
                self.segments[i + 1].base_offset
                if i + 1 < len(self.segments)
                else self.log_end_offset
            )
            low_target, high_target = (
                max(segment.base_offset, log_start_offset),
                min(next_base_offset, self.log_end_offset) - 1,
            )
            reachable_intervals += self._iter_delivered_intervals(i, [(low_target, high_target)])
        return merge_intervals(reachable_intervals)

    def find_offsets_of_lower_fetches(self, log_start_offset: int) -> OffsetIntervals:
        """The offsets that consumers receive because a fetch that began at a lower offset also
        contains them, even if a seek to them leads elsewhere: a segment whose offsets reach into
        the next one is sent completely."""
        delivered_intervals: OffsetIntervals = []
        for segment, next_segment in pairwise(self.segments):
            first_target_offset, last_target_offset = (
                max(segment.base_offset, log_start_offset),
                next_segment.base_offset - 1,
            )
            if first_target_offset <= last_target_offset:
                delivered_intervals += self._find_delivered_beyond_range(
                    segment, first_target_offset, last_target_offset
                )
        return merge_intervals(delivered_intervals)

    def _iter_delivered_intervals(
        self, first_segment_row: int, requested_targets: OffsetIntervals
    ) -> Iterator[OffsetInterval]:
        """The offsets received by seeks that begin in a segment, from it or from later ones."""
        for segment in self.segments[first_segment_row:]:
            requested_targets = merge_intervals(requested_targets)
            if not requested_targets:
                return
            interval = self.offset_interval_by_base.get(segment.base_offset)
            if interval is not None:
                contained_first, contained_last = interval
                yield from (
                    (max(contained_first, requested_first), min(contained_last, requested_last))
                    for requested_first, requested_last in requested_targets
                )
                requested_targets = [
                    (max(requested_first, contained_last + 1), requested_last)
                    for requested_first, requested_last in requested_targets
                ]
                continue
            remaining_targets: OffsetIntervals = []
            for low_target, high_target in requested_targets:
                try:
                    delivered_intervals, unanswered_targets = self._search_of_segment(
                        segment
                    ).find_delivered_intervals(low_target, high_target)
                except StartError:  # the segment cannot be searched
                    continue
                yield from delivered_intervals
                remaining_targets += unanswered_targets
            requested_targets = remaining_targets

    def _find_delivered_beyond_range(
        self, segment: RecoverySegment, first_target_offset: int, last_target_offset: int
    ) -> OffsetIntervals:
        """The offsets above high that a fetch of low..high from a segment also contains, if the
        segment reaches into the next one."""
        offset_interval = self.offset_interval_by_base.get(segment.base_offset)
        if offset_interval is not None and offset_interval[1] <= last_target_offset:
            return []
        segment_search = self._search_of_segment(segment)
        try:
            return segment_search.find_offsets_beyond(
                first_target_offset, last_target_offset
            ) + segment_search.find_offsets_beyond(last_target_offset, last_target_offset)
        except StartError:  # the segment cannot be searched
            return []

    def _search_of_segment(self, segment: RecoverySegment) -> _SegmentSearch:
        segment_search = self._search_by_base_offset.get(segment.base_offset)
        if segment_search is None:
            log_offsets = self.log_offsets_by_base.get(segment.base_offset) or LogOffsets(
                segment.base_offset
            )
            batch_positions = sorted(batch.position for batch in log_offsets.batches)
            suspect_positions = (
                self.malformed_positions_by_base.get(segment.base_offset, frozenset())
                | log_offsets.damaged_positions
            )
            # A batch's fault may be reported at a byte inside it, or at its end.
            suspect_positions |= {
                batch_positions[i - 1]
                for position in suspect_positions
                if (i := bisect_left(batch_positions, position))
            }
            first_offset_by_position = {
                batch.position: batch.first_offset
                for batch in log_offsets.batches
                if batch.position not in suspect_positions
            }
            segment_search = self._search_by_base_offset[segment.base_offset] = _SegmentSearch(
                segment, first_offset_by_position, sorted(suspect_positions)
            )
        return segment_search


class _SegmentSearch:
    """Seeks in one segment. first_offset_by_position: the first offset of each batch that is
    delivered completely. suspects: the sorted positions of faults."""

    def __init__(
        self,
        segment: RecoverySegment,
        first_offset_by_position: dict[int, int],
        suspect_positions: list[int],
    ) -> None:
        self._segment = segment
        self._first_offset_by_position = first_offset_by_position
        self._suspect_positions = suspect_positions
        self._walkers: dict[int, BatchWalker] = {}
        self._delivered_by_position: dict[int, DeliveredOffsets | None] = {}

    def find_delivered_intervals(
        self, low_target: int, high_target: int
    ) -> tuple[OffsetIntervals, OffsetIntervals]:
        """The offsets received by seeks to low..high, and the targets that are not found in this
        segment."""
        delivered_intervals: OffsetIntervals = []
        unanswered_targets: OffsetIntervals = []
        change_targets = self._lookup_change_targets(low_target, high_target)
        for range_first, range_last in zip(
            [low_target, *change_targets],
            [*(change_target - 1 for change_target in change_targets), high_target],
            strict=True,
        ):
            target = range_first
            walker = self._walker_for_offset(target)
            while target <= range_last:
                row_and_last_target = walker.find_row_and_last_target(target)
                if row_and_last_target is None:
                    if walker.error is None:  # a search that fails returns an error
                        unanswered_targets.append((target, range_last))
                    break
                row, last_target = row_and_last_target
                last_target = min(last_target, range_last)
                if walker.find_answer_error(row) is None:
                    self._add_delivered_intervals(
                        walker, row, target, last_target, delivered_intervals
                    )
                target = last_target + 1
        return delivered_intervals, unanswered_targets

    def _walker_for_offset(self, offset: int) -> BatchWalker:
        start_position = self._segment.find_indexed_position(offset)
        return self._walkers.setdefault(
            start_position, self._segment.create_batch_walker(start_position)
        )

    def find_offsets_beyond(self, target: int, high_target: int) -> OffsetIntervals:
        """The offsets above high that a seek receives with its first fetch."""
        walker = self._walker_for_offset(target)
        row, error = walker.find_row_or_error(target)
        if row is None or error is not None:
            return []
        intervals: OffsetIntervals = []
        first_new_offset = max(target, high_target + 1)
        for batch, delivered_offsets in self._iter_fetched_batches(walker, row):
            if delivered_offsets is None:
                intervals.append(
                    (max(first_new_offset, self._first_batch_offset(batch)), batch.last_offset)
                )
            else:
                intervals += (
                    (offset, offset)
                    for offset in delivered_offsets.offsets
                    if offset >= first_new_offset
                )
            first_new_offset = max(first_new_offset, batch.last_offset + 1)
        return intervals

    def _iter_fetched_batches(
        self, walker: BatchWalker, row: int
    ) -> Iterator[tuple[StoredBatch, DeliveredOffsets | None]]:
        """The batches sent with the one in a row, up to the first fault, each with the offsets that
        a consumer receives from it, None for all."""
        fetch_end = self._fetch_end_position(walker.batches[row])
        while (batch := walker.read_batch(row)) is not None and batch.end_position <= fetch_end:
            delivered_offsets = self._delivered_offsets(batch)
            yield batch, delivered_offsets
            if delivered_offsets is not None and delivered_offsets.fault is not ConsumerFault.NONE:
                return
            row += 1

    def _lookup_change_targets(self, low_target: int, high_target: int) -> list[int]:
        """The targets within low..high at which the index may return another byte than before.

        The binary search ends at an entry that equals the target. Unless each entry is greater
        than the one before it, the next target may therefore lead it elsewhere.
        """
        offsets, _ = self._segment.index_columns
        indexed_offsets = offsets.stored_values
        if len(offsets) == len(indexed_offsets) and bool(
            (indexed_offsets[1:] > indexed_offsets[:-1]).all()
        ):
            change_targets = indexed_offsets
        else:
            change_targets = np.concatenate(
                (indexed_offsets, indexed_offsets + 1, [self._segment.base_offset + 1])
            )
        inner_change_targets: list[int] = np.unique(
            change_targets[(low_target < change_targets) & (change_targets <= high_target)]
        ).tolist()
        return inner_change_targets

    def _add_delivered_intervals(
        self,
        walker: BatchWalker,
        row: int,
        first_target: int,
        last_target: int,
        delivered_intervals: OffsetIntervals,
    ) -> None:
        """Add the offsets received by seeks to first_target..last, all of which find one batch."""
        first_failing_offset = self._first_failing_offset(
            walker, row, self._fetch_end_position(walker.batches[row])
        )
        first_pending_target = first_target  # the first seek that has received nothing yet
        for batch, delivered_offsets in self._iter_fetched_batches(walker, row):
            if delivered_offsets is None:
                first_offset = self._first_batch_offset(batch)
                delivered_intervals.append(
                    (
                        max(first_pending_target, first_offset),
                        min(last_target, batch.last_offset, first_failing_offset - 1),
                    )
                )
                first_pending_target = max(first_pending_target, batch.last_offset + 1)
            else:
                for offset in delivered_offsets.offsets:
                    if (
                        first_pending_target <= offset <= last_target
                        and offset < first_failing_offset
                    ):
                        delivered_intervals.append((offset, offset))
                    # After the largest offset, a consumer accepts any.
                    first_pending_target = (
                        max(first_pending_target, offset + 1)
                        if offset < MAX_OFFSET
                        else first_target
                    )
            if first_pending_target > last_target:
                break

    def _fetch_end_position(self, batch: StoredBatch) -> int:
        """The end of the bytes sent with a batch."""
        return min(batch.position + max(MAX_FETCH_BYTES, batch.size), self._segment.size)

    def _first_batch_offset(self, batch: StoredBatch) -> int:
        """The first offset of a batch; a wrapper does not have it in its header."""
        return self._first_offset_by_position.get(batch.position, batch.base_offset)

    def _delivered_offsets(self, batch: StoredBatch) -> DeliveredOffsets | None:
        """The offsets that a consumer receives from a batch; None for all of them."""
        if batch.position in self._first_offset_by_position:
            return None
        if batch.position not in self._delivered_by_position:
            delivered_offsets = read_delivered_offsets(self._segment.log_bytes, batch)
            self._delivered_by_position[batch.position] = (
                None if delivered_offsets.is_complete(batch) else delivered_offsets
            )
        return self._delivered_by_position[batch.position]

    def _first_failing_offset(self, walker: BatchWalker, row: int, fetch_end: int) -> int:
        """First offset from which a poll fails as a whole, because of this batch or a later one.

        Above every offset if no poll fails. fetch_end: the end of the bytes sent.
        """
        batch = walker.batches[row]
        delivered_offsets = self._delivered_offsets(batch)
        beyond_all_offsets = MAX_OFFSET + 1
        if delivered_offsets is not None and delivered_offsets.fault is ConsumerFault.ERROR:
            return beyond_all_offsets  # the consumer does not get to the batches after it
        if delivered_offsets is not None and delivered_offsets.fault is ConsumerFault.POLL_FAILURE:
            if len(delivered_offsets.offsets) < MAX_POLL_RECORDS:
                return min(batch.base_offset, batch.last_offset)
            return delivered_offsets.offsets[1 - MAX_POLL_RECORDS]
        if batch.position in self._first_offset_by_position:
            suspect_index = bisect_right(self._suspect_positions, batch.position)
            if (
                suspect_index == len(self._suspect_positions)
                or self._suspect_positions[suspect_index] >= fetch_end
            ):
                return beyond_all_offsets
        n_safe_records = self._count_records_before_failure(walker, row, fetch_end)
        if n_safe_records is None:
            return beyond_all_offsets
        first_offset = (
            self._first_batch_offset(batch)
            if delivered_offsets is None
            else min(delivered_offsets.offsets, default=beyond_all_offsets)
        )
        return max(batch.last_offset + 1 - n_safe_records, first_offset)

    def _count_records_before_failure(
        self, walker: BatchWalker, row: int, fetch_end: int
    ) -> int | None:
        """The number of a batch's last records that share a poll with a later batch that makes the
        poll fail; None if no later batch does."""
        n_records = 0
        while n_records < MAX_POLL_RECORDS:
            row += 1
            next_batch = walker.read_batch(row)
            if next_batch is None or next_batch.end_position > fetch_end:
                position = walker.batches[row - 1].end_position
                fault = read_header_fault(self._segment.log_bytes, position, fetch_end)
                return (
                    MAX_POLL_RECORDS - 1 - n_records
                    if fault is ConsumerFault.POLL_FAILURE
                    else None
                )
            delivered_offsets = self._delivered_offsets(next_batch)
            if delivered_offsets is None:
                n_records += next_batch.last_offset - self._first_batch_offset(next_batch) + 1
                continue
            n_records += len(delivered_offsets.offsets)
            if (
                delivered_offsets.fault is ConsumerFault.POLL_FAILURE
                and n_records < MAX_POLL_RECORDS
            ):
                return MAX_POLL_RECORDS - 1 - n_records
            if delivered_offsets.fault is not ConsumerFault.NONE:
                return None
        return None
