"""The page of `kfmt report`: what it takes beyond the commands whose numbers it shows.

python -m bench.report              full size; --write puts the table in docs/benchmarks.md
python -m bench.report --smoke      small files, once
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench.make_files import HERE, make_many, make_thousand
from bench.process import KFMT, Timing, machine, measure, put

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
CODECS = [option for name in NAMES for option in ("--what-if", name)]
COMMANDS = (["check"], ["stat", "--plot", *CODECS], ["txn"], ["retention"])
GOAL = 3.0  # seconds beyond reading
MOST = 3e6  # bytes of the page
HEAD = (
    "| files | page | the four commands | beyond | memory | size | goal |",
    "|---|---|---|---|---|---|---|",
)


def line(name: str, logs: Path, scratch: Path, runs: int) -> str:
    """What a page takes, and what the commands take whose numbers it has, as processes."""
    page = scratch / "page.html"
    made = measure([*KFMT, "report", str(logs), "--to", str(page), "--force"], runs)
    start = measure([*KFMT, "--version"], runs).seconds
    others: list[Timing] = [
        measure([*KFMT, *command, str(logs), "--json"], runs) for command in COMMANDS
    ]
    reading = sum(other.seconds - start for other in others) + start
    beyond, size = made.seconds - reading, page.stat().st_size
    met = " met" if beyond <= GOAL and size < MOST else ""
    return (
        f"| {name} | {made.seconds:.2f} s | {reading:.2f} s | {beyond:.2f} s | "
        f"{made.megabytes:.0f} MB | {size / 1e6:.1f} MB | ≤ {GOAL:g} s, < 3 MB{met} |"
    )


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    small = arguments.smoke
    files = (
        ("1 GiB in 1,000 segments", make_thousand(HERE / "data", 10 if small else 1000), 3),
        ("28,000 segments of 36 KB", make_many(HERE / "data", 20 if small else 4000), 1),
    )
    with tempfile.TemporaryDirectory() as scratch:
        lines = [
            line(name, logs, Path(scratch), 1 if small else runs) for name, logs, runs in files
        ]
    lines = [machine(), "", *HEAD, *lines]
    print("\n".join(lines))
    if arguments.write:
        put("report", lines)


if __name__ == "__main__":
    main()
