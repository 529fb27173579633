"""A log directory of many small segments: kfmt next to the limit, whole processes."""

from __future__ import annotations

from collections.abc import Iterator

from bench.limit import limit_of
from bench.make_files import HERE, PARTITIONS, make_many
from bench.process import KFMT, measure

HEAD = """| job | kfmt | memory of the largest process | limit | ÷ limit | goal |
|---|---|---|---|---|---|"""


def rows(smoke: bool, runs: int) -> Iterator[str]:
    """The lines of the table."""
    logs = str(make_many(HERE / "data", 20 if smoke else PARTITIONS))
    yield HEAD
    for words, options, limit, goal in (
        ("structure + CRC", ["verify-crc"], [], 4.2),
        ("+ decode every record", ["verify-crc", "--deep"], ["--deep"], 4.1),
        ("index-check", ["index-check"], None, 2.5),
        ("every record as JSON Lines", ["dump", "--records", "--json"], ["--deep"], 9.4),
    ):
        ours = measure([*KFMT, *options, logs], runs)
        least = None if limit is None else limit_of(logs, *limit)
        cells = [words, f"{ours.seconds:.2f} s", f"{ours.megabytes:.0f} MB", "–", "–"]
        reached, unit = ours.seconds, "s"
        if limit is not None:  # the goal is a multiple of it
            unit = "× limit"
        if least is not None:
            seconds = measure(least, runs).seconds
            reached = ours.seconds / seconds
            cells[3:] = [f"{seconds:.2f} s", f"{reached:.1f}"]
        is_known = limit is None or least is not None
        cells.append(f"≤ {goal} {unit}{' met' if is_known and reached <= goal else ''}")
        yield "| " + " | ".join(cells) + " |"
