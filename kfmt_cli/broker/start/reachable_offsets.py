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

from kfmt_cli.broker.start.batch_walker import BatchWalker
from kfmt_cli.broker.start.consumer import (
    ConsumerFault,
    DeliveredOffsets,
    header_fault,
    read_delivered_offsets,
)
from kfmt_cli.broker.start.offset_intervals import (
    LogOffsets,
    OffsetInterval,
    OffsetIntervals,
    merge_intervals,
)
from kfmt_cli.broker.start.recovery_segment import RecoverySegment
from kfmt_cli.broker.start.stored_batches import StartError, StoredBatch

FETCH_BYTES = 1 << 20  # max.partition.fetch.bytes
POLL_RECORDS = 500  # max.poll.records
_MAX_OFFSET = (1 << 63) - 1


@dataclass(slots=True)
class ReachableOffsetSearch:
    """The offsets that consumers receive from a partition's segments, in order."""

    segments: list[RecoverySegment]
    end_offset: int
    interval_by_base: Mapping[int, tuple[int, int]]
    """The offsets of each segment with a valid log and index; such a segment is not opened."""
    log_offsets_by_base: Mapping[int, LogOffsets]
    """The batches that kfmt finds in each of the other logs, by base offset."""
    malformed_by_log: Mapping[int, frozenset[int]]
    """Positions of batches with a known fault other than the checksum, by the log's base offset."""
    _seeks_by_base: dict[int, _SegmentSeeks] = field(default_factory=dict)

    def find(self, log_start: int) -> OffsetIntervals:
        """The offsets that consumers receive."""
        reachable: OffsetIntervals = []
        for i, segment in enumerate(self.segments):
            next_base = self.segments[i + 1].base if i + 1 < len(self.segments) else self.end_offset
            low, high = max(segment.base, log_start), min(next_base, self.end_offset) - 1
            reachable += self._iter_delivered(i, [(low, high)])
        return merge_intervals(reachable)

    def find_in_sequence(self, log_start: int) -> OffsetIntervals:
        """The offsets that consumers receive because a fetch that began at a lower offset also
        contains them, even if a seek to them leads elsewhere: a segment whose offsets reach into
        the next one is sent completely."""
        delivered: OffsetIntervals = []
        for segment, next_segment in pairwise(self.segments):
            low, high = max(segment.base, log_start), next_segment.base - 1
            if low <= high:
                delivered += self._delivered_beyond(segment, low, high)
        return merge_intervals(delivered)

    def _iter_delivered(self, i: int, requested: OffsetIntervals) -> Iterator[OffsetInterval]:
        """The offsets received by seeks that begin in a segment, from it or from later ones."""
        for segment in self.segments[i:]:
            requested = merge_intervals(requested)
            if not requested:
                return
            interval = self.interval_by_base.get(segment.base)
            if interval is not None:
                first, last = interval
                yield from (
                    (max(first, requested_first), min(last, requested_last))
                    for requested_first, requested_last in requested
                )
                requested = [
                    (max(requested_first, last + 1), requested_last)
                    for requested_first, requested_last in requested
                ]
                continue
            remaining: OffsetIntervals = []
            for low, high in requested:
                try:
                    delivered, unanswered_targets = self._segment_seeks(segment).find_delivered(
                        low, high
                    )
                except StartError:  # the segment cannot be searched
                    continue
                yield from delivered
                remaining += unanswered_targets
            requested = remaining

    def _delivered_beyond(self, segment: RecoverySegment, low: int, high: int) -> OffsetIntervals:
        """The offsets above high that a fetch of low..high from a segment also contains, if the
        segment reaches into the next one."""
        interval = self.interval_by_base.get(segment.base)
        if interval is not None and interval[1] <= high:
            return []
        seeks = self._segment_seeks(segment)
        try:
            return seeks.find_delivered_beyond(low, high) + seeks.find_delivered_beyond(high, high)
        except StartError:  # the segment cannot be searched
            return []

    def _segment_seeks(self, segment: RecoverySegment) -> _SegmentSeeks:
        seeks = self._seeks_by_base.get(segment.base)
        if seeks is None:
            log_offsets = self.log_offsets_by_base.get(segment.base) or LogOffsets(segment.base)
            batch_positions = sorted(batch.position for batch in log_offsets.batches)
            suspect_positions = (
                self.malformed_by_log.get(segment.base, frozenset()) | log_offsets.damaged_positions
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
            seeks = self._seeks_by_base[segment.base] = _SegmentSeeks(
                segment, first_offset_by_position, sorted(suspect_positions)
            )
        return seeks


class _SegmentSeeks:
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

    def find_delivered(self, low: int, high: int) -> tuple[OffsetIntervals, OffsetIntervals]:
        """The offsets received by seeks to low..high, and the targets that are not found in this
        segment."""
        delivered: OffsetIntervals = []
        unanswered_targets: OffsetIntervals = []
        boundaries = self._target_boundaries(low, high)
        for first, last in zip(
            [low, *boundaries], [*(boundary - 1 for boundary in boundaries), high], strict=True
        ):
            target = first
            walker = self._walker_for(target)
            while target <= last:
                answer = walker.find(target)
                if answer is None:
                    if walker.error is None:  # a search that fails returns an error
                        unanswered_targets.append((target, last))
                    break
                row, last_target = answer
                last_target = min(last_target, last)
                if walker.answer_error(row) is None:
                    self._add_delivered(walker, row, target, last_target, delivered)
                target = last_target + 1
        return delivered, unanswered_targets

    def _walker_for(self, offset: int) -> BatchWalker:
        start = self._segment.lookup_position(offset)
        return self._walkers.setdefault(start, self._segment.walker_from(start))

    def find_delivered_beyond(self, target: int, high: int) -> OffsetIntervals:
        """The offsets above high that a seek receives with its first fetch."""
        walker = self._walker_for(target)
        row, error = walker.find_row_or_error(target)
        if row is None or error is not None:
            return []
        intervals: OffsetIntervals = []
        low = max(target, high + 1)
        for batch, delivered in self._iter_fetched(walker, row):
            if delivered is None:
                intervals.append((max(low, self._first_offset(batch)), batch.last_offset))
            else:
                intervals += ((offset, offset) for offset in delivered.offsets if offset >= low)
            low = max(low, batch.last_offset + 1)
        return intervals

    def _iter_fetched(
        self, walker: BatchWalker, row: int
    ) -> Iterator[tuple[StoredBatch, DeliveredOffsets | None]]:
        """The batches sent with the one in a row, up to the first fault, each with the offsets that
        a consumer receives from it, None for all."""
        end = self._fetch_end(walker.batches[row])
        while (batch := walker.batch_at(row)) is not None and batch.end_position <= end:
            delivered = self._delivered_offsets(batch)
            yield batch, delivered
            if delivered is not None and delivered.fault is not ConsumerFault.NONE:
                return
            row += 1

    def _target_boundaries(self, low: int, high: int) -> list[int]:
        """The targets within low..high at which the index may return another byte than before.

        The binary search ends at an entry that equals the target. Unless each entry is greater
        than the one before it, the next target may therefore lead it elsewhere.
        """
        offsets, _ = self._segment.entries
        filled = offsets.filled
        if len(offsets) == len(filled) and bool((filled[1:] > filled[:-1]).all()):
            boundaries = filled
        else:
            boundaries = np.concatenate((filled, filled + 1, [self._segment.base + 1]))
        inner_boundaries: list[int] = np.unique(
            boundaries[(low < boundaries) & (boundaries <= high)]
        ).tolist()
        return inner_boundaries

    def _add_delivered(
        self,
        walker: BatchWalker,
        row: int,
        first_target: int,
        last_target: int,
        intervals: OffsetIntervals,
    ) -> None:
        """Add the offsets received by seeks to first_target..last, all of which find one batch."""
        first_failing_offset = self._first_failing_offset(
            walker, row, self._fetch_end(walker.batches[row])
        )
        low = first_target  # the first seek that has received nothing yet
        for batch, delivered in self._iter_fetched(walker, row):
            if delivered is None:
                first = self._first_offset(batch)
                intervals.append(
                    (max(low, first), min(last_target, batch.last_offset, first_failing_offset - 1))
                )
                low = max(low, batch.last_offset + 1)
            else:
                for offset in delivered.offsets:
                    if low <= offset <= last_target and offset < first_failing_offset:
                        intervals.append((offset, offset))
                    # After the largest offset, a consumer accepts any.
                    low = max(low, offset + 1) if offset < _MAX_OFFSET else first_target
            if low > last_target:
                break

    def _fetch_end(self, batch: StoredBatch) -> int:
        """The end of the bytes sent with a batch."""
        return min(batch.position + max(FETCH_BYTES, batch.size), self._segment.size)

    def _first_offset(self, batch: StoredBatch) -> int:
        """The first offset of a batch; a wrapper does not have it in its header."""
        return self._first_offset_by_position.get(batch.position, batch.base_offset)

    def _delivered_offsets(self, batch: StoredBatch) -> DeliveredOffsets | None:
        """The offsets that a consumer receives from a batch; None for all of them."""
        if batch.position in self._first_offset_by_position:
            return None
        if batch.position not in self._delivered_by_position:
            self._delivered_by_position[batch.position] = read_delivered_offsets(
                self._segment.log_bytes, batch
            )
        return self._delivered_by_position[batch.position]

    def _first_failing_offset(self, walker: BatchWalker, row: int, end: int) -> int:
        """First offset from which a poll fails as a whole, because of this batch or a later one.

        Above every offset if no poll fails. end: the end of the bytes sent.
        """
        batch = walker.batches[row]
        delivered = self._delivered_offsets(batch)
        no_offset = _MAX_OFFSET + 1
        if delivered is not None and delivered.fault is ConsumerFault.ERROR:
            return no_offset  # the consumer does not get to the batches after it
        if delivered is not None and delivered.fault is ConsumerFault.POISON:
            if len(delivered.offsets) < POLL_RECORDS:
                return min(batch.base_offset, batch.last_offset)
            return delivered.offsets[1 - POLL_RECORDS]
        if batch.position in self._first_offset_by_position:
            suspect_index = bisect_right(self._suspect_positions, batch.position)
            if (
                suspect_index == len(self._suspect_positions)
                or self._suspect_positions[suspect_index] >= end
            ):
                return no_offset
        n_safe = self._count_before_failure(walker, row, end)
        if n_safe is None:
            return no_offset
        first = (
            self._first_offset(batch)
            if delivered is None
            else min(delivered.offsets, default=no_offset)
        )
        return max(batch.last_offset + 1 - n_safe, first)

    def _count_before_failure(self, walker: BatchWalker, row: int, end: int) -> int | None:
        """The number of a batch's last records that share a poll with a later batch that makes the
        poll fail; None if no later batch does."""
        n_records = 0
        while n_records < POLL_RECORDS:
            row += 1
            next_batch = walker.batch_at(row)
            if next_batch is None or next_batch.end_position > end:
                position = walker.batches[row - 1].end_position
                fault = header_fault(self._segment.log_bytes, position, end)
                return POLL_RECORDS - 1 - n_records if fault is ConsumerFault.POISON else None
            delivered = self._delivered_offsets(next_batch)
            if delivered is None:
                n_records += next_batch.last_offset - self._first_offset(next_batch) + 1
                continue
            n_records += len(delivered.offsets)
            if delivered.fault is ConsumerFault.POISON and n_records < POLL_RECORDS:
                return POLL_RECORDS - 1 - n_records
            if delivered.fault is not ConsumerFault.NONE:
                return None
        return None
