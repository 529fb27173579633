"""Two replicas compared batch by batch."""

from __future__ import annotations

from kfmt_cli.broker.cluster.replica_comparison import (
    ReplicaBatch,
    ReplicaRange,
    ReplicaRelation,
    _iter_differing_ranges,
)


def ranges(left: list[ReplicaBatch], right: list[ReplicaBatch]) -> list[ReplicaRange]:
    """The ranges whose batches differ."""
    return list(_iter_differing_ranges(left, right, lambda *_: None))


def test_batches_of_a_cleaned_replica_are_counted_on_its_side() -> None:
    two_batches = [ReplicaBatch(0, 4, 1, 11), ReplicaBatch(5, 9, 2, 12)]
    one_batch = [ReplicaBatch(2, 9, -1, 13)]
    assert ranges(two_batches, one_batch) == [
        ReplicaRange(ReplicaRelation.COMPACTED, 0, 9, 2, 1, {1, 2}, {-1})
    ]
    assert ranges(one_batch, two_batches) == [
        ReplicaRange(ReplicaRelation.COMPACTED, 0, 9, 1, 2, {-1}, {1, 2})
    ]
