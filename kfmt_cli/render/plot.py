"""Small terminal plots drawn with rich's bars: bytes freed over time, and the shapes of logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from kfmt_cli.core.times import YEAR_10000, span_words, time_text
from kfmt_cli.log.summary.shape import DAY, SECOND, Buckets, Shape
from kfmt_cli.log.summary.statistics import Statistics
from kfmt_cli.render.style import count, grouped, human

ROWS = 8
MOST_TIMES = 24  # rows of a plot over time


def steps(later: list[tuple[int, int]], width: int | None) -> Iterator[str]:
    """Bars of the bytes deleted by some of the times at which bytes are, the last included.
    later: (time, bytes), in any order."""
    sizes: Counter[int] = Counter()
    for at, size in later:
        if at < YEAR_10000:
            sizes[at] += size
    times = sorted(at for at in sizes if sizes[at])
    sums = list(accumulate(sizes[at] for at in times))
    bar_of = _bars(max((width or 80) - 50, 10))
    for row in range(1, min(ROWS, len(times)) + 1):
        i = len(times) * row // min(ROWS, len(times)) - 1
        bar = bar_of(sums[i], sums[-1])
        yield f"   by {time_text(times[i])[:19]}  {bar} {grouped(sums[i])} bytes\n"


def _bars(room: int) -> Callable[[int, int], str]:
    """Return a function that draws a number as a bar, scaled to a maximum."""
    from rich.bar import Bar
    from rich.console import Console

    console = Console(width=room, color_system=None, force_terminal=False, legacy_windows=False)

    def bar(number: int, of: int) -> str:
        with console.capture() as captured:
            console.print(Bar(of, 0, number, width=room))
        return captured.get().rstrip("\n")

    return bar


def bar_lines(title: str, rows: Sequence[tuple[str, int, str]], width: int | None) -> Iterator[str]:
    """A plot: its title, then a line per row with label, bar and text."""
    if not rows:
        return
    yield f"{title}\n"
    labels = max(len(label) for label, _, _ in rows)
    words = max(len(said) for _, _, said in rows)
    bar_of = _bars(max((width or 100) - labels - words - 8, 10))
    most = max(1, *(number for _, number, _ in rows))
    for label, number, said in rows:
        yield f"   {label:>{labels}}  {bar_of(number, most)}  {said:>{words}}\n"


def shape_lines(shape: Shape, total: Statistics, width: int | None) -> Iterator[str]:
    """The shape of logs: over time, by codec and by batch size."""
    yield from _time_lines(shape.buckets, width)
    order = shape.order
    if order.batches:
        late = count(order.late, "batch", "batches")
        yield f"   {late} older than an earlier one\n"
    codecs = sorted(shape.codecs.items(), key=lambda item: -item[1][2])
    rows = [
        (name, size, f"{count(batches, 'batch', 'batches')}, {human(size)}")
        for name, (batches, _, size) in codecs
    ]
    yield from bar_lines("bytes by codec", rows, width)
    for title, pairs in (
        ("batches by record count", total.records_histogram),
        ("batches by size", total.bytes_histogram),
    ):
        rows = [(f"up to {grouped(most)}", n, grouped(n)) for most, n in pairs]
        yield from bar_lines(title, rows, width)


def _time_lines(buckets: Buckets, width: int | None) -> Iterator[str]:
    """Records over time; times without records have no row."""
    shown = buckets.drawn(MOST_TIMES)
    rows = list(shown.rows())
    if not rows:
        return
    length = span_words(shown.width)
    digits = 23 if shown.width < SECOND else 19 if shown.width < DAY else 10
    texts = [
        (time_text(begin)[:digits], n, f"{count(n, 'record')}, {human(size)}")
        for begin, _, (_, n, size) in rows
    ]
    yield from bar_lines(f"records over time (UTC), {length} per row", texts, width)
