"""When a broker rolls a segment.

Source: `org.apache.kafka.storage.internals.log.LogSegment.shouldRoll`: the segment would exceed its
size; the batch is too much newer than the segment's first one; an index is full; an offset is out
of range for an index.
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
    """None: never by time."""
    segment_index_bytes: int = SEGMENT_INDEX_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    by_file: bool = True
    """Do not split a segment that the lines name."""


@dataclass(frozen=True, slots=True)
class Active:
    """The segment that is being written."""

    base_offset: int
    size: int
    """Its size in bytes."""
    index: IndexBuilder
    first_time: int | None = None
    """The max timestamp of its first batch, None if it has no batch."""
    whole: bool = False
    """Never roll it by size, time or index."""


def fits(offset: int, base_offset: int) -> bool:
    """Whether an offset is in range for a segment's indexes."""
    return offset - base_offset <= MAX_RELATIVE_OFFSET


def room(
    active: Active,
    rolling: Rolling,
    starts: IntArray,
    ends: IntArray,
    last_offset: IntArray,
    max_timestamp: IntArray,
) -> int:
    """The number of next batches that the segment takes; at least one if it is empty.

    starts, ends: bytes, relative to the first of the batches.
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
