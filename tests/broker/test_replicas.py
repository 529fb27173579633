"""What two replicas have in common, batch by batch."""

from __future__ import annotations

from kfmt_cli.broker.cluster.replica_comparison import (
    ReplicaBatch,
    ReplicaRange,
    ReplicaRelation,
    _iter_differing_ranges,
)


def ranges(mine: list[ReplicaBatch], its: list[ReplicaBatch]) -> list[ReplicaRange]:
    """The ranges of batches of the same records in other batches."""
    return list(_iter_differing_ranges(mine, its, lambda *_: None))


def test_batches_of_a_cleaned_replica_are_counted_on_its_side() -> None:
    two = [ReplicaBatch(0, 4, 1, 11), ReplicaBatch(5, 9, 2, 12)]
    one = [ReplicaBatch(2, 9, -1, 13)]
    assert ranges(two, one) == [ReplicaRange(ReplicaRelation.COMPACTED, 0, 9, 2, 1, {1, 2}, {-1})]
    assert ranges(one, two) == [ReplicaRange(ReplicaRelation.COMPACTED, 0, 9, 1, 2, {-1}, {1, 2})]
