"""Dead clusters of real brokers: what kfmt replicas foretells of each, and what then happens.

    python -m tools.cluster_matrix [NAME…] [--keep DIR] [--results FILE]

Makes each situation of `tests/support/dead_clusters.py`, asks `kfmt replicas` about its orders of
starts, starts real brokers in each of them, and compares leader and log end offset of every
partition. A situation takes three to five minutes. The exit code is 1 if a prediction was wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.support.dead_clusters import SITUATIONS, Place, Seen, Situation, die, start_in
from tests.support.samples import kfmt

RIGHT, AMONG, WRONG = "right", "among", "wrong"


def foretold(situation: Situation, dead: Path) -> dict[tuple[str, Place], dict[str, Any]]:
    """The predictions of kfmt, by order and partition."""
    directories = sorted(path for path in dead.iterdir() if path.is_dir())
    words = [word for order in situation.orders for word in ("--order", order)]
    done = kfmt("replicas", *directories, *words, "--json")
    if done.code not in (0, 1):
        raise SystemExit(done.err)
    by_value = {_value(order): order for order in situation.orders}
    return {
        (by_value[json.dumps(row["order"])], (row["topic"], row["partition"])): row
        for row in done.of("start_order")
    }


def _value(order: str) -> str:
    in_turn = not set(order) & set("!+")
    return json.dumps([int(node) for node in order.split(",")] if in_turn else order)


def judged(row: dict[str, Any], seen: Seen) -> str:
    """Whether a prediction was right."""
    ends = row["alternatives"] if not row["certain"] else [row]
    same = [
        end
        for end in ends
        if end["leader"] == seen.leader and end["log_end_offset"] == seen.log_end_offset
    ]
    return WRONG if not same else RIGHT if row["certain"] else AMONG


def compare(name: str, keep: Path) -> list[dict[str, Any]]:
    """Each order and partition of a situation: foretold, seen, and whether it was right."""
    situation = SITUATIONS[name]
    found: list[dict[str, Any]] = []
    dead = keep / name / "dead"
    if not dead.exists():
        die(situation, dead)
    rows = foretold(situation, dead)
    for order in situation.orders:
        copy = keep / name / f"{len(found)}-{time.time_ns()}"
        for place, seen in start_in(situation, dead, order, copy).items():
            row = rows[order, place]
            verdict = judged(row, seen)
            ends = row["alternatives"] or [
                {"leader": row["leader"], "log_end_offset": row["log_end_offset"]}
            ]
            partition = f"{place[0]}-{place[1]}"
            entry = {"situation": name, "order": order, "partition": partition}
            found.append({**entry, "foretold": ends, "seen": asdict(seen), "verdict": verdict})
            print(verdict, json.dumps(found[-1]), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SITUATIONS), metavar="NAME")
    parser.add_argument("--keep", type=Path, help="where the disks stay")
    parser.add_argument("--results", type=Path, help="a file for what was compared, as JSON Lines")
    given = parser.parse_args()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in given.names:
            results += compare(name, given.keep or Path(scratch))
            if given.results:
                lines = (f"{json.dumps(result)}\n" for result in results)
                given.results.write_text("".join(lines))
    counts = {word: sum(r["verdict"] == word for r in results) for word in (RIGHT, AMONG, WRONG)}
    print(counts)
    sys.exit(bool(counts[WRONG]))


if __name__ == "__main__":
    main()
