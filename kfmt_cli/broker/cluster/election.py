"""Who leads a partition after the brokers of a dead cluster start in some order.

A controller elects by the in-sync replicas, the eligible leader replicas and the order of the
replicas. The length, the leader epochs and the damage of the logs have no part in it.

Source: `org.apache.kafka.controller.PartitionChangeBuilder` (`electAnyLeader`, `build`),
`ReplicationControlManager` (`handleBrokerUnfenced`, `handleBrokerFenced`, `handleBrokerShutdown`,
`handleAssignReplicasToDirs`), `ClusterControlManager.registerBroker`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

NO_LEADER = -1
MOST_TOGETHER = 4  # brokers whose orders within a stage are all tried


@dataclass(frozen=True, slots=True)
class Leadership:
    """What the metadata says about the leader of a partition, and its settings."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    """Eligible leader replicas."""
    last_known: tuple[int, ...] = ()
    """The last known leader, kept in the field of the last known ELR."""
    leader: int = NO_LEADER
    min_isr: int = 1
    unclean: bool = False
    """unclean.leader.election.enable."""
    how: str | None = None
    """How the leader was elected since: isr, elr, last_known_leader or unclean."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Brokers that are started at the same time."""

    nodes: tuple[int, ...]
    elects: bool = False
    """An unclean election of all partitions follows, once they are up."""


@dataclass(frozen=True, slots=True)
class ElectionRules:
    """What differs between clusters."""

    has_elr: bool = False
    fences_before_registration: bool = False
    """The controller fences expired brokers also if no broker has registered: from 4.0 on."""
    voters: frozenset[int] = frozenset()
    """The controllers among the brokers; nothing happens before a majority of them is up."""


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers of a dead cluster."""

    clean: frozenset[int]
    """Those whose disk has the broker epoch of the metadata in `.kafka_cleanshutdown`."""
    expiring: tuple[int, ...]
    """Those that the metadata calls unfenced, in the order in which their sessions expire."""
    rules: ElectionRules


@dataclass(frozen=True, slots=True)
class Elected:
    """The leader at the end of an order, or NO_LEADER."""

    leader: int
    how: str | None = None


class _Run:
    """A cluster that starts, seen from one partition."""

    def __init__(self, cluster: Brokers, state: Leadership, homeless: frozenset[int]) -> None:
        self.cluster, self.state = cluster, state
        self.homeless = set(homeless)
        self.unfenced = set(cluster.expiring)
        self.stale = list(cluster.expiring)

    def is_acceptable(self, node: int) -> bool:
        return node in self.unfenced and node not in self.homeless

    def register(self, node: int) -> None:
        """A registration is fenced; with ELR, an unclean shutdown leaves ISR and ELR."""
        self.unfenced.discard(node)
        if node in self.stale:
            self.stale.remove(node)
        if self.cluster.rules.has_elr and node not in self.cluster.clean:
            state = self.state
            if node in state.isr or node in state.elr:
                self._change(tuple(other for other in state.isr if other != node), gone=node)

    def move(self, node: int) -> None:
        """A broker that waits until its session has expired assigns its replica to a directory that
        its old registration lacks: the replica leaves the ISR, unless it is the last one."""
        if node in self.homeless and node in self.stale:
            isr = tuple(other for other in self.state.isr if other != node)
            if isr and isr != self.state.isr:
                self._change(isr)
            self.homeless.discard(node)

    def unfence(self, node: int) -> None:
        """Elect a leader if there is none."""
        self.unfenced.add(node)
        self.wait()

    def assign(self, node: int) -> None:
        """Record the new directory of a replica; this elects nobody."""
        self.homeless.discard(node)

    def expire(self, node: int) -> None:
        """Fence a broker that is not back in time."""
        self.unfenced.discard(node)
        self.stale.remove(node)
        isr = self.state.isr
        if node in isr or self.state.leader == node:
            left = tuple(other for other in isr if other != node)
            self._change(left if left or self.cluster.rules.has_elr else isr)

    def elect(self) -> None:
        """An unclean election by command; nothing happens while the metadata names a leader."""
        if self.state.leader == NO_LEADER:
            self._change(self.state.isr, forced=True)

    def wait(self) -> None:
        """Elect at a later event, such as the start of another broker."""
        if self.state.leader == NO_LEADER:
            self._change(self.state.isr)

    def _change(
        self, isr: tuple[int, ...], *, gone: int | None = None, forced: bool = False
    ) -> None:
        """Change the ISR, and elect."""
        state, has_elr = self.state, self.cluster.rules.has_elr
        elr = state.elr
        if has_elr:
            known = dict.fromkeys((*elr, *state.isr))
            left = (node for node in known if node not in isr and node != gone)
            elr = () if len(isr) >= state.min_isr else tuple(left)
        leader, how = self._leader(isr, elr, forced=forced)
        last_known = state.last_known
        if leader != NO_LEADER:
            last_known = ()
            if how != "isr":
                isr = (leader,)
                elr = tuple(node for node in elr if node != leader) if how == "elr" else ()
        elif has_elr and not isr and state.isr and state.leader != NO_LEADER:
            last_known = (state.leader,)
        if leader == state.leader:
            how = state.how
        self.state = replace(state, isr=isr, elr=elr, last_known=last_known, leader=leader, how=how)

    def _leader(
        self, isr: tuple[int, ...], elr: tuple[int, ...], *, forced: bool
    ) -> tuple[int, str | None]:
        state = self.state
        valid, how = (isr, "isr") if isr else (elr, "elr")
        if state.leader in valid and self.is_acceptable(state.leader):
            return state.leader, how
        for node in state.replicas:
            if node in valid and self.is_acceptable(node):
                return node, how
        known = state.last_known
        is_lost = self.cluster.rules.has_elr and not isr and not elr
        if is_lost and len(known) == 1 and self.is_acceptable(known[0]):
            return known[0], "last_known_leader"
        if state.unclean or forced:
            for node in state.replicas:
                if self.is_acceptable(node):
                    return node, "unclean"
        return NO_LEADER, None


def ends_of(
    cluster: Brokers, state: Leadership, homeless: frozenset[int], stages: Sequence[Stage]
) -> list[Elected]:
    """The leaders that a partition can have at the end of an order of starts; one, if it follows
    from the disks.

    homeless: the replicas whose log directory in the metadata is none of their broker's.
    """
    found: dict[int, Elected] = {}  # by the leader
    for plan in _plans(cluster, stages, homeless):
        run = _Run(cluster, state, homeless)
        _play(run, plan)
        found.setdefault(run.state.leader, Elected(run.state.leader, run.state.how))
        run.wait()  # a replica that was given a directory
        found.setdefault(run.state.leader, Elected(run.state.leader, run.state.how))
    return list(found.values())


_Event = tuple[str, int]


def _play(run: _Run, plan: Iterable[tuple[_Event, ...]]) -> None:
    for stage in plan:
        for name, node in stage:
            if name == "expire-all":
                for stale in list(run.stale):
                    run.expire(stale)
            elif name == "elect":
                run.elect()
            else:
                getattr(run, name)(node)


def _plans(
    cluster: Brokers, stages: Sequence[Stage], homeless: frozenset[int]
) -> Iterator[tuple[tuple[_Event, ...], ...]]:
    """The possible sequences of events of an order."""
    plans: list[tuple[tuple[_Event, ...], ...]] = [()]
    stale = set(cluster.expiring)
    for stage in _active(cluster.rules, stages):
        own = dict.fromkeys(_of_stage(cluster, stage, frozenset(stale), homeless))
        plans = [(*plan, events) for plan in plans for events in own]
        stale.clear()  # a stage is settled only when sessions have expired
    yield from plans


def _active(rules: ElectionRules, stages: Sequence[Stage]) -> Iterator[Stage]:
    """The stages, those before the quorum is there joined with the one that completes it."""
    up: list[int] = []
    waiting: tuple[int, ...] = ()
    for stage in stages:
        up += stage.nodes
        if rules.voters and 2 * len(rules.voters.intersection(up)) <= len(rules.voters):
            waiting += stage.nodes
            continue
        yield replace(stage, nodes=waiting + stage.nodes)
        waiting = ()


def _of_stage(
    cluster: Brokers, stage: Stage, stale: frozenset[int], homeless: frozenset[int]
) -> Iterator[tuple[_Event, ...]]:
    """The possible events of a stage: who registers first, and when the others expire."""
    nodes = stage.nodes
    orders = permutations(nodes) if len(nodes) <= MOST_TOGETHER else iter([nodes, nodes[::-1]])
    early = cluster.rules.fences_before_registration
    for order in orders:
        waits = [node for node in order if node in stale]
        start = [event for node in order if node not in stale for event in _up(node)]
        elect = [("elect", 0)] if stage.elects else []
        expire = [("expire-all", 0)] if stale else []
        if not waits:
            yield (*start, *elect, *expire)
            continue
        late = [event for node in waits for event in _up(node)]
        moves = [("move", node) for node in waits if node in homeless]
        for before in (start, [*start, *moves]) if moves else (start,):
            # A stale broker registers when its session has expired; the others expire with it.
            if len(nodes) > 1:
                yield (*before, *late, *elect, *expire)
            yield (*before, late[0], *expire, *late[1:], *elect)
            if early:
                yield (*before, *expire, *late, *elect)


def _up(node: int) -> tuple[_Event, ...]:
    """The events of a broker that starts."""
    return ("register", node), ("unfence", node), ("assign", node)
