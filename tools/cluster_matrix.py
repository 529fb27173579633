"""Dead clusters of real brokers: what kfmt replicas predicts for each, and what happens.

    python -m tools.cluster_matrix [NAME…] [--keep DIR] [--results FILE]

Creates each situation of `tests/support/dead_clusters.py`, runs `kfmt replicas` for its orders of
starts, starts real brokers in each order, and compares leader and log end offset of every
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

from tests.support.dead_clusters import (
    SITUATIONS,
    PartitionKey,
    PartitionOutcome,
    Situation,
    build_dead_cluster,
    start_in,
)
from tests.support.samples import kfmt

RIGHT, AMONG, WRONG = "right", "among", "wrong"


def predicted_ends(
    situation: Situation, directory: Path
) -> dict[tuple[str, PartitionKey], dict[str, Any]]:
    """The predictions of kfmt, by order and partition."""
    directories = sorted(path for path in directory.iterdir() if path.is_dir())
    options = [argument for order in situation.orders for argument in ("--order", order)]
    result = kfmt("replicas", *directories, *options, "--json")
    if result.code not in (0, 1):
        raise SystemExit(result.err)
    order_by_value = {_order_value(order): order for order in situation.orders}
    return {
        (order_by_value[json.dumps(row["order"])], (row["topic"], row["partition"])): row
        for row in result.of("start_order")
    }


def _order_value(order: str) -> str:
    in_turn = not set(order) & set("!+")
    return json.dumps([int(node) for node in order.split(",")] if in_turn else order)


def classify(row: dict[str, Any], actual: PartitionOutcome) -> str:
    """Whether a prediction was right."""
    predictions = row["alternatives"] if not row["certain"] else [row]
    matching = [
        end
        for end in predictions
        if end["leader"] == actual.leader and end["log_end_offset"] == actual.log_end_offset
    ]
    return WRONG if not matching else RIGHT if row["certain"] else AMONG


def compare(name: str, directory: Path) -> list[dict[str, Any]]:
    """Each order and partition of a situation: prediction, actual state, and verdict."""
    situation = SITUATIONS[name]
    results: list[dict[str, Any]] = []
    dead = directory / name / "dead"
    if not dead.exists():
        build_dead_cluster(situation, dead)
    rows = predicted_ends(situation, dead)
    for order in situation.orders:
        copy = directory / name / f"{len(results)}-{time.time_ns()}"
        for topic_partition, actual in start_in(situation, dead, order, copy).items():
            row = rows[order, topic_partition]
            verdict = classify(row, actual)
            predictions = row["alternatives"] or [
                {"leader": row["leader"], "log_end_offset": row["log_end_offset"]}
            ]
            partition = f"{topic_partition[0]}-{topic_partition[1]}"
            entry = {"situation": name, "order": order, "partition": partition}
            results.append(
                {**entry, "foretold": predictions, "seen": asdict(actual), "verdict": verdict}
            )
            print(verdict, json.dumps(results[-1]), flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SITUATIONS), metavar="NAME")
    parser.add_argument("--keep", type=Path, help="where the disks stay")
    parser.add_argument("--results", type=Path, help="a file for what was compared, as JSON Lines")
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.names:
            results += compare(name, arguments.keep or Path(scratch))
            if arguments.results:
                lines = (f"{json.dumps(result)}\n" for result in results)
                arguments.results.write_text("".join(lines))
    counts = {
        verdict: sum(r["verdict"] == verdict for r in results) for verdict in (RIGHT, AMONG, WRONG)
    }
    print(counts)
    sys.exit(bool(counts[WRONG]))


if __name__ == "__main__":
    main()
