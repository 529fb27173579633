"""replicas: evidence that a disk has lost data: states that no healthy cluster leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kfmt_cli.broker.cluster.cluster_image import PartitionRegistration
from kfmt_cli.broker.cluster.election import NO_LEADER, PartitionLeadership
from kfmt_cli.commands.replicas.branches import ReplicaBranches
from kfmt_cli.commands.replicas.nodes import DiskReplica, replica_by_broker
from kfmt_cli.commands.replicas.start_orders import OutcomePredictor


def find_evidence(
    metadata: PartitionRegistration,
    replicas: Sequence[DiskReplica],
    branches: ReplicaBranches,
    predictor: OutcomePredictor,
) -> list[str]:
    """Sentences about the evidence of lost data in a partition."""
    sentences = [
        *_truncated_leaders(metadata.leadership, replicas, branches),
        *_below_watermarks(metadata.leadership, replicas),
        *_missing_directories(replicas),
        *_lost_epochs(metadata, replicas),
        *_other_topics(metadata, replicas),
    ]
    sentences += [
        f"the metadata assigns broker {node}'s replica to a log directory that the broker does not "
        "have: its disk was replaced, or a directory was not given"
        for node in sorted(predictor.brokers_without_directory(metadata))
    ]
    return list(dict.fromkeys(sentences))


def _truncated_leaders(
    leadership: PartitionLeadership, replicas: Sequence[DiskReplica], branches: ReplicaBranches
) -> Iterator[str]:
    """Last leaders and last ISR members that end below another replica of their branch."""
    role_by_broker = (
        {leadership.leader: "was the last leader"} if leadership.leader != NO_LEADER else {}
    )
    if len(leadership.isr) == 1:
        role_by_broker.setdefault(leadership.isr[0], "was the last in the ISR")
    for node in leadership.last_known:
        role_by_broker.setdefault(node, "was the last known leader")
    for replica in replicas:
        if (
            replica.broker_id not in role_by_broker
            or replica.is_set_aside
            or not replica.is_end_known
        ):
            continue
        own_end = replica.log_end or 0
        diverged_at = branches.divergence_offset(replica)
        same_branch_replicas = [
            other
            for other in replicas
            if other is not replica
            and not other.is_set_aside
            and branches.divergence_offset(other) == diverged_at
        ]
        longest_replica = max(
            same_branch_replicas, key=lambda other: other.log_end or 0, default=None
        )
        if longest_replica is not None and (longest_replica.log_end or 0) > own_end:
            yield (
                f"{replica.owner} {role_by_broker[replica.broker_id]}, but its log ends at "
                f"{own_end} and {longest_replica.owner}'s at {longest_replica.log_end}: its last "
                "records are lost, or its disk is new or an old copy"
            )


def _below_watermarks(
    leadership: PartitionLeadership, replicas: Sequence[DiskReplica]
) -> Iterator[str]:
    """Replicas that end below their own high watermark, or in the ISR below another replica's."""
    for replica in replicas:
        if replica.is_set_aside or not replica.is_end_known:
            continue
        other_watermarks = (other.high_watermark or 0 for other in replicas if other is not replica)
        max_other_watermark = max(other_watermarks, default=0)
        own_end, own_watermark = replica.log_end or 0, replica.high_watermark or 0
        if own_end < own_watermark and replica.listing is not None:
            yield (
                f"the log of {replica.owner} ends at {own_end}, below its own high watermark, "
                f"{own_watermark}: it has lost offsets"
            )
        elif replica.broker_id in leadership.isr and own_end < max_other_watermark:
            yield (
                f"{replica.owner} is in the ISR, but its log ends at {own_end}, below the high "
                f"watermark of another replica, {max_other_watermark}"
            )


def _missing_directories(replicas: Sequence[DiskReplica]) -> Iterator[str]:
    for replica in replicas:
        if replica.listing is None:
            yield f"{replica.owner} has no directory for the partition"


def _lost_epochs(metadata: PartitionRegistration, replicas: Sequence[DiskReplica]) -> Iterator[str]:
    """Replicas with batches of the last leader's epoch, if its own log has none."""
    leader, epoch = metadata.leadership.leader, metadata.leader_epoch
    leader_replica = replica_by_broker(replicas).get(leader)
    if (
        leader_replica is None
        or leader_replica.is_set_aside
        or (leader_replica.latest_epoch or 0) >= epoch
    ):
        return
    for replica in replicas:
        if (
            replica is not leader_replica
            and replica.latest_epoch == epoch
            and not replica.is_set_aside
        ):
            yield (
                f"{replica.owner} has batches of leader epoch {epoch}, but that epoch's leader, "
                f"broker {leader}, has none"
            )


def _other_topics(
    metadata: PartitionRegistration, replicas: Sequence[DiskReplica]
) -> Iterator[str]:
    for replica in replicas:
        if replica.topic_id not in (None, metadata.topic_id):
            consequence = "the broker renames the directory to -stray"
            if replica.is_tiered:
                consequence = (
                    "it is the tiered storage of another topic of this name, and is not used"
                )
            yield (
                f"the replica of {replica.owner} has topic id {replica.topic_id}, but the "
                f"metadata has {metadata.topic_id}: {consequence}"
            )
