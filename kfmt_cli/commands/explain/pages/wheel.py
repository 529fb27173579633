"""The page about timing wheels: timers drawn level by level."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.broker.timing_wheel import (
    HierarchicalTimingWheels,
    TimerEvent,
    TimerTask,
    TimingWheel,
)
from kfmt_cli.commands.explain.pages.page import PageFacts, PageSection

_MAX_SHOWN_BUCKETS = 20  # buckets drawn


def timing_wheel_page(facts: PageFacts) -> Iterator[PageSection]:
    """Timers added to the wheels, and what happens to them as time advances."""
    tick_ms, n_buckets, delays_ms, draw_at_ms = facts.wheel_settings
    yield (
        "A broker has hundreds of thousands of timers: requests waiting for records, replicas or "
        "group members. In a queue ordered by time, each insertion gets slower as the queue "
        "grows. A timing wheel is a ring of buckets, each one tick long; inserting a timer into "
        "its bucket takes constant time. Timers beyond the ring go into a coarser wheel, whose "
        "tick is one full turn of the finer one."
    )
    wheels = HierarchicalTimingWheels(tick_ms, n_buckets)
    lines = [
        format_timer_event(wheels.add_timer(TimerTask(f"{delay_ms} ms", delay_ms)))
        for delay_ms in delays_ms
    ]
    timers_text = ", ".join(f"{delay_ms} ms" for delay_ms in delays_ms)
    yield f"Wheels of {n_buckets} buckets of {tick_ms} ms; timers {timers_text}:"
    yield lines
    yield [line for level, wheel in enumerate(wheels.wheels) for line in draw_wheel(wheel, level)]
    yield (
        "Empty buckets are skipped: non-empty buckets are kept in a queue ordered by time, and "
        "the broker sleeps until the first one expires. Then each of its timers fires or, in a "
        "coarser wheel, moves down to a finer one:"
    )
    end_ms = draw_at_ms if draw_at_ms is not None else max(delays_ms, default=0)
    event_lines = [format_timer_event(event) for event in wheels.advance_time(end_ms)]
    yield event_lines or [f"{end_ms:>6} ms  no events yet"]
    if draw_at_ms is not None:
        yield [
            line for level, wheel in enumerate(wheels.wheels) for line in draw_wheel(wheel, level)
        ]
    yield "Kafka: org.apache.kafka.server.util.timer.TimingWheel, SystemTimer."


def format_timer_event(event: TimerEvent) -> str:
    """A timer event as a line."""
    line = f"{event.time_ms:>6} ms  timer {event.timer.name:>9}  {event.kind:<8}"
    if event.level is None:
        return line.rstrip()
    return f"{line}  level {event.level}, bucket {event.bucket}, looked at {event.bucket_due_ms} ms"


def draw_wheel(wheel: TimingWheel, level: int) -> Iterator[str]:
    """A line: a wheel as a row of buckets, each with its number of timers."""
    n_timers_by_bucket = {
        bucket_start_ms // wheel.tick_ms % wheel.n_buckets: len(bucket)
        for bucket_start_ms, bucket in wheel.timers_by_start_ms.items()
    }
    current_bucket = wheel.now_ms // wheel.tick_ms % wheel.n_buckets
    bucket_cells = []
    for i in range(min(wheel.n_buckets, _MAX_SHOWN_BUCKETS)):
        n_timers = n_timers_by_bucket.get(i, 0)
        bucket_cells.append(f"[{n_timers}]" if n_timers else ("·" if i != current_bucket else "^"))
    ellipsis = " …" if wheel.n_buckets > _MAX_SHOWN_BUCKETS else ""
    yield f"level {level}  {' '.join(bucket_cells)}{ellipsis}   {wheel.tick_ms} ms each"


def iter_timer_events(facts: PageFacts) -> Iterator[TimerEvent]:
    """The timer events for the wheel settings, in order."""
    tick_ms, n_buckets, delays_ms, end_ms = facts.wheel_settings
    wheels = HierarchicalTimingWheels(tick_ms, n_buckets)
    for delay_ms in delays_ms:
        yield wheels.add_timer(TimerTask(f"{delay_ms} ms", delay_ms))
    yield from wheels.advance_time(end_ms if end_ms is not None else max(delays_ms, default=0))
