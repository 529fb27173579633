"""The logs of a partition's replicas: what each can contribute to the merged one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.broker.log_reading.offset_intervals import (
    OffsetInterval,
    OffsetIntervals,
    count_offsets,
    merge_intervals,
)
from kfmt_cli.broker.start.checkpoints import LOG_START_CHECKPOINT
from kfmt_cli.commands.replicas.branches import ReplicaBranch
from kfmt_cli.commands.replicas.nodes import DiskReplica, TopicAndPartition
from kfmt_cli.commands.replicas.offline_cluster import PartitionComparison
from kfmt_cli.commands.salvage.partition_logs import is_swap_file
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.file_names import partition_directory
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.writers.salvage.batch_arrangement import (
    MAX_LOG_END_OFFSET,
    BatchArrangement,
)
from kfmt_cli.writers.salvage.salvager import ScannedLog
from kfmt_cli.writers.salvage.undamaged_batches import UndamagedBatches


@dataclass(slots=True)
class MergeContribution:
    """The offsets and bytes that a replica contributes to a merged partition."""

    replica: DiskReplica
    offset_intervals: OffsetIntervals = field(default_factory=list)
    n_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MergeSources:
    """The replicas of a partition to merge."""

    replicas: tuple[DiskReplica, ...]
    """The best replica of the branch, then the others, most undamaged offsets first."""
    shared_end_by_replica: Mapping[DiskReplica, int]
    """Offset below which each replica has the history of the selected branch."""
    start_offset: int
    end_offset: int
    """Exclusive."""

    @property
    def best_replica(self) -> DiskReplica:
        """The replica whose batches are used if several have them."""
        return self.replicas[0]


def max_replica_bytes(partition: PartitionComparison) -> int:
    """The bytes of the largest replica."""
    sizes = (sum(map(file_size, replica_logs(replica))) for replica in partition.replicas)
    return max(sizes, default=0)


def iter_shared_end_offsets(
    branches: Sequence[ReplicaBranch], selected_branch: ReplicaBranch
) -> Iterator[tuple[DiskReplica, int]]:
    """The replicas that share offsets with a branch, and the offset below which they do."""
    for branch in branches:
        divergence_offsets = [
            compared_branch.diverged_at
            for compared_branch in (branch, selected_branch)
            if compared_branch.diverged_at is not None
        ]
        shared_end_offset = (
            MAX_LOG_END_OFFSET
            if branch is selected_branch
            else min(divergence_offsets, default=MAX_LOG_END_OFFSET)
        )
        for replica in branch.replicas:
            if has_batches(replica):
                yield replica, shared_end_offset


def has_batches(replica: DiskReplica) -> bool:
    """Whether a replica may have batches to merge."""
    return bool(replica.segment_fingerprints or replica.n_partly_read_logs)


def replica_logs(replica: DiskReplica) -> list[InputFile]:
    return [] if replica.listing is None else replica.listing.logs


def swap_logs(replica: DiskReplica) -> list[InputFile]:
    """The .swap logs: the broker may already have deleted the logs that they replace."""
    if replica.listing is None:
        return []
    files = map(replica.listing.input_file, replica.listing.regular_files)
    return [file for file in files if file.kind is LOG_KIND and is_swap_file(file)]


def replica_rank(replica: DiskReplica) -> tuple[int, int]:
    """Sort key of a replica: number of undamaged offsets, then log end offset."""
    return count_offsets(replica.undamaged_offsets), replica.log_end or 0


def iter_undecodable_intervals(
    scans: Sequence[ScannedLog], log_end_offset: int
) -> Iterator[OffsetInterval]:
    """The offsets between undamaged batches where a log has other batches, such as those that
    cannot be decompressed. log_end_offset: the log end offset of the last log."""
    for scan, next_scan in zip(scans, [*scans, None][1:], strict=True):
        batches = scan.undamaged_batches
        next_base_offset = (
            log_end_offset if next_scan is None else next_scan.undamaged_batches.base_offset
        )
        undecodable_positions = scan.header_positions[
            ~np.isin(scan.header_positions, batches.position)
        ]
        for next_batch_index in np.unique(
            np.searchsorted(batches.position, undecodable_positions)
        ).tolist():
            first_offset = (
                int(batches.last_offset[next_batch_index - 1]) + 1
                if next_batch_index
                else batches.base_offset
            )
            yield (
                first_offset,
                (
                    int(batches.first_offset[next_batch_index])
                    if next_batch_index < len(batches.first_offset)
                    else next_base_offset
                )
                - 1,
            )


def replica_start_offset(replica: DiskReplica, topic_partition: TopicAndPartition) -> int:
    """The first offset of a replica's logs, whether they can be read or not."""
    base_offsets = [log.base_offset_or_zero for log in replica_logs(replica)]
    return max(
        min(base_offsets, default=0),
        replica.directory.checkpoint_offset(LOG_START_CHECKPOINT, topic_partition),
    )


def iter_partly_read_interval(
    replica: DiskReplica, batches_by_log: Sequence[UndamagedBatches]
) -> Iterator[OffsetInterval]:
    """The offsets of a replica's last log, if only part of it can be read. batches_by_log: the
    undamaged batches of each log, in order."""
    fully_read_base_offsets = {base_offset for base_offset, *_ in replica.segment_fingerprints}
    for last_batches in batches_by_log[-1:]:
        if last_batches.base_offset not in fully_read_base_offsets and len(
            last_batches.last_offset
        ):
            yield last_batches.base_offset, int(last_batches.last_offset.max())


def replica_end_offset(replica: DiskReplica) -> int:
    """End of the offsets that a replica had: all below its high watermark existed."""
    return max(replica.log_end or 0, replica.high_watermark or 0)


def merged_directory_name(partition: PartitionComparison, replica: DiskReplica) -> str:
    """Name of the partition's directory, in the bytes that the replica's directory has."""
    assert replica.listing is not None
    name = partition_directory(replica.listing.path).name
    return name if format_display_name(name) == partition.name else partition.name


def epochs_and_contributions(
    arrangement: BatchArrangement,
    scans: Sequence[ScannedLog],
    replica_of_scan: Sequence[DiskReplica],
    is_compacted: bool,
) -> tuple[list[tuple[int, int]], list[MergeContribution]]:
    """The leader epochs of a merged log, each with its first offset, and the contribution of each
    replica. is_compacted: offsets between batches are not missing."""
    epochs_and_offsets: list[tuple[int, int]] = []
    contribution_by_replica: dict[DiskReplica, MergeContribution] = {}
    for _, batch_runs in arrangement.segments:
        for batch_run in batch_runs:
            replica = replica_of_scan[batch_run.log_index]
            contribution = contribution_by_replica.setdefault(replica, MergeContribution(replica))
            batches = scans[batch_run.log_index].undamaged_batches
            full_intervals = [(batch_run.first_offset, batch_run.last_offset)]
            contribution.offset_intervals += (
                full_intervals
                if is_compacted
                else batches.offset_intervals_in_bytes(batch_run.position, batch_run.size)
            )
            contribution.n_bytes += batch_run.size
            for epoch, offset in batches.epochs_in_byte_range(batch_run.position, batch_run.size):
                if epoch >= 0 and (not epochs_and_offsets or epoch > epochs_and_offsets[-1][0]):
                    epochs_and_offsets.append((epoch, offset))
    for contribution in contribution_by_replica.values():
        contribution.offset_intervals = merge_intervals(contribution.offset_intervals)
    return epochs_and_offsets, list(contribution_by_replica.values())
