"""Random histories of a partition, and the rows that an export of each must have.

For more: `python -m tests.spark.test_history_model FIRST COUNT`.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake_runs import Row, committed, export, file_rows, manifest_rows, without_spark
from tests.support.samples import ORDERS
from tests.support.segments import positions

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow.parquet")

from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.spark.lake import lake_table

N_RECORDS = 20  # of a batch
POINTS = (
    *("write_next_manifest", "write_commit", "commit_run", "_publish", "write_manifest"),
    "_delete_unreferenced",
)


class KilledError(BaseException):
    """A stand-in for SIGKILL."""


class History:
    """A partition as a broker stores it, and the rows that a table of it must and may have."""

    def __init__(self, seed: int, root: Path) -> None:
        self.random = random.Random(seed)
        self.logs, self.to = root / "logs", root / "to"
        self.kind = random.Random(seed).choice((None, None, "delta", "iceberg"))
        data = ORDERS.read_bytes()
        self.batch = data[: positions(data)[1]]
        self.disk, self.n_ids, self.clock = 0, 0, 1_700_000_000
        self.segments: dict[int, list[int]] = {}
        self.required_rows: set[Row] = set()
        self.allowed_rows: set[Row] = set()
        self.create()

    @property
    def id(self) -> str:
        return format_uuid(self.n_ids.to_bytes(16, "big"))

    @property
    def directory(self) -> Path:
        return self.logs / f"disk{self.disk}/orders-0"

    @property
    def active_rows(self) -> set[Row]:
        return {row for base in self.segments for row in self.rows(self.segments[base])}

    @property
    def end(self) -> int:
        return max(
            (batches[-1] + N_RECORDS for batches in self.segments.values() if batches), default=0
        )

    def rows(self, batches: list[int]) -> set[Row]:
        return {(self.id, 0, first + i) for first in batches for i in range(N_RECORDS)}

    def write(self, base: int) -> None:
        """Write a segment in its current state."""
        encoded = (struct.pack(">q", first) + self.batch[8:] for first in self.segments[base])
        path = self.directory / f"{base:020}.log"
        path.write_bytes(b"".join(encoded))
        self.clock += 1
        os.utime(path, (self.clock, self.clock))

    # Changes of a partition.

    def create(self) -> None:
        """Create the topic, or recreate it."""
        if self.n_ids:
            shutil.rmtree(self.directory)
        self.n_ids += 1
        self.directory.mkdir(parents=True)
        (self.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {self.id}")
        self.segments = {0: []}
        self.write(0)

    def produce(self) -> None:
        base, end = max(self.segments), max(self.end, *self.segments)
        for _ in range(self.random.randint(1, 4)):
            self.segments[base].append(end)
            end += N_RECORDS
        self.write(base)

    def roll(self) -> None:
        if self.segments[max(self.segments)]:
            self.segments[self.end] = []
            self.write(max(self.segments))

    def retain(self) -> None:
        if len(self.segments) > 1:
            base = min(self.segments)
            del self.segments[base]
            (self.directory / f"{base:020}.log").unlink()

    def truncate(self) -> None:
        batches = [first for base in self.segments for first in self.segments[base]]
        if not batches:
            return
        to = self.random.choice(batches)
        truncated = {row for row in self.active_rows if row[2] >= to}
        self.required_rows -= truncated
        self.allowed_rows |= truncated
        for base in sorted(self.segments):
            if base > to:
                del self.segments[base]
                (self.directory / f"{base:020}.log").unlink()
            else:
                remaining = [first for first in self.segments[base] if first < to]
                if remaining != self.segments[base]:
                    self.segments[base] = remaining
                    self.write(base)

    def move(self) -> None:
        old_directory = self.directory
        self.disk = 1 - self.disk
        self.directory.parent.mkdir(exist_ok=True)
        shutil.move(old_directory, self.directory)

    # Runs of the job.

    def run(self, mode: str = "append", unreadable: Path | None = None) -> None:
        summary = export(self.to, self.logs, mode=mode, table=self.kind)
        active_rows = self.active_rows
        if unreadable is not None:
            active_rows -= self.rows(self.segments[int(unreadable.name.partition(".")[0])])
            assert summary.unreadable_inputs
        elif mode == "sync":
            self.required_rows, self.allowed_rows = set(), set()
        self.required_rows |= active_rows
        self.allowed_rows |= active_rows
        self.check()

    def check(self) -> None:
        table_rows = manifest_rows(self.to)
        assert not table_rows or max(table_rows.values()) == 1
        if self.kind is None:
            assert table_rows == file_rows(self.to)
        elif (self.to / "records").exists():
            assert table_rows == committed(self.kind, self.to)
        assert self.required_rows <= table_rows.keys() <= self.required_rows | self.allowed_rows

    def sync(self) -> None:
        self.run("sync")

    def fail_reading(self) -> None:
        """Run the job while a segment cannot be read."""
        base = self.random.choice(list(self.segments))
        self.write(base)
        path = self.directory / f"{base:020}.log"
        original_open = os.open

        def denying(name: Any, *arguments: Any, **options: Any) -> int:
            if str(name) == str(path):
                raise PermissionError(13, "Permission denied")
            return original_open(name, *arguments, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "open", denying)
            self.run(unreadable=path)

    def kill(self) -> None:
        """Kill the job; its manifest has either the old table or the new one."""
        rows_before = (
            manifest_rows(self.to) if (self.to / "_kfmt/manifest.json").exists() else Counter()
        )
        point = self.random.choice(POINTS)
        owner: Any = lake_table if hasattr(lake_table, point) else lake_table.LakeTable
        original, is_after = getattr(owner, point), self.random.random() < 0.5

        def dying(*arguments: Any) -> None:
            if (
                point == "_publish"
                and arguments[0]._last_commit.number < arguments[0].job_directory.run_number
            ):
                original(*arguments)
                return
            if is_after:
                original(*arguments)
            raise KilledError

        # A run that changes nothing makes no commit.
        with pytest.MonkeyPatch.context() as patch, suppress(KilledError):
            patch.setattr(owner, point, dying)
            export(self.to, self.logs, table=self.kind)
        if (self.to / "_kfmt/manifest.json").exists():
            table_rows = manifest_rows(self.to)
            assert not table_rows or max(table_rows.values()) == 1
            assert (
                table_rows == rows_before
                or self.required_rows | self.active_rows <= table_rows.keys()
            )
            self.allowed_rows |= self.active_rows
        self.run()


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
}


def play(seed: int) -> None:
    """Play a history; raises AssertionError."""
    with tempfile.TemporaryDirectory() as root:
        history = History(seed, Path(root))
        steps = history.random.choices(list(STEPS), list(STEPS.values()), k=25)
        for step in (*steps, History.run):
            step(history)


def test_no_history_loses_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)
    for seed in range(50):
        play(seed)


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        without_spark(patch)
        for seed in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
            sys.stdout.write(f"{seed}\n")
            play(seed)
