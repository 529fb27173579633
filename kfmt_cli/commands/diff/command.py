"""diff: compares two replicas of a partition by offsets, leader epochs and checksums."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kfmt_cli.broker.cluster.replica_comparison import (
    ReplicaRange,
    ReplicaRelation,
    truncation_offset,
)
from kfmt_cli.checks.replica_comparison import RANGE_ROW, ReplicaAgreement, ReplicaComparison
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.each_partition import log_progress
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.partitions import Partition, find_partitions
from kfmt_cli.errors import ExitCode, UsageError
from kfmt_cli.render.style import escape_terminal
from kfmt_cli.rows.documents import DIFF_ROW

# Verdicts on replicas that do not contradict each other.
TEXT_BY_AGREEMENT = {
    ReplicaAgreement.IDENTICAL: "identical",
    ReplicaAgreement.CONSISTENT: "no divergence",
    ReplicaAgreement.DAMAGED: "no divergence in the undamaged data",
}


@dataclass(slots=True)
class DiffCommand:
    """One call of `diff`."""

    run: CommandRun
    limit: DecompressionLimit = field(default_factory=DecompressionLimit)

    def compare_paths(self, a: str, b: str) -> None:
        """Compare two partitions, or every partition that two log directories have in common."""
        left_partitions, right_partitions = (
            find_partitions((path,), self.run.report_unreadable, self.run.sink.note)
            for path in (a, b)
        )
        pairs = (
            [(left_partitions[0], right_partitions[0])]
            if len(left_partitions) == len(right_partitions) == 1
            else []
        )
        if not pairs and left_partitions and right_partitions:
            root_by_partition_id = {id(partition): a for partition in left_partitions}
            root_by_partition_id |= {id(partition): b for partition in right_partitions}
            pairs = _pair_by_name(
                *(left_partitions, right_partitions),
                lambda partition: os.path.relpath(
                    partition.name, format_display_name(root_by_partition_id[id(partition)])
                ),
            )
            pairs = pairs or _pair_by_name(
                left_partitions, right_partitions, lambda partition: partition.directory.name
            )
            if not pairs:
                path_names = f"{format_display_name(a)} and {format_display_name(b)}"
                raise UsageError(f"{path_names} have no partitions in common")
        logs = [log for pair in pairs for partition in pair for log in partition.logs]
        with log_progress(self.run, logs):
            for left, right in pairs:
                self._compare_pair(left, right)

    def _compare_pair(self, left: Partition, right: Partition) -> None:
        run = self.run
        comparison = ReplicaComparison.from_partitions(left, right, self.limit, run.max_findings)
        with run.catch_unreadable():
            comparison.read()
            for replica in (comparison.a, comparison.b):
                with run.catch_unreadable():
                    replica.read_checkpoint_epochs()
                for finding in replica.findings:
                    run.handle_event(finding)
                run.report_suppressed(replica.partition.name, replica.findings)
            title = (f"A {left.name}", f"B {right.name}")
            run.output_rows(
                left.name,
                RANGE_ROW,
                [list(comparison.iter_rows())],
                ("range", "ranges"),
                title=title,
            )
            self._show_verdict(comparison)

    def _show_verdict(self, comparison: ReplicaComparison) -> None:
        a = comparison.a
        b = comparison.b
        divergence = comparison.divergence
        verdict = comparison.verdict
        row: dict[str, object] = {"file": a.partition.name, "other": b.partition.name}
        row |= {"a_end": a.log_end_offset, "b_end": b.log_end_offset, "verdict": verdict.value}
        if verdict in TEXT_BY_AGREEMENT:
            lines = [
                (
                    f"{TEXT_BY_AGREEMENT[verdict]}; log end offset: A {a.log_end_offset}, B "
                    f"{b.log_end_offset}\n"
                )
            ]
        elif divergence is None:
            first_missing = comparison.missing[0]
            lines = [
                (
                    f"offsets {first_missing.first_offset}–{first_missing.last_offset} are missing "
                    "on one side\n"
                )
            ]
        else:
            members, lines = _describe_divergence(comparison, divergence.first_offset)
            row |= members
        if verdict not in TEXT_BY_AGREEMENT:
            self.run.host.raise_exit_code(ExitCode.FINDINGS)
        self.run.sink.write_document(DIFF_ROW, row, lines)


def _describe_divergence(
    comparison: ReplicaComparison, diverged_at: int
) -> tuple[dict[str, object], list[str]]:
    """The members of the row of replicas that diverge at an offset, and its lines."""
    a, b = comparison.a, comparison.b
    epoch_a, epoch_b = a.leader_epochs.latest_epoch, b.leader_epochs.latest_epoch
    newer_replica = None if epoch_a == epoch_b else "A" if epoch_a > epoch_b else "B"
    members: dict[str, object] = {
        "diverged_at": diverged_at,
        "later": newer_replica,
        "cut_to": None,
    }
    members |= {"a_latest_epoch": epoch_a, "b_latest_epoch": epoch_b}
    if mismatch := _format_mismatch(a.partition, b.partition):
        return members, [f"{mismatch}: their records differ from offset {diverged_at} onward\n"]
    unshared_texts = [
        _format_unshared(comparison.ranges, diverged_at, relation)
        for relation in (ReplicaRelation.ONLY_A, ReplicaRelation.ONLY_B)
    ]
    lines = [
        f"diverged at offset {diverged_at}: latest leader epoch A {epoch_a}, B {epoch_b}\n",
        f"  only in A: {unshared_texts[0]}; only in B: {unshared_texts[1]}\n",
    ]
    if newer_replica is not None:
        follower, leader = (a, b) if newer_replica == "B" else (b, a)
        members["cut_to"] = truncation_offset(follower.leader_epochs, leader.leader_epochs)
        older_replica = "A" if newer_replica == "B" else "B"
        lines.append(
            f"  under a leader with the later epoch, {newer_replica} stays unchanged and "
            f"{older_replica} is truncated to offset {members['cut_to']}\n"
        )
    return members, lines


def _format_mismatch(left: Partition, right: Partition) -> str | None:
    """The message for two partitions that are not replicas of each other, by the names of their
    directories; None if they may be."""
    if (
        None in (*left.topic_partition, *right.topic_partition)
        or left.topic_partition == right.topic_partition
    ):
        return None
    noun = "partitions" if left.topic_partition[0] == right.topic_partition[0] else "topics"
    left_name, right_name = (
        f"{escape_terminal(str(topic))}-{partition_index}"
        for topic, partition_index in (left.topic_partition, right.topic_partition)
    )
    return f"{left_name} and {right_name} are two {noun}, not replicas"


def _pair_by_name(
    left_partitions: list[Partition],
    right_partitions: list[Partition],
    get_name: Callable[[Partition], str],
) -> list[tuple[Partition, Partition]]:
    """Pair partitions by name; raises UsageError if one has several of the other side."""
    left_by_name, right_by_name = (
        _group_by_name(partitions, get_name) for partitions in (left_partitions, right_partitions)
    )
    for name in left_by_name.keys() & right_by_name.keys():
        for partitions in (left_by_name[name], right_by_name[name]):
            if len(partitions) > 1:
                names_text = f"{partitions[0].name} and {partitions[1].name}"
                raise UsageError(
                    f"{names_text} have the same name; give the two partitions to compare"
                )
    return [
        (left_by_name[name][0], right_by_name[name][0])
        for name in left_by_name
        if name in right_by_name
    ]


def _group_by_name(
    partitions: Iterable[Partition], get_name: Callable[[Partition], str]
) -> dict[str, list[Partition]]:
    """The partitions by name, in order."""
    partitions_by_name: dict[str, list[Partition]] = {}
    for partition in partitions:
        partitions_by_name.setdefault(get_name(partition), []).append(partition)
    return partitions_by_name


def _format_unshared(
    ranges: list[ReplicaRange], from_offset: int, unshared_relation: ReplicaRelation
) -> str:
    """Text of the offset ranges only in one replica, starting at the divergence."""
    intervals: list[list[int]] = []  # in log order: offsets may decrease at damaged batches
    for range_ in ranges:
        if range_.first_offset < from_offset or range_.relation not in (
            ReplicaRelation.DIVERGED,
            unshared_relation,
        ):
            continue
        if intervals and intervals[-1][1] + 1 == range_.first_offset:
            intervals[-1][1] = range_.last_offset
        else:
            intervals.append([range_.first_offset, range_.last_offset])
    return ", ".join(f"{first}–{last}" for first, last in intervals) or "nothing"
