"""replicas: the rows of a dead cluster, and the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kfmt_cli.broker.cluster.election import NO_LEADER
from kfmt_cli.broker.start.ranges import as_lists
from kfmt_cli.commands.replicas.advice import steps_of
from kfmt_cli.commands.replicas.command import ComparedPartition, DeadCluster, is_controller
from kfmt_cli.commands.replicas.nodes import ClusterNode, DiskReplica
from kfmt_cli.commands.replicas.orders import End
from kfmt_cli.commands.replicas.screen import show_screen
from kfmt_cli.commands.run import Run
from kfmt_cli.core.urls import name_text
from kfmt_cli.errors import ExitCode
from kfmt_cli.rows.documents import NEXT_STEP
from kfmt_cli.rows.types.cluster_rows import DIRECTORY, REPLICA, REPLICAS, START_ORDER

Row = dict[str, object]


def show(run: Run, found: DeadCluster, paths: Sequence[str]) -> None:
    """Show what was found."""
    if any(map(_is_trouble, found.partitions)):
        run.host.reached(ExitCode.FINDINGS)
    if run.sink.for_people:
        show_screen(run.sink, found, paths)
        return
    put_rows(run, found, found.partitions)
    for step in steps_of(found, paths):
        run.sink.document(NEXT_STEP, NEXT_STEP.members_of(step), ())


def put_rows(run: Run, found: DeadCluster, partitions: Iterable[ComparedPartition]) -> None:
    """Output the rows of the nodes and of some partitions."""
    for node in found.nodes:
        for row in _directory_rows(node, found):
            run.sink.document(DIRECTORY, row, ())
    for partition in partitions:
        for copy in partition.copies:
            run.sink.document(REPLICA, _replica_row(partition, copy, found), ())
        run.sink.document(REPLICAS, _replicas_row(partition, found), ())
        for end in partition.ends:
            run.sink.document(START_ORDER, _order_row(partition, end), ())


def _is_trouble(partition: ComparedPartition) -> bool:
    """Whether an order loses something or copies part."""
    if partition.found.diverged_at is not None or partition.verdict in ("damaged", "foreign"):
        return True
    return any(end.lost or end.returning for end in partition.ends)


def _directory_rows(node: ClusterNode, found: DeadCluster) -> Iterator[Row]:
    """A row for each log directory of a node; the metadata log is in the first."""
    roles = ["controller"] if is_controller(node, found.nodes) else []
    is_registered = found.image is not None and node.node_id in found.image.brokers
    if is_registered or (not roles and node.broker.replicas):
        roles.insert(0, "broker")
    for i, directory in enumerate(node.directories):
        image = node.image if i == 0 else None
        yield {
            "file": name_text(directory.path),
            "node_id": node.node_id,
            "roles": roles,
            "cluster_id": node.cluster_id,
            "directory_id": directory.identity.directory_id,
            "clean_shutdown": directory.marker is not None,
            "metadata_end_offset": None if image is None else image.end,
            "metadata_epoch": None if image is None else image.epoch,
            "metadata_is_newest": image is not None and image.key == found.newest_key,
            "why_not": node.why_absent,
        }


def _replica_row(partition: ComparedPartition, copy: DiskReplica, found: DeadCluster) -> Row:
    metadata = partition.metadata
    may_lead, why_not = _may_lead(partition, copy, found)
    state = None if metadata is None else metadata.state
    return {
        **REPLICA.members_of(copy),
        "topic": partition.place[0],
        "partition": partition.place[1],
        "log_start_offset": copy.log_start,
        "log_end_offset": copy.log_end,
        "log_end_offset_after_start": 0 if copy.is_set_aside else copy.end_after,
        "epochs": as_lists(copy.epochs),
        "high_watermark_checkpoint": copy.high_watermark,
        "damaged_offsets": as_lists(copy.damaged),
        "in_isr": None if state is None else copy.broker_id in state.isr,
        "in_elr": None if state is None else copy.broker_id in state.elr,
        "may_lead": may_lead,
        "why_not": why_not,
    }


def _may_lead(
    partition: ComparedPartition, copy: DiskReplica, found: DeadCluster
) -> tuple[str, str | None]:
    """From which list a replica may be elected, or why it is not."""
    node = found.nodes[copy.node]
    if node.why_not is not None:
        return "no", f"the broker is not admitted: {node.why_not}"
    if node.why_no_start is not None:
        return "no", f"the broker does not start: {node.why_no_start}"
    if partition.metadata is None:
        return "no", "the metadata does not contain the partition"
    state = partition.metadata.state
    if copy.broker_id not in state.replicas:
        return "no", "the metadata does not assign a replica to the broker"
    lists = {"isr": state.isr, "elr": state.elr, "last_known_leader": state.last_known}
    for name, brokers in lists.items():
        if copy.broker_id in brokers:
            return name, None
    if state.unclean:
        return "unclean", None
    return "no", "not in the ISR, and unclean.leader.election.enable is false"


def _replicas_row(partition: ComparedPartition, found: DeadCluster) -> Row:
    metadata, source = partition.metadata, found.image_from
    state = None if metadata is None else metadata.state
    return {
        **REPLICAS.members_of(state, metadata, partition, partition.found),
        "topic": partition.place[0],
        "partition": partition.place[1],
        "replicas": [] if state is None else list(state.replicas),
        "isr": [] if state is None else list(state.isr),
        "eligible_leader_replicas": [] if state is None else list(state.elr),
        "last_known_elr": [] if state is None else list(state.last_known),
        "min_insync_replicas": None if state is None else state.min_isr,
        "unclean_leader_election_enable": None if state is None else state.unclean,
        "metadata_from": None if source is None else source.shown,
        "branches": [
            {
                "brokers": [copy.broker_id for copy in branch.copies],
                "latest_epoch": branch.latest_epoch,
                "end": branch.end,
            }
            for branch in partition.found.branches
        ],
    }


def _order_row(partition: ComparedPartition, end: End) -> Row:
    alternatives: list[Row] = []
    if not end.is_certain:
        alternatives = [
            {"leader": _leader(its.leader), "log_end_offset": offset}
            for its, offset in zip(end.elected, end.ends, strict=True)
        ]
    return {
        "topic": partition.place[0],
        "partition": partition.place[1],
        "order": end.order.value,
        "unclean": end.order.elects,
        "leader": end.leader,
        "elected_from": end.elected[0].how if end.leader is not None else None,
        "log_end_offset": end.log_end_offset,
        "lost_offsets": as_lists(end.lost),
        "lost_acknowledged_at_least": as_lists(end.lost_acknowledged),
        "returning_offsets": as_lists(end.returning),
        "certain": end.is_certain,
        "alternatives": alternatives,
    }


def _leader(node: int) -> int | None:
    return None if node == NO_LEADER else node
