"""The page of `kfmt report`: its time beyond that of the commands whose results it shows.

python -m bench.report              full size; --write updates docs/benchmarks.md
python -m bench.report --smoke      small files, once
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench.make_files import BENCH_DIRECTORY, make_many, make_thousand
from bench.process import KFMT, Timing, machine, measure, write_table

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
CODECS = [option for name in NAMES for option in ("--what-if", name)]
COMMANDS = (["check"], ["stat", "--plot", *CODECS], ["txn"], ["retention"])
GOAL = 3.0  # seconds beyond reading
MAX_BYTES = 3e6  # bytes of the page
HEADING = (
    "| files | page | the four commands | beyond | memory | size | goal |",
    "|---|---|---|---|---|---|---|",
)


def line(name: str, logs: Path, scratch: Path, runs: int) -> str:
    """A row: the time of a page, and of the commands whose results it shows, as processes."""
    page = scratch / "page.html"
    page_timing = measure([*KFMT, "report", str(logs), "--to", str(page), "--force"], runs)
    start = measure([*KFMT, "--version"], runs).seconds
    command_timings: list[Timing] = [
        measure([*KFMT, *command, str(logs), "--json"], runs) for command in COMMANDS
    ]
    reading = sum(timing.seconds - start for timing in command_timings) + start
    extra_seconds, size = page_timing.seconds - reading, page.stat().st_size
    met = " met" if extra_seconds <= GOAL and size < MAX_BYTES else ""
    return (
        f"| {name} | {page_timing.seconds:.2f} s | {reading:.2f} s | {extra_seconds:.2f} s | "
        f"{page_timing.megabytes:.0f} MB | {size / 1e6:.1f} MB | ≤ {GOAL:g} s, < 3 MB{met} |"
    )


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    small = arguments.smoke
    files = (
        (
            "1 GiB in 1,000 segments",
            make_thousand(BENCH_DIRECTORY / "data", 10 if small else 1000),
            3,
        ),
        ("28,000 segments of 36 KB", make_many(BENCH_DIRECTORY / "data", 20 if small else 4000), 1),
    )
    with tempfile.TemporaryDirectory() as scratch:
        lines = [
            line(name, logs, Path(scratch), 1 if small else runs) for name, logs, runs in files
        ]
    lines = [machine(), "", *HEADING, *lines]
    print("\n".join(lines))
    if arguments.write:
        write_table("report", lines)


if __name__ == "__main__":
    main()
