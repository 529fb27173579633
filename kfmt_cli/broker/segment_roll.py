"""When the active segment rolls, computed from facts.

Source: `org.apache.kafka.storage.internals.log.LogSegment.shouldRoll`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.broker.topic_settings import TopicSettings
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET


@dataclass(frozen=True, slots=True)
class ActiveSegmentFacts:
    """Facts about the active segment."""

    name: str
    base_offset: int
    size: int
    first_time: int | None
    """The largest timestamp of its first batch, or None."""
    last_time: int | None
    last_offset: int
    """The offset of its last record."""
    n_offset_entries: int
    """Entries of its offset index."""
    n_time_entries: int
    """Entries of its time index."""


@dataclass(frozen=True, slots=True)
class SegmentRoll:
    """The next roll of the active segment."""

    name: str
    reason: str
    """`size`, `time`, `index`, `offset` or `retention`."""
    at_bytes: int
    """The size at which an append rolls the segment."""
    at_time: int | None
    """The timestamp at which an append rolls the segment, or None if time does not."""
    description: str


def predict_roll(
    active_segment: ActiveSegmentFacts,
    settings: TopicSettings,
    now_ms: int,
    is_everything_expired: bool,
) -> SegmentRoll:
    """The next roll of the active segment, and its cause."""
    roll_timestamp = None
    if (
        active_segment.size
        and active_segment.first_time is not None
        and active_segment.first_time >= 0
    ):
        roll_timestamp = active_segment.first_time + settings.segment_ms + 1
    roll_bytes = settings.segment_bytes

    def create_roll(reason: str, description: str) -> SegmentRoll:
        return SegmentRoll(active_segment.name, reason, roll_bytes, roll_timestamp, description)

    if is_everything_expired:
        return create_roll("retention", "at the next retention check: everything in it has expired")
    if active_segment.n_offset_entries >= settings.segment_index_bytes // 8:
        return create_roll("index", "at the next append: its offset index is full")
    if active_segment.n_time_entries >= settings.segment_index_bytes // 12 - 1:
        return create_roll("index", "at the next append: its time index is full")
    if active_segment.last_offset - active_segment.base_offset >= MAX_RELATIVE_OFFSET:
        return create_roll(
            "offset", "at the next append: its last offset is 2^31 - 1 above its base offset"
        )
    if active_segment.size >= roll_bytes:
        return create_roll("size", "at the next append: segment.bytes is reached")
    if roll_timestamp is not None and now_ms >= roll_timestamp:
        return create_roll("time", "at the next append: its first batch is older than segment.ms")
    if roll_timestamp is None:
        return create_roll(
            "size", "by size; without timestamps, segment.ms counts from the broker's start"
        )
    full_time_ms = _predict_full_time_ms(active_segment, roll_bytes)
    if full_time_ms is not None and full_time_ms < roll_timestamp:
        return create_roll("size", "by size, at the write rate so far")
    return create_roll("time", "by time (segment.ms since its first batch)")


def _predict_full_time_ms(active_segment: ActiveSegmentFacts, target_bytes: int) -> int | None:
    """When the segment reaches a size, at its growth rate so far; None if unknown."""
    if active_segment.first_time is None or active_segment.last_time is None:
        return None
    elapsed_ms = active_segment.last_time - active_segment.first_time
    if elapsed_ms <= 0 or not active_segment.size:
        return None
    return (
        active_segment.last_time
        + (target_bytes - active_segment.size) * elapsed_ms // active_segment.size
    )
