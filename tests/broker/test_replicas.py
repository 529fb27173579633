"""What two replicas have in common, batch by batch."""

from __future__ import annotations

from kfmt_cli.broker.cluster.replicas import Range, Relation, ReplicaBatch, _differing


def ranges(mine: list[ReplicaBatch], its: list[ReplicaBatch]) -> list[Range]:
    """The ranges of batches of the same records in other batches."""
    return list(_differing(mine, its, lambda *_: None))


def test_batches_of_a_cleaned_replica_are_counted_on_its_side() -> None:
    two = [ReplicaBatch(0, 4, 1, 11), ReplicaBatch(5, 9, 2, 12)]
    one = [ReplicaBatch(2, 9, -1, 13)]
    assert ranges(two, one) == [Range(Relation.COMPACTED, 0, 9, 2, 1, {1, 2}, {-1})]
    assert ranges(one, two) == [Range(Relation.COMPACTED, 0, 9, 1, 2, {-1}, {1, 2})]
