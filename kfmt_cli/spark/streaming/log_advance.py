"""Finds how far a trigger reads into a log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.spark.streaming.partition_directories import GET_BASE_OFFSET
from kfmt_cli.spark.streaming.positions import PartitionPosition
from kfmt_cli.spark.streaming.segment_ends import SegmentEndCache, TriggerBudget
from kfmt_cli.spark.worker import WORKER_LOGGER


def advance_position(
    segments: Sequence[FileSplit],
    start_position: PartitionPosition,
    budget: TriggerBudget,
    segment_end_cache: SegmentEndCache,
) -> PartitionPosition:
    """The position after as much of a log as the budget allows; raises InputError."""
    position = start_position
    first_segment_index = max(bisect_right(segments, position.offset, key=GET_BASE_OFFSET) - 1, 0)
    for segment_index in range(first_segment_index, len(segments)):
        segment = segments[segment_index]
        next_base_offset = (
            segments[segment_index + 1].base_offset_or_zero
            if segment_index + 1 < len(segments)
            else None
        )
        is_position_in_segment = (
            position.segment == segment.base_offset_or_zero and position.byte <= segment.file_size
        )
        n_remaining_bytes = segment.file_size - (position.byte if is_position_in_segment else 0)
        if next_base_offset is not None and budget.can_consume(
            n_remaining_bytes, next_base_offset - position.offset
        ):
            # The entire segment fits: continue at the beginning of the next one.
            budget.consume(n_remaining_bytes, next_base_offset - position.offset)
            position = _next_segment_position(
                segment_end_cache, segment, position, next_base_offset
            )
            continue
        segment_end = segment_end_cache.find_segment_end(segment, position, budget)
        if segment_end.error is not None:
            # The readable batches after the error are read after the broker has rolled.
            WORKER_LOGGER.warning("kfmt: %s", segment_end.error)
        end_position = segment_end.position
        cached_end = segment_end_cache.find_cached_end(segment)
        offset_before_read = position.offset
        if end_position.offset > offset_before_read:
            n_read_bytes = end_position.byte - segment_end.start_byte
            budget.consume(n_read_bytes, end_position.offset - offset_before_read)
            position = end_position
        if cached_end is None or cached_end.position.offset > position.offset:
            budget.exhaust()
        elif position.offset == offset_before_read and next_base_offset is not None:
            # Damage: the task reads what is readable in the rest of the segment.
            budget.consume(n_remaining_bytes, next_base_offset - position.offset)
            position = _next_segment_position(
                segment_end_cache, segment, position, next_base_offset
            )
        if not budget.can_read_more:
            break
    is_at_empty_segment = (
        segments[0].base_offset_or_zero < position.offset == segments[-1].base_offset_or_zero
    )
    if position.epoch < 0 and position.byte == 0 and is_at_empty_segment:
        # The last batch is in the previous segment.
        epoch = segment_end_cache.find_leader_epoch_before(segments, position.offset)
        position = replace(position, epoch=epoch)
    return replace(position, first=start_position.first, restarts=start_position.restarts)


def _next_segment_position(
    segment_end_cache: SegmentEndCache,
    segment: FileSplit,
    position: PartitionPosition,
    next_base_offset: int,
) -> PartitionPosition:
    """The position at the beginning of the next segment."""
    cached_end = segment_end_cache.find_cached_end(segment)
    reaches_next_segment = cached_end is not None and cached_end.position.offset == next_base_offset
    epoch = cached_end.position.epoch if cached_end is not None and reaches_next_segment else -1
    return PartitionPosition(
        max(next_base_offset, position.offset), next_base_offset, 0, epoch=epoch
    )
