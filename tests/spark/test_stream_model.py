"""A stream over partitions that grow, roll, are truncated, deleted, made again and moved.

Each batch of each topic id comes once, or there is an error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.moving import Batch, MovingPartition, steps_of
from tests.support.spark_rows import close

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from kfmt_cli.spark.partition_reader import read_input_partition
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.streaming import follower as following
from kfmt_cli.spark.streaming.follower import DataLossError, StreamFollower
from kfmt_cli.spark.streaming.segment_ends import TriggerBudget

COLUMNS = "topic_id,base_offset,partition_leader_epoch"


class Stream:
    """A query: its checkpoint, and what it has given."""

    def __init__(self, disks: list[Path], room: TriggerBudget | None) -> None:
        self.room = room
        options = {"table": "batches", "columns": COLUMNS}
        self.request = replace(parse_request(options), paths=tuple(map(str, disks)))
        self.kept: dict[str, Any] = {}
        self.restart()

    def restart(self) -> None:
        """Go on in another process."""
        self.strict, self.tolerant = (
            StreamFollower(self.request),
            StreamFollower(self.request, fails_on_data_loss=False),
        )

    def trigger(self, source: StreamFollower, rows: list[Batch]) -> None:
        """Add the batches of a trigger; with a limit, of all triggers until nothing is left."""
        while (more := self._some(source)) and self.room is not None:
            rows += more
        rows += more

    def _some(self, source: StreamFollower) -> list[Batch]:
        end = json.loads(json.dumps(source.latest_positions(self.kept, self.room)))
        rows = [
            tuple(row.values())
            for split in source.input_partitions(self.kept, end)
            for batch in read_input_partition(source.request, split)
            for row in batch.to_pylist()
        ]
        self.kept = end
        return rows

    def triggered(self, is_lost: bool | None) -> list[Batch]:
        """The batches of a trigger, which fails if and only if offsets are lost; then it is done
        again with failOnDataLoss=false."""
        rows: list[Batch] = []
        try:
            self.trigger(self.strict, rows)
            assert not is_lost
        except DataLossError:
            assert is_lost is not False
            self.trigger(self.tolerant, rows)
        return rows


def check(seed: int, folder: Path) -> None:
    """Compare a stream with the model over a sequence of changes."""
    disks = [folder / "a", folder / "b", folder / "c"]
    room = (None, TriggerBudget(remaining_bytes=5000), TriggerBudget(remaining_offsets=50), None)[
        seed % 4
    ]
    stream, done = Stream(disks, room), []
    for what, partitions in steps_of(seed, disks):
        done.append(what)
        if what == "restart":
            stream.restart()
        elif what in ("trigger", "unlisted"):
            try:
                _trigger(stream, partitions, is_listed=what == "trigger")
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {', '.join(done)}: {error}") from error


def _trigger(stream: Stream, partitions: list[MovingPartition], *, is_listed: bool) -> None:
    hidden = None if is_listed else partitions[0]
    seen = [partition for partition in partitions if partition is not hidden]
    losses = [partition.loss() for partition in seen] + [hidden is not None]
    is_lost = True if True in losses else None if None in losses else False
    with pytest.MonkeyPatch.context() as patch:
        if hidden is not None:
            close(hidden.folder, patch)
            if hidden.other is not None:
                return  # the other copy is read
        rows = stream.triggered(is_lost)
    assert len(rows) == len(set(rows))
    expected = {partition.name: partition.trigger() for partition in seen}
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
