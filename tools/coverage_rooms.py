"""What the tests execute of each room, from coverage's JSON; exit code 1 below a room's floor.

    pytest --cov=kfmt_cli --cov-report=json:coverage.json
    python -m tools.coverage_rooms coverage.json

Compiled modules are left out, as coverage does not see them run.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tools.lint import LEVEL, PACKAGE, ROOT

# Percent of the lines that the default tests must execute: two points below what they did when this
# was measured, with Java and Chromium.
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
    "execution": 94.9,
    "writers": 91.6,
    "arrow": 89.3,
    "commands": 91.1,
    "spark": 83.3,
    "browse": 93.8,
    "cli": 91.5,
    "__init__": 98.0,
    "__main__": 69.6,
}


def lines_by_room(report: dict[str, Any], root: Path = ROOT) -> dict[str, tuple[int, int]]:
    """By room, how many lines there are, and how many were executed."""
    made: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    for name, file in report["files"].items():
        path = root / name
        if path.is_relative_to(root / PACKAGE) and not path.with_suffix(".pyi").exists():
            room = path.relative_to(root / PACKAGE).parts[0].removesuffix(".py")
            made[room] += file["summary"]["num_statements"]
            covered[room] += file["summary"]["covered_lines"]
    return {room: (made[room], covered[room]) for room in made if made[room]}


def percent(made: int, covered: int) -> float:
    """Rounded down, so that what is shown as a floor is one."""
    return 1000 * covered // made / 10


def table(rooms: dict[str, tuple[int, int]], floors: dict[str, float]) -> tuple[list[str], bool]:
    """The lines of the table, and whether every room is at its floor or above."""
    lines = [f"{'room':<12}{'lines':>8}{'covered':>9}{'percent':>9}{'floor':>7}"]
    good = True
    for room in sorted(rooms, key=lambda room: (LEVEL.get(room, len(LEVEL)), room)):
        share, floor = percent(*rooms[room]), floors.get(room, 0.0)
        made, covered = rooms[room]
        below = "" if share >= floor else "  below its floor"
        good = good and not below
        lines.append(f"{room:<12}{made:>8}{covered:>9}{share:>9.1f}{floor:>7.1f}{below}")
    if gone := sorted(set(floors) - set(rooms)):
        lines.append(f"not in the report: {', '.join(gone)}")
        good = False
    return lines, good


def main() -> None:
    """Print the table."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    floors = FLOORS if shutil.which("java") else FLOORS | {"spark": 0.0}
    lines, good = table(lines_by_room(json.loads(Path(sys.argv[1]).read_text())), floors)
    print(*lines, sep="\n")
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
