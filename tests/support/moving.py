"""Partitions that change as a broker changes them, and a model of what a stream must give."""

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
"""Topic id, base offset and leader epoch: no other batch has all three."""
RECORDS = 20
_DATA = ORDERS.read_bytes()
_AT = positions(_DATA)
BODIES = [_DATA[start:end] for start, end in pairwise(_AT)]
_TIMES = count(1_700_000_000)


def batch_bytes(base_offset: int, epoch: int) -> bytes:
    """A batch of 20 records; its checksum covers neither the offset nor the leader epoch."""
    body = BODIES[base_offset // RECORDS % len(BODIES)]
    return struct.pack(">q", base_offset) + body[8:12] + struct.pack(">i", epoch) + body[16:]


@dataclass
class MovingPartition:
    """A partition in one of several log directories, or in two while it moves."""

    disks: list[Path]
    name: str
    rng: random.Random
    folder: Path = field(init=False)
    other: Path | None = None
    """An older copy."""
    topic_id: str = ""
    epoch: int = 0
    segments: list[tuple[int, list[tuple[int, int]]]] = field(default_factory=list)
    """Base offset, and base offset and epoch of each batch."""
    end: int = 0
    given: set[Batch] = field(default_factory=set)
    position: tuple[str, int] | None = None
    """Topic id and next offset of the stream."""
    cut: int | None = None
    """The lowest offset that the log was cut to since the last trigger."""

    def __post_init__(self) -> None:
        self.folder = self.disks[0] / self.name
        self.create()

    @property
    def batches(self) -> set[Batch]:
        """What is in the log."""
        return {(self.topic_id, *batch) for _, held in self.segments for batch in held}

    def create(self) -> None:
        """Make the topic, or make it again."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.topic_id = format_uuid(self.rng.randbytes(16))
        self.segments, self.end, self.epoch = [(0, [])], 0, 0
        self.cut = None
        self.folder.mkdir(parents=True)
        (self.folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {self.topic_id}\n")
        self.append()

    def append(self) -> None:
        """Append batches."""
        for _ in range(self.rng.randint(1, 4)):
            self.segments[-1][1].append((self.end, self.epoch))
            self.end += RECORDS
        self._write(len(self.segments) - 1)

    def roll(self) -> None:
        """Begin another segment."""
        if self.segments[-1][0] < self.end:
            self.segments.append((self.end, []))
            self._write(len(self.segments) - 1)

    def elect(self) -> None:
        """Begin another leader epoch."""
        self.epoch += 1

    def retain(self) -> None:
        """Delete the oldest segments."""
        if self.other is None:
            for _ in range(self.rng.randint(1, 2)):
                if len(self.segments) > 1:
                    self._log(0).unlink()
                    del self.segments[0]

    def clean(self) -> None:
        """Remove a batch, but not from the active segment."""
        if len(self.segments) > 1 and self.other is None:
            at = self.rng.randrange(len(self.segments) - 1)
            if held := self.segments[at][1]:
                del held[self.rng.randrange(len(held))]
                self._write(at)

    def truncate(self) -> None:
        """Truncate the log to the beginning of a batch and become leader in a later epoch."""
        starts = [base for _, held in self.segments for base, _ in held]
        if self.other is not None or not starts:
            return
        to = self.rng.choice(starts[-8:])
        while self.segments[-1][0] > to:
            self._log(len(self.segments) - 1).unlink()
            del self.segments[-1]
        base, held = self.segments[-1]
        self.segments[-1] = base, [batch for batch in held if batch[0] < to]
        self.end, self.epoch = to, self.epoch + 1
        self.cut = to if self.cut is None else min(self.cut, to)
        self._write(len(self.segments) - 1)

    def move(self) -> None:
        """Begin to move to another directory, or end it: the older copy is removed."""
        if self.other is not None:
            shutil.rmtree(self.other)
            self.other = None
            return
        to = self.rng.choice([disk for disk in self.disks if disk / self.name != self.folder])
        if self.rng.random() < 0.5:
            self.folder.rename(to / self.name)
        else:
            self.other = self.folder
            shutil.copytree(self.folder, to / self.name)
        self.folder = to / self.name

    def recreate(self) -> None:
        """Delete the topic and make it again."""
        if self.other is None:
            self.create()

    def loss(self) -> bool | None:
        """Whether the next trigger loses offsets; None if the files cannot tell."""
        if self.position is None:
            return False
        topic_id, offset = self.position
        if topic_id != self.topic_id or self.segments[0][0] > offset:
            return True
        if self.cut is None or self.cut >= offset:
            return False
        before = [base for _, held in self.segments for base, _ in held if base < offset]
        is_covered = any(self.cut <= base for base in before) or self.end < offset
        return True if is_covered else None

    def trigger(self) -> set[Batch]:
        """What a trigger gives, and the position after it."""
        new = self.batches - self.given
        self.given |= new
        self.position, self.cut = (self.topic_id, self.end), None
        return new

    def step(self) -> str:
        """Change something; its name."""
        changes: list[tuple[Callable[[], None], int]] = [
            *((self.append, 8), (self.roll, 3), (self.elect, 2), (self.retain, 2)),
            *((self.clean, 2), (self.truncate, 2), (self.move, 3), (self.recreate, 1)),
        ]
        steps, weights = zip(*changes, strict=True)
        change: Callable[[], None] = self.rng.choices(steps, weights)[0]
        change()
        return f"{self.name} {change.__name__}"

    def _log(self, at: int) -> Path:
        return self.folder / f"{self.segments[at][0]:020}.log"

    def _write(self, at: int) -> None:
        """Write a segment, with a time that no other one has."""
        log, data = self._log(at), b"".join(batch_bytes(*one) for one in self.segments[at][1])
        new = log.with_suffix(".new")
        new.write_bytes(data)
        moment = next(_TIMES)
        os.utime(new, (moment, moment))
        new.rename(log)


def steps_of(seed: int, disks: list[Path]) -> Iterator[tuple[str, list[MovingPartition]]]:
    """Sequences of changes: `trigger`, `restart`, `unlisted`, or what has changed."""
    rng = random.Random(seed)
    for disk in disks:
        disk.mkdir(parents=True)
    partitions = [MovingPartition(disks, f"orders-{i}", rng) for i in range(2)]
    yield "start", partitions
    for _ in range(rng.randint(10, 30)):
        what = rng.choices(("change", "trigger", "restart", "unlisted"), (10, 6, 1, 1))[0]
        yield (rng.choice(partitions).step() if what == "change" else what), partitions
    yield "trigger", partitions
