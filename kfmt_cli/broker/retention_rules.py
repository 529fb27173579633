"""The segments that retention deletes, computed from facts.

Source: `org.apache.kafka.storage.internals.log.UnifiedLog.deleteOldSegments`,
`LocalLog.deletableSegments`, `LogSegment.largestTimestamp`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kfmt_cli.broker.topic_settings import DAY_MS, TopicSettings

FROM_TIME_INDEX, FROM_FILE_TIME = "time-index", "file-time"
MAX_TIMESTAMP = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RetentionSegmentFacts:
    """The facts about a segment that retention uses."""

    name: str
    base_offset: int
    size: int
    largest_timestamp: int
    """The timestamp that the broker regards as the largest, from `timestamp_source`."""
    timestamp_source: str
    end_offset: int
    """The offset after the segment's last one."""
    file_time_reason: str = ""
    """Why the broker uses the file's time."""


@dataclass(frozen=True, slots=True)
class DeletionBounds:
    """Offsets that hold back deletion: the high watermark and the end of the data in remote
    storage; None if unknown."""

    high_watermark: int | None = None
    remote_end_offset: int | None = None
    log_start_offset: int = 0
    """Segments before this offset are deleted in any case."""


@dataclass(slots=True)
class SegmentRetention:
    """The effect of retention on a segment."""

    segment: RetentionSegmentFacts
    active: bool
    deletable: bool
    deletable_at: int | None
    """The time from which it is deletable, or None if never by time."""
    why: str
    """The reason, as text."""
    odd: bool = False
    """Whether `deletable_at` is that late only because of a timestamp in the future."""


def compute_retention(
    segments: Sequence[RetentionSegmentFacts],
    settings: TopicSettings,
    deletion_bounds: DeletionBounds,
    now_ms: int,
) -> list[SegmentRetention]:
    """The effect of a retention check now on each segment. segments: in base offset order."""
    return list(
        _RetentionCheck(segments, settings, deletion_bounds, now_ms).iter_segment_retentions()
    )


@dataclass(frozen=True, slots=True)
class _RetentionCheck:
    segments: Sequence[RetentionSegmentFacts]
    settings: TopicSettings
    deletion_bounds: DeletionBounds
    now_ms: int

    def iter_segment_retentions(self) -> Iterator[SegmentRetention]:
        """The effect on each segment."""
        settings, deletion_reasons = self.settings, self._deletion_reasons()
        previous_retention: SegmentRetention | None = None  # the last segment that is kept
        for segment_number, segment in enumerate(self.segments):
            is_active = segment_number == len(self.segments) - 1
            deletable_at = (
                None if is_active and segment.size == 0 else _expiry_time_ms(segment, settings)
            )
            if segment_number in deletion_reasons:
                retention_reason = deletion_reasons[segment_number]
                if is_active:
                    retention_reason += (
                        "; it is the last segment, so the broker rolls a new one first"
                    )
                yield SegmentRetention(segment, is_active, True, deletable_at, retention_reason)
                continue
            if previous_retention is not None:  # no segment is deleted before the earlier ones
                deletable_at = (
                    None
                    if deletable_at is None or previous_retention.deletable_at is None
                    else max(deletable_at, previous_retention.deletable_at)
                )
            is_suspiciously_late = (
                deletable_at is not None
                and deletable_at > self.now_ms + settings.effective_retention_ms + DAY_MS
            )
            retention_reason = self._retention_reason(segment_number)
            previous_retention = SegmentRetention(
                segment, is_active, False, deletable_at, retention_reason, is_suspiciously_late
            )
            yield previous_retention

    def _deletion_reasons(self) -> dict[int, str]:
        """The reason for each deleted segment, by index; the oldest segments, without a gap."""
        segments = self.segments
        settings = self.settings
        log_start_offset = self.deletion_bounds.log_start_offset
        reason_by_number: dict[int, str] = {}
        # Each rule deletes segments in order, up to the first that it keeps.
        for segment_number in range(len(segments) - 1):
            if segments[
                segment_number + 1
            ].base_offset > log_start_offset or not self._is_deletion_allowed(segment_number):
                break
            reason_by_number[segment_number] = (
                f"it ends before the log start offset {log_start_offset}"
            )
        if not settings.has_delete_policy:
            return reason_by_number
        excess_bytes = (
            sum(segment.size for segment in segments[len(reason_by_number) :])
            - settings.effective_retention_bytes
        )
        for segment_number in range(len(reason_by_number), len(segments)):
            excess_bytes -= segments[segment_number].size
            if (
                settings.effective_retention_bytes < 0
                or excess_bytes < 0
                or not self._is_deletion_allowed(segment_number)
            ):
                break
            reason_by_number[segment_number] = (
                f"the partition exceeds {settings.size_setting_name} "
                f"({settings.effective_retention_bytes})"
            )
        for segment_number in range(len(reason_by_number), len(segments)):
            if not self._has_expired(segments[segment_number]) or not self._is_deletion_allowed(
                segment_number
            ):
                break
            reason_by_number[segment_number] = _expiry_reason(segments[segment_number], settings)
        return reason_by_number

    def _has_expired(self, segment: RetentionSegmentFacts) -> bool:
        retention_ms = self.settings.effective_retention_ms
        return retention_ms >= 0 and self.now_ms - segment.largest_timestamp > retention_ms

    def _is_deletion_allowed(self, segment_number: int) -> bool:
        """Whether only the retention rules keep a segment."""
        if segment_number == len(self.segments) - 1 and self.segments[segment_number].size == 0:
            return False
        return not self._blocking_reason(segment_number)

    def _blocking_reason(self, segment_number: int) -> str:
        """Why a segment is held back, or an empty string."""
        segments, deletion_bounds = self.segments, self.deletion_bounds
        end_offset = (
            segments[segment_number + 1].base_offset
            if segment_number + 1 < len(segments)
            else segments[segment_number].end_offset
        )
        if (
            deletion_bounds.high_watermark is not None
            and deletion_bounds.high_watermark < end_offset
        ):
            return f"the high watermark ({deletion_bounds.high_watermark}) is before its end"
        if (
            deletion_bounds.remote_end_offset is not None
            and deletion_bounds.remote_end_offset < end_offset
        ):
            return "it has not been copied to remote storage yet"
        return ""

    def _retention_reason(self, segment_number: int) -> str:
        """Why a segment is kept."""
        segment, settings = self.segments[segment_number], self.settings
        is_active = segment_number == len(self.segments) - 1
        if not settings.has_delete_policy:
            if settings.has_compact_policy:
                return "cleanup.policy is compact: only the log cleaner removes records"
            return "cleanup.policy is empty: neither retention nor the log cleaner removes records"
        if is_active and segment.size == 0:
            return "it is the active segment, which is empty"
        if blocking_reason := self._blocking_reason(segment_number):
            return blocking_reason
        if self._has_expired(segment):
            return "it has expired, but an earlier segment is still retained"
        if settings.effective_retention_ms < 0:
            if settings.effective_retention_bytes < 0:
                return (
                    f"neither {settings.time_setting_name} nor {settings.size_setting_name} is set"
                )
            return (
                f"only {settings.size_setting_name} applies, and without this segment and those "
                "before it the partition would be smaller than that"
            )
        if segment.largest_timestamp > self.now_ms:
            return "its newest record has a timestamp in the future"
        if segment.timestamp_source == FROM_FILE_TIME:
            return (
                f"its file is newer than {settings.time_setting_name}; {segment.file_time_reason}"
            )
        prefix = "it is the active segment, and " if is_active else ""
        return f"{prefix}its newest record is within {settings.time_setting_name}"


def _expiry_reason(segment: RetentionSegmentFacts, settings: TopicSettings) -> str:
    if segment.timestamp_source == FROM_FILE_TIME:
        return f"its file is older than {settings.time_setting_name}; {segment.file_time_reason}"
    if segment.largest_timestamp == 0:
        return "its time index ends in zeros, so its newest record appears to be from 1970"
    return f"its newest record is older than {settings.time_setting_name}"


def _expiry_time_ms(segment: RetentionSegmentFacts, settings: TopicSettings) -> int | None:
    """The first millisecond at which the time rule allows deletion."""
    if not settings.has_delete_policy or settings.effective_retention_ms < 0:
        return None
    return min(segment.largest_timestamp + settings.effective_retention_ms + 1, MAX_TIMESTAMP)
