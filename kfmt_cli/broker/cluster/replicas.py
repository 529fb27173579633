"""Compare two replicas of a partition: where they agree and where they diverge.

A follower appends its leader's bytes unchanged. Batches with the same offsets therefore have the
same checksum and leader epoch until each replica is compacted on its own. Where they differ, the
records that both have decide: equal ones mean compaction, others divergence. Source:
`kafka.server.AbstractFetcherThread`, KIP-101, KIP-279.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray


class Relation(enum.Enum):
    """How the replicas relate in a range of offsets."""

    IDENTICAL = "identical"
    COMPACTED = "compacted"
    DIVERGED = "diverged"
    DAMAGED = "damaged"
    ONLY_A = "only in A"
    ONLY_B = "only in B"


@dataclass(frozen=True, slots=True)
class ReplicaBatch:
    """A batch of a replica."""

    base: int
    last: int
    epoch: int
    crc: int
    place: object = field(default=None, compare=False)
    """Where its columns are, and its number there, for the caller that reads its records."""
    sound: bool = True
    """Whether its checksum matches."""


@dataclass(frozen=True, slots=True)
class ReplicaBatches:
    """Consecutive batches of a replica, as columns."""

    columns: IntArray
    """Base offset, last offset, leader epoch and checksum, each a row."""
    sound: BoolArray
    """Whether the checksums match."""
    place: object = None
    """Where they are, for the caller that reads their records."""

    def __len__(self) -> int:
        return len(self.sound)

    def batch(self, i: int) -> ReplicaBatch:
        """One of them."""
        base, last, epoch, crc = self.columns[:, i].tolist()
        return ReplicaBatch(base, last, epoch, crc, (self.place, i), bool(self.sound[i]))


@dataclass(slots=True)
class Range:
    """Offsets with one relation between the replicas. epochs: the leader epochs in the range."""

    relation: Relation
    first: int
    last: int
    a_batches: int = 0
    b_batches: int = 0
    a_epochs: set[int] = field(default_factory=set)
    b_epochs: set[int] = field(default_factory=set)

    def takes(self, other: Range) -> bool:
        """Extend the range by the next one if the relation is the same; returns whether it is."""
        if other.relation is not self.relation:
            return False
        self.last = max(self.last, other.last)
        self.a_batches += other.a_batches
        self.b_batches += other.b_batches
        self.a_epochs = self.a_epochs | other.a_epochs
        self.b_epochs = self.b_epochs | other.b_epochs
        return True


@dataclass(slots=True)
class Epochs:
    """The leader epochs of a replica: the first offset of each."""

    starts: dict[int, int] = field(default_factory=dict)
    end: int = 0
    """Its log end offset."""

    def learn(self, recorded: Iterable[tuple[int, int]]) -> None:
        """Add the epochs of leader-epoch-checkpoint. Like a starting broker, skip those that begin
        at or after the log end offset."""
        for epoch, start in recorded:
            if start < self.end:
                self.starts[epoch] = start

    @property
    def last(self) -> int:
        """The latest epoch, or -1."""
        return max(self.starts, default=-1)

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The latest known epoch at or below `epoch`, and its end offset."""
        known = max((start for start in self.starts if start <= epoch), default=-1)
        later = [start for epoch, start in self.starts.items() if epoch > known]
        return known, min(later, default=self.end)


def cut_to(follower: Epochs, leader: Epochs) -> int:
    """The offset to which a follower truncates its log before it fetches from a newer leader.

    It asks the leader for the end of its own last epoch, and asks again if the leader does not know
    that epoch. Source: `kafka.server.AbstractFetcherThread.truncateToEpochEndOffsets`, KIP-279.
    """
    asked, end = follower.last, follower.end
    while True:
        known, its_end = leader.end_of(asked)
        if known == asked or known < 0:
            return min(end, its_end if known >= 0 else 0)
        asked, own_end = follower.end_of(known)
        end = min(end, own_end, its_end)
        if asked < 0 or asked == known:
            return end


Same = Callable[[list[ReplicaBatch], list[ReplicaBatch]], int | None]


def compare(
    a: Iterable[ReplicaBatches], b: Iterable[ReplicaBatches], differs: Same
) -> Iterator[Range]:
    """The ranges of two replicas whose batches come in offset order.

    differs: for differing batches over the same offsets, returns the first offset at which both
    have a record and the records differ, or None.
    """
    return joined(_steps(_Cursor(iter(a)), _Cursor(iter(b)), differs))


def joined(steps: Iterable[Range]) -> Iterator[Range]:
    """Consecutive ranges with the same relation as one."""
    held: Range | None = None
    for step in steps:
        if held is None:
            held = step
        elif not held.takes(step):
            yield held
            held = step
    if held is not None:
        yield held


class _Cursor:
    """A position in the batches of a replica. head: the next batch, None at the end."""

    def __init__(self, rest: Iterator[ReplicaBatches]) -> None:
        self._rest = rest
        self._here: ReplicaBatches | None = None
        self._at = 0
        self.head: ReplicaBatch | None = None
        self._move(0)

    def _move(self, n: int) -> None:
        self._at += n
        while self._here is None or self._at == len(self._here):
            self._here, self._at = next(self._rest, None), 0
            if self._here is None:
                self.head = None
                return
        self.head = self._here.batch(self._at)

    def take(self) -> ReplicaBatch:
        """The next batch; moves past it."""
        head = self.head
        assert head is not None
        self._move(1)
        return head

    def alike(self, other: _Cursor) -> Range:
        """The identical batches at the front of both, at least one; moves both past them."""
        mine, its = self._here, other._here
        assert mine is not None
        assert its is not None
        n = min(len(mine) - self._at, len(its) - other._at)
        here, there = slice(self._at, self._at + n), slice(other._at, other._at + n)
        same = (mine.columns[:, here] == its.columns[:, there]).all(axis=0)
        same &= mine.sound[here] & its.sound[there]
        n = n if same.all() else int(np.argmin(same))
        base, last, epoch, _ = mine.columns[:, self._at : self._at + n]
        epochs = set(np.unique(epoch).tolist())
        found = Range(Relation.IDENTICAL, int(base.min()), int(last.max()), n, n, epochs, epochs)
        self._move(n)
        other._move(n)
        return found


def _steps(a: _Cursor, b: _Cursor, differs: Same) -> Iterator[Range]:
    while a.head is not None or b.head is not None:
        if b.head is None or (a.head is not None and a.head.last < b.head.base):
            yield _of(Relation.ONLY_A, [a.take()], [])
        elif a.head is None or b.head.last < a.head.base:
            yield _of(Relation.ONLY_B, [], [b.take()])
        elif a.head == b.head and a.head.sound:
            yield a.alike(b)
        else:
            mine, its = [a.take()], [b.take()]
            while True:
                end = max(mine[-1].last, its[-1].last)
                if a.head is not None and a.head.base <= end:
                    mine.append(a.take())
                elif b.head is not None and b.head.base <= end:
                    its.append(b.take())
                else:
                    break
            yield from _differing(mine, its, differs)


def _differing(mine: list[ReplicaBatch], its: list[ReplicaBatch], differs: Same) -> Iterator[Range]:
    """The ranges of batches over the same offsets that differ or cannot be compared."""
    if not all(batch.sound for batch in (*mine, *its)):
        yield _of(Relation.DAMAGED, mine, its)
        return
    at = differs(mine, its)
    # A batch without an epoch, as in a copy that was made from records, says nothing about it.
    epochs, others = ({owned.epoch for owned in side} - {-1} for side in (mine, its))
    if at is None and (epochs == others or not epochs or not others):
        yield _of(Relation.COMPACTED, mine, its)
        return
    found = _of(Relation.DIVERGED, mine, its)
    if at is not None:
        found.first = max(found.first, at)
    ends = max(owned.last for owned in mine), max(owned.last for owned in its)
    found.last = max(found.first, min(ends))
    yield found
    if max(ends) > found.last:  # only the longer replica has the rest
        rest = Relation.ONLY_A if ends[0] > ends[1] else Relation.ONLY_B
        yield replace(
            found, relation=rest, first=found.last + 1, last=max(ends), a_batches=0, b_batches=0
        )


def _of(relation: Relation, mine: list[ReplicaBatch], its: list[ReplicaBatch]) -> Range:
    every = [*mine, *its]
    return Range(
        relation,
        min(batch.base for batch in every),
        max(batch.last for batch in every),
        len(mine),
        len(its),
        {batch.epoch for batch in mine},
        {batch.epoch for batch in its},
    )
