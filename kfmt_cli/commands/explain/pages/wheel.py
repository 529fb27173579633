"""The page about timing wheels: timers drawn level by level."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.broker.timing_wheel import Timer, TimingWheels, Wheel, WheelStep
from kfmt_cli.commands.explain.pages.page import PageFacts, Part

_SHOWN = 20  # buckets drawn


def timing_wheel(facts: PageFacts) -> Iterator[Part]:
    """Some timers put into wheels, then time advanced."""
    tick, size, delays, at = facts.wheel
    yield (
        "A broker has hundreds of thousands of timers: requests waiting for records, replicas or "
        "group members. In a queue ordered by time, each insertion gets slower as the queue "
        "grows. A timing wheel is a ring of buckets, each one tick long; inserting a timer into "
        "its bucket takes constant time. Timers beyond the ring go into a coarser wheel, whose "
        "tick is one full turn of the finer one."
    )
    wheels = TimingWheels(tick, size)
    lines = [words_of(wheels.add(Timer(f"{delay} ms", delay))) for delay in delays]
    timers = ", ".join(f"{delay} ms" for delay in delays)
    yield f"Wheels of {size} buckets of {tick} ms; timers {timers}:"
    yield lines
    yield [line for i, level in enumerate(wheels.levels) for line in draw(level, i)]
    yield (
        "Empty buckets are skipped: non-empty buckets are kept in a queue ordered by time, and "
        "the broker sleeps until the first one expires. Then each of its timers fires or, in a "
        "coarser wheel, moves down to a finer one:"
    )
    until = at if at is not None else max(delays, default=0)
    steps = [words_of(step) for step in wheels.advance(until)]
    yield steps or [f"{until:>6} ms  no events yet"]
    if at is not None:
        yield [line for i, level in enumerate(wheels.levels) for line in draw(level, i)]
    yield "Kafka: org.apache.kafka.server.util.timer.TimingWheel, SystemTimer."


def words_of(step: WheelStep) -> str:
    """A step as a line."""
    line = f"{step.now:>6} ms  timer {step.timer.name:>9}  {step.kind:<8}"
    if step.level is None:
        return line.rstrip()
    return f"{line}  level {step.level}, bucket {step.bucket}, looked at {step.start} ms"


def draw(wheel: Wheel, level: int) -> Iterator[str]:
    """A wheel as a row of buckets, each with its number of timers."""
    numbers = {
        start // wheel.tick % wheel.size: len(bucket) for start, bucket in wheel.buckets.items()
    }
    now = wheel.now // wheel.tick % wheel.size
    cells = []
    for i in range(min(wheel.size, _SHOWN)):
        count = numbers.get(i, 0)
        cells.append(f"[{count}]" if count else ("·" if i != now else "^"))
    more = " …" if wheel.size > _SHOWN else ""
    yield f"level {level}  {' '.join(cells)}{more}   {wheel.tick} ms each"


def steps_of(facts: PageFacts) -> Iterator[WheelStep]:
    """The steps, in order."""
    tick, size, delays, at = facts.wheel
    wheels = TimingWheels(tick, size)
    for delay in delays:
        yield wheels.add(Timer(f"{delay} ms", delay))
    yield from wheels.advance(at if at is not None else max(delays, default=0))
