"""The leader of a partition after the brokers of a dead cluster have started in some order.

A controller elects by the in-sync replicas, the eligible leader replicas and the order of the
replicas. It does not consider the length, the leader epochs or the damage of the logs.
When it becomes active, it gives every broker that the metadata calls unfenced a new session. If
none of them is back in time, all expire at once, and are fenced in the order of a hash table.

Source: `org.apache.kafka.controller.PartitionChangeBuilder` (`electAnyLeader`, `build`),
`ReplicationControlManager` (`handleBrokerUnfenced`, `handleBrokerFenced`, `handleBrokerShutdown`,
`handleAssignReplicasToDirs`), `ClusterControlManager` (`registerBroker`, `activate`),
`BrokerHeartbeatManager` (until 3.9: `BrokerHeartbeatStateList`; since 4.0
`BrokerHeartbeatTracker`), `org.apache.kafka.timeline.BaseHashTable`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from kfmt_cli.broker.metadata.cluster_image import NO_LEADER, PartitionLeadership

MAX_PERMUTED_BROKERS = 4  # brokers whose orders within a stage are all tried
_FIBONACCI_MULTIPLIER = -7046029254386353131
_UINT64_MASK = (1 << 64) - 1
_LOAD_FACTOR = 0.75
_INITIAL_BINS = 16  # of a new java.util.concurrent.ConcurrentHashMap
# The first levels of 4.0, which tracks sessions by id and broker epoch, and of 4.2, which hashes
# them differently.
_TRACKER_FEATURE_LEVEL, _RECORD_FEATURE_LEVEL = 22, 28


@dataclass(frozen=True, slots=True)
class StartStage:
    """Brokers that are started at the same time."""

    nodes: tuple[int, ...]
    ends_with_election: bool = False
    """Whether an unclean election of all partitions follows once they have started."""


@dataclass(frozen=True, slots=True)
class ElectionRules:
    """The election rules that differ between clusters."""

    is_elr_enabled: bool = False
    fences_before_registration: bool = False
    """Whether the controller fences expired brokers even if no broker has registered: since 4.0."""
    voters: frozenset[int] = frozenset()
    """The controllers, if brokers are among them; no election until a majority has started."""


@dataclass(frozen=True, slots=True)
class ClusterBrokers:
    """The brokers of a dead cluster."""

    cleanly_stopped: frozenset[int]
    """Brokers whose `.kafka_cleanshutdown` has the broker epoch of the metadata."""
    fencing_order: tuple[int, ...]
    """Brokers that are unfenced in the metadata, in the order in which their sessions expire."""
    rules: ElectionRules


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The leader after brokers have started in an order; NO_LEADER if none can be elected."""

    leader: int
    elected_from: str | None = None


class _ElectionSimulation:
    """The start of a cluster, seen from one partition.

    unfenced_nodes: the unfenced brokers. stale_nodes: brokers whose session from before has not
    expired yet.
    """

    def __init__(
        self,
        cluster_brokers: ClusterBrokers,
        leadership: PartitionLeadership,
        offline_directory_nodes: frozenset[int],
    ) -> None:
        self.cluster_brokers, self.leadership = cluster_brokers, leadership
        self.offline_directory_nodes = set(offline_directory_nodes)
        self.unfenced_nodes = set(cluster_brokers.fencing_order)
        self.stale_nodes = list(cluster_brokers.fencing_order)

    def is_acceptable_leader(self, node: int) -> bool:
        return node in self.unfenced_nodes and node not in self.offline_directory_nodes

    def register(self, node: int) -> None:
        """Register a broker, fenced at first. With ELR, its replica leaves ISR and ELR after an
        unclean shutdown."""
        self.unfenced_nodes.discard(node)
        if node in self.stale_nodes:
            self.stale_nodes.remove(node)
        if (
            self.cluster_brokers.rules.is_elr_enabled
            and node not in self.cluster_brokers.cleanly_stopped
        ):
            leadership = self.leadership
            if node in leadership.isr or node in leadership.elr:
                self._change_isr_and_elect(
                    tuple(isr_node for isr_node in leadership.isr if isr_node != node),
                    removed_node=node,
                )

    def move(self, node: int) -> None:
        """Assign a replica to a directory that its broker's old registration lacks, as the broker
        does while it waits for its session to expire. The replica leaves the ISR, unless it is the
        last one."""
        if node in self.offline_directory_nodes and node in self.stale_nodes:
            isr = tuple(isr_node for isr_node in self.leadership.isr if isr_node != node)
            if isr and isr != self.leadership.isr:
                self._change_isr_and_elect(isr)
            self.offline_directory_nodes.discard(node)

    def unfence(self, node: int) -> None:
        """Unfence a broker, and elect a leader if there is none."""
        self.unfenced_nodes.add(node)
        self.elect_if_leaderless()

    def assign(self, node: int) -> None:
        """Record the new directory of a replica; this elects nobody."""
        self.offline_directory_nodes.discard(node)

    def fence_expired_broker(self, node: int) -> None:
        """Fence a broker that is not back in time."""
        self.unfenced_nodes.discard(node)
        self.stale_nodes.remove(node)
        isr = self.leadership.isr
        if node in isr or self.leadership.leader == node:
            remaining_isr = tuple(isr_node for isr_node in isr if isr_node != node)
            self._change_isr_and_elect(
                remaining_isr if remaining_isr or self.cluster_brokers.rules.is_elr_enabled else isr
            )

    def fence_expired_brokers(self) -> None:
        """Fence all brokers that are not back in time, in order."""
        for node in list(self.stale_nodes):
            self.fence_expired_broker(node)

    def elect_uncleanly(self) -> None:
        """Hold an unclean election, as by command; it does nothing while there is a leader."""
        if self.leadership.leader == NO_LEADER:
            self._change_isr_and_elect(self.leadership.isr, allows_unclean=True)

    def elect_if_leaderless(self) -> None:
        """Elect a leader if there is none, as at any later event."""
        if self.leadership.leader == NO_LEADER:
            self._change_isr_and_elect(self.leadership.isr)

    def _change_isr_and_elect(
        self, isr: tuple[int, ...], *, removed_node: int | None = None, allows_unclean: bool = False
    ) -> None:
        """Change the ISR, and elect. removed_node: a broker that must not be in the ELR either."""
        leadership, is_elr_enabled = self.leadership, self.cluster_brokers.rules.is_elr_enabled
        elr = leadership.elr
        if is_elr_enabled:
            former_replicas = dict.fromkeys((*elr, *leadership.isr))
            demoted_nodes = (
                node for node in former_replicas if node not in isr and node != removed_node
            )
            elr = () if len(isr) >= leadership.min_isr else tuple(demoted_nodes)
        leader, elected_from = self._choose_leader(isr, elr, allows_unclean=allows_unclean)
        last_known_leaders = leadership.last_known
        if leader != NO_LEADER:
            last_known_leaders = ()
            if elected_from != "isr":
                isr = (leader,)
                elr = tuple(node for node in elr if node != leader) if elected_from == "elr" else ()
        elif is_elr_enabled and not isr and leadership.isr and leadership.leader != NO_LEADER:
            last_known_leaders = (leadership.leader,)
        if leader == leadership.leader:
            elected_from = leadership.elected_from
        self.leadership = replace(
            leadership,
            isr=isr,
            elr=elr,
            last_known=last_known_leaders,
            leader=leader,
            elected_from=elected_from,
        )

    def _choose_leader(
        self, isr: tuple[int, ...], elr: tuple[int, ...], *, allows_unclean: bool
    ) -> tuple[int, str | None]:
        leadership = self.leadership
        electable_nodes, elected_from = (isr, "isr") if isr else (elr, "elr")
        if leadership.leader in electable_nodes and self.is_acceptable_leader(leadership.leader):
            return leadership.leader, elected_from
        for node in leadership.replicas:
            if node in electable_nodes and self.is_acceptable_leader(node):
                return node, elected_from
        last_known_leaders = leadership.last_known
        can_elect_last_known = self.cluster_brokers.rules.is_elr_enabled and not isr and not elr
        if (
            can_elect_last_known
            and len(last_known_leaders) == 1
            and self.is_acceptable_leader(last_known_leaders[0])
        ):
            return last_known_leaders[0], "last_known_leader"
        if leadership.allows_unclean_election or allows_unclean:
            for node in leadership.replicas:
                if self.is_acceptable_leader(node):
                    return node, "unclean"
        return NO_LEADER, None


def predict_possible_leaders(
    cluster_brokers: ClusterBrokers,
    leadership: PartitionLeadership,
    offline_directory_nodes: frozenset[int],
    stages: Sequence[StartStage],
) -> list[ElectionResult]:
    """The possible leaders of a partition after an order of starts; only one if timing does not
    matter.

    offline_directory_nodes: the brokers whose replica the metadata assigns to a log directory that
    they do not have.
    """
    stages = list(_merge_stages_until_quorum(cluster_brokers.rules, stages))
    if not stages:  # no broker, or too few controllers: the old sessions expire
        return [ElectionResult(NO_LEADER)]
    result_by_leader: dict[int, ElectionResult] = {}
    for event_plan in _iter_event_plans(cluster_brokers, stages, offline_directory_nodes):
        simulation = _ElectionSimulation(cluster_brokers, leadership, offline_directory_nodes)
        for stage_events in event_plan:
            for apply_event, arguments in stage_events:
                apply_event(simulation, *arguments)
        result_by_leader.setdefault(
            simulation.leadership.leader,
            ElectionResult(simulation.leadership.leader, simulation.leadership.elected_from),
        )
        simulation.elect_if_leaderless()  # once a replica has been assigned to a directory
        result_by_leader.setdefault(
            simulation.leadership.leader,
            ElectionResult(simulation.leadership.leader, simulation.leadership.elected_from),
        )
    return list(result_by_leader.values())


# A method of the simulation, and its arguments.
_StartEvent = tuple[Callable[..., None], tuple[int, ...]]
_ELECTION: _StartEvent = (_ElectionSimulation.elect_uncleanly, ())
_EXPIRY: _StartEvent = (_ElectionSimulation.fence_expired_brokers, ())


def _iter_event_plans(
    cluster_brokers: ClusterBrokers,
    stages: Sequence[StartStage],
    offline_directory_nodes: frozenset[int],
) -> Iterator[tuple[tuple[_StartEvent, ...], ...]]:
    """The possible sequences of events of an order, once there is a quorum of controllers."""
    event_plans: list[tuple[tuple[_StartEvent, ...], ...]] = [()]
    stale_brokers = set(cluster_brokers.fencing_order)
    for stage in stages:
        event_sequences = dict.fromkeys(
            _iter_stage_events(
                cluster_brokers, stage, frozenset(stale_brokers), offline_directory_nodes
            )
        )
        event_plans = [
            (*event_plan, stage_events)
            for event_plan in event_plans
            for stage_events in event_sequences
        ]
        stale_brokers.clear()  # a stage ends only after the old sessions have expired
    yield from event_plans


def _merge_stages_until_quorum(
    rules: ElectionRules, stages: Sequence[StartStage]
) -> Iterator[StartStage]:
    """The stages, with those before the quorum merged into the one that completes it."""
    started_nodes: list[int] = []
    waiting_nodes: tuple[int, ...] = ()
    for stage in stages:
        started_nodes += stage.nodes
        if rules.voters and 2 * len(rules.voters.intersection(started_nodes)) <= len(rules.voters):
            waiting_nodes += stage.nodes
            continue
        yield replace(stage, nodes=waiting_nodes + stage.nodes)
        waiting_nodes = ()


def _iter_stage_events(
    cluster_brokers: ClusterBrokers,
    stage: StartStage,
    stale_brokers: frozenset[int],
    offline_directory_nodes: frozenset[int],
) -> Iterator[tuple[_StartEvent, ...]]:
    """The possible event sequences of a stage: who registers first, and when the others expire."""
    nodes = stage.nodes
    node_orders = (
        permutations(nodes) if len(nodes) <= MAX_PERMUTED_BROKERS else iter([nodes, nodes[::-1]])
    )
    can_expire_first = cluster_brokers.rules.fences_before_registration
    for node_order in node_orders:
        stale_nodes = [node for node in node_order if node in stale_brokers]
        immediate_events = [
            event
            for node in node_order
            if node not in stale_brokers
            for event in _startup_events(node)
        ]
        election_events = [_ELECTION] if stage.ends_with_election else []
        expiry_events = [_EXPIRY] if stale_brokers else []
        if not stale_nodes:
            yield (*immediate_events, *election_events, *expiry_events)
            continue
        stale_events = [event for node in stale_nodes for event in _startup_events(node)]
        move_events: list[_StartEvent] = [
            (_ElectionSimulation.move, (node,))
            for node in stale_nodes
            if node in offline_directory_nodes
        ]
        for first_events in (
            (immediate_events, [*immediate_events, *move_events])
            if move_events
            else (immediate_events,)
        ):
            # A stale broker registers when its session has expired; the others expire with it.
            if len(nodes) > 1:
                yield (*first_events, *stale_events, *election_events, *expiry_events)
            yield (
                *first_events,
                stale_events[0],
                *expiry_events,
                *stale_events[1:],
                *election_events,
            )
            if can_expire_first:
                yield (*first_events, *expiry_events, *stale_events, *election_events)


def _startup_events(node: int) -> tuple[_StartEvent, ...]:
    """The events of a broker that starts."""
    return (
        (_ElectionSimulation.register, (node,)),
        (_ElectionSimulation.unfence, (node,)),
        (_ElectionSimulation.assign, (node,)),
    )


def predict_fencing_order(
    broker_epochs: Sequence[tuple[int, int]], stale_brokers: Iterable[int], *, feature_level: int
) -> list[int]:
    """The stale brokers in the order in which they are fenced.

    broker_epochs: the id and the broker epoch of each broker, in the order of their registrations.
    feature_level: the feature level of metadata.version, which decides how the controller stores
    sessions.
    """
    stale_nodes = set(stale_brokers)
    node_order = (
        _order_as_timeline_map(broker_epochs)
        if feature_level < _TRACKER_FEATURE_LEVEL
        else _order_as_concurrent_map(broker_epochs, stale_nodes, feature_level)
    )
    return [node for node in node_order if node in stale_nodes]


def _order_as_timeline_map(broker_epochs: Sequence[tuple[int, int]]) -> list[int]:
    """The order of a TimelineHashMap: slots by Fibonacci hashing, the last node of a slot first."""
    slots: list[list[int]] = [[], []]
    for n_inserted, (node, _) in enumerate(broker_epochs):
        if (n_inserted + 1) * _LOAD_FACTOR > len(slots):
            present_nodes = [present_node for slot in slots for present_node in slot]
            slots = [[] for _ in range(2 * len(slots))]
            for present_node in present_nodes:
                slots[_slot_index(present_node, len(slots))].append(present_node)
        slots[_slot_index(node, len(slots))].append(node)
    return [node for slot in slots for node in reversed(slot)]


def _slot_index(node: int, n_slots: int) -> int:
    return ((node * _FIBONACCI_MULTIPLIER) & _UINT64_MASK) >> (65 - n_slots.bit_length())


def _order_as_concurrent_map(
    broker_epochs: Sequence[tuple[int, int]], stale_nodes: set[int], feature_level: int
) -> list[int]:
    """The order of a ConcurrentHashMap of the ids and broker epochs of stale brokers."""
    stale_broker_epochs = [(node, epoch) for node, epoch in broker_epochs if node in stale_nodes]
    n_bins = _INITIAL_BINS
    while len(stale_broker_epochs) >= _LOAD_FACTOR * n_bins:
        n_bins *= 2
    # A record's hash begins with the first field.
    hash_seed = 0 if feature_level >= _RECORD_FEATURE_LEVEL else 31 * 31
    bins: list[list[int]] = [[] for _ in range(n_bins)]
    for node, epoch in stale_broker_epochs:
        hash_value = (hash_seed + 31 * node + (epoch ^ (epoch >> 32))) & 0xFFFFFFFF
        bins[(hash_value ^ (hash_value >> 16)) & (n_bins - 1)].append(node)
    return [node for bin_nodes in bins for node in bin_nodes]
