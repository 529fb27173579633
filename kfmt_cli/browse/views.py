"""More views of a directory or a partition: each shows the output of a command.

To add one, write a function that runs the command, and add a line to `VIEWS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kfmt_cli.broker.partitioners import GROUPS_TOPIC
from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind
from kfmt_cli.browse.text_host import capture_output
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.disk.kinds.fixed_size_rows import PRODUCER_SNAPSHOT_KIND
from kfmt_cli.errors import InputError

MAX_SNAPSHOTS = 64  # producer snapshots shown in one view


@dataclass(frozen=True, slots=True)
class ViewSubject:
    """The subject of a view: a node of the tree, and the selected offset."""

    node: DiskNode
    selected_offset: int = 0


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """A view: its key, its label, and the command whose output it shows."""

    key: str
    label: str
    """The label in the bar, one word."""
    question: str
    """The question that the view answers."""
    show_output: Callable[[CommandRun, ViewSubject], object]
    command_arguments: Callable[[ViewSubject], list[str]]
    """The equivalent command, after `kfmt`; raises InputError if there is nothing to show."""
    shows_findings: bool = False
    """Whether findings are the command's main output."""


def _show_stat(run: CommandRun, subject: ViewSubject) -> None:
    from kfmt_cli.commands.stat.command import StatCommand
    from kfmt_cli.commands.stat.options import StatOptions

    options = StatOptions(paths=subject.node.paths, by=_stat_grouping(subject), jobs=1)
    StatCommand(run, options).execute()


def _stat_grouping(subject: ViewSubject) -> str:
    is_partition_or_file = subject.node.kind in (NodeKind.PARTITION, NodeKind.FILE)
    return "segment" if is_partition_or_file else "partition"


def _show_check(run: CommandRun, subject: ViewSubject) -> None:
    from kfmt_cli.commands.check.command import CheckCommand
    from kfmt_cli.commands.check.options import CheckOptions

    CheckCommand(run, CheckOptions(paths=subject.node.paths, jobs=1)).execute()


def _show_lag(run: CommandRun, subject: ViewSubject) -> None:
    from kfmt_cli.commands.state.command import StateCommand
    from kfmt_cli.commands.state.options import StateOptions

    paths = tuple(partition.path for partition in _partitions_for_lag(subject.node))
    StateCommand(run, StateOptions(paths=paths)).execute()


def _partitions_for_lag(node: DiskNode) -> list[DiskNode]:
    """The partitions whose state is shown: the selected one if it belongs to an internal topic,
    otherwise the partitions with the groups' offsets; raises InputError if there are none."""
    from kfmt_cli.disk.file_names import parse_topic_partition
    from kfmt_cli.topics import find_known_topic

    partitions = list(node.iter_partitions())
    topic_by_partition = {
        partition: parse_topic_partition(Path(partition.path).name)[0] for partition in partitions
    }
    if len(partitions) == 1 and find_known_topic(topic_by_partition[partitions[0]]) is not None:
        return partitions
    offsets_partitions = [
        partition
        for partition in partitions
        if topic_by_partition[partition] == GROUPS_TOPIC and partition.total_bytes
    ]
    if not offsets_partitions:
        reason = f"no {GROUPS_TOPIC} partition here; look on the brokers that host it"
        raise InputError(f"{node.display_path or 'here'}: {reason}")
    return offsets_partitions


def _show_transactions(run: CommandRun, subject: ViewSubject) -> None:
    from kfmt_cli.commands.txn.command import TxnCommand
    from kfmt_cli.commands.txn.options import TxnOptions

    TxnCommand(run, TxnOptions(paths=subject.node.paths), shows_summary_first=True).execute()


def _show_producers(run: CommandRun, subject: ViewSubject) -> None:
    from kfmt_cli.commands.dump.command import DumpCommand
    from kfmt_cli.commands.dump.options import DumpOptions

    paths = tuple(node.path for node in _newest_snapshot_nodes(subject))
    DumpCommand(run, DumpOptions(paths=paths, jobs=1)).execute()


def _newest_snapshot_nodes(subject: ViewSubject) -> list[DiskNode]:
    """The newest producer snapshot of each partition; raises InputError if there are none, or more
    than `MAX_SNAPSHOTS`."""
    newest_nodes = []
    for partition_node in subject.node.iter_partitions():
        snapshot_nodes = [
            child
            for child in partition_node.children
            if child.file is not None and child.file.kind is PRODUCER_SNAPSHOT_KIND
        ]
        if snapshot_nodes:
            newest_nodes.append(max(snapshot_nodes, key=lambda child: Path(child.path).name))
    subject_name = subject.node.display_path or "here"
    if not newest_nodes:
        raise InputError(f"{subject_name}: no producer snapshot")
    if len(newest_nodes) > MAX_SNAPSHOTS:
        raise InputError(f"{subject_name}: select a partition; producer state is per partition")
    return newest_nodes


def _show_offset_lookup(run: CommandRun, subject: ViewSubject) -> None:
    from kfmt_cli.broker.log_reading.lookup import OFFSET_COLUMN
    from kfmt_cli.commands.index_check.command import show_lookups

    show_lookups(run, subject.node.paths, OFFSET_COLUMN, subject.selected_offset)


def _show_start(run: CommandRun, subject: ViewSubject) -> None:
    from kfmt_cli.browse.start_view import show_predicted_starts

    partitions = list(subject.node.iter_partitions())
    show_predicted_starts(
        run,
        subject.node.paths,
        [partition.display_path for partition in partitions if partition.logs()],
    )


def _show_replicas(run: CommandRun, subject: ViewSubject) -> None:
    from kfmt_cli.commands.replicas.command import ReplicasCommand
    from kfmt_cli.commands.replicas.options import ReplicasOptions
    from kfmt_cli.commands.replicas.row_output import show_cluster

    command = ReplicasCommand(run, ReplicasOptions(paths=subject.node.paths, jobs=1))
    show_cluster(run, command.compare_replicas(), subject.node.display_paths)


def _show_retention(run: CommandRun, subject: ViewSubject) -> None:
    from kfmt_cli.commands.retention.command import RetentionCommand
    from kfmt_cli.commands.retention.options import RetentionOptions

    RetentionCommand(run, RetentionOptions(paths=subject.node.paths)).execute()


def _command_with_paths(*arguments: str) -> Callable[[ViewSubject], list[str]]:
    return lambda subject: [arguments[0], *subject.node.display_paths, *arguments[1:]]


VIEWS: tuple[ViewSpec, ...] = (
    ViewSpec(
        "1",
        "Sizes",
        "What is on this disk?",
        _show_stat,
        lambda subject: [
            "stat",
            *subject.node.display_paths,
            *(["--by", "segment"] if _stat_grouping(subject) != "partition" else []),
        ],
    ),
    ViewSpec(
        "2",
        "Damage",
        "What is damaged or lost, and what now?",
        _show_check,
        _command_with_paths("check"),
        shows_findings=True,
    ),
    ViewSpec(
        "3",
        "Lag",
        "Which groups are lagging?",
        _show_lag,
        lambda subject: [
            "state",
            *(partition.display_path for partition in _partitions_for_lag(subject.node)),
        ],
    ),
    ViewSpec(
        "4", "Txn", "Which transactions are open?", _show_transactions, _command_with_paths("txn")
    ),
    ViewSpec(
        "5",
        "Producers",
        "Who wrote, and up to which sequence?",
        _show_producers,
        lambda subject: ["dump", *(node.display_path for node in _newest_snapshot_nodes(subject))],
    ),
    ViewSpec(
        "6",
        "Lookup",
        "How does a broker find this offset?",
        _show_offset_lookup,
        lambda subject: [
            "index-check",
            *subject.node.display_paths,
            "--lookup-offset",
            str(subject.selected_offset),
        ],
    ),
    ViewSpec(
        "7",
        "Start",
        "What would a broker start do?",
        _show_start,
        _command_with_paths("check", "--all"),
    ),
    ViewSpec(
        "8",
        "Retention",
        "Why are segments still on disk?",
        _show_retention,
        _command_with_paths("retention"),
    ),
    ViewSpec(
        "9",
        "Order",
        "Which broker should start first?",
        _show_replicas,
        _command_with_paths("replicas"),
    ),
)


def view_for_key(key: str) -> ViewSpec:
    """The view that a key shows."""
    return next(view for view in VIEWS if view.key == key)


def render_view(
    view: ViewSpec,
    subject: ViewSubject,
    width: int,
    is_cancelled: Callable[[], bool] = lambda: False,
    step_commands: list[str] | None = None,
) -> str:
    """The output of a view on a screen of this width, coloured with escape sequences.
    step_commands: receives the commands of the plan."""
    return capture_output(
        lambda run: view.show_output(run, subject),
        width,
        shows_findings=view.shows_findings,
        is_cancelled=is_cancelled,
        step_commands=step_commands,
    )
