"""replicas: evidence that a disk has lost data: states that no healthy cluster leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kfmt_cli.broker.metadata.cluster_image import (
    NO_LEADER,
    PartitionLeadership,
    PartitionRegistration,
)
from kfmt_cli.commands.replicas.branches import ReplicaBranches
from kfmt_cli.commands.replicas.nodes import DiskReplica, replica_by_broker
from kfmt_cli.commands.replicas.start_orders import OutcomePredictor


def find_evidence(
    registration: PartitionRegistration,
    replicas: Sequence[DiskReplica],
    branches: ReplicaBranches,
    predictor: OutcomePredictor,
) -> list[str]:
    """Sentences about the evidence of lost data in a partition."""
    sentences = [
        *_describe_truncated_leaders(registration.leadership, replicas, branches),
        *_describe_ends_below_watermark(registration.leadership, replicas),
        *_describe_missing_directories(registration, replicas),
        *_describe_lost_epochs(registration, replicas),
        *_describe_other_topic_ids(registration, replicas),
    ]
    sentences += [
        f"the metadata assigns broker {broker_id}'s replica to a log directory that the broker "
        "does not "
        "have: its disk was replaced, or a directory was not given"
        for broker_id in sorted(predictor.brokers_without_directory(registration))
    ]
    return list(dict.fromkeys(sentences))


def _describe_truncated_leaders(
    leadership: PartitionLeadership, replicas: Sequence[DiskReplica], branches: ReplicaBranches
) -> Iterator[str]:
    """Last leaders and last ISR members that end below another replica of their branch."""
    role_by_broker = (
        {leadership.leader: "was the last leader"} if leadership.leader != NO_LEADER else {}
    )
    if len(leadership.isr) == 1:
        role_by_broker.setdefault(leadership.isr[0], "was the last in the ISR")
    for broker_id in leadership.last_known:
        role_by_broker.setdefault(broker_id, "was the last known leader")
    for replica in replicas:
        if (
            replica.broker_id not in role_by_broker
            or replica.is_excluded
            or not replica.is_log_end_known
        ):
            continue
        own_log_end = replica.log_end or 0
        divergence_offset = branches.divergence_offset(replica)
        same_branch_replicas = [
            other
            for other in replicas
            if other is not replica
            and not other.is_excluded
            and branches.divergence_offset(other) == divergence_offset
        ]
        longest_replica = max(
            same_branch_replicas, key=lambda other: other.log_end or 0, default=None
        )
        if longest_replica is not None and (longest_replica.log_end or 0) > own_log_end:
            yield (
                f"{replica.owner_name} {role_by_broker[replica.broker_id]}, but its log ends at "
                f"{own_log_end} and {longest_replica.owner_name}'s at "
                f"{longest_replica.log_end}: its last "
                "records are lost, or its disk is new or an old copy"
            )


def _describe_ends_below_watermark(
    leadership: PartitionLeadership, replicas: Sequence[DiskReplica]
) -> Iterator[str]:
    """Replicas that end below their own high watermark, or in the ISR below another replica's."""
    for replica in replicas:
        if replica.is_excluded or not replica.is_log_end_known:
            continue
        other_watermarks = (other.high_watermark or 0 for other in replicas if other is not replica)
        max_other_watermark = max(other_watermarks, default=0)
        own_log_end, own_watermark = replica.log_end or 0, replica.high_watermark or 0
        if own_log_end < own_watermark and replica.listing is not None:
            yield (
                f"the log of {replica.owner_name} ends at {own_log_end}, below its own high "
                "watermark, "
                f"{own_watermark}: it has lost offsets"
            )
        elif replica.broker_id in leadership.isr and own_log_end < max_other_watermark:
            yield (
                f"{replica.owner_name} is in the ISR, but its log ends at {own_log_end}, below "
                "the high "
                f"watermark of another replica, {max_other_watermark}"
            )


def _describe_missing_directories(
    registration: PartitionRegistration, replicas: Sequence[DiskReplica]
) -> Iterator[str]:
    """Missing directories, except of replicas that a reassignment adds."""
    for replica in replicas:
        if replica.listing is None and replica.broker_id not in registration.adding_replicas:
            yield f"{replica.owner_name} has no directory for the partition"


def _describe_lost_epochs(
    registration: PartitionRegistration, replicas: Sequence[DiskReplica]
) -> Iterator[str]:
    """Replicas with batches of the last leader's epoch, if its own log has none."""
    leader_id, leader_epoch = registration.leadership.leader, registration.leader_epoch
    leader_replica = replica_by_broker(replicas).get(leader_id)
    if (
        leader_replica is None
        or leader_replica.is_excluded
        or (leader_replica.latest_epoch or 0) >= leader_epoch
    ):
        return
    for replica in replicas:
        if (
            replica is not leader_replica
            and replica.latest_epoch == leader_epoch
            and not replica.is_excluded
        ):
            yield (
                f"{replica.owner_name} has batches of leader epoch {leader_epoch}, but that "
                "epoch's leader, "
                f"broker {leader_id}, has none"
            )


def _describe_other_topic_ids(
    registration: PartitionRegistration, replicas: Sequence[DiskReplica]
) -> Iterator[str]:
    for replica in replicas:
        if replica.topic_id not in (None, registration.topic_id):
            consequence = "the broker renames the directory to -stray"
            if replica.is_tiered:
                consequence = (
                    "it is the tiered storage of another topic of this name, and is not used"
                )
            yield (
                f"the replica of {replica.owner_name} has topic id {replica.topic_id}, but the "
                f"metadata has {registration.topic_id}: {consequence}"
            )
