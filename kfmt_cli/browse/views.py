"""More views of a directory or a partition: each shows the output of a command.

To add one, write a function that calls the command's task, and add a line to `VIEWS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kfmt_cli.broker.cluster.placement import GROUPS
from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind
from kfmt_cli.browse.text_host import shown_by
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.times import now_ms
from kfmt_cli.disk.kinds.fixed import PRODUCER_SNAPSHOT
from kfmt_cli.errors import InputError

MOST_SNAPSHOTS = 64  # producer snapshots shown in one view


@dataclass(frozen=True, slots=True)
class ViewedPlace:
    """The subject of a view: a node of the tree, and the selected offset."""

    node: DiskNode
    offset: int = 0


@dataclass(frozen=True, slots=True)
class ListedView:
    """A view."""

    key: str
    name: str
    """Its label in the bar, one word."""
    question: str
    """The question it answers."""
    show: Callable[[Run, ViewedPlace], object]
    command: Callable[[ViewedPlace], list[str]]
    """The equivalent command, after `kfmt`; raises InputError if there is nothing to show."""
    finds: bool = False
    """Whether findings are its main output."""


def _stat(run: Run, place: ViewedPlace) -> None:
    from kfmt_cli.commands.stat.command import Stat

    Stat(run, (_by(place),)).paths(place.node.paths)


def _by(place: ViewedPlace) -> str:
    is_small = place.node.kind in (NodeKind.PARTITION, NodeKind.FILE)
    return "segment" if is_small else "partition"


def _check(run: Run, place: ViewedPlace) -> None:
    from kfmt_cli.commands.check.checked_directory import CHECK_RESULT
    from kfmt_cli.commands.check.command import CheckPaths
    from kfmt_cli.rows.result import Summary

    run.summary = Summary(CHECK_RESULT)
    CheckPaths(run).paths(place.node.paths)


def _lag(run: Run, place: ViewedPlace) -> None:
    from kfmt_cli.commands.state.command import ShowState, Wanted

    ShowState(run, Wanted(), Limit()).paths(tuple(of.path for of in _groups(place.node)))


def _groups(node: DiskNode) -> list[DiskNode]:
    """The partitions whose state is shown: the one given if it belongs to an internal topic,
    otherwise those with the groups' offsets; raises InputError if there are none."""
    from kfmt_cli.disk.names import place_of
    from kfmt_cli.topics import known_topic

    inside = list(node.partitions())
    names = {of: place_of(Path(of.path).name)[0] for of in inside}
    if len(inside) == 1 and known_topic(names[inside[0]]) is not None:
        return inside
    chosen = [of for of in inside if names[of] == GROUPS and of.size]
    if not chosen:
        words = f"no {GROUPS} partition here; look on the brokers that host it"
        raise InputError(f"{node.name or 'here'}: {words}")
    return chosen


def _txn(run: Run, place: ViewedPlace) -> None:
    from kfmt_cli.commands.txn.command import ShowTransactions

    ShowTransactions(run, counts_first=True).paths(place.node.paths)


def _producers(run: Run, place: ViewedPlace) -> None:
    from kfmt_cli.commands.dump.command import Dump

    Dump(run, kinds=None).paths(tuple(node.path for node in _snapshots(place)))


def _snapshots(place: ViewedPlace) -> list[DiskNode]:
    """The newest producer snapshot of each partition; raises InputError without any, and for more
    than `MOST_SNAPSHOTS`."""
    found = []
    for node in place.node.partitions():
        snapshots = [
            child
            for child in node.children
            if child.file is not None and child.file.kind is PRODUCER_SNAPSHOT
        ]
        if snapshots:
            found.append(max(snapshots, key=lambda child: Path(child.path).name))
    name = place.node.name or "here"
    if not found:
        raise InputError(f"{name}: no producer snapshot")
    if len(found) > MOST_SNAPSHOTS:
        raise InputError(f"{name}: select a partition; producer state is per partition")
    return found


def _look_up(run: Run, place: ViewedPlace) -> None:
    from kfmt_cli.broker.offsets.lookup import OFFSET
    from kfmt_cli.commands.index_check.command import show_lookups

    show_lookups(run, place.node.paths, OFFSET, place.offset)


def _start(run: Run, place: ViewedPlace) -> None:
    from kfmt_cli.browse.start_view import show_start

    inside = list(place.node.partitions())
    show_start(run, place.node.paths, [of.name for of in inside if of.logs()])


def _replicas(run: Run, place: ViewedPlace) -> None:
    from kfmt_cli.commands.replicas.command import CompareDisks
    from kfmt_cli.commands.replicas.show import show

    show(run, CompareDisks(run).look(place.node.paths, ()), place.node.names)


def _retention(run: Run, place: ViewedPlace) -> None:
    from kfmt_cli.commands.log_settings import SettingsOf
    from kfmt_cli.commands.retention.command import Retention

    Retention(run, SettingsOf(None, {}), now_ms()).paths(place.node.paths)


def _with_paths(*words: str) -> Callable[[ViewedPlace], list[str]]:
    return lambda place: [words[0], *place.node.names, *words[1:]]


VIEWS: tuple[ListedView, ...] = (
    ListedView(
        "1",
        "Sizes",
        "What is on this disk?",
        _stat,
        lambda place: [
            "stat",
            *place.node.names,
            *(["--by", "segment"] if _by(place) != "partition" else []),
        ],
    ),
    ListedView(
        "2",
        "Damage",
        "What is damaged or lost, and what now?",
        _check,
        _with_paths("check"),
        finds=True,
    ),
    ListedView(
        "3",
        "Lag",
        "Which groups are lagging?",
        _lag,
        lambda place: ["state", *(of.name for of in _groups(place.node))],
    ),
    ListedView("4", "Txn", "Which transactions are open?", _txn, _with_paths("txn")),
    ListedView(
        "5",
        "Producers",
        "Who wrote, and up to which sequence?",
        _producers,
        lambda place: ["dump", *(node.name for node in _snapshots(place))],
    ),
    ListedView(
        "6",
        "Lookup",
        "How does a broker find this offset?",
        _look_up,
        lambda place: ["index-check", *place.node.names, "--lookup-offset", str(place.offset)],
    ),
    ListedView(
        "7",
        "Start",
        "What would a broker start do?",
        _start,
        _with_paths("check", "--all"),
    ),
    ListedView(
        "8",
        "Retention",
        "Why are segments still on disk?",
        _retention,
        _with_paths("retention"),
    ),
    ListedView(
        "9",
        "Order",
        "Which broker to start first?",
        _replicas,
        _with_paths("replicas"),
    ),
)


def view_at(key: str) -> ListedView:
    """The view of a key."""
    return next(view for view in VIEWS if view.key == key)


def text_of_view(
    view: ListedView, place: ViewedPlace, width: int, stop: Callable[[], bool] = lambda: False
) -> str:
    """The output of a view on a screen of this width, coloured with escape sequences."""
    return shown_by(lambda run: view.show(run, place), width, finds=view.finds, stop=stop)
