"""A log directory of many small segments: kfmt next to the limit, as entire processes."""

from __future__ import annotations

from collections.abc import Iterator

from bench.limit import limit_command
from bench.make_files import BENCH_DIRECTORY, PARTITIONS, make_many
from bench.process import KFMT, measure

HEADING = """| job | kfmt | memory of the largest process | limit | ÷ limit | goal |
|---|---|---|---|---|---|"""


def rows(smoke: bool, runs: int) -> Iterator[str]:
    """The lines of the table."""
    logs = str(make_many(BENCH_DIRECTORY / "data", 20 if smoke else PARTITIONS))
    yield HEADING
    for job, options, limit_options, goal in (
        ("structure + CRC", ["verify-crc"], [], 4.2),
        ("+ decode every record", ["verify-crc", "--deep"], ["--deep"], 4.1),
        ("index-check", ["index-check"], None, 2.5),
        ("every record as JSON Lines", ["dump", "--records", "--json"], ["--deep"], 9.4),
    ):
        timing = measure([*KFMT, *options, logs], runs)
        command = None if limit_options is None else limit_command(logs, *limit_options)
        cells = [job, f"{timing.seconds:.2f} s", f"{timing.megabytes:.0f} MB", "–", "–"]
        measured, unit = timing.seconds, "s"
        if limit_options is not None:  # the goal is a multiple of it
            unit = "× limit"
        if command is not None:
            seconds = measure(command, runs).seconds
            measured = timing.seconds / seconds
            cells[3:] = [f"{seconds:.2f} s", f"{measured:.1f}"]
        is_measured = limit_options is None or command is not None
        cells.append(f"≤ {goal} {unit}{' met' if is_measured and measured <= goal else ''}")
        yield "| " + " | ".join(cells) + " |"
