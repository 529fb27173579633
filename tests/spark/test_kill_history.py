"""Exports that are killed at each of their file events: readers see the old table or the new one,
and the next run completes it."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from tests.support.lake_runs import without_spark
from tests.support.partition_history import MODES, History

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow.parquet")

KINDS = (None, "delta", "iceberg")
CHANGES = (
    *(History.produce, History.produce, History.roll, History.retain, History.truncate),
    *(History.create, History.move, History.replicate, History.remove_replica, History.sync),
)


def play(seed: int) -> int:
    """Play a history whose runs are killed; returns their number."""
    steps = random.Random(seed)
    n_kills = 0
    with tempfile.TemporaryDirectory() as root:
        history = History(seed, Path(root))
        history.kind = KINDS[seed % 3]
        history.produce()
        if steps.random() < 0.7:  # otherwise the first run is killed
            history.run()
        for _ in range(4):
            for change in steps.choices(CHANGES, k=steps.randint(1, 4)):
                change(history)
            mode = steps.choice(MODES)
            for _ in range(steps.randint(1, 3)):
                n_kills += bool(history.kill_at(steps.randint(1, 80), mode))
            history.run(mode)
        history.run("sync")
        assert history.table_rows().keys() >= history.active_rows
    return n_kills


def kill_at_each_event(kind: str | None, mode: str, step: int) -> int:
    """Kill a run at its file events, and the next run too; returns the number of kills."""
    n_kills = 0
    for event in range(1, 200, step):
        with tempfile.TemporaryDirectory() as root:
            history = History(event, Path(root))
            history.kind = kind
            for _ in range(3):
                history.produce()
                history.roll()
            if event % 4:
                history.run()
            for change in random.Random(event).choices(CHANGES, k=3):
                change(history)
            history.produce()
            if not history.kill_at(event, mode):
                return n_kills
            n_kills += 1 + bool(history.kill_at(event, mode))
            history.run(mode)
            history.run("sync")
    raise AssertionError("more file events than expected")


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.long] if seed % 4 else []) for seed in range(12)]
)
def test_a_kill_leaves_the_old_table_or_the_new_one(seed: int) -> None:
    assert play(seed)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "kind", [None, *(pytest.param(kind, marks=pytest.mark.long) for kind in ("delta", "iceberg"))]
)
def test_at_some_file_events(kind: str | None, mode: str) -> None:
    assert kill_at_each_event(kind, mode, 13) > 4


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_at_every_file_event(kind: str | None, mode: str) -> None:
    assert kill_at_each_event(kind, mode, 1) > 60


@pytest.mark.long
def test_many_histories_of_kills() -> None:
    for seed in range(12, 132):
        play(seed)
