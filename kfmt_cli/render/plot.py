"""Small terminal plots drawn with Rich's bars: bytes freed over time, and the shapes of logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from kfmt_cli.core.times import YEAR_10000_MS, format_duration, format_time
from kfmt_cli.log.summary.shape import DAY_MS, SECOND_MS, LogShape, TimeBuckets
from kfmt_cli.log.summary.statistics import LogStatistics
from kfmt_cli.render.style import format_bytes, format_count, format_thousands

MAX_STEPS = 8
MAX_TIME_ROWS = 24  # rows of a plot over time


def retention_plot_lines(freed_bytes: list[tuple[int, int]], width: int | None) -> Iterator[str]:
    """Bars of the total bytes deleted by up to `MAX_STEPS` times, the last time included.

    freed_bytes: pairs of time in milliseconds and bytes freed then, in any order.
    """
    bytes_by_time_ms: Counter[int] = Counter()
    for time_ms, n_bytes in freed_bytes:
        if time_ms < YEAR_10000_MS:
            bytes_by_time_ms[time_ms] += n_bytes
    times_ms = sorted(time_ms for time_ms in bytes_by_time_ms if bytes_by_time_ms[time_ms])
    cumulative_bytes = list(accumulate(bytes_by_time_ms[time_ms] for time_ms in times_ms))
    draw_bar = _create_bar_drawer(max((width or 80) - 50, 10))
    for step in range(1, min(MAX_STEPS, len(times_ms)) + 1):
        time_index = len(times_ms) * step // min(MAX_STEPS, len(times_ms)) - 1
        bar = draw_bar(cumulative_bytes[time_index], cumulative_bytes[-1])
        yield (
            f"   by {format_time(times_ms[time_index])[:19]}  {bar} "
            f"{format_thousands(cumulative_bytes[time_index])} bytes\n"
        )


def _create_bar_drawer(width: int) -> Callable[[int, int], str]:
    """Return a function that draws a number as a bar, scaled to a maximum."""
    from rich.bar import Bar
    from rich.console import Console

    console = Console(width=width, color_system=None, force_terminal=False, legacy_windows=False)

    def draw_bar(bar_value: int, max_value: int) -> str:
        with console.capture() as captured:
            console.print(Bar(max_value, 0, bar_value, width=width))
        return captured.get().rstrip("\n")

    return draw_bar


def plot_lines(
    title: str, labelled_values: Sequence[tuple[str, int, str]], width: int | None
) -> Iterator[str]:
    """A plot: its title, then a line per row with label, bar and text."""
    if not labelled_values:
        return
    yield f"{title}\n"
    label_width = max(len(label) for label, _, _ in labelled_values)
    text_width = max(len(text) for _, _, text in labelled_values)
    draw_bar = _create_bar_drawer(max((width or 100) - label_width - text_width - 8, 10))
    max_value = max(1, *(value for _, value, _ in labelled_values))
    for label, bar_value, value_text in labelled_values:
        yield (
            f"   {label:>{label_width}}  {draw_bar(bar_value, max_value)}  "
            f"{value_text:>{text_width}}\n"
        )


def shape_lines(
    shape: LogShape, total_statistics: LogStatistics, width: int | None
) -> Iterator[str]:
    """The shape of logs: over time, by codec and by batch size."""
    yield from _time_lines(shape.time_buckets, width)
    time_order = shape.time_order
    if time_order.n_batches:
        count_text = format_count(time_order.n_out_of_order, "batch", "batches")
        yield f"   {count_text} older than an earlier one\n"
    codec_counts = sorted(shape.counts_by_codec.items(), key=lambda item: -item[1][2])
    labelled_values = [
        (
            codec_name,
            n_bytes,
            f"{format_count(n_batches, 'batch', 'batches')}, {format_bytes(n_bytes)}",
        )
        for codec_name, (n_batches, _, n_bytes) in codec_counts
    ]
    yield from plot_lines("bytes by codec", labelled_values, width)
    for title, histogram in (
        ("batches by record count", total_statistics.records_histogram),
        ("batches by size", total_statistics.bytes_histogram),
    ):
        labelled_values = [
            (
                f"up to {format_thousands(upper_bound)}",
                histogram_count,
                format_thousands(histogram_count),
            )
            for upper_bound, histogram_count in histogram
        ]
        yield from plot_lines(title, labelled_values, width)


def _time_lines(buckets: TimeBuckets, width: int | None) -> Iterator[str]:
    """The plot of records over time; intervals without records have no row."""
    coarse_buckets = buckets.resampled(MAX_TIME_ROWS)
    intervals = list(coarse_buckets.iter_intervals())
    if not intervals:
        return
    duration_text = format_duration(coarse_buckets.width_ms)
    n_time_chars = (
        23
        if coarse_buckets.width_ms < SECOND_MS
        else 19
        if coarse_buckets.width_ms < DAY_MS
        else 10
    )
    labelled_values = [
        (
            format_time(begin_ms)[:n_time_chars],
            n_records,
            f"{format_count(n_records, 'record')}, {format_bytes(n_bytes)}",
        )
        for begin_ms, _, (_, n_records, n_bytes) in intervals
    ]
    yield from plot_lines(
        f"records over time (UTC), {duration_text} per row", labelled_values, width
    )
