"""Chooses the replica from which each record of a partition is read, so that it is read once.

A record is identified by topic id, partition, offset and leader epoch: replicas that have the same
epoch at an offset have the same record. The rules are those of `merge`: among replicas that agree,
the one with the most undamaged offsets is read, and the others complete it. Among branches, which
an unclean leader election creates, the one with the latest leader epoch is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kfmt_cli.broker.cluster.replica_contents import EpochInterval, ReplicaContents
from kfmt_cli.broker.log_reading.offset_intervals import (
    OffsetIntervals,
    count_offsets,
    intersect_intervals,
    subtract_intervals,
)
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.topics import CLUSTER_METADATA


@dataclass(slots=True)
class ReplicaChoice:
    """The offsets to read from each log of a partition."""

    leader: ReplicaContents
    """The replica with the latest leader epoch, whose branch is read."""
    ranked_replicas: Sequence[ReplicaContents] = ()
    """The replicas, the best one first."""
    intervals_by_path: dict[str, OffsetIntervals | None] = field(default_factory=dict)
    """The offsets that are read of a log; None for all. Logs that are not read are omitted."""
    divergences: list[tuple[ReplicaContents, int]] = field(default_factory=list)
    """The replicas of other branches, each with the first offset at which it differs."""


def group_replicas(
    topic: str | None, replicas: Iterable[ReplicaContents]
) -> list[list[ReplicaContents]]:
    """The replicas of each partition, out of directories with the same topic and partition.

    Topic ids tell topics apart. Without them, and for the metadata log, which has the same id in
    all clusters, directories belong to the same partition if they share a batch.
    """
    groups: list[list[ReplicaContents]] = []
    for replica in replicas:
        same_groups = [
            group
            for group in groups
            if any(_is_same_partition(topic, replica, other_replica) for other_replica in group)
        ]
        merged_group = [member for group in same_groups for member in group]
        groups = [group for group in groups if group not in same_groups]
        groups.append([*merged_group, replica])
    return groups


def _is_same_partition(
    topic: str | None, replica: ReplicaContents, other_replica: ReplicaContents
) -> bool:
    if topic != CLUSTER_METADATA and None not in (replica.topic_id, other_replica.topic_id):
        return replica.topic_id == other_replica.topic_id
    if None not in (replica.topic_id, other_replica.topic_id) and (
        replica.topic_id != other_replica.topic_id
    ):
        return False
    return not replica.samples.isdisjoint(other_replica.samples)


def choose_replicas(replicas: Sequence[ReplicaContents]) -> ReplicaChoice:
    """Choose the offsets to read from each replica of a partition. Among equal replicas, the first
    is read."""
    choice = ReplicaChoice(
        max(replicas, key=lambda replica: (replica.latest_epoch, replica.end_offset))
    )
    shared_end_by_replica = dict(_iter_shared_ends(choice.leader, replicas))
    choice.divergences = [
        (replica, shared_end_by_replica[replica])
        for replica in replicas
        if shared_end_by_replica[replica] < MAX_OFFSET
    ]
    undamaged_by_replica = {
        replica: intersect_intervals(replica.undamaged_intervals, [(-1, shared_end - 1)])
        for replica, shared_end in shared_end_by_replica.items()
    }
    ranked_replicas = sorted(  # stable
        replicas,
        key=lambda replica: (
            shared_end_by_replica[replica] == MAX_OFFSET,
            count_offsets(undamaged_by_replica[replica]),
            replica.end_offset,
        ),
        reverse=True,
    )
    choice.ranked_replicas, best_replica = ranked_replicas, ranked_replicas[0]
    read_intervals = undamaged_by_replica[best_replica]
    completed_intervals: OffsetIntervals = []
    for replica in ranked_replicas[1:]:
        new_intervals = subtract_intervals(undamaged_by_replica[replica], read_intervals)
        for path, intervals in _iter_log_intervals(replica, new_intervals):
            choice.intervals_by_path[path] = intervals
            completed_intervals += intervals
        read_intervals = [*read_intervals, *new_intervals]
    for log in best_replica.logs:
        if completed_intervals and log.is_damaged:
            # What can still be read of damaged batches is complete in another replica.
            choice.intervals_by_path[log.path] = subtract_intervals(
                [(-1, MAX_OFFSET)], completed_intervals
            )
        else:
            choice.intervals_by_path[log.path] = None
    return choice


def _iter_shared_ends(
    leader: ReplicaContents, replicas: Iterable[ReplicaContents]
) -> Iterator[tuple[ReplicaContents, int]]:
    """The offset below which each replica has the history of the leader, `MAX_OFFSET` if it does
    everywhere.

    What replicas with later epochs share with the leader is also evidence against others, as the
    leader's own batches may be damaged or deleted.
    """
    history = leader.epoch_intervals
    yield leader, MAX_OFFSET
    remaining_replicas = [replica for replica in replicas if replica is not leader]
    while remaining_replicas:
        shared_end_by_replica = {}
        shared_epochs_by_replica = {}
        for replica in remaining_replicas:
            divergence_offset = find_divergence_offset(history, replica.epoch_intervals)
            shared_end = MAX_OFFSET if divergence_offset is None else divergence_offset
            shared_end_by_replica[replica] = shared_end
            shared_epochs_by_replica[replica] = [
                (epoch, first_offset, min(last_offset, shared_end - 1))
                for epoch, first_offset, last_offset in replica.epoch_intervals
                if first_offset < shared_end
            ]
        newest_replica = max(
            remaining_replicas,
            key=lambda replica: max(
                ((epoch, last) for epoch, _, last in shared_epochs_by_replica[replica]),
                default=(-1, -1),
            ),
        )
        yield newest_replica, shared_end_by_replica[newest_replica]
        history = [*history, *shared_epochs_by_replica[newest_replica]]
        remaining_replicas.remove(newest_replica)


def _iter_log_intervals(
    replica: ReplicaContents, intervals: OffsetIntervals
) -> Iterator[tuple[str, OffsetIntervals]]:
    """The logs of a replica that have undamaged offsets within intervals, and these offsets."""
    remaining_intervals = intervals
    for log in replica.logs:
        log_intervals = intersect_intervals(log.undamaged_intervals, remaining_intervals)
        if log_intervals:
            remaining_intervals = subtract_intervals(remaining_intervals, log_intervals)
            yield log.path, log_intervals


def find_divergence_offset(
    leader_epochs: Iterable[EpochInterval], follower_epochs: Iterable[EpochInterval]
) -> int | None:
    """The first offset at which a replica's record differs from the leader's; None if there is
    none.

    Epochs only increase along a log. A record of an earlier epoch than the leader has at or before
    its offset, or of a later epoch than the leader has at or after it, is not in the leader's log.
    Source: KIP-101, `kafka.server.epoch.LeaderEpochFileCache`.
    """
    divergence_offsets = [
        max(first_offset, leader_first) if epoch < leader_epoch else first_offset
        for epoch, first_offset, last_offset in follower_epochs
        for leader_epoch, leader_first, leader_last in leader_epochs
        if (epoch < leader_epoch and leader_first <= last_offset)
        or (epoch > leader_epoch and first_offset <= leader_last)
    ]
    return min(divergence_offsets, default=None)
