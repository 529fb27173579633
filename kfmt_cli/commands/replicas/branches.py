"""replicas: where the replicas of a partition agree, and where they diverge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from kfmt_cli.broker.start.offset_intervals import (
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
        return ",".join(replica.owner.removeprefix("broker ") for replica in self.replicas)

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
        intervals = [
            interval
            for replica in self.branches[0].replicas
            for interval in replica.undamaged_offsets
        ]
        for branch in self.branches[1:]:
            intervals_after_divergence = [(branch.diverged_at or 0, _MAX_OFFSET)]
            for replica in branch.replicas:
                intervals += subtract_intervals(
                    replica.undamaged_offsets, intervals_after_divergence
                )
        return merge_intervals(intervals)

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
        leader_offsets, diverged_at = leader.offsets_after_start, self.divergence_offset(leader)
        if diverged_at is not None:
            leader_offsets = subtract_intervals(leader_offsets, [(diverged_at, _MAX_OFFSET)])
        intervals_below_log_start = [(-1, (leader.log_start_after or 0) - 1)]
        newest_replicas = (replica for branch in self.branches[:1] for replica in branch.replicas)
        tiered_offsets = [
            interval
            for replica in newest_replicas
            if replica.is_tiered
            for interval in replica.undamaged_offsets
        ]
        return subtract_intervals(
            subtract_intervals(self.newest_branch_offsets, leader_offsets),
            intersect_intervals(merge_intervals(tiered_offsets), intervals_below_log_start),
        )

    def offsets_returning_with(self, leader: DiskReplica | None) -> OffsetIntervals:
        """The offsets at which a leader's log has records that the newest branch replaced."""
        if leader is None:
            return []
        diverged_at = self.divergence_offset(leader)
        return (
            []
            if diverged_at is None
            else subtract_intervals(leader.offsets_after_start, [(-1, diverged_at - 1)])
        )


def find_branches(replicas: Sequence[DiskReplica], limit: DecompressionLimit) -> ReplicaBranches:
    """Compare the replicas of a partition; raises InputError."""
    result = ReplicaBranches()
    readable_replicas = [
        replica for replica in replicas if replica.log_end is not None and not replica.is_set_aside
    ]
    empty_replicas = [
        replica for replica in replicas if replica.log_end is None and not replica.is_set_aside
    ]
    for replica in sorted(readable_replicas, key=_newness_key, reverse=True):
        for branch in result.branches:
            if _find_divergence(branch.replicas[0], replica, limit) is None:
                branch.replicas.append(replica)
                break
        else:
            diverged_at = (
                _find_divergence(result.branches[0].replicas[0], replica, limit)
                if result.branches
                else None
            )
            result.branches.append(ReplicaBranch([replica], diverged_at))
    if result.branches:
        result.branches[0].replicas += empty_replicas
    return result


def _newness_key(replica: DiskReplica) -> tuple[int, int]:
    """Sort key: newer logs have the greater one."""
    last = replica.undamaged_offsets[-1][1] if replica.undamaged_offsets else -1
    return (-1 if replica.latest_epoch is None else replica.latest_epoch), last


def _find_divergence(
    left: DiskReplica, right: DiskReplica, limit: DecompressionLimit
) -> int | None:
    """The first offset at which two replicas have different records; None if they agree."""
    segment_pairs = zip(left.segments, right.segments, strict=False)
    same_segment_pairs = list(takewhile(lambda pair: pair[0] == pair[1], segment_pairs))
    if len(same_segment_pairs) == min(len(left.segments), len(right.segments)) and not (
        left.damaged_offsets or right.damaged_offsets
    ):
        return None
    if same_segment_pairs and not (left.damaged_offsets or right.damaged_offsets):
        same_segment_pairs.pop()  # batches of two logs may overlap
    first_offset = same_segment_pairs[-1][0][2] if same_segment_pairs else 0
    comparison = ReplicaComparison.from_partitions(
        _logs_from(left, first_offset), _logs_from(right, first_offset), limit
    )
    comparison.read()
    return None if comparison.divergence is None else comparison.divergence.first_offset


def _logs_from(replica: DiskReplica, first_offset: int) -> Partition:
    """The logs of a replica that could be read, that have offsets at or after `first_offset`."""
    assert replica.listing is not None
    base_offsets = {base for base, _, end, _ in replica.segments if end > first_offset}
    logs = [log for log in replica.listing.logs if log.base_or_zero in base_offsets]
    return Partition(replica.file or "", Path(replica.listing.path), logs)
