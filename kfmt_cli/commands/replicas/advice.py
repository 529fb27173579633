"""replicas: which broker to start first, what each order costs, and what to do before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kfmt_cli.broker.start.ranges import size_of_ranges, without
from kfmt_cli.commands.check.advice import with_key
from kfmt_cli.commands.replicas.command import ComparedPartition, DeadCluster
from kfmt_cli.commands.replicas.orders import End, Order
from kfmt_cli.render.start_lines import NextStep
from kfmt_cli.render.style import count, shell_path


@dataclass(frozen=True, slots=True)
class Cost:
    """What an order costs over all partitions, at worst."""

    order: Order
    lost: int
    """Offsets lost."""
    losing: int
    """Partitions that lose some."""
    offline: int
    """Partitions that may stay offline."""
    returning: int
    """Offsets whose replaced records return."""
    unsure: int
    """Partitions whose end depends on timing."""

    @classmethod
    def of(cls, order: Order, ends: Sequence[End]) -> Cost:
        """The cost of an order with these ends."""
        return cls(
            order,
            sum(end.n_lost for end in ends),
            sum(bool(end.lost) for end in ends),
            sum(end.is_offline for end in ends),
            sum(size_of_ranges(end.returning) for end in ends),
            sum(not end.is_certain for end in ends),
        )

    @property
    def is_free(self) -> bool:
        """Whether nothing is lost, stays offline or returns."""
        return not (self.lost or self.offline or self.returning)

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Sort key: cheaper ones first."""
        return self.lost, self.offline, self.returning, self.unsure

    @property
    def words(self) -> str:
        """The cost."""
        told = []
        if self.lost:
            offsets, are = count(self.lost, "offset"), "is" if self.lost == 1 else "are"
            told.append(f"{offsets} of {count(self.losing, 'partition')} {are} lost")
        if self.offline:
            told.append(f"{count(self.offline, 'partition')} may stay offline")
        if self.returning:
            return_ = "returns" if self.returning == 1 else "return"
            told.append(f"{count(self.returning, 'replaced record')} {return_}")
        return "; ".join(told) or "nothing is lost"


def costs_of(found: DeadCluster) -> list[Cost]:
    """The cost of each order."""
    known = [partition.ends for partition in found.partitions if partition.ends]
    return [Cost.of(order, [ends[i] for ends in known]) for i, order in enumerate(found.orders)]


def best_of(costs: Sequence[Cost]) -> Cost:
    """The cheapest order; one that starts a single broker first, if there is one."""
    alone = [cost for cost in costs if len(cost.order.stages[0].nodes) == 1]
    return min(alone or costs, key=lambda cost: cost.rank)


def answers(found: DeadCluster) -> Iterator[str]:
    """The answer, the most important line first."""
    yield from _costs(costs_of(found))
    if unseen := found.unseen:
        brokers, are = ("broker", "is") if len(unseen) == 1 else ("brokers", "are")
        yield (
            f"No directory of {brokers} {_listed(unseen)} was given, which {are} registered: what "
            "the replicas there hold is unknown, and not counted as lost."
        )


def _costs(costs: Sequence[Cost]) -> Iterator[str]:
    """What to start first, and what that costs."""
    if not costs:
        return
    best = best_of(costs)
    if all(cost.is_free for cost in costs) and len(costs) > 1:
        yield "Start the brokers in any order, or together: nothing is lost."
        return
    start = "Start " if not best.lost else "EVERY ORDER LOSES OFFSETS; the fewest with "
    if len(costs) == 1:
        start = ""
    yield f"{start}{_in_words(best.order)}: {best.words}."
    worse = [cost for cost in costs if cost.lost > best.lost]
    if worse:
        most = count(max(cost.lost for cost in worse), "offset")
        yield f"DO NOT start {_firsts(worse)}: up to {most} would be lost."


def _in_words(order: Order) -> str:
    """An order in words, such as: broker 1 first, alone until it leads, then 2 and 3."""
    first, *rest = order.stages
    if len(first.nodes) > 1:
        words = f"brokers {_listed(first.nodes)} together"
    else:
        words = f"broker {first.nodes[0]} first{', alone until it leads' if rest else ''}"
    if first.elects:
        words += ", with an unclean election"
    if rest:
        words += f", then {_listed([node for stage in rest for node in stage.nodes])}"
    return words


def _firsts(costs: Iterable[Cost]) -> str:
    """The brokers with which some orders begin, such as: broker 2 or 3 first, or all together."""
    alone: dict[int, None] = {}
    others: list[str] = []
    for cost in costs:
        first = cost.order.stages[0]
        if len(first.nodes) == 1 and not first.elects:
            alone[first.nodes[0]] = None
        elif len(cost.order.stages) == 1 and not first.elects:
            others.append("all together")
        else:
            others.append(f"as {cost.order.text}")
    words = [f"broker {_listed(list(alone), 'or')} first"] if alone else []
    return ", or ".join(words + others)


def _listed(nodes: Sequence[int], last: str = "and") -> str:
    names = [str(node) for node in nodes]
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def steps_of(found: DeadCluster, paths: Iterable[str]) -> Iterator[NextStep]:
    """The commands that keep what every order loses or sets aside."""
    steps: list[NextStep] = []
    costs = costs_of(found)
    if costs and (best := best_of(costs)).lost:
        steps.append(_to_merge(found, best, " ".join(shell_path(p) for p in paths)))
    for partition in found.partitions:
        steps += _branches_to_keep(partition)
    return with_key(steps)


def _to_merge(found: DeadCluster, best: Cost, names: str) -> NextStep:
    """The command that keeps what even the best order loses. Where replicas have diverged, it
    takes the branch of the broker that leads, which the others then follow."""
    ends = (end for each in found.partitions for end in each.ends if end.order is best.order)
    leaders = sorted({end.leader for end in ends if end.lost and end.leader is not None})
    leaders = leaders or [best.order.stages[0].nodes[0]]
    parted = any(len(partition.found.branches) > 1 for partition in found.partitions)
    branch = f" --branch {leaders[0]}" if parted else ""
    its = f"broker {leaders[0]}'s directories with these, and start it first"
    if len(leaders) > 1:
        its = f"the directories of brokers {_listed(leaders)} with these, and start them first"
    return NextStep(
        names,
        f"kfmt merge {names} --to DST{branch}",
        f"merges the best log of each partition, with the {count(best.lost, 'offset')} that even "
        f"the best order loses; replace {its}",
    )


def _branches_to_keep(partition: ComparedPartition) -> Iterator[NextStep]:
    """The commands that keep what only an older branch has."""
    for branch in partition.found.branches[1:]:
        replica = branch.copies[0]
        own = size_of_ranges(without(replica.undamaged, [(-1, (branch.parted_at or 0) - 1)]))
        if replica.file is not None and own:
            command = f"kfmt salvage {shell_path(replica.file)} DST"
            records = count(own, "offset")
            words = f"keeps the {records} that only {replica.owner} has"
            if branch.parted_at:
                words += f", from offset {branch.parted_at} onward"
            yield NextStep(replica.file, command, words)
