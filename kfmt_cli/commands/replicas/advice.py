"""replicas: which broker to start first, the cost of each order, and the steps before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kfmt_cli.broker.start.offset_intervals import count_offsets, subtract_intervals
from kfmt_cli.commands.check.next_steps import add_private_key
from kfmt_cli.commands.replicas.command import OfflineCluster, PartitionComparison
from kfmt_cli.commands.replicas.start_orders import PartitionOutcome, StartOrder
from kfmt_cli.render.start_lines import NextStep
from kfmt_cli.render.style import format_count, shell_quote_path


@dataclass(frozen=True, slots=True)
class StartOrderCost:
    """The cost of an order over all partitions, at worst."""

    order: StartOrder
    n_lost: int
    """Offsets lost."""
    n_losing_partitions: int
    """Partitions that lose offsets."""
    n_offline_partitions: int
    """Partitions that may stay offline."""
    n_returning: int
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
            sum(outcome.n_lost for outcome in outcomes),
            sum(bool(outcome.lost_offsets) for outcome in outcomes),
            sum(outcome.is_offline for outcome in outcomes),
            sum(count_offsets(outcome.returning_offsets) for outcome in outcomes),
            sum(not outcome.is_certain for outcome in outcomes),
        )

    @property
    def is_free(self) -> bool:
        """Whether nothing is lost, stays offline or returns."""
        return not (self.n_lost or self.n_offline_partitions or self.n_returning)

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Sort key: cheaper ones first."""
        return self.n_lost, self.n_offline_partitions, self.n_returning, self.n_uncertain_partitions

    @property
    def description(self) -> str:
        """The cost, as text."""
        sentences = []
        if self.n_lost:
            offsets, verb = format_count(self.n_lost, "offset"), "is" if self.n_lost == 1 else "are"
            sentences.append(
                f"{offsets} of {format_count(self.n_losing_partitions, 'partition')} {verb} lost"
            )
        if self.n_offline_partitions:
            sentences.append(
                f"{format_count(self.n_offline_partitions, 'partition')} may stay offline"
            )
        if self.n_returning:
            verb = "returns" if self.n_returning == 1 else "return"
            sentences.append(f"{format_count(self.n_returning, 'replaced record')} {verb}")
        return "; ".join(sentences) or "nothing is lost"


def compute_costs(cluster: OfflineCluster) -> list[StartOrderCost]:
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


def answer_lines(cluster: OfflineCluster) -> Iterator[str]:
    """The answer, the most important line first."""
    yield from _cost_lines(compute_costs(cluster))
    if missing_brokers := cluster.missing_brokers:
        noun, verb = ("broker", "is") if len(missing_brokers) == 1 else ("brokers", "are")
        yield (
            f"No directory of {noun} {_join_nodes(missing_brokers)} was given, which {verb} "
            "registered: what the replicas there hold is unknown, and not counted as lost."
        )


def _cost_lines(costs: Sequence[StartOrderCost]) -> Iterator[str]:
    """The brokers to start first, and the cost."""
    if not costs:
        return
    best_cost = find_best_cost(costs)
    if all(cost.is_free for cost in costs) and len(costs) > 1:
        yield "Start the brokers in any order, or together: nothing is lost."
        return
    prefix = "Start " if not best_cost.n_lost else "EVERY ORDER LOSES OFFSETS; the fewest with "
    if len(costs) == 1:
        prefix = ""
    yield f"{prefix}{_format_order(best_cost.order)}: {best_cost.description}."
    worse_costs = [cost for cost in costs if cost.n_lost > best_cost.n_lost]
    if worse_costs:
        max_lost_text = format_count(max(cost.n_lost for cost in worse_costs), "offset")
        yield (
            f"DO NOT start {_format_first_brokers(worse_costs)}: up to {max_lost_text} would "
            "be lost."
        )


def _format_order(order: StartOrder) -> str:
    """An order as text, such as: broker 1 first, alone until it leads, then 2 and 3."""
    first_stage, *later_stages = order.stages
    if len(first_stage.nodes) > 1:
        text = f"brokers {_join_nodes(first_stage.nodes)} together"
    else:
        text = (
            f"broker {first_stage.nodes[0]} first{', alone until it leads' if later_stages else ''}"
        )
    if first_stage.ends_with_election:
        text += ", with an unclean election"
    if later_stages:
        text += f", then {_join_nodes([node for stage in later_stages for node in stage.nodes])}"
    return text


def _format_first_brokers(costs: Iterable[StartOrderCost]) -> str:
    """The brokers with which some orders begin, such as: broker 2 or 3 first, or all together."""
    single_brokers: dict[int, None] = {}
    other_texts: list[str] = []
    for cost in costs:
        first_stage = cost.order.stages[0]
        if len(first_stage.nodes) == 1 and not first_stage.ends_with_election:
            single_brokers[first_stage.nodes[0]] = None
        elif len(cost.order.stages) == 1 and not first_stage.ends_with_election:
            other_texts.append("all together")
        else:
            other_texts.append(f"as {cost.order.text}")
    texts = [f"broker {_join_nodes(list(single_brokers), 'or')} first"] if single_brokers else []
    return ", or ".join(texts + other_texts)


def _join_nodes(nodes: Sequence[int], conjunction: str = "and") -> str:
    names = [str(node) for node in nodes]
    return f" {conjunction} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def next_steps(cluster: OfflineCluster, paths: Iterable[str]) -> Iterator[NextStep]:
    """The commands that save records that every order loses or that only older branches have."""
    steps: list[NextStep] = []
    costs = compute_costs(cluster)
    if costs and (best_cost := find_best_cost(costs)).n_lost:
        steps.append(
            _merge_step(cluster, best_cost, " ".join(shell_quote_path(path) for path in paths))
        )
    for partition in cluster.partitions:
        steps += _salvage_steps(partition)
    return add_private_key(steps)


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
    leaders = sorted(
        {
            outcome.leader
            for outcome in outcomes
            if outcome.lost_offsets and outcome.leader is not None
        }
    )
    leaders = leaders or [best_cost.order.stages[0].nodes[0]]
    has_diverged = any(
        len(partition.replica_branches.branches) > 1 for partition in cluster.partitions
    )
    branch_option = f" --branch {leaders[0]}" if has_diverged else ""
    replacement_text = f"broker {leaders[0]}'s directories with these, and start it first"
    if len(leaders) > 1:
        replacement_text = (
            f"the directories of brokers {_join_nodes(leaders)} with these, and start them first"
        )
    return NextStep(
        path_arguments,
        f"kfmt merge {path_arguments} --to DST{branch_option}",
        "merges the best log of each partition, with the "
        f"{format_count(best_cost.n_lost, 'offset')} that even "
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
            command = f"kfmt salvage {shell_quote_path(replica.file)} DST"
            offsets_text = format_count(n_own_offsets, "offset")
            description = f"keeps the {offsets_text} that only {replica.owner} has"
            if branch.diverged_at:
                description += f", from offset {branch.diverged_at} onward"
            yield NextStep(replica.file, command, description)
