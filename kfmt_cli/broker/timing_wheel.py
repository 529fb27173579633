"""Hierarchical timing wheels, as a broker keeps its timers; adding one takes constant time.

Source: `org.apache.kafka.server.util.timer.TimingWheel`, `SystemTimer`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer. name: its name. at: when it is due, in milliseconds."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class WheelStep:
    """An event."""

    now: int
    kind: str
    """Added, cascaded or fired."""
    timer: Timer
    level: int | None = None
    """The level of the wheel; 0 is the finest."""
    bucket: int | None = None
    """The bucket's number in its wheel."""
    start: int | None = None
    """When the bucket is due; None if the timer fired."""


@dataclass(slots=True)
class Wheel:
    """One level of the wheels."""

    tick: int
    """Milliseconds per bucket."""
    size: int
    now: int
    buckets: dict[int, list[Timer]] = field(default_factory=dict)
    """Timers by the start of their bucket, in order."""

    @property
    def interval(self) -> int:
        """Milliseconds per revolution."""
        return self.tick * self.size


class TimingWheels:
    """A hierarchy of wheels; a timer beyond the highest one adds another."""

    def __init__(self, tick: int, size: int) -> None:
        self.now = 0
        self.levels = [Wheel(tick, size, 0)]
        self._size = size

    def add(self, timer: Timer, kind: str = "added") -> WheelStep:
        """Put a timer into its bucket; it fires at once if its tick has come."""
        level = 0
        while True:
            wheel = self.levels[level]
            if timer.at < wheel.now + wheel.tick and level == 0:
                return WheelStep(self.now, "fired", timer)
            if timer.at < wheel.now + wheel.interval:
                number = timer.at // wheel.tick
                start = number * wheel.tick
                wheel.buckets.setdefault(start, []).append(timer)
                return WheelStep(self.now, kind, timer, level, number % wheel.size, start)
            if level + 1 == len(self.levels):
                above = wheel.interval
                self.levels.append(Wheel(above, self._size, self.now - self.now % above))
            level += 1

    @property
    def next(self) -> int | None:
        """When the next bucket is due, or None."""
        return min((start for level in self.levels for start in level.buckets), default=None)

    def advance(self, to: int) -> Iterator[WheelStep]:
        """Advance the time: timers in due buckets fire or cascade to lower wheels."""
        while (start := self.next) is not None and start <= to:
            self._move(max(start, self.now))
            for wheel in reversed(self.levels):
                for timer in wheel.buckets.pop(start, ()):
                    yield self.add(timer, "cascaded")
        self._move(max(to, self.now))

    def _move(self, now: int) -> None:
        self.now = now
        for level in self.levels:
            level.now = now - now % level.tick
