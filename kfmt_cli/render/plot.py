"""Small terminal plots drawn with Rich's bars: bytes freed over time, and the shapes of logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from kfmt_cli.core.times import YEAR_10000_MS, format_duration, format_time
from kfmt_cli.log.summary.shape import DAY_MS, SECOND_MS, LogShape, TimeBuckets
from kfmt_cli.log.summary.statistics import LogStatistics
from kfmt_cli.render.style import format_bytes, format_count, format_grouped

MAX_STEPS = 8
MAX_TIME_ROWS = 24  # rows of a plot over time


def retention_plot(freed_bytes: list[tuple[int, int]], width: int | None) -> Iterator[str]:
    """Bars of the total bytes deleted by up to `MAX_STEPS` times, the last time included.

    freed_bytes: pairs of time in milliseconds and bytes freed then, in any order.
    """
    size_by_time: Counter[int] = Counter()
    for time_ms, size in freed_bytes:
        if time_ms < YEAR_10000_MS:
            size_by_time[time_ms] += size
    times = sorted(time_ms for time_ms in size_by_time if size_by_time[time_ms])
    totals = list(accumulate(size_by_time[time_ms] for time_ms in times))
    draw_bar = _bar_drawer(max((width or 80) - 50, 10))
    for row in range(1, min(MAX_STEPS, len(times)) + 1):
        i = len(times) * row // min(MAX_STEPS, len(times)) - 1
        bar = draw_bar(totals[i], totals[-1])
        yield f"   by {format_time(times[i])[:19]}  {bar} {format_grouped(totals[i])} bytes\n"


def _bar_drawer(width: int) -> Callable[[int, int], str]:
    """Return a function that draws a number as a bar, scaled to a maximum."""
    from rich.bar import Bar
    from rich.console import Console

    console = Console(width=width, color_system=None, force_terminal=False, legacy_windows=False)

    def bar(value: int, maximum: int) -> str:
        with console.capture() as captured:
            console.print(Bar(maximum, 0, value, width=width))
        return captured.get().rstrip("\n")

    return bar


def plot_lines(
    title: str, rows: Sequence[tuple[str, int, str]], width: int | None
) -> Iterator[str]:
    """A plot: its title, then a line per row with label, bar and text."""
    if not rows:
        return
    yield f"{title}\n"
    label_width = max(len(label) for label, _, _ in rows)
    text_width = max(len(text) for _, _, text in rows)
    draw_bar = _bar_drawer(max((width or 100) - label_width - text_width - 8, 10))
    maximum = max(1, *(value for _, value, _ in rows))
    for label, value, text in rows:
        yield f"   {label:>{label_width}}  {draw_bar(value, maximum)}  {text:>{text_width}}\n"


def shape_lines(shape: LogShape, total: LogStatistics, width: int | None) -> Iterator[str]:
    """The shape of logs: over time, by codec and by batch size."""
    yield from _time_lines(shape.buckets, width)
    order = shape.time_order
    if order.batches:
        count_text = format_count(order.n_out_of_order, "batch", "batches")
        yield f"   {count_text} older than an earlier one\n"
    codecs = sorted(shape.counts_by_codec.items(), key=lambda item: -item[1][2])
    rows = [
        (name, size, f"{format_count(batches, 'batch', 'batches')}, {format_bytes(size)}")
        for name, (batches, _, size) in codecs
    ]
    yield from plot_lines("bytes by codec", rows, width)
    for title, histogram in (
        ("batches by record count", total.records_histogram),
        ("batches by size", total.bytes_histogram),
    ):
        rows = [
            (f"up to {format_grouped(upper_bound)}", n, format_grouped(n))
            for upper_bound, n in histogram
        ]
        yield from plot_lines(title, rows, width)


def _time_lines(buckets: TimeBuckets, width: int | None) -> Iterator[str]:
    """The plot of records over time; intervals without records have no row."""
    coarse_buckets = buckets.resampled(MAX_TIME_ROWS)
    intervals = list(coarse_buckets.iter_intervals())
    if not intervals:
        return
    duration_text = format_duration(coarse_buckets.width_ms)
    n_chars = (
        23
        if coarse_buckets.width_ms < SECOND_MS
        else 19
        if coarse_buckets.width_ms < DAY_MS
        else 10
    )
    plot_rows = [
        (format_time(begin_ms)[:n_chars], n, f"{format_count(n, 'record')}, {format_bytes(size)}")
        for begin_ms, _, (_, n, size) in intervals
    ]
    yield from plot_lines(f"records over time (UTC), {duration_text} per row", plot_rows, width)
