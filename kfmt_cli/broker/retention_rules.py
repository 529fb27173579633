"""The segments that retention deletes, and when the active one rolls: functions over facts.

Source: `org.apache.kafka.storage.internals.log.UnifiedLog.deleteOldSegments`,
`LocalLog.deletableSegments`, `LogSegment.largestTimestamp`, `LogSegment.shouldRoll`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kfmt_cli.broker.topic_settings import DAY, TopicSettings
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET

TIME_INDEX, FILE_TIME = "time-index", "file-time"
LATEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SegmentTimes:
    """The facts about a segment that retention uses."""

    name: str
    base_offset: int
    size: int
    largest: int
    """The timestamp that the broker regards as the largest, from `source`."""
    source: str
    end: int
    """The offset after the segment's last one."""
    why_file_time: str = ""
    """Why the broker uses the file's time."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Offsets that hold back deletion: the high watermark and the end of the data in remote
    storage; None if unknown."""

    high_watermark: int | None = None
    remote_end: int | None = None
    log_start: int = 0
    """Segments before this offset are deleted in any case."""


@dataclass(slots=True)
class SegmentFate:
    """The effect of retention on a segment."""

    segment: SegmentTimes
    active: bool
    deletable: bool
    at: int | None
    """The time from which it is deletable, or None if never by time."""
    why: str
    """The reason, as text."""
    odd: bool = False
    """Whether `at` is that late only because of a timestamp in the future."""


def retained(
    segments: Sequence[SegmentTimes], settings: TopicSettings, bounds: HeldBack, now: int
) -> list[SegmentFate]:
    """The effect of a retention check now on the segments, given in order."""
    return list(_Retention(segments, settings, bounds, now).fates())


@dataclass(frozen=True, slots=True)
class _Retention:
    """A retention check."""

    segments: Sequence[SegmentTimes]
    settings: TopicSettings
    bounds: HeldBack
    now: int

    def fates(self) -> Iterator[SegmentFate]:
        """The effect on each segment."""
        settings, gone = self.settings, self._deleted()
        before: SegmentFate | None = None  # the last one that is kept
        for i, segment in enumerate(self.segments):
            active = i == len(self.segments) - 1
            at = None if active and segment.size == 0 else _time_of(segment, settings)
            if i in gone:
                why = gone[i]
                if active:
                    why += "; it is the last segment, so the broker rolls a new one first"
                yield SegmentFate(segment, active, True, at, why)
                continue
            if before is not None:  # not before the earlier ones
                at = None if at is None or before.at is None else max(at, before.at)
            odd = at is not None and at > self.now + settings.kept_ms + DAY
            why = self._held(i, held_by_earlier=before is not None)
            before = SegmentFate(segment, active, False, at, why, odd)
            yield before

    def _deleted(self) -> dict[int, str]:
        """The segments that are deleted, each with the reason; the oldest first, without a gap."""
        segments, settings, log_start = self.segments, self.settings, self.bounds.log_start
        gone: dict[int, str] = {}
        # Each rule takes segments in order, up to the first that it keeps.
        for i in range(len(segments) - 1):
            if segments[i + 1].base_offset > log_start or not self._may_go(i):
                break
            gone[i] = f"it ends before the log start offset {log_start}"
        if not settings.deletes:
            return gone
        left = sum(segment.size for segment in segments[len(gone) :]) - settings.kept_bytes
        for i in range(len(gone), len(segments)):
            left -= segments[i].size
            if settings.kept_bytes < 0 or left < 0 or not self._may_go(i):
                break
            gone[i] = f"the partition exceeds {settings.size_limit} ({settings.kept_bytes})"
        for i in range(len(gone), len(segments)):
            if not self._has_expired(segments[i]) or not self._may_go(i):
                break
            gone[i] = _expired(segments[i], settings)
        return gone

    def _has_expired(self, segment: SegmentTimes) -> bool:
        kept_ms = self.settings.kept_ms
        return kept_ms >= 0 and self.now - segment.largest > kept_ms

    def _may_go(self, i: int) -> bool:
        """Whether only the retention rules keep a segment."""
        if i == len(self.segments) - 1 and self.segments[i].size == 0:
            return False
        return not self._bound(i)

    def _bound(self, i: int) -> str:
        """Why a segment is held back, or an empty string."""
        segments, bounds = self.segments, self.bounds
        end = segments[i + 1].base_offset if i + 1 < len(segments) else segments[i].end
        if bounds.high_watermark is not None and bounds.high_watermark < end:
            return f"the high watermark ({bounds.high_watermark}) is before its end"
        if bounds.remote_end is not None and bounds.remote_end < end:
            return "it has not been copied to remote storage yet"
        return ""

    def _held(self, i: int, *, held_by_earlier: bool) -> str:
        """Why a segment is kept."""
        segment, settings = self.segments[i], self.settings
        active = i == len(self.segments) - 1
        if not settings.deletes:
            if settings.compacts:
                return "cleanup.policy is compact: only the log cleaner removes records"
            return "cleanup.policy is empty: neither retention nor the log cleaner removes records"
        if active and segment.size == 0:
            return "it is the active segment, which is empty"
        if bound := self._bound(i):
            return bound
        if held_by_earlier and self._has_expired(segment):
            return "it has expired, but an earlier segment is still retained"
        if settings.kept_ms < 0:
            if settings.kept_bytes < 0:
                return f"neither {settings.time_limit} nor {settings.size_limit} is set"
            return (
                f"only {settings.size_limit} applies, and without this segment and those before it "
                "the partition would be smaller than that"
            )
        if segment.largest > self.now:
            return "its newest record has a timestamp in the future"
        if segment.source == FILE_TIME:
            return f"its file is newer than {settings.time_limit}; {segment.why_file_time}"
        of_active = "it is the active segment, and " if active else ""
        return f"{of_active}its newest record is within {settings.time_limit}"


def _expired(segment: SegmentTimes, settings: TopicSettings) -> str:
    if segment.source == FILE_TIME:
        return f"its file is older than {settings.time_limit}; {segment.why_file_time}"
    if segment.largest == 0:
        return "its time index ends in zeros, so its newest record appears to be from 1970"
    return f"its newest record is older than {settings.time_limit}"


def _time_of(segment: SegmentTimes, settings: TopicSettings) -> int | None:
    """The first millisecond at which the time rule allows deletion."""
    if not settings.deletes or settings.kept_ms < 0:
        return None
    return min(segment.largest + settings.kept_ms + 1, LATEST)


@dataclass(frozen=True, slots=True)
class ActiveFacts:
    """Facts about the active segment."""

    name: str
    base_offset: int
    size: int
    first_time: int | None
    """The largest timestamp of its first batch, or None."""
    last_time: int | None
    last_offset: int
    """The offset of its last record."""
    entries: int
    """Entries of its offset index."""
    times: int
    """Entries of its time index."""


@dataclass(frozen=True, slots=True)
class Roll:
    """The next roll of the active segment."""

    name: str
    reason: str
    """Size, time, index, offset or retention."""
    at_bytes: int
    """The size at which an append rolls the segment."""
    at_time: int | None
    """The timestamp at which an append rolls the segment, or None if time does not."""
    words: str


def rolled(active: ActiveFacts, settings: TopicSettings, now: int, is_expired: bool) -> Roll:
    """The next roll of the active segment, and its cause."""
    at_time = None
    if active.size and active.first_time is not None and active.first_time >= 0:
        at_time = active.first_time + settings.segment_ms + 1
    at_bytes = settings.segment_bytes

    def roll(reason: str, words: str) -> Roll:
        return Roll(active.name, reason, at_bytes, at_time, words)

    if is_expired:
        return roll("retention", "at the next retention check: everything in it has expired")
    if active.entries >= settings.segment_index_bytes // 8:
        return roll("index", "at the next append: its offset index is full")
    if active.times >= settings.segment_index_bytes // 12 - 1:
        return roll("index", "at the next append: its time index is full")
    if active.last_offset - active.base_offset >= MAX_RELATIVE_OFFSET:
        return roll(
            "offset", "at the next append: its last offset is 2^31 - 1 above its base offset"
        )
    if active.size >= at_bytes:
        return roll("size", "at the next append: segment.bytes is reached")
    if at_time is not None and now >= at_time:
        return roll("time", "at the next append: its first batch is older than segment.ms")
    if at_time is None:
        return roll(
            "size", "by size; without timestamps, segment.ms counts from the broker's start"
        )
    by_size = _reached(active, at_bytes)
    if by_size is not None and by_size < at_time:
        return roll("size", "by size, at the write rate so far")
    return roll("time", "by time (segment.ms since its first batch)")


def _reached(active: ActiveFacts, size: int) -> int | None:
    """When the segment reaches a size, at its growth rate so far; None if unknown."""
    if active.first_time is None or active.last_time is None:
        return None
    took = active.last_time - active.first_time
    if took <= 0 or not active.size:
        return None
    return active.last_time + (size - active.size) * took // active.size
