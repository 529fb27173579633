"""Random histories of a partition, and the rows that an export of each must have.

For more: `python -m tests.spark.test_history_model FIRST COUNT`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.lake_runs import without_spark
from tests.support.partition_history import History

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow.parquet")

STEPS = {
    History.produce: 6,
    History.roll: 3,
    History.retain: 2,
    History.truncate: 1,
    History.create: 1,
    History.move: 1,
    History.run: 5,
    History.sync: 1,
    History.fail_reading: 1,
    History.kill: 1,
    History.replicate: 1,
    History.remove_replica: 1,
    History.fail_disk: 1,
}


def play(seed: int) -> None:
    """Play a history; raises AssertionError."""
    with tempfile.TemporaryDirectory() as root:
        history = History(seed, Path(root))
        steps = history.random.choices(list(STEPS), list(STEPS.values()), k=25)
        for step in (*steps, History.run):
            step(history)


@pytest.mark.parametrize("seed", range(12))
def test_a_history_loses_no_row(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)
    play(seed)


def test_no_history_loses_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)
    for seed in range(12, 212):
        play(seed)


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        without_spark(patch)
        for seed in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
            sys.stdout.write(f"{seed}\n")
            play(seed)
