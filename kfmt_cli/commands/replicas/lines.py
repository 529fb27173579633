"""replicas: the answer, the partitions that need a decision, and the cost of each order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import starmap

from kfmt_cli.broker.metadata.cluster_image import NO_LEADER
from kfmt_cli.broker.version import version_from_feature_level
from kfmt_cli.commands.replicas.advice import (
    StartOrderCost,
    compute_order_costs,
    next_steps,
    start_advice_lines,
)
from kfmt_cli.commands.replicas.nodes import replica_by_broker
from kfmt_cli.commands.replicas.offline_cluster import (
    OfflineCluster,
    PartitionComparison,
    is_controller,
)
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.render.start_lines import step_lines
from kfmt_cli.render.style import (
    escape_unprintable,
    format_count,
    format_hidden_columns,
    format_range,
    wrap_long_lines,
)
from kfmt_cli.render.tables.line_table import LineColumn, LineTable

_MAX_EVIDENCE_LINES = 8
BROKER_CELL_LEGEND = "broker: log end offset   → after its own start   ✗ damaged"
_NO_BROKERS_TEXT = "–"

PartitionColumn = LineColumn[PartitionComparison]
FormatCell = Callable[[PartitionComparison], str]


def show_cluster_screen(sink: Sink, cluster: OfflineCluster, paths: Sequence[str]) -> None:
    """Show the cluster as text for people."""
    theme, width = sink.streams.theme, sink.streams.width

    def write_lines(lines: Iterator[str], style: str | None = None) -> None:
        for line in lines:
            fitted_line = wrap_long_lines(line, width)
            sink.write_line(
                f"{fitted_line if style is None else theme.paint(style, fitted_line)}\n"
            )

    write_lines(_heading_lines(cluster))
    sink.write_line("\n")
    lines = list(start_advice_lines(cluster))
    if lines:
        write_lines(iter(lines), "bold")
        sink.write_line("\n")
    _write_partition_table(sink, cluster)
    costs = compute_order_costs(cluster)
    if any(not cost.is_free for cost in costs):
        named_costs = [(cost.order.text, cost) for cost in costs]
        cost_column: LineColumn[StartOrderCost] = LineColumn(
            "cost", lambda cost: cost.description, align_right=False
        )
        table = LineTable("order", named_costs, (cost_column,), theme, None)
        sink.write_line(f"\n{table.format_heading()}")
        write_lines(
            table.format_line(order_text, cost).rstrip("\n") for order_text, cost in named_costs
        )
    evidence_lines = list(_evidence_lines(cluster))
    if evidence_lines:
        sink.write_line(f"\n{theme.paint('bold', 'signs of lost data')}\n")
        write_lines(iter(evidence_lines[:_MAX_EVIDENCE_LINES]))
    if len(evidence_lines) > _MAX_EVIDENCE_LINES:
        sink.write_line(
            f"  … and {len(evidence_lines) - _MAX_EVIDENCE_LINES} more; --json lists all\n"
        )
    for heading, lines in (
        ("reassignments in flight", list(_reassignment_lines(cluster))),
        ("transactions that the coordinator ends", list(_transaction_lines(cluster))),
    ):
        if lines:
            sink.write_line(f"\n{theme.paint('bold', heading)}\n")
            write_lines(iter(lines[:_MAX_EVIDENCE_LINES]))
        if (n_more := len(lines) - _MAX_EVIDENCE_LINES) > 0:
            sink.write_line(f"  … and {n_more} more; --json lists all\n")
    write_lines(step_lines(next_steps(cluster, paths), theme, width))


def _write_partition_table(sink: Sink, cluster: OfflineCluster) -> None:
    """The table of the partitions that need a decision, and the number of the others."""
    listed_partitions = [
        partition
        for partition in cluster.partitions
        if partition.needs_decision or sink.display_options.lists_all
    ]
    if listed_partitions:
        named_partitions = [
            (escape_unprintable(partition.name), partition) for partition in listed_partitions
        ]
        width = None if sink.display_options.wide else sink.streams.width
        table = LineTable(
            "partition", named_partitions, _partition_columns(cluster), sink.streams.theme, width
        )
        sink.write_line(
            table.format_heading()
            + "".join(table.format_line(name, partition) for name, partition in named_partitions)
        )
        sink.write_line(f"{BROKER_CELL_LEGEND}\n")
        if table.n_hidden_columns:
            sink.write_line(f"{format_hidden_columns(table.n_hidden_columns)}\n")
    if n_others := len(cluster.partitions) - len(listed_partitions):
        noun_phrases = "partition needs", "partitions need"
        sink.write_line(
            f"{format_count(n_others, *noun_phrases)} no decision; use --all to list them\n"
        )


def _heading_lines(cluster: OfflineCluster) -> Iterator[str]:
    """The nodes, and the metadata log that is used."""
    node_texts = []
    registered_brokers = (
        {} if cluster.cluster_image is None else cluster.cluster_image.broker_by_node_id
    )
    controllers = [
        node
        for node in cluster.nodes
        if node.node_id not in registered_brokers and is_controller(node, cluster.nodes)
    ]
    brokers = [node for node in cluster.nodes if node not in controllers]
    for role, nodes in (("broker", brokers), ("controller", controllers)):
        node_ids = sorted(node.node_id for node in nodes if node.node_id is not None)
        if node_ids:
            plural = "" if len(node_ids) == 1 else "s"
            node_texts.append(f"{role}{plural} {', '.join(map(str, node_ids))}")
    n_directories = sum(len(node.directories) for node in cluster.nodes)
    nodes_line = (
        f"{format_count(n_directories, 'directory', 'directories')}: {', '.join(node_texts)}"
    )
    cluster_image, metadata_node = cluster.cluster_image, cluster.metadata_node
    if metadata_node is None or cluster_image is None:
        yield nodes_line
    else:
        version = version_from_feature_level(
            cluster_image.metadata_version_level
        ).kafka_version.name
        yield f"{nodes_line} · cluster {metadata_node.cluster_id} · Kafka {version}"
        yield (
            f"metadata: {escape_unprintable(metadata_node.display_path)}, offset "
            f"{cluster_image.log_end_offset} of epoch {cluster_image.last_epoch}"
        )
    yield from map(escape_unprintable, cluster.evidence)


def _partition_columns(cluster: OfflineCluster) -> list[PartitionColumn]:
    """The columns of the partitions' table; the orders are hidden first."""
    columns: list[PartitionColumn] = [
        LineColumn("leader", _metadata_cell("leader"), hide_rank=3),
        LineColumn("ISR", _metadata_cell("isr"), hide_rank=2),
    ]
    if cluster.cluster_image is not None and cluster.cluster_image.is_elr_enabled:
        columns.append(LineColumn("ELR", _metadata_cell("elr"), hide_rank=4))
        columns.append(LineColumn("last known", _metadata_cell("last_known"), hide_rank=5))
    broker_ids = {
        replica.broker_id
        for partition in cluster.partitions
        for replica in partition.replicas
        if replica.broker_id is not None
    }
    columns += [_broker_column(broker_id) for broker_id in sorted(broker_ids)]
    columns.append(LineColumn("replicas", _replica_relation_text, hide_rank=6, align_right=False))
    numbered_orders = enumerate(cluster.orders)
    columns += [
        LineColumn(order.text, _outcome_cell(i), hide_rank=7 + i, align_right=False)
        for i, order in numbered_orders
    ]
    return columns


def _metadata_cell(leadership_field: str) -> FormatCell:
    """The cell of a value in the metadata."""

    def format_cell(partition: PartitionComparison) -> str:
        if partition.registration is None:
            return ""
        leadership_value = getattr(partition.registration.leadership, leadership_field)
        if leadership_field == "leader":
            return "none" if leadership_value == NO_LEADER else str(leadership_value)
        return ",".join(map(str, leadership_value)) or _NO_BROKERS_TEXT

    return format_cell


def _broker_column(broker_id: int) -> PartitionColumn:
    """The column of a broker's replicas."""

    def format_cell(partition: PartitionComparison) -> str:
        replica = replica_by_broker(partition.replicas).get(broker_id)
        if replica is None:
            return ""
        if replica.is_excluded:
            return "set aside"
        if replica.listing is None:
            return "missing"
        if not replica.is_log_end_known:
            return "?"
        log_end = replica.log_end or 0
        predicted_end_text = str(replica.predicted_log_end)
        if replica.predicted_log_end is None:
            predicted_end_text = "offline" if replica.has_prediction else "?"
        after_start_text = "" if replica.predicted_log_end == log_end else f"→{predicted_end_text}"
        return f"{log_end}{after_start_text}{' ✗' if replica.damaged_offsets else ''}"

    def find_style(partition: PartitionComparison) -> str:
        replica = replica_by_broker(partition.replicas).get(broker_id)
        has_problem = (
            replica is None
            or replica.damaged_offsets
            or replica.is_excluded
            or replica.listing is None
        )
        return "bad" if has_problem else "good"

    return LineColumn(f"broker {broker_id}", format_cell, cell_style=find_style)


def _replica_relation_text(partition: PartitionComparison) -> str:
    """How the replicas relate."""
    older_branches = partition.replica_branches.branches[1:]
    divergence_texts = [
        f"{branch.owner_names} diverged at {branch.diverged_at}" for branch in older_branches
    ]
    return "; ".join(divergence_texts) or partition.verdict


def _outcome_cell(order_index: int) -> FormatCell:
    """The cell of a partition's outcome with an order."""

    def format_cell(partition: PartitionComparison) -> str:
        if not partition.outcomes:
            return ""
        outcome = partition.outcomes[order_index]
        ends_text = " or ".join(dict.fromkeys(map(_log_end_text, outcome.log_end_offsets)))
        if len(outcome.elections) > 1:
            return ends_text
        lost_text = (
            f", loses {', '.join(starmap(format_range, outcome.lost_offsets))}"
            if outcome.lost_offsets
            else ""
        )
        return f"{ends_text}{lost_text}"

    return format_cell


def _log_end_text(log_end_offset: int | None) -> str:
    return "offline" if log_end_offset is None else str(log_end_offset)


def _evidence_lines(cluster: OfflineCluster) -> Iterator[str]:
    """Each sentence about the replicas once, with the partitions it is true of."""
    partitions_by_sentence: dict[str, list[str]] = {}
    for partition in cluster.partitions:
        for sentence in partition.evidence:
            partitions_by_sentence.setdefault(sentence, []).append(
                escape_unprintable(partition.name)
            )
    for sentence, partition_names in partitions_by_sentence.items():
        more_text = f" and {len(partition_names) - 3} more" if len(partition_names) > 3 else ""
        yield f"  {', '.join(partition_names[:3])}{more_text}: {sentence}"


def _reassignment_lines(cluster: OfflineCluster) -> Iterator[str]:
    """What the controller changes once the replicas that are being added have caught up."""
    for partition in cluster.partitions:
        registration = partition.registration
        if registration is None:
            continue
        adding, removing = (
            ", ".join(f"broker {node}" for node in nodes)
            for nodes in (registration.adding_replicas, registration.removing_replicas)
        )
        if not adding and not removing:
            continue
        moves_leader = registration.leadership.leader in registration.removing_replicas
        leader_text = "leadership moves and " if moves_leader else ""
        removal_text = (
            f"{leader_text}{removing}'s replica becomes -delete, or -stray if it starts later"
        )
        if adding and removing:
            change = f"once {adding} has caught up, {removal_text}"
        else:
            change = f"{adding} gets a replica" if adding else removal_text
        yield f"  {escape_unprintable(partition.name)}: {change}"


def _transaction_lines(cluster: OfflineCluster) -> Iterator[str]:
    """The transactions that a coordinator completes or aborts after a start, and their markers."""
    for transaction in cluster.unfinished_transactions:
        yield escape_unprintable(f"  {transaction.describe_end()}")
