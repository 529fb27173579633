"""replicas: the answer, the partitions that need a decision, and the cost of each order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import starmap

from kfmt_cli.broker.cluster.election import NO_LEADER
from kfmt_cli.broker.version import by_level
from kfmt_cli.commands.replicas.advice import Cost, answers, costs_of, steps_of
from kfmt_cli.commands.replicas.command import ComparedPartition, DeadCluster, is_controller
from kfmt_cli.commands.replicas.nodes import of_brokers
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.render.start_lines import step_lines
from kfmt_cli.render.style import count, fitted, hidden_words, range_words, safe
from kfmt_cli.render.tables.line_table import LineColumn, LineTable

_MOST_SIGNS = 8
LEGEND = "broker: log end offset   → after its own start   ✗ damaged"
_NONE = "–"

Column = LineColumn[ComparedPartition]
Cell = Callable[[ComparedPartition], str]


def show_screen(sink: Sink, found: DeadCluster, paths: Sequence[str]) -> None:
    """Show people what was found."""
    theme, width = sink.out.theme, sink.out.width

    def put(lines: Iterator[str], style: str | None = None) -> None:
        for line in lines:
            whole = fitted(line, width)
            sink.put(f"{whole if style is None else theme.paint(style, whole)}\n")

    put(_heading(found))
    sink.put("\n")
    lines = list(answers(found))
    if lines:
        put(iter(lines), "bold")
        sink.put("\n")
    _partitions(sink, found)
    costs = costs_of(found)
    if any(not cost.is_free for cost in costs):
        rows = [(cost.order.text, cost) for cost in costs]
        words: LineColumn[Cost] = LineColumn("cost", lambda cost: cost.words, right=False)
        table = LineTable("order", rows, (words,), theme, None)
        sink.put(f"\n{table.heading()}")
        put(table.line(name, cost).rstrip("\n") for name, cost in rows)
    signs = list(_signs(found))
    if signs:
        sink.put(f"\n{theme.paint('bold', 'signs of lost data')}\n")
        put(iter(signs[:_MOST_SIGNS]))
    if len(signs) > _MOST_SIGNS:
        sink.put(f"  … and {len(signs) - _MOST_SIGNS} more; --json lists all\n")
    put(step_lines(list(steps_of(found, paths)), theme, width))


def _partitions(sink: Sink, found: DeadCluster) -> None:
    """The table of the partitions that need a decision, and the number of the others."""
    shown = [p for p in found.partitions if p.needs_decision or sink.look.lists_all]
    if shown:
        named = [(safe(p.name), p) for p in shown]
        width = None if sink.look.wide else sink.out.width
        table = LineTable("partition", named, _columns(found), sink.out.theme, width)
        sink.put(table.heading() + "".join(table.line(name, p) for name, p in named))
        sink.put(f"{LEGEND}\n")
        if table.n_hidden:
            sink.put(f"{hidden_words(table.n_hidden)}\n")
    if others := len(found.partitions) - len(shown):
        words = "partition needs", "partitions need"
        sink.put(f"{count(others, *words)} no decision; use --all to list them\n")


def _heading(found: DeadCluster) -> Iterator[str]:
    """The nodes, and the metadata that decides."""
    names = []
    known = {} if found.image is None else found.image.brokers
    only = [n for n in found.nodes if n.node_id not in known and is_controller(n, found.nodes)]
    brokers = [node for node in found.nodes if node not in only]
    for words, nodes in (("broker", brokers), ("controller", only)):
        ids = sorted(node.node_id for node in nodes if node.node_id is not None)
        if ids:
            plural = "" if len(ids) == 1 else "s"
            names.append(f"{words}{plural} {', '.join(map(str, ids))}")
    n_directories = sum(len(node.directories) for node in found.nodes)
    line = f"{count(n_directories, 'directory', 'directories')}: {', '.join(names)}"
    image, source = found.image, found.image_from
    if source is None or image is None:
        yield line
    else:
        version = by_level(image.level).version.name
        yield f"{line} · cluster {source.cluster_id} · Kafka {version}"
        yield f"metadata: {safe(source.shown)}, offset {image.end} of epoch {image.epoch}"
    yield from map(safe, found.evidence)


def _columns(found: DeadCluster) -> list[Column]:
    """The columns of the partitions' table; the orders are hidden first."""
    columns: list[Column] = [
        LineColumn("leader", _state("leader"), keep=3),
        LineColumn("ISR", _state("isr"), keep=2),
    ]
    if found.image is not None and found.image.has_elr:
        columns.append(LineColumn("ELR", _state("elr"), keep=4))
        columns.append(LineColumn("last known", _state("last_known"), keep=5))
    ids = {c.broker_id for p in found.partitions for c in p.copies if c.broker_id is not None}
    columns += [_of_broker(id_) for id_ in sorted(ids)]
    columns.append(LineColumn("replicas", _relation, keep=6, right=False))
    orders = enumerate(found.orders)
    columns += [LineColumn(order.text, _end(i), keep=7 + i, right=False) for i, order in orders]
    return columns


def _state(name: str) -> Cell:
    """The cell of a value in the metadata."""

    def cell(partition: ComparedPartition) -> str:
        if partition.metadata is None:
            return ""
        value = getattr(partition.metadata.state, name)
        if name == "leader":
            return "none" if value == NO_LEADER else str(value)
        return ",".join(map(str, value)) or _NONE

    return cell


def _of_broker(broker: int) -> Column:
    """The column of a broker's replicas."""

    def cell(partition: ComparedPartition) -> str:
        found = of_brokers(partition.copies).get(broker)
        if found is None:
            return ""
        if found.is_set_aside:
            return "set aside"
        if found.folder is None:
            return "missing"
        if not found.is_end_known:
            return "?"
        end = found.log_end or 0
        after = str(found.end_after)
        if found.end_after is None:
            after = "offline" if found.is_predicted else "?"
        start = "" if found.end_after == end else f"→{after}"
        return f"{end}{start}{' ✗' if found.damaged else ''}"

    def style(partition: ComparedPartition) -> str:
        found = of_brokers(partition.copies).get(broker)
        is_bad = found is None or found.damaged or found.is_set_aside or found.folder is None
        return "bad" if is_bad else "good"

    return LineColumn(f"broker {broker}", cell, style=style)


def _relation(partition: ComparedPartition) -> str:
    """How the replicas relate."""
    older = partition.found.branches[1:]
    words = [f"{branch.owners} diverged at {branch.parted_at}" for branch in older]
    return "; ".join(words) or partition.verdict


def _end(i: int) -> Cell:
    """The cell of what becomes of a partition with an order."""

    def cell(partition: ComparedPartition) -> str:
        if not partition.ends:
            return ""
        end = partition.ends[i]
        if not end.is_certain:
            return " or ".join(dict.fromkeys(map(_offset, end.ends)))
        lost = f", loses {', '.join(starmap(range_words, end.lost))}" if end.lost else ""
        return f"{_offset(end.log_end_offset)}{lost}"

    return cell


def _offset(end: int | None) -> str:
    return "offline" if end is None else str(end)


def _signs(found: DeadCluster) -> Iterator[str]:
    """Each sentence about the replicas once, with the partitions it is true of."""
    places: dict[str, list[str]] = {}
    for partition in found.partitions:
        for said in partition.evidence:
            places.setdefault(said, []).append(safe(partition.name))
    for said, names in places.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"  {', '.join(names[:3])}{more}: {said}"
