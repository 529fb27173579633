"""Random histories of a partition, and the rows that a table of it must and may have."""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.errors import InputError
from tests.support.killing import kill_at_event
from tests.support.lake_runs import Row, committed, export, file_rows, manifest_rows
from tests.support.samples import ORDERS
from tests.support.segments import positions

N_RECORDS = 20  # of a batch
MODES = ("append", "sync", "replace")


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
        self.epoch, self.epoch_by_batch = 0, dict[int, int]()
        self.replica_rows: set[Row] = set()  # of the replica on another disk, if there is one
        self.has_moved = False  # since the last run
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
    def replica_directory(self) -> Path:
        return self.logs / "disk2/orders-0"

    @property
    def end(self) -> int:
        return max(
            (batches[-1] + N_RECORDS for batches in self.segments.values() if batches), default=0
        )

    def rows(self, batches: list[int]) -> set[Row]:
        return {(self.id, 0, first + i) for first in batches for i in range(N_RECORDS)}

    def write(self, base: int) -> None:
        """Write a segment in its current state."""
        encoded = (
            struct.pack(">q", first)
            + self.batch[8:12]
            + struct.pack(">i", self.epoch_by_batch[first])
            + self.batch[16:]
            for first in self.segments[base]
        )
        path = self.directory / f"{base:020}.log"
        path.write_bytes(b"".join(encoded))
        self.clock += 1
        os.utime(path, (self.clock, self.clock))

    # Changes of a partition.

    def create(self) -> None:
        """Create the topic, or recreate it."""
        if self.n_ids:
            shutil.rmtree(self.directory)
            self.remove_replica()
        self.n_ids += 1
        self.epoch, self.epoch_by_batch = 0, {}
        self.directory.mkdir(parents=True)
        (self.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {self.id}")
        self.segments = {0: []}
        self.write(0)

    def produce(self) -> None:
        base, end = max(self.segments), max(self.end, *self.segments)
        for _ in range(self.random.randint(1, 4)):
            self.segments[base].append(end)
            self.epoch_by_batch[end] = self.epoch
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
        self.epoch += 1
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
        self.has_moved = True

    def replicate(self) -> None:
        """Copy the log to the disk of another broker, where it stays as it is."""
        self.remove_replica()
        shutil.copytree(self.directory, self.replica_directory)
        self.replica_rows = self.active_rows

    def remove_replica(self) -> None:
        shutil.rmtree(self.replica_directory, ignore_errors=True)
        self.replica_rows = set()

    # Runs of the job.

    def run(self, mode: str = "append", unreadable: Path | None = None) -> None:
        summary = export(self.to, self.logs, mode=mode, table=self.kind)
        active_rows = self.active_rows
        self.allowed_rows |= self.replica_rows
        if unreadable is not None:
            active_rows -= self.rows(self.segments[int(unreadable.name.partition(".")[0])])
            assert summary.unreadable_inputs
        elif mode != "append":
            self.required_rows, self.allowed_rows = set(), self.replica_rows | active_rows
        self.required_rows |= active_rows
        self.allowed_rows |= active_rows
        self.check()
        if unreadable is None and not self.has_moved and not self.replica_rows and active_rows:
            # Rows of a branch that was truncated are gone, unless the log may be a new disk's.
            end = max(self.end, *self.segments)
            assert not any(row[0] == self.id and row[2] >= end for row in manifest_rows(self.to))
        self.has_moved = self.has_moved and unreadable is not None

    def fail_disk(self) -> None:
        """Run the job while the disk cannot be listed."""
        away = self.logs.parent / "away"
        self.directory.parent.rename(away)
        self.directory.parent.symlink_to("nowhere")
        with suppress(InputError):  # nothing else can be read
            assert export(self.to, self.logs, table=self.kind).unreadable_inputs
            self.allowed_rows |= self.replica_rows
        if self.has_table:
            self.check()
        self.directory.parent.unlink()
        away.rename(self.directory.parent)

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
        """Kill the job at some file event, once or twice; its table is the old one or the new."""
        mode = self.random.choice(MODES)
        for _ in range(self.random.randint(1, 2)):
            self.kill_at(self.random.randint(1, 90), mode)
        self.run(mode)

    def kill_at(self, event: int, mode: str) -> str:
        """Kill the job at a file event; returns the event, empty if the job ended before."""
        rows_before, had_table = self.table_rows(), self.has_table
        place = kill_at_event(
            self.to, event, lambda: export(self.to, self.logs, mode=mode, table=self.kind)
        )
        table_rows = self.table_rows()
        assert not table_rows or max(table_rows.values()) == 1, place
        new_rows = self.active_rows | (self.required_rows if mode == "append" else set())
        if table_rows != rows_before or (self.has_table and not had_table):
            assert new_rows <= table_rows.keys(), place
            if mode != "append":
                assert table_rows.keys() <= self.active_rows | self.replica_rows, place
        if self.kind is not None and rows_before:
            rows = committed(self.kind, self.to)
            assert rows == rows_before or new_rows <= rows.keys(), place
            assert max(rows.values(), default=1) == 1, place
        self.allowed_rows |= self.active_rows
        return place

    @property
    def has_table(self) -> bool:
        return (self.to / "_kfmt/manifest.json").exists()

    def table_rows(self) -> Counter[Row]:
        return manifest_rows(self.to) if self.has_table else Counter()
