"""A stream over partitions that grow, roll, are truncated, deleted, recreated and moved.

Each batch of each topic id comes once, or there is an error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.moving import Batch, MovingPartition, steps_of
from tests.support.spark_rows import make_unlistable

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from kfmt_cli.spark.partition_reader import read_input_partition
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.streaming import follower as following
from kfmt_cli.spark.streaming.follower import DataLossError, StreamFollower
from kfmt_cli.spark.streaming.segment_ends import TriggerBudget

COLUMNS = "topic_id,base_offset,partition_leader_epoch"


class Stream:
    """A query with its checkpoint."""

    def __init__(self, disks: list[Path], budget: TriggerBudget | None) -> None:
        self.budget = budget
        options = {"table": "batches", "columns": COLUMNS}
        self.request = replace(parse_request(options), paths=tuple(map(str, disks)))
        self.positions: dict[str, Any] = {}
        self.restart()

    def restart(self) -> None:
        """Continue in another process."""
        self.strict, self.tolerant = (
            StreamFollower(self.request),
            StreamFollower(self.request, fails_on_data_loss=False),
        )

    def trigger(self, source: StreamFollower, rows: list[Batch]) -> None:
        """Add the batches of a trigger; with a limit, of all triggers until no data remains."""
        while (batches := self._next_batches(source)) and self.budget is not None:
            rows += batches
        rows += batches

    def _next_batches(self, source: StreamFollower) -> list[Batch]:
        end = json.loads(json.dumps(source.latest_positions(self.positions, self.budget)))
        rows = [
            tuple(row.values())
            for split in source.plan_input_partitions(self.positions, end)
            for batch in read_input_partition(source.request, split)
            for row in batch.to_pylist()
        ]
        self.positions = end
        return rows

    def run_trigger(self, is_lost: bool | None) -> list[Batch]:
        """The batches of a trigger, which fails if and only if offsets are lost; then it
        runs again with failOnDataLoss=false."""
        rows: list[Batch] = []
        try:
            self.trigger(self.strict, rows)
            assert not is_lost
        except DataLossError:
            assert is_lost is not False
            self.trigger(self.tolerant, rows)
        return rows


def check(seed: int, directory: Path) -> None:
    """Compare a stream with the model over a sequence of changes."""
    disks = [directory / "a", directory / "b", directory / "c"]
    budget = (None, TriggerBudget(remaining_bytes=5000), TriggerBudget(remaining_offsets=50), None)[
        seed % 4
    ]
    stream, steps = Stream(disks, budget), []
    for step, partitions in steps_of(seed, disks):
        steps.append(step)
        if step == "restart":
            stream.restart()
        elif step in ("trigger", "unlisted"):
            try:
                _trigger(stream, partitions, is_listed=step == "trigger")
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {', '.join(steps)}: {error}") from error


def _trigger(stream: Stream, partitions: list[MovingPartition], *, is_listed: bool) -> None:
    hidden = None if is_listed else partitions[0]
    visible = [partition for partition in partitions if partition is not hidden]
    losses = [partition.loss() for partition in visible] + [hidden is not None]
    is_lost = True if True in losses else None if None in losses else False
    with pytest.MonkeyPatch.context() as patch:
        if hidden is not None:
            make_unlistable(hidden.directory, patch)
            if hidden.older_copy is not None:
                return  # the other copy is read
        rows = stream.run_trigger(is_lost)
    assert len(rows) == len(set(rows))
    expected = {partition.name: partition.trigger() for partition in visible}
    assert set(rows) == set().union(*expected.values())


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "RETRY_PAUSES_SECONDS", (0.0, 0.0))


@pytest.mark.parametrize("seed", range(50))
def test_each_batch_comes_once_or_there_is_an_error(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(100, 2100, 100))
def test_the_same_of_many_seeds(start: int, tmp_path: Path) -> None:
    for seed in range(start, start + 100):
        check(seed, tmp_path / str(seed))
