"""The timing wheels fire the same timers as a priority queue, at the same times."""

from __future__ import annotations

from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

from kfmt_cli.broker.timing_wheel import HierarchicalTimingWheels, TimerTask
from tests.support.samples import kfmt

DELAYS = st.lists(st.integers(0, 100_000), max_size=40)


@given(
    st.integers(1, 50), st.integers(2, 30), DELAYS, st.lists(st.integers(1, 30_000), max_size=20)
)
def test_it_fires_what_a_queue_does(
    tick: int, size: int, delays: list[int], strides: list[int]
) -> None:
    wheels = HierarchicalTimingWheels(tick, size)
    queue: list[tuple[int, str]] = []
    fired: list[str] = []
    for i, delay in enumerate(delays):
        timer = TimerTask(str(i), delay)
        step = wheels.add_timer(timer)
        if step.kind == "fired":
            assert delay < tick
            fired.append(timer.name)
        else:
            # A bucket expires when its tick begins.
            heappush(queue, (delay // tick * tick, timer.name))
    now_ms = 0
    for stride in [*strides, 200_000]:
        now_ms += stride
        due: list[tuple[int, str]] = []
        while queue and queue[0][0] <= now_ms:
            due.append(heappop(queue))
        fired_steps = [step for step in wheels.advance_time(now_ms) if step.kind == "fired"]
        assert sorted((step.time_ms, step.timer.name) for step in fired_steps) == sorted(due)
        assert [step.time_ms for step in fired_steps] == sorted(
            item.time_ms for item in fired_steps
        )
        fired += [step.timer.name for step in fired_steps]
    assert sorted(fired) == sorted(str(i) for i in range(len(delays)))
    assert wheels.next_bucket_due_ms is None


@given(st.integers(1, 20), st.integers(2, 20), DELAYS)
def test_a_timer_only_goes_down(tick: int, size: int, delays: list[int]) -> None:
    wheels = HierarchicalTimingWheels(tick, size)
    level: dict[str, int] = {}
    for i, delay in enumerate(delays):
        step = wheels.add_timer(TimerTask(str(i), delay))
        if step.level is not None:
            level[str(i)] = step.level
            assert step.bucket is not None
            assert 0 <= step.bucket < size
    for step in wheels.advance_time(200_000):
        if step.kind == "cascaded":
            assert step.level is not None
            assert step.level < level[step.timer.name]
            level[step.timer.name] = step.level


def test_added_while_time_goes_on() -> None:
    wheels = HierarchicalTimingWheels(1, 20)
    list(wheels.advance_time(395))
    step = wheels.add_timer(TimerTask("a", 450))
    assert (step.level, step.bucket, step.bucket_due_ms) == (1, 2, 440)
    assert [step.time_ms for step in wheels.advance_time(500) if step.kind == "fired"] == [450]


def test_the_page_draws_it() -> None:
    result = kfmt("explain", "timing-wheel", "--tick", "1", "--size", "20", "--timer", "450")
    assert result.code == 0
    assert "level 2" in result.out
    steps = kfmt("explain", "timing-wheel", "--timer", "450", "--at", "445", "--json").of("step")
    assert [step["kind"] for step in steps] == ["added", "cascaded", "cascaded"]
