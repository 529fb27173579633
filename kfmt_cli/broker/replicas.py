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
    has_holes: bool
    place: object = None
    """The batch's place, for the caller that reads its records."""
    sound: bool = True
    """Whether its checksum matches."""


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
        self.a_epochs |= other.a_epochs
        self.b_epochs |= other.b_epochs
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


def compare(a: Iterable[ReplicaBatch], b: Iterable[ReplicaBatch], differs: Same) -> Iterator[Range]:
    """The ranges of two replicas whose batches come in offset order.

    differs: for differing batches over the same offsets, returns the first offset at which both
    have a record and the records differ, or None.
    """
    held: Range | None = None
    for step in _steps(iter(a), iter(b), differs):
        if held is None:
            held = step
        elif not held.takes(step):
            yield held
            held = step
    if held is not None:
        yield held


def _steps(a: Iterator[ReplicaBatch], b: Iterator[ReplicaBatch], differs: Same) -> Iterator[Range]:
    one, other = next(a, None), next(b, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one.last < other.base):
            assert one is not None
            yield _of(Relation.ONLY_A, [one], [])
            one = next(a, None)
        elif one is None or other.last < one.base:
            yield _of(Relation.ONLY_B, [], [other])
            other = next(b, None)
        elif _key(one) == _key(other) and one.sound and other.sound:
            yield _of(Relation.IDENTICAL, [one], [other])
            one, other = next(a, None), next(b, None)
        else:
            mine, its = [one], [other]
            one, other = next(a, None), next(b, None)
            while True:
                end = max(mine[-1].last, its[-1].last)
                if one is not None and one.base <= end:
                    mine.append(one)
                    one = next(a, None)
                elif other is not None and other.base <= end:
                    its.append(other)
                    other = next(b, None)
                else:
                    break
            yield from _differing(mine, its, differs)


def _differing(mine: list[ReplicaBatch], its: list[ReplicaBatch], differs: Same) -> Iterator[Range]:
    """The ranges of batches over the same offsets that differ or cannot be compared."""
    if not all(batch.sound for batch in (*mine, *its)):
        yield _of(Relation.DAMAGED, mine, its)
        return
    at = differs(mine, its)
    if at is None and {owned.epoch for owned in mine} == {owned.epoch for owned in its}:
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


def _key(batch: ReplicaBatch) -> tuple[int, int, int, int]:
    return batch.base, batch.last, batch.epoch, batch.crc


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
