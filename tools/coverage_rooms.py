"""How much of each room the tests execute, from coverage's JSON; exit code 1 below a floor.

    pytest --cov=kfmt_cli --cov-report=json:coverage.json
    python -m tools.coverage_rooms coverage.json

Skips compiled modules, because coverage does not see them run.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tools.lint import LEVEL, PACKAGE, ROOT

# Percent of the lines that the default tests must execute: two points below the measured values,
# with Java and Chromium.
FLOORS = {
    "errors": 98.0,
    "findings": 97.5,
    "core": 91.7,
    "formats": 98.0,
    "rows": 97.1,
    "topics": 92.4,
    "disk": 94.4,
    "log": 95.0,
    "broker": 91.3,
    "checks": 96.8,
    "render": 96.0,
    "execution": 92.9,
    "writers": 91.6,
    "arrow": 85.9,
    "options": 97.6,
    "commands": 91.1,
    "spark": 81.7,
    "browse": 89.4,
    "cli": 87.4,
    "__init__": 98.0,
    "__main__": 69.6,
}


def lines_by_room(report: dict[str, Any], root: Path = ROOT) -> dict[str, tuple[int, int]]:
    """By room, the number of lines, and of executed lines."""
    n_lines: Counter[str] = Counter()
    n_covered: Counter[str] = Counter()
    for name, file in report["files"].items():
        path = root / name
        if path.is_relative_to(root / PACKAGE) and not path.with_suffix(".pyi").exists():
            room = path.relative_to(root / PACKAGE).parts[0].removesuffix(".py")
            n_lines[room] += file["summary"]["num_statements"]
            n_covered[room] += file["summary"]["covered_lines"]
    return {room: (n_lines[room], n_covered[room]) for room in n_lines if n_lines[room]}


def percent(n_lines: int, n_covered: int) -> float:
    """The executed percent, rounded down so that a displayed floor is met."""
    return 1000 * n_covered // n_lines / 10


def table(rooms: dict[str, tuple[int, int]], floors: dict[str, float]) -> tuple[list[str], bool]:
    """The lines of the table, and whether every room is at its floor or above."""
    lines = [f"{'room':<12}{'lines':>8}{'covered':>9}{'percent':>9}{'floor':>7}"]
    is_covered = True
    for room in sorted(rooms, key=lambda room: (LEVEL.get(room, len(LEVEL)), room)):
        covered_percent, floor = percent(*rooms[room]), floors.get(room, 0.0)
        n_lines, n_covered = rooms[room]
        note = "" if covered_percent >= floor else "  below its floor"
        is_covered = is_covered and not note
        lines.append(
            f"{room:<12}{n_lines:>8}{n_covered:>9}{covered_percent:>9.1f}{floor:>7.1f}{note}"
        )
    if missing := sorted(set(floors) - set(rooms)):
        lines.append(f"not in the report: {', '.join(missing)}")
        is_covered = False
    return lines, is_covered


def main() -> None:
    """Print the table."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    floors = FLOORS if shutil.which("java") else FLOORS | {"spark": 0.0}
    lines, is_covered = table(lines_by_room(json.loads(Path(sys.argv[1]).read_text())), floors)
    print(*lines, sep="\n")
    raise SystemExit(not is_covered)


if __name__ == "__main__":
    main()
