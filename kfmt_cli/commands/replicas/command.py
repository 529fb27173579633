"""replicas: which broker of a dead cluster to start first, and the cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from kfmt_cli.broker.metadata.cluster_image import ClusterImage, PartitionRegistration
from kfmt_cli.broker.start.checkpoints import REPLICATION_CHECKPOINT
from kfmt_cli.commands.check.check_results import CheckResults
from kfmt_cli.commands.check.command import CheckCommand
from kfmt_cli.commands.check.options import CheckOptions
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.replicas.branches import ReplicaBranches, find_branches
from kfmt_cli.commands.replicas.coordinator_markers import CoordinatorMarkers
from kfmt_cli.commands.replicas.evidence import find_evidence
from kfmt_cli.commands.replicas.nodes import (
    ClusterNode,
    DiskReplica,
    TopicAndPartition,
    read_nodes,
    read_replicas,
)
from kfmt_cli.commands.replicas.offline_cluster import (
    OfflineCluster,
    PartitionComparison,
    is_controller,
    metadata_recency_key,
)
from kfmt_cli.commands.replicas.options import ReplicasOptions
from kfmt_cli.commands.replicas.row_output import show_cluster
from kfmt_cli.commands.replicas.start_orders import (
    OutcomePredictor,
    PartitionOutcome,
    StartOrder,
    default_order_texts,
    parse_order,
)
from kfmt_cli.disk.topic_filter import select_topics
from kfmt_cli.errors import InputError, InputErrorHandler, UsageError
from kfmt_cli.render.style import escape_unprintable

_STRAY_MESSAGE = (
    "the newest metadata log does not contain the partition: brokers rename its directories to "
    "-stray"
)


@dataclass(slots=True)
class ReplicasCommand:
    """One call of `replicas`."""

    run: CommandRun
    options: ReplicasOptions

    def execute(self) -> None:
        """Show the replicas under some paths; raises UsageError, InputError."""
        show_cluster(self.run, self.compare_replicas(), self.options.paths)

    def compare_replicas(self) -> OfflineCluster:
        """Compare the replicas under some paths; raises UsageError, InputError."""
        check_options = CheckOptions(
            jobs=self.options.jobs, max_decompressed=self.options.max_decompressed
        )
        check_command = CheckCommand(self.run, check_options, needs_fingerprints=True)
        return self.compare_checked_replicas(
            check_command.check_paths(self.options.paths, is_one_broker=False)
        )

    def compare_checked_replicas(self, check_results: CheckResults) -> OfflineCluster:
        """Compare the replicas that `check` found; raises UsageError, InputError."""
        read_errors: list[InputError] = []
        nodes = read_nodes(check_results, read_errors)
        if not nodes:
            raise InputError("no broker or controller directory found; name the log directories")
        metadata_node, evidence = find_metadata_node(nodes)
        cluster_image = None if metadata_node is None else metadata_node.cluster_image
        evidence += reject_foreign_nodes(nodes, metadata_node)
        replicas_by_partition = read_replicas(nodes, check_results.result_by_name, read_errors)
        predictor, start_orders = None, list[StartOrder]()
        if cluster_image is not None:
            predictor = OutcomePredictor(
                cluster_image, [node for node in nodes if _is_admitted_broker(node, cluster_image)]
            )
            node_ids = {node.node_id for node in nodes if node.node_id is not None}
            start_orders = [
                parse_order(order_text, node_ids)
                for order_text in self.options.orders or default_order_texts(predictor.broker_ids)
            ]
        elif self.options.orders:
            raise UsageError("--order needs the metadata log: name the controllers' directories")
        partitions = [
            self._compare_partition(
                topic_partition,
                replicas_by_partition.get(topic_partition, []),
                nodes,
                predictor,
                start_orders,
                read_errors,
            )
            for topic_partition in sorted(
                {
                    *replicas_by_partition,
                    *(() if cluster_image is None else cluster_image.registration_by_partition),
                }
            )
        ]
        markers = CoordinatorMarkers(self.options.decompression_limit)
        with InputErrorHandler(read_errors.append):
            markers.add_to_outcomes(partitions)
        for error in read_errors:
            self.run.report_input_error(error)
        topics = [partition.topic_partition[0] for partition in partitions]
        selected_topics = select_topics(self.options.topic, topics)
        partitions = [p for p in partitions if p.topic_partition[0] in selected_topics]
        partitions.sort(key=lambda partition: partition.rank)
        return OfflineCluster(
            nodes,
            partitions,
            predictor,
            metadata_node,
            start_orders,
            evidence,
            markers.transactions,
        )

    def _compare_partition(
        self,
        topic_partition: TopicAndPartition,
        replicas: list[DiskReplica],
        nodes: list[ClusterNode],
        predictor: OutcomePredictor | None,
        start_orders: list[StartOrder],
        read_errors: list[InputError],
    ) -> PartitionComparison:
        registration = (
            None
            if predictor is None
            else predictor.cluster_image.registration_by_partition.get(topic_partition)
        )
        replicas = _with_missing_replicas(topic_partition, replicas, nodes, registration)
        for replica in _replicas_of_other_topics(replicas) if registration is None else ():
            replica.is_excluded = True
            message = f"of another topic with this name, topic id {replica.topic_id}"
            self.run.sink.write_to_stderr(
                f"not used: {escape_unprintable(replica.owner_name)}: {message}\n"
            )
        comparison = PartitionComparison(
            topic_partition, replicas, ReplicaBranches(), registration, is_compared=False
        )
        with InputErrorHandler(read_errors.append):
            comparison.replica_branches = find_branches(replicas, self.options.decompression_limit)
            comparison.is_compared = True
        branches = comparison.replica_branches
        if not comparison.is_compared:
            return comparison
        if predictor is not None and registration is not None:
            comparison.outcomes = list(
                predictor.iter_outcomes(registration, replicas, branches, start_orders)
            )
            comparison.evidence = find_evidence(registration, replicas, branches, predictor)
        elif _is_in_newest_metadata(topic_partition, nodes):
            comparison.outcomes = [PartitionOutcome(order) for order in start_orders]
            comparison.evidence = [_STRAY_MESSAGE]
        return comparison


def _is_in_newest_metadata(
    topic_partition: TopicAndPartition, nodes: Sequence[ClusterNode]
) -> bool:
    """Whether the newest of all metadata logs contains a partition."""
    cluster_images = (node.cluster_image for node in nodes if node.cluster_image is not None)
    newest_image = max(cluster_images, key=attrgetter("recency_key"), default=None)
    return newest_image is not None and topic_partition in newest_image.registration_by_partition


def find_metadata_node(nodes: Sequence[ClusterNode]) -> tuple[ClusterNode | None, list[str]]:
    """The node whose metadata log is used, None if there is none, and sentences about the others.

    It is the newest log of a controller or, without controllers, the newest copy of a broker.
    """
    nodes_with_image = [node for node in nodes if node.cluster_image is not None]
    if not nodes_with_image:
        return None, ["no metadata log: also name the controllers' directories"]
    controllers = [node for node in nodes_with_image if is_controller(node, nodes)]
    metadata_node = max(controllers or nodes_with_image, key=metadata_recency_key)
    sentences: list[str] = []
    if not controllers:
        sentences.append(
            f"no controller's directory was given: the newest copy of the metadata log is in "
            f"{metadata_node.display_path}, but a controller may have a newer one"
        )
    same_cluster_nodes = [
        node for node in nodes_with_image if node.cluster_id == metadata_node.cluster_id
    ]
    newest_node = max(same_cluster_nodes, key=metadata_recency_key)
    if metadata_recency_key(newest_node) > metadata_recency_key(metadata_node):
        sentences.append(
            f"the controller {metadata_node.display_path} is older than its brokers: its metadata "
            "log ends at "
            f"{metadata_recency_key(metadata_node)[1]}, the one in {newest_node.display_path} at "
            f"{metadata_recency_key(newest_node)[1]}; it is an old "
            "copy or was reformatted: do not start it"
        )
    return metadata_node, sentences


def _is_admitted_broker(node: ClusterNode, cluster_image: ClusterImage) -> bool:
    """Whether a node is a broker that starts and that the cluster admits."""
    if node.absence_reason is not None or node.node_id is None:
        return False
    is_registered = node.node_id in cluster_image.broker_by_node_id
    return is_registered or node.node_id not in cluster_image.voter_ids


def reject_foreign_nodes(
    nodes: Sequence[ClusterNode], metadata_node: ClusterNode | None
) -> list[str]:
    """Set the `rejection_reason` of nodes that the cluster does not admit; returns sentences about
    them, and about nodes that do not start."""
    if metadata_node is None or metadata_node.cluster_image is None:
        return []
    cluster_image = metadata_node.cluster_image
    owner_by_directory_id = {
        directory_id: registration.node_id
        for registration in cluster_image.broker_by_node_id.values()
        for directory_id in registration.directory_ids
    }
    node_by_id: dict[int, ClusterNode] = {}
    for node in nodes:
        registered_owner_ids = {
            owner_by_directory_id[directory_id]
            for directory_id in node.directory_ids
            if directory_id in owner_by_directory_id
        }
        if node.cluster_id not in (None, metadata_node.cluster_id):
            node.rejection_reason = (
                f"its cluster id is {node.cluster_id}, not {metadata_node.cluster_id}"
            )
        elif node.node_id is not None and registered_owner_ids - {node.node_id}:
            owner_id = next(iter(registered_owner_ids - {node.node_id}))
            node.rejection_reason = f"its directory id is registered to broker {owner_id}"
        elif node.node_id is not None:
            first_node = node_by_id.setdefault(node.node_id, node)
            if first_node is not node:
                node_registration = cluster_image.broker_by_node_id.get(node.node_id)
                registered_directory_ids = (
                    set() if node_registration is None else set(node_registration.directory_ids)
                )
                prefers_later_node = bool(registered_directory_ids & node.directory_ids) > bool(
                    registered_directory_ids & first_node.directory_ids
                )
                rejected_node = first_node if prefers_later_node else node
                admitted_node = node if rejected_node is first_node else first_node
                rejected_node.rejection_reason = (
                    f"{admitted_node.display_path} has the same node id, {node.node_id}"
                )
                node_by_id[node.node_id] = admitted_node
    return [
        f"{node.display_path} is not admitted: {node.rejection_reason}"
        if node.rejection_reason
        else (
            f"{node.display_path} does not start: {node.start_failure_reason}; kfmt check has "
            "the steps"
        )
        for node in nodes
        if node.absence_reason
    ]


def _with_missing_replicas(
    topic_partition: TopicAndPartition,
    replicas: list[DiskReplica],
    nodes: list[ClusterNode],
    registration: PartitionRegistration | None,
) -> list[DiskReplica]:
    """The replicas of a partition, including missing ones; sets `is_excluded`."""
    for replica in replicas:
        has_other_topic_id = (
            registration is not None
            and replica.topic_id is not None
            and replica.topic_id != registration.topic_id
        )
        is_on_rejected_node = nodes[replica.node_index].rejection_reason is not None
        replica.is_excluded = has_other_topic_id or is_on_rejected_node
    if registration is None:
        return replicas
    present_broker_ids = {
        replica.broker_id
        for replica in replicas
        if nodes[replica.node_index].rejection_reason is None
    }
    missing_replicas = [
        DiskReplica(
            node.node_index,
            node.node_id,
            node.directories[0],
            high_watermark=max(
                directory.checkpoint_offset(REPLICATION_CHECKPOINT, topic_partition)
                for directory in node.directories
            )
            or None,
        )
        for node in nodes
        if node.node_id in registration.leadership.replicas
        and node.node_id not in present_broker_ids
        and node.rejection_reason is None
    ]
    return sorted(
        [*replicas, *missing_replicas],
        key=lambda replica: (replica.broker_id is None, replica.broker_id),
    )


def _replicas_of_other_topics(replicas: Sequence[DiskReplica]) -> Iterator[DiskReplica]:
    """The replicas whose topic id is not the most frequent one. Of equally frequent ids, an id that
    a broker has wins, then the id of the longest log."""
    replicas_by_topic_id: dict[str, list[DiskReplica]] = {}
    for replica in replicas:
        if replica.topic_id is not None and not replica.is_excluded:
            replicas_by_topic_id.setdefault(replica.topic_id, []).append(replica)

    def sort_key(topic_replicas: list[DiskReplica]) -> tuple[int, bool, int]:
        has_broker_replica = any(not replica.is_tiered for replica in topic_replicas)
        return (
            len(topic_replicas),
            has_broker_replica,
            max(replica.log_end or 0 for replica in topic_replicas),
        )

    for topic_replicas in sorted(replicas_by_topic_id.values(), key=sort_key)[:-1]:
        yield from topic_replicas
