"""A stopped cluster as found on its disks: its nodes, and its partitions with their replicas
compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kfmt_cli.broker.metadata.cluster_image import ClusterImage, PartitionRegistration
from kfmt_cli.broker.state.unfinished_transactions import UnfinishedTransaction
from kfmt_cli.commands.replicas.branches import ReplicaBranches
from kfmt_cli.commands.replicas.nodes import ClusterNode, DiskReplica, TopicAndPartition
from kfmt_cli.commands.replicas.start_orders import OutcomePredictor, PartitionOutcome, StartOrder


@dataclass(slots=True)
class PartitionComparison:
    """A partition of the cluster, its replicas compared."""

    topic_partition: TopicAndPartition
    replicas: list[DiskReplica]
    replica_branches: ReplicaBranches
    registration: PartitionRegistration | None = None
    outcomes: list[PartitionOutcome] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    is_compared: bool = True
    """False if a log failed while it was compared: nothing else is known then."""

    @property
    def name(self) -> str:
        """The name of its directories."""
        return "{}-{}".format(*self.topic_partition)

    @property
    def verdict(self) -> str:
        """How its replicas relate, the worst first."""
        adding_replicas = () if self.registration is None else self.registration.adding_replicas
        replicas = [
            replica
            for replica in self.replicas
            if replica.listing is not None or replica.broker_id not in adding_replicas
        ]
        if not self.is_compared:
            return "unread"
        if any(replica.is_excluded and not replica.is_tiered for replica in replicas):
            return "foreign"
        if len(self.replica_branches.branches) > 1:
            return "diverged"
        if any(replica.damaged_offsets for replica in replicas):
            return "damaged"
        if any(not replica.log_end for replica in replicas):
            return "empty" if self.replica_branches.newest_branch_offsets else "identical"
        max_log_end = max((replica.log_end or 0 for replica in replicas), default=0)
        # Tiered storage has closed segments only: it ends before the brokers' logs.
        broker_replicas = [replica for replica in replicas if not replica.is_tiered] or replicas
        return (
            "behind"
            if any(replica.log_end != max_log_end for replica in broker_replicas)
            else "identical"
        )

    @property
    def needs_decision(self) -> bool:
        """Whether it matters which broker starts first."""
        return self.verdict != "identical" or any(
            outcome.lost_offsets or outcome.is_offline or outcome.returning_offsets
            for outcome in self.outcomes
        )

    @property
    def rank(self) -> tuple[int, int, TopicAndPartition]:
        """Sort key: worse ones first."""
        max_lost_offsets = max((outcome.n_lost_offsets for outcome in self.outcomes), default=0)
        return -max_lost_offsets, -len(self.replica_branches.branches), self.topic_partition


@dataclass(slots=True)
class OfflineCluster:
    """A stopped cluster, as found on its disks. metadata_node: the node whose metadata log is used,
    None if there is no metadata log. evidence: sentences about the nodes."""

    nodes: list[ClusterNode]
    partitions: list[PartitionComparison]
    predictor: OutcomePredictor | None
    metadata_node: ClusterNode | None
    orders: list[StartOrder]
    evidence: list[str]
    unfinished_transactions: list[UnfinishedTransaction] = field(default_factory=list)
    """Those of coordinators that may be elected."""

    @property
    def cluster_image(self) -> ClusterImage | None:
        """The cluster that the metadata describes."""
        return None if self.metadata_node is None else self.metadata_node.cluster_image

    @property
    def missing_broker_ids(self) -> list[int]:
        """The registered brokers without an admitted directory among the named ones."""
        admitted_ids = {node.node_id for node in self.nodes if node.rejection_reason is None}
        return (
            sorted(set(self.cluster_image.broker_by_node_id) - admitted_ids)
            if self.cluster_image is not None
            else []
        )

    @property
    def newest_metadata_recency(self) -> tuple[int, int]:
        """The `recency_key` of the newest metadata log of the cluster."""
        same_cluster_nodes = (
            node
            for node in self.nodes
            if self.metadata_node and node.cluster_id == self.metadata_node.cluster_id
        )
        return max(map(metadata_recency_key, same_cluster_nodes), default=(-1, 0))


def metadata_recency_key(node: ClusterNode) -> tuple[int, int]:
    """Sort key of a node's metadata log: the newest is the largest."""
    return (-1, 0) if node.cluster_image is None else node.cluster_image.recency_key


def is_controller(node: ClusterNode, nodes: Sequence[ClusterNode]) -> bool:
    """Whether a node is a controller, by the voters that any metadata log of its cluster names."""
    for other in (node, *nodes):
        if (
            other.cluster_image is not None
            and other.cluster_id == node.cluster_id
            and other.cluster_image.voter_ids
        ):
            return node.node_id in other.cluster_image.voter_ids
    return (
        node.cluster_image is not None and node.node_id not in node.cluster_image.broker_by_node_id
    )
