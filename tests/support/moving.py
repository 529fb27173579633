"""Partitions that change as a broker changes them, and a model of what a stream must deliver."""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path

from kfmt_cli.core.uuids import format_uuid
from tests.support.samples import ORDERS
from tests.support.segments import positions

Batch = tuple[str, int, int]
"""Topic id, base offset and leader epoch, unique to a batch."""
RECORDS = 20
_DATA = ORDERS.read_bytes()
_POSITIONS = positions(_DATA)
BODIES = [_DATA[start:end] for start, end in pairwise(_POSITIONS)]
_TIMES = count(1_700_000_000)


def batch_bytes(base_offset: int, epoch: int) -> bytes:
    """A batch of 20 records; its checksum covers neither the offset nor the leader epoch."""
    body = BODIES[base_offset // RECORDS % len(BODIES)]
    return struct.pack(">q", base_offset) + body[8:12] + struct.pack(">i", epoch) + body[16:]


@dataclass
class MovingPartition:
    """A partition in one of several log directories, in two of them while it moves."""

    disks: list[Path]
    name: str
    rng: random.Random
    directory: Path = field(init=False)
    older_copy: Path | None = None
    """An older copy."""
    has_replica: bool = False
    """Whether the older copy is another broker's, which does not stop any change of the log."""
    topic_id: str = ""
    epoch: int = 0
    segments: list[tuple[int, list[tuple[int, int]]]] = field(default_factory=list)
    """Base offset, and base offset and epoch of each batch."""
    end: int = 0
    delivered: set[Batch] = field(default_factory=set)
    position: tuple[str, int] | None = None
    """Topic id and next offset of the stream."""
    truncated_to: int | None = None
    """The lowest offset to which the log was truncated since the last trigger."""

    def __post_init__(self) -> None:
        self.directory = self.disks[0] / self.name
        self.create()

    @property
    def is_moving(self) -> bool:
        """Whether the log is copied to another directory of this broker."""
        return self.older_copy is not None and not self.has_replica

    @property
    def batches(self) -> set[Batch]:
        """The batches in the log."""
        return {(self.topic_id, *batch) for _, batches in self.segments for batch in batches}

    def create(self) -> None:
        """Create the topic, or recreate it."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.topic_id = format_uuid(self.rng.randbytes(16))
        self.segments, self.end, self.epoch = [(0, [])], 0, 0
        self.truncated_to = None
        self.directory.mkdir(parents=True)
        (self.directory / "partition.metadata").write_text(
            f"version: 0\ntopic_id: {self.topic_id}\n"
        )
        self.append()

    def append(self) -> None:
        """Append batches."""
        for _ in range(self.rng.randint(1, 4)):
            self.segments[-1][1].append((self.end, self.epoch))
            self.end += RECORDS
        self._write(len(self.segments) - 1)

    def roll(self) -> None:
        """Start another segment."""
        if self.segments[-1][0] < self.end:
            self.segments.append((self.end, []))
            self._write(len(self.segments) - 1)

    def elect(self) -> None:
        """Start another leader epoch."""
        self.epoch += 1

    def retain(self) -> None:
        """Delete the oldest segments."""
        if not self.is_moving:
            for _ in range(self.rng.randint(1, 2)):
                if len(self.segments) > 1:
                    self._log(0).unlink()
                    del self.segments[0]

    def clean(self) -> None:
        """Remove a batch, but not from the active segment."""
        if len(self.segments) > 1 and not self.is_moving:
            segment_index = self.rng.randrange(len(self.segments) - 1)
            if batches := self.segments[segment_index][1]:
                del batches[self.rng.randrange(len(batches))]
                self._write(segment_index)

    def truncate(self) -> None:
        """Truncate the log to the start of a batch and become leader in a later epoch."""
        starts = [base for _, batches in self.segments for base, _ in batches]
        if self.is_moving or not starts:
            return
        offset = self.rng.choice(starts[-8:])
        while self.segments[-1][0] > offset:
            self._log(len(self.segments) - 1).unlink()
            del self.segments[-1]
        base, batches = self.segments[-1]
        self.segments[-1] = base, [batch for batch in batches if batch[0] < offset]
        self.end, self.epoch = offset, self.epoch + 1
        self.truncated_to = offset if self.truncated_to is None else min(self.truncated_to, offset)
        self._write(len(self.segments) - 1)

    def move(self) -> None:
        """Start a move to another directory, or complete it: remove the older copy."""
        if self.older_copy is not None:
            shutil.rmtree(self.older_copy)
            self.older_copy = None
            return
        disk = self.rng.choice([disk for disk in self.disks if disk / self.name != self.directory])
        if self.rng.random() < 0.5:
            self.directory.rename(disk / self.name)
        else:
            self.older_copy = self.directory
            shutil.copytree(self.directory, disk / self.name)
        self.directory = disk / self.name

    def recreate(self) -> None:
        """Delete the topic and create it again."""
        if not self.is_moving:
            self.create()

    def loss(self) -> bool | None:
        """Whether the next trigger loses offsets; None if the files do not show it."""
        if self.position is None:
            return False
        topic_id, offset = self.position
        if topic_id != self.topic_id or self.segments[0][0] > offset:
            return True
        if self.truncated_to is None or self.truncated_to >= offset:
            return False
        earlier_offsets = [
            base for _, batches in self.segments for base, _ in batches if base < offset
        ]
        is_covered = any(self.truncated_to <= base for base in earlier_offsets) or self.end < offset
        return True if is_covered else None

    def trigger(self) -> set[Batch]:
        """Return the batches that a trigger delivers, and move the position."""
        new = self.batches - self.delivered
        self.delivered |= new
        self.position, self.truncated_to = (self.topic_id, self.end), None
        return new

    def step(self) -> str:
        """Apply a random change; return its name."""
        changes: list[tuple[Callable[[], None], int]] = [
            *((self.append, 8), (self.roll, 3), (self.elect, 2), (self.retain, 2)),
            *((self.clean, 2), (self.truncate, 2), (self.move, 3), (self.recreate, 1)),
        ]
        steps, weights = zip(*changes, strict=True)
        change: Callable[[], None] = self.rng.choices(steps, weights)[0]
        change()
        return f"{self.name} {change.__name__}"

    def _log(self, segment_index: int) -> Path:
        return self.directory / f"{self.segments[segment_index][0]:020}.log"

    def _write(self, segment_index: int) -> None:
        """Write a segment, with a unique modification time."""
        log = self._log(segment_index)
        data = b"".join(batch_bytes(*batch) for batch in self.segments[segment_index][1])
        new_file = log.with_suffix(".new")
        new_file.write_bytes(data)
        modified = next(_TIMES)
        os.utime(new_file, (modified, modified))
        new_file.rename(log)


def steps_of(seed: int, disks: list[Path]) -> Iterator[tuple[str, list[MovingPartition]]]:
    """A sequence of steps: `trigger`, `restart`, `unlisted`, or the name of a change."""
    rng = random.Random(seed)
    for disk in disks:
        disk.mkdir(parents=True)
    partitions = [MovingPartition(disks, f"orders-{i}", rng) for i in range(2)]
    yield "start", partitions
    for _ in range(rng.randint(10, 30)):
        step = rng.choices(("change", "trigger", "restart", "unlisted"), (10, 6, 1, 1))[0]
        yield (rng.choice(partitions).step() if step == "change" else step), partitions
    yield "trigger", partitions
