"""replicas: the outcome of each order of starts for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

from kfmt_cli.broker.cluster.cluster_image import ClusterImage, PartitionRegistration
from kfmt_cli.broker.cluster.election import (
    NO_LEADER,
    ClusterBrokers,
    ElectionResult,
    ElectionRules,
    PartitionLeadership,
    StartStage,
    possible_leaders,
)
from kfmt_cli.broker.cluster.fencing_order import fencing_order
from kfmt_cli.broker.start.offset_intervals import (
    OffsetIntervals,
    count_offsets,
    intersect_intervals,
)
from kfmt_cli.commands.replicas.branches import ReplicaBranches
from kfmt_cli.commands.replicas.nodes import ClusterNode, DiskReplica, replica_by_broker
from kfmt_cli.errors import UsageError

_MIN_FENCING_LEVEL = 22  # the first feature level of Kafka 4.0
_RESERVED_DIRECTORY_IDS = frozenset(
    {"AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"}
)


@dataclass(frozen=True, slots=True)
class StartOrder:
    """The stages of an order of starts. text: the order as the user wrote it."""

    text: str
    stages: tuple[StartStage, ...]

    @property
    def nodes(self) -> tuple[int, ...]:
        """The brokers, in order."""
        return tuple(node for stage in self.stages for node in stage.nodes)

    @property
    def has_unclean_election(self) -> bool:
        """Whether it includes an unclean election."""
        return any(stage.ends_with_election for stage in self.stages)

    @property
    def json_value(self) -> list[int] | str:
        """The ids of brokers started in turn, or the text."""
        is_sequential = not self.has_unclean_election and all(
            len(stage.nodes) == 1 for stage in self.stages
        )
        return list(self.nodes) if is_sequential else self.text


def parse_order(text: str, node_ids: Set[int]) -> StartOrder:
    """An order such as `1,2,3`, `2!,3,1` or `1+2,3`; raises UsageError."""
    hint = "write broker ids as in 1,2,3 (in turn), 1+2+3 (together), 2!,1 (an unclean election)"
    stages: list[StartStage] = []
    for stage_text in text.replace(" ", "").split(","):
        id_texts = stage_text.removesuffix("!").split("+")
        if not all(id_text.isdecimal() for id_text in id_texts):
            raise UsageError(f"--order {text}: {stage_text!r} is not a valid stage; {hint}")
        nodes = tuple(map(int, id_texts))
        for node in nodes:
            if node not in node_ids:
                known_text = ", ".join(map(str, sorted(node_ids))) or "none"
                hint = f"the given directories belong to brokers {known_text}"
                raise UsageError(f"--order {text}: no directory of broker {node}; {hint}")
        stages.append(StartStage(nodes, stage_text.endswith("!")))
    order = StartOrder(text, tuple(stages))
    if len(set(order.nodes)) < len(order.nodes):
        raise UsageError(f"--order {text}: a broker is named twice")
    return order


def default_orders(nodes: Sequence[int]) -> Iterator[str]:
    """The default orders: each broker first, the others after it in turn; then all together."""
    for i in range(len(nodes)):
        yield ",".join(map(str, (*nodes[i:], *nodes[:i])))
    if len(nodes) > 1:
        yield "+".join(map(str, nodes))


@dataclass(slots=True)
class PartitionOutcome:
    """The outcome of a start order for a partition; by default, it has no leader."""

    order: StartOrder
    elections: list[ElectionResult] = field(default_factory=lambda: [ElectionResult(NO_LEADER)])
    leaders: Sequence[DiskReplica | None] = (None,)
    """The replica of each possible leader."""
    lost_offsets: OffsetIntervals = field(default_factory=list)
    lost_acknowledged_offsets: OffsetIntervals = field(default_factory=list)
    returning_offsets: OffsetIntervals = field(default_factory=list)

    @property
    def is_certain(self) -> bool:
        """Whether there is only one possible leader."""
        return len(self.elections) == 1

    @property
    def leader(self) -> int | None:
        """The leader; None if the partition is offline or the leader is uncertain."""
        leader = self.elections[0].leader
        return leader if self.is_certain and leader != NO_LEADER else None

    @property
    def log_end_offsets(self) -> list[int | None]:
        """The log end offset with each possible leader, None for offline."""
        return [
            None if election.leader == NO_LEADER else _log_end_after(replica)
            for election, replica in zip(self.elections, self.leaders, strict=True)
        ]

    @property
    def log_end_offset(self) -> int | None:
        """The log end offset; None if the partition is offline or the offset is uncertain."""
        end_offsets = set(self.log_end_offsets)
        return next(iter(end_offsets)) if len(end_offsets) == 1 else None

    @property
    def is_offline(self) -> bool:
        """Whether the partition may stay offline."""
        return None in self.log_end_offsets

    @property
    def n_lost(self) -> int:
        """The number of offsets that are lost at worst."""
        return count_offsets(self.lost_offsets)


def _log_end_after(replica: DiskReplica | None) -> int | None:
    if replica is None or replica.is_set_aside:
        return 0
    return replica.log_end_after


@dataclass
class OutcomePredictor:
    """Predicts the outcomes of start orders in a cluster whose metadata is known."""

    image: ClusterImage
    nodes: list[ClusterNode]
    """The brokers that are admitted."""
    _results_by_key: dict[object, list[ElectionResult]] = field(default_factory=dict)

    @cached_property
    def broker_ids(self) -> list[int]:
        """The ids of the brokers."""
        return sorted({node.node_id for node in self.nodes if node.node_id is not None})

    @cached_property
    def cluster_brokers(self) -> ClusterBrokers:
        """The state of the brokers that elections depend on."""
        image = self.image
        epoch_by_broker = {broker.node_id: broker.epoch for broker in image.brokers.values()}
        unfenced_ids = [broker.node_id for broker in image.brokers.values() if not broker.is_fenced]
        expiring_ids = fencing_order(
            list(epoch_by_broker.items()), unfenced_ids, feature_level=image.metadata_version_level
        )
        clean_epoch_by_broker = {node.node_id: node.clean_shutdown_epoch() for node in self.nodes}
        cleanly_stopped = frozenset(
            node
            for node, epoch in epoch_by_broker.items()
            if clean_epoch_by_broker.get(node) == epoch
        )
        voters = image.voters if image.voters & set(image.brokers) else frozenset()
        rules = ElectionRules(
            image.has_elr, image.metadata_version_level >= _MIN_FENCING_LEVEL, voters
        )
        return ClusterBrokers(cleanly_stopped, tuple(expiring_ids), rules)

    def iter_outcomes(
        self,
        partition: PartitionRegistration,
        replicas: Sequence[DiskReplica],
        branches: ReplicaBranches,
        orders: Iterable[StartOrder],
    ) -> Iterator[PartitionOutcome]:
        """The outcome of each order for a partition."""
        offline_directory_nodes = self.brokers_without_directory(partition)
        replica_by_id = replica_by_broker(replicas)
        watermarks = [replica.high_watermark or 0 for replica in replica_by_id.values()]
        for order in orders:
            elections = self._elect_leaders(partition.leadership, offline_directory_nodes, order)
            leaders = [replica_by_id.get(election.leader) for election in elections]
            outcome = PartitionOutcome(order, elections, leaders)
            worst_losses = self._worst_losses(outcome, branches)
            if worst_losses is not None:
                outcome.lost_offsets, outcome.returning_offsets = worst_losses
                below_watermark = [(0, max(watermarks, default=0) - 1)]
                outcome.lost_acknowledged_offsets = intersect_intervals(
                    outcome.lost_offsets, below_watermark
                )
            yield outcome

    def _worst_losses(
        self, outcome: PartitionOutcome, branches: ReplicaBranches
    ) -> tuple[OffsetIntervals, OffsetIntervals] | None:
        """The lost and the returning offsets with the worst leader; None without any leader."""
        losses = [
            (branches.offsets_lost_with(replica), branches.offsets_returning_with(replica))
            for election, replica in zip(outcome.elections, outcome.leaders, strict=True)
            if election.leader != NO_LEADER
        ]
        return max(losses, key=lambda pair: count_offsets(pair[0]), default=None)

    def _elect_leaders(
        self,
        leadership: PartitionLeadership,
        offline_directory_nodes: frozenset[int],
        order: StartOrder,
    ) -> list[ElectionResult]:
        cache_key = leadership, offline_directory_nodes, order.text
        if cache_key not in self._results_by_key:
            stages = []
            for stage in order.stages:
                nodes = tuple(node for node in stage.nodes if node in self.broker_ids)
                if nodes:
                    stages.append(StartStage(nodes, stage.ends_with_election))
            self._results_by_key[cache_key] = possible_leaders(
                self.cluster_brokers, leadership, offline_directory_nodes, stages
            )
        return self._results_by_key[cache_key]

    def brokers_without_directory(self, partition: PartitionRegistration) -> frozenset[int]:
        """The brokers without the log directory that the metadata assigns to their replica."""
        directory_ids_by_broker = {node.node_id: node.directory_ids for node in self.nodes}
        pairs = zip(partition.leadership.replicas, partition.directory_ids, strict=False)
        return frozenset(
            broker_id
            for broker_id, directory_id in pairs
            if directory_id not in _RESERVED_DIRECTORY_IDS
            and directory_id not in directory_ids_by_broker.get(broker_id, {directory_id})
        )
