"""replicas: the outcome of each order of starts for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from kfmt_cli.broker.cluster.election import (
    ClusterBrokers,
    ElectionResult,
    ElectionRules,
    StartStage,
    predict_fencing_order,
    predict_possible_leaders,
)
from kfmt_cli.broker.log_reading.offset_intervals import (
    OffsetIntervals,
    count_offsets,
    intersect_intervals,
)
from kfmt_cli.broker.metadata.cluster_image import (
    NO_LEADER,
    ClusterImage,
    PartitionLeadership,
    PartitionRegistration,
)
from kfmt_cli.commands.replicas.branches import ReplicaBranches
from kfmt_cli.commands.replicas.nodes import ClusterNode, DiskReplica, replica_by_broker
from kfmt_cli.core.integers import parse_int
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
        numbers = map(parse_int, stage_text.removesuffix("!").split("+"))
        stage_broker_ids = tuple(-1 if number is None else number for number in numbers)
        if min(stage_broker_ids) < 0:
            raise UsageError(f"--order {text}: {stage_text!r} is not a valid stage; {hint}")
        for broker_id in stage_broker_ids:
            if broker_id not in node_ids:
                known_ids_text = ", ".join(map(str, sorted(node_ids))) or "none"
                hint = f"the given directories belong to brokers {known_ids_text}"
                raise UsageError(f"--order {text}: no directory of broker {broker_id}; {hint}")
        stages.append(StartStage(stage_broker_ids, stage_text.endswith("!")))
    order = StartOrder(text, tuple(stages))
    if len(set(order.nodes)) < len(order.nodes):
        raise UsageError(f"--order {text}: a broker is named twice")
    return order


def default_order_texts(broker_ids: Sequence[int]) -> Iterator[str]:
    """The default orders: each broker first, the others after it in turn; then all together."""
    for i in range(len(broker_ids)):
        yield ",".join(map(str, (*broker_ids[i:], *broker_ids[:i])))
    if len(broker_ids) > 1:
        yield "+".join(map(str, broker_ids))


@dataclass(slots=True)
class PartitionOutcome:
    """The outcome of a start order for a partition; by default, it has no leader."""

    order: StartOrder
    elections: list[ElectionResult] = field(default_factory=lambda: [ElectionResult(NO_LEADER)])
    leader_replicas: Sequence[DiskReplica | None] = (None,)
    """The replica of each possible leader."""
    lost_offsets: OffsetIntervals = field(default_factory=list)
    lost_acknowledged_offsets: OffsetIntervals = field(default_factory=list)
    returning_offsets: OffsetIntervals = field(default_factory=list)
    n_appended: int = 0
    """Number of records that transaction coordinators append after the start."""
    possibly_appended: Sequence[int] = ()
    """More of them, of each transaction whose end depends on time or on who leads."""

    @property
    def is_certain(self) -> bool:
        """Whether there is only one possible leader, and one log end offset."""
        return len(self.elections) == 1 and (self.is_offline or not self.possibly_appended)

    @property
    def leader(self) -> int | None:
        """The leader; None if the partition is offline or the leader is uncertain."""
        leader_id = self.elections[0].leader
        return leader_id if len(self.elections) == 1 and leader_id != NO_LEADER else None

    @property
    def possible_ends(self) -> list[tuple[int, int | None]]:
        """Each possible leader with its log end offset, None for offline; one entry per possible
        number of records that coordinators append."""
        ends: list[tuple[int, int | None]] = []
        for election, replica in zip(self.elections, self.leader_replicas, strict=True):
            log_end = None if election.leader == NO_LEADER else _predicted_log_end(replica)
            if log_end is None:
                ends.append((election.leader, None))
                continue
            log_ends = [*accumulate(self.possibly_appended, initial=log_end + self.n_appended)]
            ends += [(election.leader, end) for end in log_ends]
        return ends

    @property
    def log_end_offsets(self) -> list[int | None]:
        """The log end offset of each possible end, None for offline."""
        return [log_end for _, log_end in self.possible_ends]

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
    def n_lost_offsets(self) -> int:
        """The number of offsets that are lost at worst."""
        return count_offsets(self.lost_offsets)


def _predicted_log_end(replica: DiskReplica | None) -> int | None:
    if replica is None or replica.is_excluded:
        return 0
    return replica.predicted_log_end


@dataclass
class OutcomePredictor:
    """Predicts the outcomes of start orders in a cluster whose metadata is known."""

    cluster_image: ClusterImage
    admitted_nodes: list[ClusterNode]
    """The brokers that are admitted."""
    _elections_by_key: dict[object, list[ElectionResult]] = field(default_factory=dict)

    @cached_property
    def broker_ids(self) -> list[int]:
        """The ids of the brokers."""
        return sorted({node.node_id for node in self.admitted_nodes if node.node_id is not None})

    @cached_property
    def cluster_brokers(self) -> ClusterBrokers:
        """The state of the brokers that elections depend on."""
        cluster_image = self.cluster_image
        epoch_by_broker = {
            broker.node_id: broker.epoch for broker in cluster_image.broker_by_node_id.values()
        }
        unfenced_ids = [
            broker.node_id
            for broker in cluster_image.broker_by_node_id.values()
            if not broker.is_fenced
        ]
        ids_in_fencing_order = predict_fencing_order(
            list(epoch_by_broker.items()),
            unfenced_ids,
            feature_level=cluster_image.metadata_version_level,
        )
        shutdown_epoch_by_broker = {
            node.node_id: node.read_clean_shutdown_epoch() for node in self.admitted_nodes
        }
        cleanly_stopped_ids = frozenset(
            node
            for node, epoch in epoch_by_broker.items()
            if shutdown_epoch_by_broker.get(node) == epoch
        )
        voter_ids = (
            cluster_image.voter_ids
            if cluster_image.voter_ids & set(cluster_image.broker_by_node_id)
            else frozenset()
        )
        election_rules = ElectionRules(
            cluster_image.is_elr_enabled,
            cluster_image.metadata_version_level >= _MIN_FENCING_LEVEL,
            voter_ids,
        )
        return ClusterBrokers(cleanly_stopped_ids, tuple(ids_in_fencing_order), election_rules)

    def iter_outcomes(
        self,
        registration: PartitionRegistration,
        replicas: Sequence[DiskReplica],
        branches: ReplicaBranches,
        orders: Iterable[StartOrder],
    ) -> Iterator[PartitionOutcome]:
        """The outcome of each order for a partition."""
        offline_directory_nodes = self.brokers_without_directory(registration)
        replica_by_broker_id = replica_by_broker(replicas)
        high_watermarks = [replica.high_watermark or 0 for replica in replica_by_broker_id.values()]
        for order in orders:
            elections = self._elect_leaders(registration.leadership, offline_directory_nodes, order)
            leader_replicas = [replica_by_broker_id.get(election.leader) for election in elections]
            started_nodes = set(order.nodes).intersection(self.broker_ids)
            for election, replica in list(zip(elections, leader_replicas, strict=True)):
                next_leader = registration.next_leader(election.leader, started_nodes)
                if next_leader not in (result.leader for result in elections):
                    # It has caught up with the leader before: their logs are the same.
                    elections = [*elections, ElectionResult(next_leader, "isr")]
                    leader_replicas.append(replica)
            outcome = PartitionOutcome(order, elections, leader_replicas)
            worst_losses = self._find_worst_losses(outcome, branches)
            if worst_losses is not None:
                outcome.lost_offsets, outcome.returning_offsets = worst_losses
                acknowledged_interval = [(0, max(high_watermarks, default=0) - 1)]
                outcome.lost_acknowledged_offsets = intersect_intervals(
                    outcome.lost_offsets, acknowledged_interval
                )
            yield outcome

    def _find_worst_losses(
        self, outcome: PartitionOutcome, branches: ReplicaBranches
    ) -> tuple[OffsetIntervals, OffsetIntervals] | None:
        """The lost and the returning offsets with the worst leader; None without any leader."""
        losses = [
            (
                branches.offsets_lost_with(leader_replica),
                branches.offsets_returning_with(leader_replica),
            )
            for election, leader_replica in zip(
                outcome.elections, outcome.leader_replicas, strict=True
            )
            if election.leader != NO_LEADER
        ]
        return max(
            losses,
            key=lambda lost_and_returning: count_offsets(lost_and_returning[0]),
            default=None,
        )

    def _elect_leaders(
        self,
        leadership: PartitionLeadership,
        offline_directory_nodes: frozenset[int],
        order: StartOrder,
    ) -> list[ElectionResult]:
        cache_key = leadership, offline_directory_nodes, order.text
        if cache_key not in self._elections_by_key:
            stages = []
            for stage in order.stages:
                stage_broker_ids = tuple(
                    broker_id for broker_id in stage.nodes if broker_id in self.broker_ids
                )
                if stage_broker_ids:
                    stages.append(StartStage(stage_broker_ids, stage.ends_with_election))
            self._elections_by_key[cache_key] = predict_possible_leaders(
                self.cluster_brokers, leadership, offline_directory_nodes, stages
            )
        return self._elections_by_key[cache_key]

    def brokers_without_directory(self, registration: PartitionRegistration) -> frozenset[int]:
        """The brokers without the log directory that the metadata assigns to their replica."""
        directory_ids_by_broker = {node.node_id: node.directory_ids for node in self.admitted_nodes}
        brokers_and_directories = zip(
            registration.leadership.replicas, registration.directory_ids, strict=False
        )
        return frozenset(
            broker_id
            for broker_id, directory_id in brokers_and_directories
            if directory_id not in _RESERVED_DIRECTORY_IDS
            and directory_id not in directory_ids_by_broker.get(broker_id, {directory_id})
        )
