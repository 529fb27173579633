"""replicas: which broker of a dead cluster to start first, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from kfmt_cli.broker.cluster.cluster_image import ClusterImage, PartitionInMetadata
from kfmt_cli.broker.start.own_files import HIGH_WATERMARKS
from kfmt_cli.commands.check.command import CheckPaths
from kfmt_cli.commands.check.directories import CheckedPartitions
from kfmt_cli.commands.replicas.branches import Compared, compared
from kfmt_cli.commands.replicas.evidence import evidence_of
from kfmt_cli.commands.replicas.nodes import ClusterNode, DiskReplica, Place, copies_of, nodes_of
from kfmt_cli.commands.replicas.orders import (
    Elections,
    End,
    Order,
    order_of,
    usual_orders,
)
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.errors import Caught, InputError, UsageError
from kfmt_cli.render.style import safe

_STRAY = (
    "the newest metadata log does not contain the partition: brokers rename its directories to "
    "-stray"
)


@dataclass(slots=True)
class ComparedPartition:
    """A partition of the cluster."""

    place: Place
    copies: list[DiskReplica]
    found: Compared
    metadata: PartitionInMetadata | None = None
    ends: list[End] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of its directories."""
        return "{}-{}".format(*self.place)

    @property
    def verdict(self) -> str:
        """How its replicas relate, the worst first."""
        copies = self.copies
        if any(copy.is_set_aside and not copy.is_tiered for copy in copies):
            return "foreign"
        if len(self.found.branches) > 1:
            return "diverged"
        if any(copy.damaged for copy in copies):
            return "damaged"
        if any(not copy.log_end for copy in copies):
            return "empty" if self.found.whole else "identical"
        last = max((copy.log_end or 0 for copy in copies), default=0)
        # Tiered storage has closed segments only: it ends before the brokers' logs.
        owned = [copy for copy in copies if not copy.is_tiered] or copies
        return "behind" if any(copy.log_end != last for copy in owned) else "identical"

    @property
    def needs_decision(self) -> bool:
        """Whether it matters which broker starts first."""
        return self.verdict != "identical" or any(
            end.lost or end.is_offline or end.returning for end in self.ends
        )

    @property
    def rank(self) -> tuple[int, int, Place]:
        """Sort key: worse ones first."""
        worst = max((end.n_lost for end in self.ends), default=0)
        return -worst, -len(self.found.branches), self.place


@dataclass(slots=True)
class DeadCluster:
    """What the disks of a cluster say. image_from: the node whose metadata log decides."""

    nodes: list[ClusterNode]
    partitions: list[ComparedPartition]
    elections: Elections | None
    image_from: ClusterNode | None
    orders: list[Order]
    evidence: list[str]

    @property
    def image(self) -> ClusterImage | None:
        """The cluster that the metadata describes."""
        return None if self.image_from is None else self.image_from.image

    @property
    def unseen(self) -> list[int]:
        """The registered brokers without a directory that the cluster admits."""
        seen = {node.node_id for node in self.nodes if node.why_not is None}
        return sorted(set(self.image.brokers) - seen) if self.image is not None else []

    @property
    def newest_key(self) -> tuple[int, int]:
        """Epoch and end of the newest metadata log of the cluster."""
        own = (
            n for n in self.nodes if self.image_from and n.cluster_id == self.image_from.cluster_id
        )
        return max(map(_newest, own), default=(-1, 0))


@dataclass(slots=True)
class CompareDisks:
    """One call of `replicas`."""

    run: Run
    jobs: int = 1
    limit: Limit = field(default_factory=Limit)

    def look(self, paths: tuple[str, ...], orders: Sequence[str]) -> DeadCluster:
        """Compare the replicas under some paths; raises UsageError, InputError."""
        task = CheckPaths(self.run, self.jobs, self.limit, prints=True)
        return self.compare(task.look(paths, together=False), orders)

    def compare(self, checked: CheckedPartitions, orders: Sequence[str] = ()) -> DeadCluster:
        """Compare the replicas that `check` found; raises UsageError, InputError."""
        unread: list[InputError] = []
        nodes = nodes_of(checked, unread)
        if not nodes:
            raise InputError("no broker or controller directory found; name the log directories")
        deciding, evidence = deciding_metadata(nodes)
        image = None if deciding is None else deciding.image
        evidence += judge_nodes(nodes, deciding)
        copies = copies_of(nodes, checked.reports, unread)
        elections, chosen = None, list[Order]()
        if image is not None:
            elections = Elections(image, [node for node in nodes if _is_broker(node, image)])
            ids = {node.node_id for node in nodes if node.node_id is not None}
            chosen = [order_of(text, ids) for text in orders or usual_orders(elections.brokers)]
        elif orders:
            raise UsageError("--order needs the metadata log: name the controllers' directories")
        found = [
            self._partition(place, copies.get(place, []), nodes, elections, chosen, unread)
            for place in sorted({*copies, *(() if image is None else image.partitions)})
        ]
        for error in unread:
            self.run.complain(str(error))
        found.sort(key=lambda each: each.rank)
        return DeadCluster(nodes, found, elections, deciding, chosen, evidence)

    def _partition(
        self,
        place: Place,
        copies: list[DiskReplica],
        nodes: list[ClusterNode],
        elections: Elections | None,
        orders: list[Order],
        unread: list[InputError],
    ) -> ComparedPartition:
        metadata = None if elections is None else elections.image.partitions.get(place)
        copies = _admitted(place, copies, nodes, metadata)
        for copy in _of_other_topics(copies) if metadata is None else ():
            copy.is_set_aside = True
            words = f"of another topic with this name, topic id {copy.topic_id}"
            self.run.sink.note(f"not used: {safe(copy.owner)}: {words}\n")
        found = Compared()
        with Caught(unread.append):
            found = compared(copies, self.limit)
        partition = ComparedPartition(place, copies, found, metadata)
        if elections is not None and metadata is not None:
            partition.ends = list(elections.ends(metadata, copies, found, orders))
            partition.evidence = evidence_of(metadata, copies, found, elections)
        elif elections is not None and _is_known(place, nodes):
            partition.ends = [End(order) for order in orders]
            partition.evidence = [_STRAY]
        return partition


def _is_known(place: Place, nodes: Sequence[ClusterNode]) -> bool:
    """Whether the newest metadata log of all knows a partition."""
    images = (node.image for node in nodes if node.image is not None)
    newest = max(images, key=attrgetter("key"), default=None)
    return newest is not None and place in newest.partitions


def deciding_metadata(nodes: Sequence[ClusterNode]) -> tuple[ClusterNode | None, list[str]]:
    """The node whose metadata log decides, and sentences about the others.

    A controller's decides; of several, the newest. Without one, the newest copy of a broker.
    """
    having = [node for node in nodes if node.image is not None]
    if not having:
        return None, ["no metadata log: also name the controllers' directories"]
    controllers = [node for node in having if is_controller(node, nodes)]
    best = max(controllers or having, key=_newest)
    words: list[str] = []
    if not controllers:
        words.append(
            f"no controller's directory was given: the newest copy of the metadata log is in "
            f"{best.shown}, but a controller may have a newer one"
        )
    same = [node for node in having if node.cluster_id == best.cluster_id]
    newest = max(same, key=_newest)
    if _newest(newest) > _newest(best):
        words.append(
            f"the controller {best.shown} is older than its brokers: its metadata log ends at "
            f"{_newest(best)[1]}, the one in {newest.shown} at {_newest(newest)[1]}; it is an old "
            "copy or was reformatted: do not start it"
        )
    return best, words


def _newest(node: ClusterNode) -> tuple[int, int]:
    return (-1, 0) if node.image is None else node.image.key


def is_controller(node: ClusterNode, nodes: Sequence[ClusterNode]) -> bool:
    """Whether a node is a controller, by the voters that any metadata log of its cluster names."""
    for other in (node, *nodes):
        if other.image is not None and other.cluster_id == node.cluster_id and other.image.voters:
            return node.node_id in other.image.voters
    return node.image is not None and node.node_id not in node.image.brokers


def _is_broker(node: ClusterNode, image: ClusterImage) -> bool:
    """Whether a node is a broker that starts and that the cluster admits."""
    if node.why_absent is not None or node.node_id is None:
        return False
    is_registered = node.node_id in image.brokers
    return is_registered or node.node_id not in image.voters


def judge_nodes(nodes: Sequence[ClusterNode], deciding: ClusterNode | None) -> list[str]:
    """Set why the cluster does not admit a node; returns sentences about them."""
    if deciding is None or deciding.image is None:
        return []
    image = deciding.image
    owners = {id_: its.node for its in image.brokers.values() for id_ in its.directories}
    by_id: dict[int, ClusterNode] = {}
    for node in nodes:
        other_owner = {owners[id_] for id_ in node.directory_ids if id_ in owners}
        if node.cluster_id not in (None, deciding.cluster_id):
            node.why_not = f"its cluster id is {node.cluster_id}, not {deciding.cluster_id}"
        elif node.node_id is not None and other_owner - {node.node_id}:
            owner = next(iter(other_owner - {node.node_id}))
            node.why_not = f"its directory id is registered to broker {owner}"
        elif node.node_id is not None:
            first = by_id.setdefault(node.node_id, node)
            if first is not node:
                registered = image.brokers.get(node.node_id)
                known = set() if registered is None else set(registered.directories)
                is_second = bool(known & node.directory_ids) > bool(known & first.directory_ids)
                wrong = first if is_second else node
                right = node if wrong is first else first
                wrong.why_not = f"{right.shown} has the same node id, {node.node_id}"
                by_id[node.node_id] = right
    return [
        f"{node.shown} is not admitted: {node.why_not}"
        if node.why_not
        else f"{node.shown} does not start: {node.why_no_start}; kfmt check has the steps"
        for node in nodes
        if node.why_absent
    ]


def _admitted(
    place: Place,
    copies: list[DiskReplica],
    nodes: list[ClusterNode],
    metadata: PartitionInMetadata | None,
) -> list[DiskReplica]:
    """The replicas of a partition, with those that are missing and those that are set aside."""
    for copy in copies:
        other_id = (
            metadata is not None
            and copy.topic_id is not None
            and copy.topic_id != metadata.topic_id
        )
        is_foreign = nodes[copy.node].why_not is not None
        copy.is_set_aside = other_id or is_foreign
    if metadata is None:
        return copies
    there = {copy.broker_id for copy in copies if nodes[copy.node].why_not is None}
    missing = [
        DiskReplica(
            node.index,
            node.node_id,
            node.directories[0],
            high_watermark=max(d.offset(HIGH_WATERMARKS, place) for d in node.directories) or None,
        )
        for node in nodes
        if node.node_id in metadata.state.replicas
        and node.node_id not in there
        and node.why_not is None
    ]
    return sorted([*copies, *missing], key=lambda copy: (copy.broker_id is None, copy.broker_id))


def _of_other_topics(copies: Sequence[DiskReplica]) -> Iterator[DiskReplica]:
    """The replicas whose topic id is not that of most; of equally many, that which a broker has, or
    the longest."""
    of_topics: dict[str, list[DiskReplica]] = {}
    for copy in copies:
        if copy.topic_id is not None and not copy.is_set_aside:
            of_topics.setdefault(copy.topic_id, []).append(copy)

    def worth(its: list[DiskReplica]) -> tuple[int, bool, int]:
        is_owned = any(not copy.is_tiered for copy in its)
        return len(its), is_owned, max(copy.log_end or 0 for copy in its)

    for its in sorted(of_topics.values(), key=worth)[:-1]:
        yield from its
