"""replicas: which broker to start first, the cost of each order, and the steps before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kfmt_cli.broker.log_reading.offset_intervals import count_offsets, subtract_intervals
from kfmt_cli.commands.check.plan.data_steps import add_private_key_option
from kfmt_cli.commands.replicas.offline_cluster import OfflineCluster, PartitionComparison
from kfmt_cli.commands.replicas.start_orders import PartitionOutcome, StartOrder
from kfmt_cli.render.start_lines import NextStep
from kfmt_cli.render.style import format_count, quote_path_for_shell


@dataclass(frozen=True, slots=True)
class StartOrderCost:
    """The cost of an order over all partitions, at worst."""

    order: StartOrder
    n_lost_offsets: int
    """Offsets lost."""
    n_losing_partitions: int
    """Partitions that lose offsets."""
    n_offline_partitions: int
    """Partitions that may stay offline."""
    n_returning_offsets: int
    """Offsets at which replaced records return."""
    n_uncertain_partitions: int
    """Partitions whose outcome depends on timing."""

    @classmethod
    def from_outcomes(
        cls, order: StartOrder, outcomes: Sequence[PartitionOutcome]
    ) -> StartOrderCost:
        """The cost of an order with these outcomes of partitions."""
        return cls(
            order,
            sum(outcome.n_lost_offsets for outcome in outcomes),
            sum(bool(outcome.lost_offsets) for outcome in outcomes),
            sum(outcome.is_offline for outcome in outcomes),
            sum(count_offsets(outcome.returning_offsets) for outcome in outcomes),
            sum(not outcome.is_certain for outcome in outcomes),
        )

    @property
    def is_free(self) -> bool:
        """Whether the order loses no records, leaves no partition offline and brings no replaced
        records back."""
        return not (self.n_lost_offsets or self.n_offline_partitions or self.n_returning_offsets)

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Sort key: cheaper ones first."""
        return (
            self.n_lost_offsets,
            self.n_offline_partitions,
            self.n_returning_offsets,
            self.n_uncertain_partitions,
        )

    @property
    def description(self) -> str:
        """The cost, as text."""
        sentences = []
        if self.n_lost_offsets:
            offsets_text, verb = (
                format_count(self.n_lost_offsets, "offset"),
                "is" if self.n_lost_offsets == 1 else "are",
            )
            sentences.append(
                f"{offsets_text} of {format_count(self.n_losing_partitions, 'partition')} "
                f"{verb} lost"
            )
        if self.n_offline_partitions:
            sentences.append(
                f"{format_count(self.n_offline_partitions, 'partition')} may stay offline"
            )
        if self.n_returning_offsets:
            verb = "returns" if self.n_returning_offsets == 1 else "return"
            sentences.append(f"{format_count(self.n_returning_offsets, 'replaced record')} {verb}")
        return "; ".join(sentences) or "nothing is lost"


def compute_order_costs(cluster: OfflineCluster) -> list[StartOrderCost]:
    """The cost of each order."""
    outcomes_by_partition = [
        partition.outcomes for partition in cluster.partitions if partition.outcomes
    ]
    return [
        StartOrderCost.from_outcomes(order, [outcomes[i] for outcomes in outcomes_by_partition])
        for i, order in enumerate(cluster.orders)
    ]


def find_best_cost(costs: Sequence[StartOrderCost]) -> StartOrderCost:
    """The cheapest order; one that starts a single broker first, if there is one."""
    single_start_costs = [cost for cost in costs if len(cost.order.stages[0].nodes) == 1]
    return min(single_start_costs or costs, key=lambda cost: cost.rank)


def start_advice_lines(cluster: OfflineCluster) -> Iterator[str]:
    """The answer, the most important line first."""
    if n_unread := sum(not partition.is_compared for partition in cluster.partitions):
        yield (
            f"{format_count(n_unread, 'partition')} could not be compared: what any order loses "
            "there is unknown; repair the disk or leave it out. For the other partitions:"
        )
    if n_unread < len(cluster.partitions):
        yield from _best_order_lines(compute_order_costs(cluster))
    if missing_broker_ids := cluster.missing_broker_ids:
        noun, verb = ("broker", "is") if len(missing_broker_ids) == 1 else ("brokers", "are")
        yield (
            f"No directory of {noun} {_join_ids(missing_broker_ids)} was given, which {verb} "
            "registered: what the replicas there hold is unknown, and not counted as lost."
        )


def _best_order_lines(costs: Sequence[StartOrderCost]) -> Iterator[str]:
    """The brokers to start first, and the cost."""
    if not costs:
        return
    best_cost = find_best_cost(costs)
    if all(cost.is_free for cost in costs) and len(costs) > 1:
        yield "Start the brokers in any order, or together: nothing is lost."
        return
    prefix = (
        "Start " if not best_cost.n_lost_offsets else "EVERY ORDER LOSES OFFSETS; the fewest with "
    )
    if len(costs) == 1:
        prefix = ""
    yield f"{prefix}{_format_order(best_cost.order)}: {best_cost.description}."
    worse_costs = [cost for cost in costs if cost.n_lost_offsets > best_cost.n_lost_offsets]
    if worse_costs:
        max_lost_text = format_count(max(cost.n_lost_offsets for cost in worse_costs), "offset")
        yield (
            f"DO NOT start {_format_first_brokers(worse_costs)}: up to {max_lost_text} would "
            "be lost."
        )


def _format_order(order: StartOrder) -> str:
    """An order as text, such as: broker 1 first, alone until it leads, then 2 and 3."""
    first_stage, *later_stages = order.stages
    if len(first_stage.nodes) > 1:
        order_text = f"brokers {_join_ids(first_stage.nodes)} together"
    else:
        order_text = (
            f"broker {first_stage.nodes[0]} first{', alone until it leads' if later_stages else ''}"
        )
    if first_stage.ends_with_election:
        order_text += ", with an unclean election"
    if later_stages:
        order_text += (
            f", then {_join_ids([node for stage in later_stages for node in stage.nodes])}"
        )
    return order_text


def _format_first_brokers(costs: Iterable[StartOrderCost]) -> str:
    """The brokers with which some orders begin, such as: broker 2 or 3 first, or all together."""
    single_broker_ids: dict[int, None] = {}
    other_texts: list[str] = []
    for cost in costs:
        first_stage = cost.order.stages[0]
        if len(first_stage.nodes) == 1 and not first_stage.ends_with_election:
            single_broker_ids[first_stage.nodes[0]] = None
        elif len(cost.order.stages) == 1 and not first_stage.ends_with_election:
            other_texts.append("all together")
        else:
            other_texts.append(f"as {cost.order.text}")
    texts = (
        [f"broker {_join_ids(list(single_broker_ids), 'or')} first"] if single_broker_ids else []
    )
    return ", or ".join(texts + other_texts)


def _join_ids(node_ids: Sequence[int], conjunction: str = "and") -> str:
    id_texts = [str(node_id) for node_id in node_ids]
    return f" {conjunction} ".join(
        [", ".join(id_texts[:-1]), id_texts[-1]] if len(id_texts) > 1 else id_texts
    )


def next_steps(cluster: OfflineCluster, paths: Iterable[str]) -> list[NextStep]:
    """The commands that save records that every order loses or that only older branches have, in
    order."""
    steps: list[NextStep] = []
    costs = compute_order_costs(cluster)
    if costs and (best_cost := find_best_cost(costs)).n_lost_offsets:
        steps.append(
            _merge_step(cluster, best_cost, " ".join(quote_path_for_shell(path) for path in paths))
        )
    for partition in cluster.partitions:
        steps += _salvage_steps(partition)
    return [
        replace(step, order=order) for order, step in enumerate(add_private_key_option(steps), 1)
    ]


def _merge_step(
    cluster: OfflineCluster, best_cost: StartOrderCost, path_arguments: str
) -> NextStep:
    """The command that saves the offsets that even the best order loses. If replicas have diverged,
    it merges the branch of the broker that leads, whose log the others then copy."""
    outcomes = (
        outcome
        for partition in cluster.partitions
        for outcome in partition.outcomes
        if outcome.order is best_cost.order
    )
    leader_ids = sorted(
        {
            outcome.leader
            for outcome in outcomes
            if outcome.lost_offsets and outcome.leader is not None
        }
    )
    leader_ids = leader_ids or [best_cost.order.stages[0].nodes[0]]
    has_diverged = any(
        len(partition.replica_branches.branches) > 1 for partition in cluster.partitions
    )
    branch_option = f" --branch {leader_ids[0]}" if has_diverged else ""
    replacement_text = f"broker {leader_ids[0]}'s directories with these, and start it first"
    if len(leader_ids) > 1:
        replacement_text = (
            f"the directories of brokers {_join_ids(leader_ids)} with these, and start them first"
        )
    return NextStep(
        path_arguments,
        f"kfmt merge {path_arguments} --to DST{branch_option}",
        "merges the best log of each partition, with the "
        f"{format_count(best_cost.n_lost_offsets, 'offset')} that even "
        f"the best order loses; replace {replacement_text}",
    )


def _salvage_steps(partition: PartitionComparison) -> Iterator[NextStep]:
    """The commands that save the records that only an older branch has."""
    for branch in partition.replica_branches.branches[1:]:
        replica = branch.replicas[0]
        n_own_offsets = count_offsets(
            subtract_intervals(replica.undamaged_offsets, [(-1, (branch.diverged_at or 0) - 1)])
        )
        if replica.file is not None and n_own_offsets:
            command = f"kfmt salvage {quote_path_for_shell(replica.file)} DST"
            offsets_text = format_count(n_own_offsets, "offset")
            description = f"keeps the {offsets_text} that only {replica.owner_name} has"
            if branch.diverged_at:
                description += f", from offset {branch.diverged_at} onward"
            yield NextStep(replica.file, command, description)
