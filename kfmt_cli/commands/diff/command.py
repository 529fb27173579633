"""diff: compares two replicas of a partition by offsets, leader epochs and checksums."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kfmt_cli.broker.cluster.replica_comparison import (
    ReplicaRange,
    ReplicaRelation,
    compute_truncation_offset,
)
from kfmt_cli.checks.replica_comparison import RANGE_ROW, ReplicaAgreement, ReplicaComparison
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.diff.options import DiffOptions
from kfmt_cli.commands.each_partition import show_read_progress
from kfmt_cli.commands.settings_resolver import is_topic_compacted
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.partitions import Partition, find_partitions
from kfmt_cli.errors import ExitCode, UsageError
from kfmt_cli.render.style import escape_unprintable
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
    options: DiffOptions

    def execute(self) -> None:
        """Compare two partitions, or every partition that two log directories have in common."""
        left_path, right_path = self.options.a, self.options.b
        left_partitions, right_partitions = (
            find_partitions((path,), self.run.report_input_error, self.run.sink.write_to_stderr)
            for path in (left_path, right_path)
        )
        partition_pairs = (
            [(left_partitions[0], right_partitions[0])]
            if len(left_partitions) == len(right_partitions) == 1
            else []
        )
        if not partition_pairs and left_partitions and right_partitions:
            root_by_partition_id = {id(partition): left_path for partition in left_partitions}
            root_by_partition_id |= {id(partition): right_path for partition in right_partitions}
            partition_pairs = _pair_partitions(
                *(left_partitions, right_partitions),
                lambda partition: os.path.relpath(
                    partition.name, format_display_name(root_by_partition_id[id(partition)])
                ),
            )
            partition_pairs = partition_pairs or _pair_partitions(
                left_partitions, right_partitions, lambda partition: partition.directory.name
            )
            if not partition_pairs:
                path_names = (
                    f"{format_display_name(left_path)} and {format_display_name(right_path)}"
                )
                raise UsageError(f"{path_names} have no partitions in common")
        logs = [log for pair in partition_pairs for partition in pair for log in partition.logs]
        with show_read_progress(self.run, logs):
            for left, right in partition_pairs:
                self._compare_partitions(left, right)

    def _compare_partitions(self, left: Partition, right: Partition) -> None:
        run = self.run
        topic, _ = left.topic_partition
        is_compacted: bool | None = None
        with run.catch_input_errors():
            for partition in (left, right):
                if is_compacted is None:
                    is_compacted = is_topic_compacted(topic, partition.log_directory)
        comparison = ReplicaComparison.from_partitions(
            left, right, self.options.decompression_limit, run.max_findings, is_compacted
        )
        with run.catch_input_errors():
            comparison.read_and_compare()
            for replica in (comparison.a, comparison.b):
                with run.catch_input_errors():
                    replica.read_checkpoint_epochs()
                for finding in replica.findings:
                    run.handle_event(finding)
                run.report_suppressed_findings(replica.partition.name, replica.findings)
            title = (f"A {left.name}", f"B {right.name}")
            run.write_rows(
                left.name,
                RANGE_ROW,
                [list(comparison.iter_rows())],
                ("range", "ranges"),
                title_lines=title,
            )
            self._show_verdict(comparison)

    def _show_verdict(self, comparison: ReplicaComparison) -> None:
        replica_a = comparison.a
        replica_b = comparison.b
        divergence = comparison.divergence
        verdict = comparison.verdict
        row: dict[str, object] = {
            "file": replica_a.partition.name,
            "other": replica_b.partition.name,
        }
        row |= {
            "a_end": replica_a.log_end_offset,
            "b_end": replica_b.log_end_offset,
            "verdict": verdict.value,
        }
        if verdict in TEXT_BY_AGREEMENT:
            lines = [
                (
                    f"{TEXT_BY_AGREEMENT[verdict]}; log end offset: A "
                    f"{replica_a.log_end_offset}, B "
                    f"{replica_b.log_end_offset}\n"
                )
            ]
        elif divergence is None:
            missing_range = comparison.missing[0]
            lines = [
                (
                    f"offsets {missing_range.first_offset}–{missing_range.last_offset} are missing "
                    "on one side\n"
                )
            ]
        else:
            members, lines = _describe_divergence(comparison, divergence.first_offset)
            row |= members
        if verdict not in TEXT_BY_AGREEMENT:
            self.run.output.raise_exit_code(ExitCode.FINDINGS)
        self.run.sink.write_document(DIFF_ROW, row, lines)


def _describe_divergence(
    comparison: ReplicaComparison, divergence_offset: int
) -> tuple[dict[str, object], list[str]]:
    """The members of the row of replicas that diverge at an offset, and its lines."""
    replica_a, replica_b = comparison.a, comparison.b
    epoch_a, epoch_b = replica_a.leader_epochs.latest_epoch, replica_b.leader_epochs.latest_epoch
    newer_label = None if epoch_a == epoch_b else "A" if epoch_a > epoch_b else "B"
    members: dict[str, object] = {
        "diverged_at": divergence_offset,
        "later": newer_label,
        "cut_to": None,
    }
    members |= {"a_latest_epoch": epoch_a, "b_latest_epoch": epoch_b}
    if mismatch_message := _format_mismatch(replica_a.partition, replica_b.partition):
        return members, [
            f"{mismatch_message}: their records differ from offset {divergence_offset} onward\n"
        ]
    unshared_texts = [
        _format_unshared_ranges(comparison.ranges, divergence_offset, relation)
        for relation in (ReplicaRelation.ONLY_A, ReplicaRelation.ONLY_B)
    ]
    lines = [
        f"diverged at offset {divergence_offset}: latest leader epoch A {epoch_a}, B {epoch_b}\n",
        f"  only in A: {unshared_texts[0]}; only in B: {unshared_texts[1]}\n",
    ]
    if newer_label is not None:
        follower, leader = (replica_a, replica_b) if newer_label == "B" else (replica_b, replica_a)
        members["cut_to"] = compute_truncation_offset(follower.leader_epochs, leader.leader_epochs)
        older_label = "A" if newer_label == "B" else "B"
        lines.append(
            f"  under a leader with the later epoch, {newer_label} stays unchanged and "
            f"{older_label} is truncated to offset {members['cut_to']}\n"
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
    differing_noun = (
        "partitions" if left.topic_partition[0] == right.topic_partition[0] else "topics"
    )
    left_name, right_name = (
        f"{escape_unprintable(str(topic))}-{partition_index}"
        for topic, partition_index in (left.topic_partition, right.topic_partition)
    )
    return f"{left_name} and {right_name} are two {differing_noun}, not replicas"


def _pair_partitions(
    left_partitions: list[Partition],
    right_partitions: list[Partition],
    get_name: Callable[[Partition], str],
) -> list[tuple[Partition, Partition]]:
    """Pair partitions by name; raises UsageError if one has several of the other side."""
    left_by_name, right_by_name = (
        _group_partitions(partitions, get_name)
        for partitions in (left_partitions, right_partitions)
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


def _group_partitions(
    partitions: Iterable[Partition], get_name: Callable[[Partition], str]
) -> dict[str, list[Partition]]:
    """The partitions by name, in order."""
    partitions_by_name: dict[str, list[Partition]] = {}
    for partition in partitions:
        partitions_by_name.setdefault(get_name(partition), []).append(partition)
    return partitions_by_name


def _format_unshared_ranges(
    ranges: list[ReplicaRange], start_offset: int, unshared_relation: ReplicaRelation
) -> str:
    """Text of the offset ranges only in one replica, starting at the divergence."""
    intervals: list[list[int]] = []  # in log order: offsets may decrease at damaged batches
    for range_ in ranges:
        if range_.first_offset < start_offset or range_.relation not in (
            ReplicaRelation.DIVERGED,
            unshared_relation,
        ):
            continue
        if intervals and intervals[-1][1] + 1 == range_.first_offset:
            intervals[-1][1] = range_.last_offset
        else:
            intervals.append([range_.first_offset, range_.last_offset])
    return (
        ", ".join(f"{first_offset}–{last_offset}" for first_offset, last_offset in intervals)
        or "nothing"
    )
