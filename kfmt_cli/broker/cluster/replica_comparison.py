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
from kfmt_cli.core.table import BoolArray


class ReplicaRelation(enum.Enum):
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

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    source_row: object = field(default=None, compare=False)
    """The source of its columns and its row there, for callers that read its records."""
    is_undamaged: bool = True
    """Whether its checksum matches."""


@dataclass(frozen=True, slots=True)
class ReplicaBatches:
    """Consecutive batches of a replica, as columns."""

    columns: IntArray
    """Base offset, last offset, leader epoch and checksum, one row each."""
    undamaged_mask: BoolArray
    """Whether the checksums match."""
    source: object = None
    """The source of the batches, for callers that read their records."""

    def __len__(self) -> int:
        return len(self.undamaged_mask)

    def create_batch(self, column_number: int) -> ReplicaBatch:
        """The batch in a column of `columns`."""
        base_offset, last_offset, leader_epoch, crc = self.columns[:, column_number].tolist()
        return ReplicaBatch(
            base_offset,
            last_offset,
            leader_epoch,
            crc,
            (self.source, column_number),
            bool(self.undamaged_mask[column_number]),
        )


@dataclass(slots=True)
class ReplicaRange:
    """Offsets with one relation between the replicas, with the number of batches and the leader
    epochs of each replica."""

    relation: ReplicaRelation
    first_offset: int
    last_offset: int
    a_batches: int = 0
    b_batches: int = 0
    a_leader_epochs: set[int] = field(default_factory=set)
    b_leader_epochs: set[int] = field(default_factory=set)

    def extend_if_same_relation(self, next_range: ReplicaRange) -> bool:
        """Extend the range by the next one if the relation is the same; returns whether it is."""
        if next_range.relation is not self.relation:
            return False
        self.last_offset = max(self.last_offset, next_range.last_offset)
        self.a_batches += next_range.a_batches
        self.b_batches += next_range.b_batches
        self.a_leader_epochs = self.a_leader_epochs | next_range.a_leader_epochs
        self.b_leader_epochs = self.b_leader_epochs | next_range.b_leader_epochs
        return True


@dataclass(slots=True)
class LeaderEpochs:
    """The leader epochs of a replica: the first offset of each."""

    start_offset_by_epoch: dict[int, int] = field(default_factory=dict)
    log_end_offset: int = 0

    def add_epochs(self, epoch_entries: Iterable[tuple[int, int]]) -> None:
        """Add the epochs of leader-epoch-checkpoint. Like a starting broker, skip those that begin
        at or after the log end offset."""
        for epoch, start_offset in epoch_entries:
            if start_offset < self.log_end_offset:
                self.start_offset_by_epoch[epoch] = start_offset

    @property
    def latest_epoch(self) -> int:
        """The latest epoch, or -1."""
        return max(self.start_offset_by_epoch, default=-1)

    def floor_epoch_and_end_offset(self, epoch: int) -> tuple[int, int]:
        """The latest known epoch at or below `epoch`, and its end offset."""
        floor_epoch = max(
            (lower_epoch for lower_epoch in self.start_offset_by_epoch if lower_epoch <= epoch),
            default=-1,
        )
        later_start_offsets = [
            start_offset
            for later_epoch, start_offset in self.start_offset_by_epoch.items()
            if later_epoch > floor_epoch
        ]
        return floor_epoch, min(later_start_offsets, default=self.log_end_offset)


def compute_truncation_offset(follower: LeaderEpochs, leader: LeaderEpochs) -> int:
    """The offset to which a follower truncates its log before it fetches from a newer leader.

    It asks the leader for the end of its own last epoch, and asks again if the leader does not know
    that epoch. Source: `kafka.server.AbstractFetcherThread.truncateToEpochEndOffsets`, KIP-279.
    """
    requested_epoch, truncated_end_offset = follower.latest_epoch, follower.log_end_offset
    while True:
        leader_epoch, leader_end_offset = leader.floor_epoch_and_end_offset(requested_epoch)
        if leader_epoch == requested_epoch or leader_epoch < 0:
            return min(truncated_end_offset, leader_end_offset if leader_epoch >= 0 else 0)
        requested_epoch, follower_end_offset = follower.floor_epoch_and_end_offset(leader_epoch)
        truncated_end_offset = min(truncated_end_offset, follower_end_offset, leader_end_offset)
        if requested_epoch < 0 or requested_epoch == leader_epoch:
            return truncated_end_offset


class UnreadableRecordsError(Exception):
    """Some records of batches that pass their checksums cannot be read, so they cannot be
    compared."""


DifferenceFinder = Callable[[list[ReplicaBatch], list[ReplicaBatch]], int | None]


def compare_replicas(
    a_chunks: Iterable[ReplicaBatches],
    b_chunks: Iterable[ReplicaBatches],
    find_difference: DifferenceFinder,
) -> Iterator[ReplicaRange]:
    """The ranges of two replicas whose batches come in offset order.

    find_difference: for differing batches over the same offsets, returns the first offset at which
    both have a record and the records differ, or None.
    """
    return merge_adjacent_ranges(
        _iter_replica_ranges(
            _ReplicaBatchCursor(iter(a_chunks)),
            _ReplicaBatchCursor(iter(b_chunks)),
            find_difference,
        )
    )


def merge_adjacent_ranges(ranges: Iterable[ReplicaRange]) -> Iterator[ReplicaRange]:
    """The ranges, with consecutive ones of the same relation merged."""
    pending_range: ReplicaRange | None = None
    for next_range in ranges:
        if pending_range is None:
            pending_range = next_range
        elif not pending_range.extend_if_same_relation(next_range):
            yield pending_range
            pending_range = next_range
    if pending_range is not None:
        yield pending_range


class _ReplicaBatchCursor:
    """A position in the batches of a replica. next_batch: the next batch, None at the end."""

    def __init__(self, chunks: Iterator[ReplicaBatches]) -> None:
        self._remaining_chunks = chunks
        self._chunk: ReplicaBatches | None = None
        self._row = 0
        self.next_batch: ReplicaBatch | None = None
        self._advance_batches(0)

    def _advance_batches(self, n_batches: int) -> None:
        self._row += n_batches
        while self._chunk is None or self._row == len(self._chunk):
            self._chunk, self._row = next(self._remaining_chunks, None), 0
            if self._chunk is None:
                self.next_batch = None
                return
        self.next_batch = self._chunk.create_batch(self._row)

    def pop_batch(self) -> ReplicaBatch:
        """The next batch; moves past it."""
        batch = self.next_batch
        assert batch is not None
        self._advance_batches(1)
        return batch

    def pop_identical_range(self, other_cursor: _ReplicaBatchCursor) -> ReplicaRange:
        """The range of the identical batches that come next in both, at least one; moves both past
        them."""
        self_chunk, other_chunk = self._chunk, other_cursor._chunk
        assert self_chunk is not None
        assert other_chunk is not None
        n_batches = min(len(self_chunk) - self._row, len(other_chunk) - other_cursor._row)
        self_rows, other_rows = (
            slice(self._row, self._row + n_batches),
            slice(other_cursor._row, other_cursor._row + n_batches),
        )
        is_identical = (self_chunk.columns[:, self_rows] == other_chunk.columns[:, other_rows]).all(
            axis=0
        )
        is_identical &= (
            self_chunk.undamaged_mask[self_rows] & other_chunk.undamaged_mask[other_rows]
        )
        n_batches = n_batches if is_identical.all() else int(np.argmin(is_identical))
        base_offsets, last_offsets, leader_epochs, _ = self_chunk.columns[
            :, self._row : self._row + n_batches
        ]
        common_epochs = set(np.unique(leader_epochs).tolist())
        identical_range = ReplicaRange(
            ReplicaRelation.IDENTICAL,
            int(base_offsets.min()),
            int(last_offsets.max()),
            n_batches,
            n_batches,
            common_epochs,
            common_epochs,
        )
        self._advance_batches(n_batches)
        other_cursor._advance_batches(n_batches)
        return identical_range


def _iter_replica_ranges(
    a_cursor: _ReplicaBatchCursor, b_cursor: _ReplicaBatchCursor, find_difference: DifferenceFinder
) -> Iterator[ReplicaRange]:
    while a_cursor.next_batch is not None or b_cursor.next_batch is not None:
        if b_cursor.next_batch is None or (
            a_cursor.next_batch is not None
            and a_cursor.next_batch.last_offset < b_cursor.next_batch.base_offset
        ):
            yield _create_replica_range(ReplicaRelation.ONLY_A, [a_cursor.pop_batch()], [])
        elif (
            a_cursor.next_batch is None
            or b_cursor.next_batch.last_offset < a_cursor.next_batch.base_offset
        ):
            yield _create_replica_range(ReplicaRelation.ONLY_B, [], [b_cursor.pop_batch()])
        elif a_cursor.next_batch == b_cursor.next_batch and a_cursor.next_batch.is_undamaged:
            yield a_cursor.pop_identical_range(b_cursor)
        else:
            a_batches, b_batches = [a_cursor.pop_batch()], [b_cursor.pop_batch()]
            while True:
                last_offset = max(a_batches[-1].last_offset, b_batches[-1].last_offset)
                if (
                    a_cursor.next_batch is not None
                    and a_cursor.next_batch.base_offset <= last_offset
                ):
                    a_batches.append(a_cursor.pop_batch())
                elif (
                    b_cursor.next_batch is not None
                    and b_cursor.next_batch.base_offset <= last_offset
                ):
                    b_batches.append(b_cursor.pop_batch())
                else:
                    break
            yield from _iter_differing_ranges(a_batches, b_batches, find_difference)


def _iter_differing_ranges(
    a_batches: list[ReplicaBatch], b_batches: list[ReplicaBatch], find_difference: DifferenceFinder
) -> Iterator[ReplicaRange]:
    """The ranges of batches over the same offsets that differ or cannot be compared."""
    if not all(batch.is_undamaged for batch in (*a_batches, *b_batches)):
        yield _create_replica_range(ReplicaRelation.DAMAGED, a_batches, b_batches)
        return
    try:
        differing_offset = find_difference(a_batches, b_batches)
    except UnreadableRecordsError:
        yield _create_replica_range(ReplicaRelation.DAMAGED, a_batches, b_batches)
        return
    # Batches restored from records have leader epoch -1, which is no evidence of divergence.
    a_epochs, b_epochs = (
        {batch.leader_epoch for batch in batches} - {-1} for batches in (a_batches, b_batches)
    )
    if differing_offset is None and (a_epochs == b_epochs or not a_epochs or not b_epochs):
        yield _create_replica_range(ReplicaRelation.COMPACTED, a_batches, b_batches)
        return
    diverged_range = _create_replica_range(ReplicaRelation.DIVERGED, a_batches, b_batches)
    if differing_offset is not None:
        diverged_range.first_offset = max(diverged_range.first_offset, differing_offset)
    last_offsets = (
        max(batch.last_offset for batch in a_batches),
        max(batch.last_offset for batch in b_batches),
    )
    diverged_range.last_offset = max(diverged_range.first_offset, min(last_offsets))
    yield diverged_range
    if max(last_offsets) > diverged_range.last_offset:  # only the longer replica has the rest
        remaining_relation = (
            ReplicaRelation.ONLY_A if last_offsets[0] > last_offsets[1] else ReplicaRelation.ONLY_B
        )
        yield replace(
            diverged_range,
            relation=remaining_relation,
            first_offset=diverged_range.last_offset + 1,
            last_offset=max(last_offsets),
            a_batches=0,
            b_batches=0,
        )


def _create_replica_range(
    relation: ReplicaRelation, a_batches: list[ReplicaBatch], b_batches: list[ReplicaBatch]
) -> ReplicaRange:
    all_batches = [*a_batches, *b_batches]
    return ReplicaRange(
        relation,
        min(batch.base_offset for batch in all_batches),
        max(batch.last_offset for batch in all_batches),
        len(a_batches),
        len(b_batches),
        {batch.leader_epoch for batch in a_batches},
        {batch.leader_epoch for batch in b_batches},
    )
