"""replicas: what each order of starts does to each partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

from kfmt_cli.broker.cluster.cluster_image import ClusterImage, PartitionInMetadata
from kfmt_cli.broker.cluster.election import (
    NO_LEADER,
    Brokers,
    Elected,
    ElectionRules,
    Leadership,
    Stage,
    ends_of,
)
from kfmt_cli.broker.cluster.expiry import fenced_in_order
from kfmt_cli.broker.start.ranges import Ranges, common, size_of_ranges
from kfmt_cli.commands.replicas.branches import Compared
from kfmt_cli.commands.replicas.nodes import ClusterNode, DiskReplica, of_brokers
from kfmt_cli.errors import UsageError

_FENCES_ALWAYS = 22  # the first feature level of Kafka 4.0
_RESERVED = frozenset(
    {"AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"}
)


@dataclass(frozen=True, slots=True)
class Order:
    """Stages of starts. text: as given."""

    text: str
    stages: tuple[Stage, ...]

    @property
    def nodes(self) -> tuple[int, ...]:
        """The brokers, in order."""
        return tuple(node for stage in self.stages for node in stage.nodes)

    @property
    def elects(self) -> bool:
        """Whether it includes an unclean election."""
        return any(stage.elects for stage in self.stages)

    @property
    def value(self) -> list[int] | str:
        """The ids of brokers started in turn, or the text."""
        is_plain = not self.elects and all(len(stage.nodes) == 1 for stage in self.stages)
        return list(self.nodes) if is_plain else self.text


def order_of(text: str, known: Set[int]) -> Order:
    """An order such as `1,2,3`, `2!,3,1` or `1+2,3`; raises UsageError."""
    words = "write broker ids as in 1,2,3 (in turn), 1+2+3 (together), 2!,1 (an unclean election)"
    stages: list[Stage] = []
    for part in text.replace(" ", "").split(","):
        names = part.removesuffix("!").split("+")
        if not all(name.isdecimal() for name in names):
            raise UsageError(f"--order {text}: {part!r} is not a valid stage; {words}")
        nodes = tuple(map(int, names))
        for node in nodes:
            if node not in known:
                there = ", ".join(map(str, sorted(known))) or "none"
                words = f"the given directories belong to brokers {there}"
                raise UsageError(f"--order {text}: no directory of broker {node}; {words}")
        stages.append(Stage(nodes, part.endswith("!")))
    order = Order(text, tuple(stages))
    if len(set(order.nodes)) < len(order.nodes):
        raise UsageError(f"--order {text}: a broker is named twice")
    return order


def usual_orders(nodes: Sequence[int]) -> Iterator[str]:
    """Each broker first, the others after it in turn; then all together."""
    for i in range(len(nodes)):
        yield ",".join(map(str, (*nodes[i:], *nodes[:i])))
    if len(nodes) > 1:
        yield "+".join(map(str, nodes))


@dataclass(slots=True)
class End:
    """What becomes of a partition; unless it says otherwise, nobody leads it."""

    order: Order
    elected: list[Elected] = field(default_factory=lambda: [Elected(NO_LEADER)])
    leaders: Sequence[DiskReplica | None] = (None,)
    """The replica of each possible leader."""
    lost: Ranges = field(default_factory=list)
    lost_acknowledged: Ranges = field(default_factory=list)
    returning: Ranges = field(default_factory=list)

    @property
    def is_certain(self) -> bool:
        """Whether there is only one end."""
        return len(self.elected) == 1

    @property
    def leader(self) -> int | None:
        """The leader; None if it is offline or not known."""
        leader = self.elected[0].leader
        return leader if self.is_certain and leader != NO_LEADER else None

    @property
    def ends(self) -> list[int | None]:
        """The log end offset of each possible end."""
        return [
            None if its.leader == NO_LEADER else _end_of(copy)
            for its, copy in zip(self.elected, self.leaders, strict=True)
        ]

    @property
    def log_end_offset(self) -> int | None:
        """The log end offset; None if the partition is offline or it is not known."""
        ends = set(self.ends)
        return next(iter(ends)) if len(ends) == 1 else None

    @property
    def is_offline(self) -> bool:
        """Whether the partition may stay offline."""
        return None in self.ends

    @property
    def n_lost(self) -> int:
        """The number of offsets that are lost at worst."""
        return size_of_ranges(self.lost)


def _end_of(copy: DiskReplica | None) -> int | None:
    if copy is None or copy.is_set_aside:
        return 0
    return copy.end_after


@dataclass
class Elections:
    """The ends of partitions of a cluster whose metadata is known."""

    image: ClusterImage
    nodes: list[ClusterNode]
    """The brokers that are admitted."""
    _known: dict[object, list[Elected]] = field(default_factory=dict)

    @cached_property
    def brokers(self) -> list[int]:
        """Their ids."""
        return sorted({node.node_id for node in self.nodes if node.node_id is not None})

    @cached_property
    def cluster(self) -> Brokers:
        """The brokers, as the election sees them."""
        image = self.image
        epochs = {its.node: its.epoch for its in image.brokers.values()}
        unfenced = [its.node for its in image.brokers.values() if not its.is_fenced]
        expiring = fenced_in_order(list(epochs.items()), unfenced, level=image.level)
        on_disks = {node.node_id: node.clean_epoch() for node in self.nodes}
        clean = frozenset(node for node, epoch in epochs.items() if on_disks.get(node) == epoch)
        voters = image.voters if image.voters & set(image.brokers) else frozenset()
        rules = ElectionRules(image.has_elr, image.level >= _FENCES_ALWAYS, voters)
        return Brokers(clean, tuple(expiring), rules)

    def ends(
        self,
        partition: PartitionInMetadata,
        copies: Sequence[DiskReplica],
        found: Compared,
        orders: Iterable[Order],
    ) -> Iterator[End]:
        """What becomes of a partition with each order."""
        homeless = self.homeless(partition)
        by_id = of_brokers(copies)
        watermarks = [copy.high_watermark or 0 for copy in by_id.values()]
        for order in orders:
            elected = self._elected(partition.state, homeless, order)
            leaders = [by_id.get(its.leader) for its in elected]
            end = End(order, elected, leaders)
            worst = self._worst(end, found)
            if worst is not None:
                end.lost, end.returning = worst
                below = [(0, max(watermarks, default=0) - 1)]
                end.lost_acknowledged = common(end.lost, below)
            yield end

    def _worst(self, end: End, found: Compared) -> tuple[Ranges, Ranges] | None:
        """What the worst end loses and brings back; None if all are offline."""
        ends = [
            (found.lost_with(copy), found.returning_with(copy))
            for its, copy in zip(end.elected, end.leaders, strict=True)
            if its.leader != NO_LEADER
        ]
        return max(ends, key=lambda pair: size_of_ranges(pair[0]), default=None)

    def _elected(self, state: Leadership, homeless: frozenset[int], order: Order) -> list[Elected]:
        key = state, homeless, order.text
        if key not in self._known:
            stages = []
            for stage in order.stages:
                nodes = tuple(node for node in stage.nodes if node in self.brokers)
                if nodes:
                    stages.append(Stage(nodes, stage.elects))
            self._known[key] = ends_of(self.cluster, state, homeless, stages)
        return self._known[key]

    def homeless(self, partition: PartitionInMetadata) -> frozenset[int]:
        """The brokers without the log directory that the metadata gives their replica."""
        ids = {node.node_id: node.directory_ids for node in self.nodes}
        pairs = zip(partition.state.replicas, partition.directories, strict=False)
        return frozenset(
            broker
            for broker, directory in pairs
            if directory not in _RESERVED and directory not in ids.get(broker, {directory})
        )
