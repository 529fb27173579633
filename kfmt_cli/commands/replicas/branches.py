"""replicas: where the replicas of a partition agree, and where they diverge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from kfmt_cli.broker.log_reading.offset_intervals import (
    OffsetIntervals,
    intersect_intervals,
    merge_intervals,
    subtract_intervals,
)
from kfmt_cli.checks.replica_comparison import ReplicaComparison
from kfmt_cli.commands.replicas.nodes import DiskReplica
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.partitions import Partition

_MAX_OFFSET = 1 << 63


@dataclass(slots=True)
class ReplicaBranch:
    """Replicas that agree wherever more than one has a record, the longest first."""

    replicas: list[DiskReplica]
    diverged_at: int | None = None
    """The first offset at which it differs from the newest branch; None for the newest one."""

    @property
    def end_offset(self) -> int:
        """The greatest log end offset of its replicas."""
        return max(replica.log_end or 0 for replica in self.replicas)

    @property
    def owner_names(self) -> str:
        """The brokers, or directories, of its replicas."""
        return ",".join(replica.owner_name.removeprefix("broker ") for replica in self.replicas)

    @property
    def latest_epoch(self) -> int | None:
        """The latest leader epoch of its replicas."""
        epochs = [
            replica.latest_epoch for replica in self.replicas if replica.latest_epoch is not None
        ]
        return max(epochs, default=None)


@dataclass
class ReplicaBranches:
    """The branches of a partition, the newest first."""

    branches: list[ReplicaBranch] = field(default_factory=list)

    @cached_property
    def newest_branch_offsets(self) -> OffsetIntervals:
        """The offsets that the replicas of the newest branch have together, undamaged."""
        if not self.branches:
            return []
        undamaged_intervals = [
            interval
            for replica in self.branches[0].replicas
            for interval in replica.undamaged_offsets
        ]
        for branch in self.branches[1:]:
            diverged_intervals = [(branch.diverged_at or 0, _MAX_OFFSET)]
            for replica in branch.replicas:
                undamaged_intervals += subtract_intervals(
                    replica.undamaged_offsets, diverged_intervals
                )
        return merge_intervals(undamaged_intervals)

    @property
    def diverged_at(self) -> int | None:
        """The first offset at which replicas have different records, None if they agree."""
        return min(
            (branch.diverged_at for branch in self.branches if branch.diverged_at is not None),
            default=None,
        )

    def divergence_offset(self, replica: DiskReplica) -> int | None:
        """The first offset at which a replica differs from the newest branch."""
        return next(
            (branch.diverged_at for branch in self.branches if replica in branch.replicas), None
        )

    def offsets_lost_with(self, leader: DiskReplica | None) -> OffsetIntervals:
        """The offsets of the newest branch that a leader does not have after its start: neither in
        its log nor, below its log start offset, in tiered storage."""
        if leader is None:
            return self.newest_branch_offsets
        leader_offsets, divergence_offset = (
            leader.offsets_after_start,
            self.divergence_offset(leader),
        )
        if divergence_offset is not None:
            leader_offsets = subtract_intervals(leader_offsets, [(divergence_offset, _MAX_OFFSET)])
        intervals_below_log_start = [(-1, (leader.predicted_log_start or 0) - 1)]
        newest_replicas = (replica for branch in self.branches[:1] for replica in branch.replicas)
        tiered_intervals = [
            interval
            for replica in newest_replicas
            if replica.is_tiered
            for interval in replica.undamaged_offsets
        ]
        return subtract_intervals(
            subtract_intervals(self.newest_branch_offsets, leader_offsets),
            intersect_intervals(merge_intervals(tiered_intervals), intervals_below_log_start),
        )

    def offsets_returning_with(self, leader: DiskReplica | None) -> OffsetIntervals:
        """The offsets at which a leader's log has records that the newest branch replaced."""
        if leader is None:
            return []
        divergence_offset = self.divergence_offset(leader)
        return (
            []
            if divergence_offset is None
            else subtract_intervals(leader.offsets_after_start, [(-1, divergence_offset - 1)])
        )


def find_branches(
    replicas: Sequence[DiskReplica], decompression_limit: DecompressionLimit
) -> ReplicaBranches:
    """Compare the replicas of a partition; raises InputError."""
    replica_branches = ReplicaBranches()
    nonempty_replicas = [
        replica for replica in replicas if replica.log_end is not None and not replica.is_excluded
    ]
    empty_replicas = [
        replica for replica in replicas if replica.log_end is None and not replica.is_excluded
    ]
    for replica in sorted(nonempty_replicas, key=_newness_key, reverse=True):
        for branch in replica_branches.branches:
            if _find_divergence_offset(branch.replicas[0], replica, decompression_limit) is None:
                branch.replicas.append(replica)
                break
        else:
            divergence_offset = (
                _find_divergence_offset(
                    replica_branches.branches[0].replicas[0], replica, decompression_limit
                )
                if replica_branches.branches
                else None
            )
            replica_branches.branches.append(ReplicaBranch([replica], divergence_offset))
    if replica_branches.branches:
        replica_branches.branches[0].replicas += empty_replicas
    return replica_branches


def _newness_key(replica: DiskReplica) -> tuple[int, int]:
    """Sort key: newer logs have the greater one."""
    last_offset = replica.undamaged_offsets[-1][1] if replica.undamaged_offsets else -1
    return (-1 if replica.latest_epoch is None else replica.latest_epoch), last_offset


def _find_divergence_offset(
    left_replica: DiskReplica, right_replica: DiskReplica, decompression_limit: DecompressionLimit
) -> int | None:
    """The first offset at which two replicas have different records; None if they agree."""
    segment_pairs = zip(
        left_replica.segment_fingerprints, right_replica.segment_fingerprints, strict=False
    )
    same_segment_pairs = list(
        takewhile(lambda segment_pair: segment_pair[0] == segment_pair[1], segment_pairs)
    )
    if len(same_segment_pairs) == min(
        len(left_replica.segment_fingerprints), len(right_replica.segment_fingerprints)
    ) and not (left_replica.damaged_offsets or right_replica.damaged_offsets):
        return None
    if same_segment_pairs and not (left_replica.damaged_offsets or right_replica.damaged_offsets):
        same_segment_pairs.pop()  # batches of two logs may overlap
    first_compared_offset = same_segment_pairs[-1][0][2] if same_segment_pairs else 0
    comparison = ReplicaComparison.from_partitions(
        _logs_from_offset(left_replica, first_compared_offset),
        _logs_from_offset(right_replica, first_compared_offset),
        decompression_limit,
        is_compacted=False,  # only divergence matters
    )
    comparison.read_and_compare()
    return None if comparison.divergence is None else comparison.divergence.first_offset


def _logs_from_offset(replica: DiskReplica, first_offset: int) -> Partition:
    """The logs of a replica that could be read, that have offsets at or after `first_offset`."""
    assert replica.listing is not None
    base_offsets = {
        base_offset
        for base_offset, _, end_offset, _ in replica.segment_fingerprints
        if end_offset > first_offset
    }
    logs = [log for log in replica.listing.logs if log.base_offset_or_zero in base_offsets]
    return Partition(replica.file or "", Path(replica.listing.path), logs)
