"""A small plot for the terminal, by rich's bars: when how many bytes are freed."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.times import YEAR_10000, time_text
from kfmt_cli.render.style import grouped

ROWS = 8
LEAST_WIDTH = 60


def steps(now: int, later: list[tuple[int, int]], width: int | None) -> Iterator[str]:
    """Bars of the bytes that have gone by some times. later: (time, bytes), in any order."""
    later = [(at, size) for at, size in later if at < YEAR_10000]
    if not later:
        return
    from rich.bar import Bar
    from rich.console import Console

    first, last = min(at for at, _ in later), max(at for at, _ in later)
    total = sum(size for _, size in later)
    room = max((width or 80) - 50, 10)
    console = Console(width=room, color_system=None, force_terminal=False, legacy_windows=False)
    n_rows = ROWS if last > first else 1
    before = 0
    for i in range(n_rows):
        at = last if n_rows == 1 else first + (last - first) * i // (n_rows - 1)
        gone = sum(size for when, size in later if when <= at)
        if gone == before:
            continue
        before = gone
        with console.capture() as captured:
            console.print(Bar(total, 0, gone, width=room))
        bar = captured.get().rstrip("\n")
        yield f"   by {time_text(max(at, now))[:19]}  {bar} {grouped(gone)} bytes\n"
