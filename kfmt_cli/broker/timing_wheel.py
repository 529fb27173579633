"""Hierarchical timing wheels, as a broker keeps its timers; adding one takes constant time.

Source: `org.apache.kafka.server.util.timer.TimingWheel`, `SystemTimer`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TimerTask:
    """A timer. due_ms: the time at which it is due, in milliseconds."""

    name: str
    due_ms: int


@dataclass(frozen=True, slots=True)
class TimerEvent:
    """A change of a timer."""

    time_ms: int
    kind: str
    """`added`, `cascaded` or `fired`."""
    timer: TimerTask
    level: int | None = None
    """The level of the wheel; 0 is the finest."""
    bucket: int | None = None
    """The bucket's number in its wheel."""
    bucket_due_ms: int | None = None
    """When the bucket is due; None if the timer fired."""


@dataclass(slots=True)
class TimingWheel:
    """One level of the wheels."""

    tick_ms: int
    """Milliseconds per bucket."""
    n_buckets: int
    now_ms: int
    timers_by_start_ms: dict[int, list[TimerTask]] = field(default_factory=dict)
    """Timers by the start of their bucket, in order."""

    @property
    def interval_ms(self) -> int:
        """Milliseconds per revolution."""
        return self.tick_ms * self.n_buckets


class HierarchicalTimingWheels:
    """A hierarchy of wheels; a timer beyond the highest one adds another."""

    def __init__(self, tick_ms: int, n_buckets: int) -> None:
        self.now_ms = 0
        self.wheels = [TimingWheel(tick_ms, n_buckets, 0)]
        self._n_buckets = n_buckets

    def add_timer(self, timer: TimerTask, event_kind: str = "added") -> TimerEvent:
        """Put a timer into its bucket; it fires at once if its tick has come."""
        level = 0
        while True:
            wheel = self.wheels[level]
            if timer.due_ms < wheel.now_ms + wheel.tick_ms and level == 0:
                return TimerEvent(self.now_ms, "fired", timer)
            if timer.due_ms < wheel.now_ms + wheel.interval_ms:
                bucket_number = timer.due_ms // wheel.tick_ms
                bucket_start_ms = bucket_number * wheel.tick_ms
                wheel.timers_by_start_ms.setdefault(bucket_start_ms, []).append(timer)
                return TimerEvent(
                    self.now_ms,
                    event_kind,
                    timer,
                    level,
                    bucket_number % wheel.n_buckets,
                    bucket_start_ms,
                )
            if level + 1 == len(self.wheels):
                upper_tick_ms = wheel.interval_ms
                self.wheels.append(
                    TimingWheel(
                        upper_tick_ms, self._n_buckets, self.now_ms - self.now_ms % upper_tick_ms
                    )
                )
            level += 1

    @property
    def next_bucket_due_ms(self) -> int | None:
        """When the next bucket is due, or None."""
        return min(
            (
                bucket_start_ms
                for wheel in self.wheels
                for bucket_start_ms in wheel.timers_by_start_ms
            ),
            default=None,
        )

    def advance_time(self, end_ms: int) -> Iterator[TimerEvent]:
        """Advance the time: timers in due buckets fire or cascade to lower wheels."""
        while (
            bucket_start_ms := self.next_bucket_due_ms
        ) is not None and bucket_start_ms <= end_ms:
            self._set_time(max(bucket_start_ms, self.now_ms))
            for wheel in reversed(self.wheels):
                for timer in wheel.timers_by_start_ms.pop(bucket_start_ms, ()):
                    yield self.add_timer(timer, "cascaded")
        self._set_time(max(end_ms, self.now_ms))

    def _set_time(self, now_ms: int) -> None:
        self.now_ms = now_ms
        for wheel in self.wheels:
            wheel.now_ms = now_ms - now_ms % wheel.tick_ms
