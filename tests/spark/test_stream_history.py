"""Random histories of streams: topics and disks that change between triggers and within them.

Whatever happens, a batch comes at most once, and once the disks are back, each batch in a log has
come. Offsets that are lost end a query with failOnDataLoss. For more:
`python -m tests.spark.test_stream_history FIRST COUNT`.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.moving import Batch, MovingPartition
from tests.support.spark_rows import make_unlistable

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from kfmt_cli.errors import KfmtError
from kfmt_cli.spark.partition_reader import read_input_partition
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.streaming import cleaned_logs
from kfmt_cli.spark.streaming import follower as following
from kfmt_cli.spark.streaming.follower import StreamFollower
from kfmt_cli.spark.streaming.segment_ends import TriggerBudget

COLUMNS = "topic_id,base_offset,partition_leader_epoch"
N_ATTEMPTS = 2  # of a task
BUDGETS = (None, TriggerBudget(remaining_bytes=5000), TriggerBudget(remaining_offsets=50), None)


class Query:
    """A query with its checkpoint, in which a trigger is planned before it is read."""

    def __init__(self, disks: list[Path], budget: TriggerBudget | None, split_bytes: int) -> None:
        options = {"table": "batches", "columns": COLUMNS, "maxSplitBytes": str(split_bytes)}
        self.request = replace(parse_request(options), paths=tuple(map(str, disks)))
        self.budget = budget
        self.committed: dict[str, Any] = {}
        self.planned: dict[str, Any] | None = None
        self.rows: Counter[Batch] = Counter()

    def run(self, *, fails: bool, change: Callable[[], None] = lambda: None) -> None:
        """Run until nothing is new; raises KfmtError. change: called at points of a trigger."""
        source = StreamFollower(self.request, fails)
        while True:
            if self.planned is None:
                change()
                end = json.loads(json.dumps(source.latest_positions(self.committed, self.budget)))
                if end == self.committed:
                    return
                self.planned = end
            change()
            input_partitions = source.plan_input_partitions(self.committed, self.planned)
            rows: list[Batch] = []
            for input_partition in input_partitions:
                change()
                rows += self.run_task(source, input_partition)
            self.rows.update(rows)
            self.committed, self.planned = self.planned, None

    @staticmethod
    def run_task(source: StreamFollower, input_partition: Any) -> list[Batch]:
        """The rows of a task, which Spark repeats if it fails."""
        for attempt in range(N_ATTEMPTS):
            try:
                return [
                    tuple(row.values())
                    for batch in read_input_partition(source.request, input_partition)
                    for row in batch.to_pylist()
                ]
            except KfmtError:
                if attempt + 1 == N_ATTEMPTS:
                    raise
        return []


class StreamHistory:
    """Two topics on three disks, and a query that reads them."""

    def __init__(self, seed: int, root: Path) -> None:
        self.random = random.Random(seed)
        self.disks = [root / name for name in "abc"]
        for disk in self.disks:
            disk.mkdir(parents=True)
        self.partitions = [
            MovingPartition(self.disks, f"orders-{i}", self.random) for i in range(2)
        ]
        for partition in self.partitions:
            partition.has_replica = seed % 2 == 1
        self.query = Query(self.disks, BUDGETS[seed % 4], self.random.choice((150, 4000, 1 << 20)))
        self.written: set[Batch] = self.batches
        self.lost: set[Batch] = set()
        """Batches that retention deleted before they were read, after the position."""
        self.repairs: list[Callable[[], None]] = []
        self.steps: list[str] = []

    @property
    def batches(self) -> set[Batch]:
        return set().union(*(partition.batches for partition in self.partitions))

    def change(self) -> None:
        """Change a partition, as a broker does."""
        partition = self.random.choice(self.partitions)
        if not all(disk.is_dir() for disk in self.disks):
            return  # the broker of a missing disk does nothing
        before = partition.batches
        step = partition.step()
        self.steps.append(step)
        self.written |= self.batches
        if step.endswith("retain") and f"{partition.name}@{partition.topic_id}" in (
            self.query.planned or self.query.committed
        ):
            self.lost |= before - partition.batches - set(self.query.rows)

    def fail_disk(self) -> None:
        """A disk is gone: its mount point leads nowhere."""
        disk = self.random.choice(self.disks)
        away = disk.with_suffix(".away")
        if self.repairs:
            return
        disk.rename(away)
        disk.symlink_to("nowhere")

        def repair() -> None:
            disk.unlink()
            away.rename(disk)

        self.repairs.append(repair)
        self.steps.append(f"disk {disk.name} is gone")

    def fail_listing(self) -> None:
        """A directory cannot be listed."""
        if self.repairs:
            return
        patch = pytest.MonkeyPatch()
        directory = self.random.choice(self.partitions).directory
        make_unlistable(directory, patch)
        self.repairs.append(patch.undo)
        self.steps.append(f"{directory.name} cannot be listed")

    def repair(self) -> None:
        while self.repairs:
            self.repairs.pop()()
            self.steps.append("repaired")

    def change_within(self) -> None:
        """What happens at a point within a trigger."""
        if self.random.random() < 0.25:
            self.random.choices((self.change, self.fail_disk, self.fail_listing), (8, 1, 1))[0]()

    def run(self) -> None:
        """Run the query; restart it without failing where it ends with an error."""
        is_calm = self.random.random() < 0.4
        self.steps.append("calm run" if is_calm else "run")
        has_faults = bool(self.repairs)
        try:
            self.query.run(fails=True, change=lambda: None if is_calm else self.change_within())
            self.steps.append("done")
            if is_calm and not has_faults:
                # What a replica still has is read from it.
                assert self.lost <= self.query.rows.keys(), "a loss was not reported"
                self.check_all_read()
        except KfmtError as error:
            self.steps.append(f"{type(error).__name__} {error}")
            if self.random.random() < 0.7:
                self.repair()
                self.settle()
        self.check_rows()

    def settle(self) -> None:
        """Run the query with failOnDataLoss=false, and again."""
        self.steps.append("settle")
        self.query.run(fails=False)
        self.lost = set()
        self.query.run(fails=True)
        self.check_rows()
        self.check_all_read()

    def check_rows(self) -> None:
        twice = [row for row, n in self.query.rows.items() if n > 1]
        assert not twice, f"read twice: {twice}"
        assert self.query.rows.keys() <= self.written

    def check_all_read(self) -> None:
        missing = self.batches - self.query.rows.keys()
        assert not missing, f"not read: {sorted(missing)}"

    def play(self) -> None:
        for _ in range(self.random.randint(6, 14)):
            for _ in range(self.random.randint(0, 3)):
                self.change()
            if self.random.random() < 0.1:
                self.random.choice((self.fail_disk, self.fail_listing))()
            self.run()
            if self.random.random() < 0.8:
                self.repair()
        self.repair()
        self.settle()


def play(seed: int) -> None:
    """Play a history; raises AssertionError."""
    with tempfile.TemporaryDirectory() as root:
        history = StreamHistory(seed, Path(root))
        try:
            history.play()
        except (AssertionError, KfmtError) as error:
            raise AssertionError(f"seed {seed}: {'; '.join(history.steps)}: {error}") from error
        finally:
            history.repair()


def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "RETRY_PAUSES_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(cleaned_logs, "SWAP_PAUSES_SECONDS", ())


@pytest.mark.parametrize("seed", range(12))
def test_a_batch_comes_once_whatever_happens(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)
    play(seed)


# Known to be wrong: the log of a truncated partition's new branch is deleted or cannot be read, and
# the stream goes on with a replica that has the old branch; what it had read before comes again.
WITHOUT_THE_NEW_BRANCH = {205, 389, 669, 937}


@pytest.mark.long
def test_no_history_of_a_stream_loses_or_repeats_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)
    for seed in set(range(12, 1000)) - WITHOUT_THE_NEW_BRANCH:
        play(seed)


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        without_pauses(patch)
        n_wrong = 0
        for seed in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
            try:
                play(seed)
            except AssertionError as error:
                n_wrong += 1
                sys.stdout.write(f"{error}\n")
        sys.stdout.write(f"{n_wrong} wrong\n")
