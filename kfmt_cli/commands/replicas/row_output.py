"""replicas: the rows of a dead cluster, and the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kfmt_cli.broker.log_reading.offset_intervals import intervals_to_lists
from kfmt_cli.broker.metadata.cluster_image import NO_LEADER
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.replicas.advice import next_steps
from kfmt_cli.commands.replicas.lines import show_cluster_screen
from kfmt_cli.commands.replicas.nodes import ClusterNode, DiskReplica
from kfmt_cli.commands.replicas.offline_cluster import (
    OfflineCluster,
    PartitionComparison,
    is_controller,
)
from kfmt_cli.commands.replicas.start_orders import PartitionOutcome
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.errors import ExitCode
from kfmt_cli.rows.documents import (
    DIRECTORY_ROW,
    NEXT_STEP_ROW,
    REPLICA_ROW,
    REPLICAS_ROW,
    START_ORDER_ROW,
)

Row = dict[str, object]


def show_cluster(run: CommandRun, cluster: OfflineCluster, paths: Sequence[str]) -> None:
    """Show the cluster, and raise the exit code if a partition has a problem."""
    if any(map(_has_problem, cluster.partitions)):
        run.output.raise_exit_code(ExitCode.FINDINGS)
    if run.sink.is_for_people:
        show_cluster_screen(run.sink, cluster, paths)
        return
    output_cluster_rows(run, cluster, cluster.partitions)
    for step in next_steps(cluster, paths):
        run.sink.write_document(NEXT_STEP_ROW, NEXT_STEP_ROW.members_from(step), ())


def output_cluster_rows(
    run: CommandRun, cluster: OfflineCluster, partitions: Iterable[PartitionComparison]
) -> None:
    """Output the rows of the nodes and of some partitions."""
    for node in cluster.nodes:
        for row in _directory_rows(node, cluster):
            run.sink.write_document(DIRECTORY_ROW, row, ())
    for partition in partitions:
        for replica in partition.replicas:
            run.sink.write_document(REPLICA_ROW, _replica_row(partition, replica, cluster), ())
        run.sink.write_document(REPLICAS_ROW, _replicas_row(partition, cluster), ())
        for outcome in partition.outcomes:
            run.sink.write_document(START_ORDER_ROW, _start_order_row(partition, outcome), ())


def _has_problem(partition: PartitionComparison) -> bool:
    """Whether replicas diverge, are damaged or foreign, or an order loses or returns offsets."""
    if partition.replica_branches.diverged_at is not None or partition.verdict in (
        "damaged",
        "foreign",
        "unread",
    ):
        return True
    return any(outcome.lost_offsets or outcome.returning_offsets for outcome in partition.outcomes)


def _directory_rows(node: ClusterNode, cluster: OfflineCluster) -> Iterator[Row]:
    """A row for each log directory of a node; the metadata log is in the first."""
    roles = ["controller"] if is_controller(node, cluster.nodes) else []
    is_registered = (
        cluster.cluster_image is not None
        and node.node_id in cluster.cluster_image.broker_by_node_id
    )
    if is_registered or (not roles and node.broker_directories.replicas):
        roles.insert(0, "broker")
    for directory_index, directory in enumerate(node.directories):
        cluster_image = node.cluster_image if directory_index == 0 else None
        yield {
            "file": format_display_name(directory.path),
            "node_id": node.node_id,
            "roles": roles,
            "cluster_id": node.cluster_id,
            "directory_id": directory.meta_properties.directory_id,
            "clean_shutdown": directory.clean_shutdown_path is not None,
            "metadata_end_offset": None if cluster_image is None else cluster_image.log_end_offset,
            "metadata_epoch": None if cluster_image is None else cluster_image.last_epoch,
            "metadata_is_newest": cluster_image is not None
            and cluster_image.recency_key == cluster.newest_metadata_recency,
            "why_not": node.absence_reason,
        }


def _replica_row(
    partition: PartitionComparison, replica: DiskReplica, cluster: OfflineCluster
) -> Row:
    registration = partition.registration
    may_lead, why_not = _election_eligibility(partition, replica, cluster)
    leadership = None if registration is None else registration.leadership
    return {
        **REPLICA_ROW.members_from(replica),
        "topic": partition.topic_partition[0],
        "partition": partition.topic_partition[1],
        "log_start_offset": replica.log_start,
        "log_end_offset": replica.log_end,
        "log_end_offset_after_start": 0 if replica.is_excluded else replica.predicted_log_end,
        "epochs": intervals_to_lists(replica.epochs),
        "high_watermark_checkpoint": replica.high_watermark,
        "damaged_offsets": intervals_to_lists(replica.damaged_offsets),
        "in_isr": None if leadership is None else replica.broker_id in leadership.isr,
        "in_elr": None if leadership is None else replica.broker_id in leadership.elr,
        "may_lead": may_lead,
        "why_not": why_not,
    }


def _election_eligibility(
    partition: PartitionComparison, replica: DiskReplica, cluster: OfflineCluster
) -> tuple[str, str | None]:
    """From which list a replica may be elected, or why it is not."""
    node = cluster.nodes[replica.node_index]
    if node.rejection_reason is not None:
        return "no", f"the broker is not admitted: {node.rejection_reason}"
    if node.start_failure_reason is not None:
        return "no", f"the broker does not start: {node.start_failure_reason}"
    if partition.registration is None:
        return "no", "the metadata does not contain the partition"
    leadership = partition.registration.leadership
    if replica.broker_id not in leadership.replicas:
        return "no", "the metadata does not assign a replica to the broker"
    broker_ids_by_list = {
        "isr": leadership.isr,
        "elr": leadership.elr,
        "last_known_leader": leadership.last_known,
    }
    for list_name, broker_ids in broker_ids_by_list.items():
        if replica.broker_id in broker_ids:
            return list_name, None
    if leadership.allows_unclean_election:
        return "unclean", None
    return "no", "not in the ISR, and unclean.leader.election.enable is false"


def _replicas_row(partition: PartitionComparison, cluster: OfflineCluster) -> Row:
    registration, metadata_node = partition.registration, cluster.metadata_node
    leadership = None if registration is None else registration.leadership
    return {
        **REPLICAS_ROW.members_from(
            leadership, registration, partition, partition.replica_branches
        ),
        "topic": partition.topic_partition[0],
        "partition": partition.topic_partition[1],
        "replicas": [] if leadership is None else list(leadership.replicas),
        "isr": [] if leadership is None else list(leadership.isr),
        "adding_replicas": [] if registration is None else list(registration.adding_replicas),
        "removing_replicas": [] if registration is None else list(registration.removing_replicas),
        "eligible_leader_replicas": [] if leadership is None else list(leadership.elr),
        "last_known_elr": [] if leadership is None else list(leadership.last_known),
        "min_insync_replicas": None if leadership is None else leadership.min_isr,
        "unclean_leader_election_enable": None
        if leadership is None
        else leadership.allows_unclean_election,
        "metadata_from": None if metadata_node is None else metadata_node.display_path,
        "branches": [
            {
                "brokers": [replica.broker_id for replica in branch.replicas],
                "latest_epoch": branch.latest_epoch,
                "end": branch.end_offset,
            }
            for branch in partition.replica_branches.branches
        ],
    }


def _start_order_row(partition: PartitionComparison, outcome: PartitionOutcome) -> Row:
    alternatives: list[Row] = []
    if not outcome.is_certain:
        alternatives = [
            {"leader": _leader_or_none(leader), "log_end_offset": end_offset}
            for leader, end_offset in outcome.possible_ends
        ]
    return {
        "topic": partition.topic_partition[0],
        "partition": partition.topic_partition[1],
        "order": outcome.order.json_value,
        "unclean": outcome.order.has_unclean_election,
        "leader": outcome.leader,
        "elected_from": outcome.elections[0].elected_from if outcome.leader is not None else None,
        "log_end_offset": outcome.log_end_offset,
        "appended": outcome.n_appended,
        "lost_offsets": intervals_to_lists(outcome.lost_offsets),
        "lost_acknowledged_at_least": intervals_to_lists(outcome.lost_acknowledged_offsets),
        "returning_offsets": intervals_to_lists(outcome.returning_offsets),
        "certain": outcome.is_certain,
        "alternatives": alternatives,
    }


def _leader_or_none(leader_id: int) -> int | None:
    return None if leader_id == NO_LEADER else leader_id
