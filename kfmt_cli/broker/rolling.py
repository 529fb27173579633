"""When a broker rolls a segment.

Source: `org.apache.kafka.storage.internals.log.LogSegment.shouldRoll`: the segment would grow
beyond its size; the batch is so much younger than the segment's first; an index is full; an offset
does not fit into one.
"""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.broker.defaults import (
    INDEX_INTERVAL_BYTES,
    MOST_SEGMENT_BYTES,
    SEGMENT_BYTES,
    SEGMENT_INDEX_BYTES,
    SEGMENT_MS,
)
from kfmt_cli.broker.index import IndexBuilder
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET


@dataclass(frozen=True, slots=True)
class Rolling:
    """A broker's settings: segment.bytes, segment.ms, segment.index.bytes, index.interval.bytes."""

    segment_bytes: int = SEGMENT_BYTES
    segment_ms: int | None = SEGMENT_MS
    """None for never by age."""
    segment_index_bytes: int = SEGMENT_INDEX_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    by_file: bool = True
    """A segment that the lines name is kept whole."""


@dataclass(frozen=True, slots=True)
class Active:
    """The segment that is being written."""

    base_offset: int
    size: int
    """Its size in bytes."""
    index: IndexBuilder
    first_time: int | None = None
    """The max timestamp of its first batch, None before that."""
    whole: bool = False
    """It is never rolled for its size, its age or its index."""


def fits(offset: int, base_offset: int) -> bool:
    """Whether an offset fits into the indexes of a segment."""
    return offset - base_offset <= MAX_RELATIVE_OFFSET


def room(
    active: Active,
    rolling: Rolling,
    starts: IntArray,
    ends: IntArray,
    last_offset: IntArray,
    max_timestamp: IntArray,
) -> int:
    """How many of the next batches go into the segment; at least one into an empty one.

    starts, ends: bytes from the first of the batches on.
    """
    full = last_offset - active.base_offset > MAX_RELATIVE_OFFSET
    full |= ends + active.size > (MOST_SEGMENT_BYTES if active.whole else rolling.segment_bytes)
    started = active.first_time
    if started is None:
        started = int(max_timestamp[0])
    if rolling.segment_ms is not None and started >= 0 and not active.whole:
        full |= max_timestamp - started > rolling.segment_ms
    n = int(full.argmax()) if full.any() else len(full)
    if not active.whole:
        index_bytes = rolling.segment_index_bytes
        n = min(n, active.index.room(starts + active.size, max_timestamp, index_bytes))
    return n if active.size else max(n, 1)
