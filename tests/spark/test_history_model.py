"""Random histories of a partition, and what an export must have of each.

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

from tests.support.lake_runs import Row, committed, export, found, listed, without_spark
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
    """In place of SIGKILL."""


class History:
    """A partition as a broker keeps it, and the rows that a table of it must and may have."""

    def __init__(self, seed: int, top: Path) -> None:
        self.random = random.Random(seed)
        self.logs, self.to = top / "logs", top / "to"
        self.kind = random.Random(seed).choice((None, None, "delta", "iceberg"))
        data = ORDERS.read_bytes()
        self.batch = data[: positions(data)[1]]
        self.disk, self.n_ids, self.clock = 0, 0, 1_700_000_000
        self.segments: dict[int, list[int]] = {}
        self.must: set[Row] = set()
        self.may: set[Row] = set()
        self.made()

    @property
    def id(self) -> str:
        return format_uuid(self.n_ids.to_bytes(16, "big"))

    @property
    def folder(self) -> Path:
        return self.logs / f"disk{self.disk}/orders-0"

    @property
    def live(self) -> set[Row]:
        return {row for base in self.segments for row in self.rows(self.segments[base])}

    @property
    def end(self) -> int:
        return max(
            (batches[-1] + N_RECORDS for batches in self.segments.values() if batches), default=0
        )

    def rows(self, batches: list[int]) -> set[Row]:
        return {(self.id, 0, first + i) for first in batches for i in range(N_RECORDS)}

    def written(self, base: int) -> None:
        """Write a segment as it now is."""
        parts = (struct.pack(">q", first) + self.batch[8:] for first in self.segments[base])
        path = self.folder / f"{base:020}.log"
        path.write_bytes(b"".join(parts))
        self.clock += 1
        os.utime(path, (self.clock, self.clock))

    # What happens to a partition.

    def made(self) -> None:
        """The topic is made, or made again."""
        if self.n_ids:
            shutil.rmtree(self.folder)
        self.n_ids += 1
        self.folder.mkdir(parents=True)
        (self.folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {self.id}")
        self.segments = {0: []}
        self.written(0)

    def produce(self) -> None:
        base, end = max(self.segments), max(self.end, *self.segments)
        for _ in range(self.random.randint(1, 4)):
            self.segments[base].append(end)
            end += N_RECORDS
        self.written(base)

    def roll(self) -> None:
        if self.segments[max(self.segments)]:
            self.segments[self.end] = []
            self.written(max(self.segments))

    def retain(self) -> None:
        if len(self.segments) > 1:
            base = min(self.segments)
            del self.segments[base]
            (self.folder / f"{base:020}.log").unlink()

    def truncate(self) -> None:
        batches = [first for base in self.segments for first in self.segments[base]]
        if not batches:
            return
        to = self.random.choice(batches)
        gone = {row for row in self.live if row[2] >= to}
        self.must -= gone
        self.may |= gone
        for base in sorted(self.segments):
            if base > to:
                del self.segments[base]
                (self.folder / f"{base:020}.log").unlink()
            else:
                left = [first for first in self.segments[base] if first < to]
                if left != self.segments[base]:
                    self.segments[base] = left
                    self.written(base)

    def move(self) -> None:
        before = self.folder
        self.disk = 1 - self.disk
        self.folder.parent.mkdir(exist_ok=True)
        shutil.move(before, self.folder)

    # What runs do.

    def run(self, mode: str = "append", unread: Path | None = None) -> None:
        summary = export(self.to, self.logs, mode=mode, table=self.kind)
        live = self.live
        if unread is not None:
            live -= self.rows(self.segments[int(unread.name.partition(".")[0])])
            assert summary.unreadable_inputs
        elif mode == "sync":
            self.must, self.may = set(), set()
        self.must |= live
        self.may |= live
        self.check()

    def check(self) -> None:
        has = listed(self.to)
        assert not has or max(has.values()) == 1
        if self.kind is None:
            assert has == found(self.to)
        elif (self.to / "records").exists():
            assert has == committed(self.kind, self.to)
        assert self.must <= has.keys() <= self.must | self.may

    def sync(self) -> None:
        self.run("sync")

    def faulty(self) -> None:
        """A segment cannot be read."""
        base = self.random.choice(list(self.segments))
        self.written(base)
        path = self.folder / f"{base:020}.log"
        opened = os.open

        def denying(name: Any, *more: Any, **others: Any) -> int:
            if str(name) == str(path):
                raise PermissionError(13, "Permission denied")
            return opened(name, *more, **others)

        with pytest.MonkeyPatch.context() as failing:
            failing.setattr(os, "open", denying)
            self.run(unread=path)

    def killed(self) -> None:
        """The job is killed; the table is the old one or the new one, in the manifest."""
        before = listed(self.to) if (self.to / "_kfmt/manifest.json").exists() else Counter()
        point = self.random.choice(POINTS)
        place: Any = lake_table if hasattr(lake_table, point) else lake_table.LakeTable
        real, is_after = getattr(place, point), self.random.random() < 0.5

        def dying(*arguments: Any) -> None:
            if (
                point == "_publish"
                and arguments[0]._last_commit.number < arguments[0].job_directory.run_number
            ):
                real(*arguments)
                return
            if is_after:
                real(*arguments)
            raise KilledError

        # A run that changes nothing makes no commit.
        with pytest.MonkeyPatch.context() as fatal, suppress(KilledError):
            fatal.setattr(place, point, dying)
            export(self.to, self.logs, table=self.kind)
        if (self.to / "_kfmt/manifest.json").exists():
            has = listed(self.to)
            assert not has or max(has.values()) == 1
            assert has == before or self.must | self.live <= has.keys()
            self.may |= self.live
        self.run()


STEPS = {
    History.produce: 6,
    History.roll: 3,
    History.retain: 2,
    History.truncate: 1,
    History.made: 1,
    History.move: 1,
    History.run: 5,
    History.sync: 1,
    History.faulty: 1,
    History.killed: 1,
}


def play(seed: int) -> None:
    """Play a history; raises AssertionError."""
    with tempfile.TemporaryDirectory() as top:
        history = History(seed, Path(top))
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
        for number in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
            sys.stdout.write(f"{number}\n")
            play(number)
