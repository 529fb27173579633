"""merge: the best log of each partition out of replicas that are damaged in different places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from pathlib import Path, PurePath

from kfmt_cli.broker.log_reading.offset_intervals import (
    OffsetIntervals,
    count_offsets,
    intersect_intervals,
    intervals_to_lists,
    merge_intervals,
    subtract_intervals,
)
from kfmt_cli.broker.start.checkpoints import CLEANER_CHECKPOINT, LEADER_EPOCH_CHECKPOINT
from kfmt_cli.broker.start.known_topic_id import NearbyTopicIds
from kfmt_cli.checks.log.checker import iter_checked_blocks
from kfmt_cli.commands.command_run import CommandRun, Progress
from kfmt_cli.commands.merge.options import MergeOptions
from kfmt_cli.commands.merge.replica_logs import (
    MergeContribution,
    MergeSources,
    epochs_and_contributions,
    has_batches,
    iter_partly_read_interval,
    iter_shared_end_offsets,
    iter_undecodable_intervals,
    max_replica_bytes,
    merged_directory_name,
    replica_end_offset,
    replica_logs,
    replica_rank,
    replica_start_offset,
    swap_logs,
)
from kfmt_cli.commands.replicas.branches import ReplicaBranch
from kfmt_cli.commands.replicas.command import ReplicasCommand
from kfmt_cli.commands.replicas.nodes import DiskReplica
from kfmt_cli.commands.replicas.offline_cluster import OfflineCluster, PartitionComparison
from kfmt_cli.commands.replicas.options import ReplicasOptions
from kfmt_cli.commands.salvage.broker_files import copy_undamaged_file, write_known_topic_id
from kfmt_cli.commands.salvage.partition_logs import base_offset_in_name, is_swap_file
from kfmt_cli.commands.salvage.transaction_lines import report_restored_markers
from kfmt_cli.commands.settings_resolver import is_topic_compacted
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import classify_file, file_size
from kfmt_cli.disk.file_names import directory_marker_suffix
from kfmt_cli.disk.kinds import PARTITION_METADATA_KIND
from kfmt_cli.disk.kinds.fixed_size_rows import PRODUCER_SNAPSHOT_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.topic_filter import select_topics
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.execution.read_request import parse_name_list
from kfmt_cli.render.style import escape_unprintable, format_count, format_range
from kfmt_cli.rows.documents import MERGE_ROW
from kfmt_cli.writers.derived_files import encode_epoch_checkpoint, write_missing_files
from kfmt_cli.writers.output import (
    StagingDirectory,
    check_source_and_destination,
    open_staging_directory,
    require_free_space,
)
from kfmt_cli.writers.salvage.arrangement_writer import RearrangementPlan, write_rearranged_logs
from kfmt_cli.writers.salvage.batch_arrangement import (
    MAX_LOG_END_OFFSET,
    arrange_replicas,
)
from kfmt_cli.writers.salvage.holes import OffsetGaps
from kfmt_cli.writers.salvage.restored_markers import restore_markers
from kfmt_cli.writers.salvage.salvager import Salvager, ScannedLog

NO_BATCH_MESSAGE = "no replica has a batch that is undamaged and can be decoded"


@dataclass(slots=True)
class MergeCommand:
    """One call of `merge`."""

    run: CommandRun
    options: MergeOptions
    _topics: frozenset[str] = frozenset()
    """Topics to merge; all if empty."""
    _n_missing_offsets: int = 0
    _n_refused_partitions: int = 0
    _topic_ids: NearbyTopicIds = field(default_factory=NearbyTopicIds)
    _staging: StagingDirectory = field(init=False)
    _progress: Progress = field(init=False)

    def execute(self) -> None:
        """Merge the replicas under some paths into DST; raises UsageError, InputError and
        OutputError."""
        options = self.options
        paths, destination = options.paths, options.to
        self._topics = frozenset(parse_name_list(options.topics))
        for path in paths:
            check_source_and_destination(path, destination)
        replicas_options = ReplicasOptions(
            paths=paths, jobs=options.jobs, max_decompressed=options.max_decompressed
        )
        cluster = ReplicasCommand(self.run, replicas_options).compare_replicas()
        self._note_marked_directories(cluster)
        partitions = list(self._select_partitions(cluster.partitions))
        if not partitions:
            raise InputError(
                f"{', '.join(map(format_display_name, paths))}: no partition with a log"
            )
        require_free_space(destination, sum(map(max_replica_bytes, partitions)))
        replicas = [replica for partition in partitions for replica in partition.replicas]
        total_bytes = sum(file_size(log) for replica in replicas for log in replica_logs(replica))
        n_merged_partitions = 0
        progress = self.run.output.progress(total_bytes)
        with (
            progress as self._progress,
            open_staging_directory(destination, inputs=paths) as self._staging,
        ):
            self.run.report_leftovers(self._staging.removed_leftovers)
            for partition in partitions:
                n_merged_partitions += self._merge_partition(partition)
            if not n_merged_partitions:
                self._staging.prevent_commit()
        self._show_summary(n_merged_partitions, destination)

    def _note_marked_directories(self, cluster: OfflineCluster) -> None:
        """Note the directories that are not used because a broker has marked them."""
        for node in cluster.nodes:
            for replica in node.broker_directories.replicas:
                if marker := directory_marker_suffix(replica.name):
                    self.run.sink.write_to_stderr(
                        f"not used: {escape_unprintable(replica.display_path)}: marked -{marker}\n"
                    )

    def _note_partly_read_replicas(self, partition: PartitionComparison) -> None:
        """Note the replicas with logs that can only be read in part."""
        for replica in partition.replicas:
            if replica.n_partly_read_logs:
                logs_text = format_count(replica.n_partly_read_logs, "log")
                note = "the rest is merged, but not compared with other replicas"
                display_path = escape_unprintable(replica.file or replica.owner_name)
                self.run.sink.write_to_stderr(
                    f"{display_path}: {logs_text} can only be read in part: {note}\n"
                )

    def _select_partitions(
        self, partitions: Sequence[PartitionComparison]
    ) -> Iterator[PartitionComparison]:
        """The selected partitions, by name; raises UsageError for unknown topics or brokers."""
        replicas = [replica for partition in partitions for replica in partition.replicas]
        broker_ids = sorted(
            {replica.broker_id for replica in replicas if replica.broker_id is not None}
        )
        if self.options.branch is not None and self.options.branch not in broker_ids:
            ids_text = ", ".join(map(str, broker_ids)) or "none"
            raise UsageError(
                f"--branch: no replica of broker {self.options.branch}; known: {ids_text}"
            )
        topic_names = {partition.topic_partition[0] for partition in partitions}
        self._topics |= select_topics(self.options.topic, topic_names if self.options.topic else ())
        for topic in sorted(self._topics - topic_names):
            known_text = ", ".join(sorted(topic_names))
            raise UsageError(f"--topics: no replica of {topic}; known: {known_text}")
        for partition in sorted(partitions, key=lambda partition: partition.topic_partition):
            is_selected = not self._topics or partition.topic_partition[0] in self._topics
            if is_selected and any(map(replica_logs, partition.replicas)):
                yield partition

    def _merge_partition(self, partition: PartitionComparison) -> bool:
        """Write the merged log of a partition; returns whether there is one."""
        self._note_partly_read_replicas(partition)
        branch = self._choose_branch(partition)
        if branch is None:
            return False
        sources = _find_sources(partition, branch)
        best_scans = list(
            self._iter_scans(
                sources.best_replica,
                replica_logs(sources.best_replica),
                [(sources.start_offset, MAX_LOG_END_OFFSET)],
                MAX_LOG_END_OFFSET,
            )
        )
        best_batches = [scan.undamaged_batches for scan in best_scans]
        is_compacted = self._is_compacted(partition)
        expected_intervals, searched_intervals = _find_gaps(sources, best_scans, is_compacted)
        scans = list(best_scans)
        replica_of_scan = [sources.best_replica] * len(scans)
        for replica in sources.replicas:
            logs = [
                *([] if replica is sources.best_replica else replica_logs(replica)),
                *swap_logs(replica),
            ]
            shared_end_offset = sources.shared_end_by_replica[replica]
            scans += self._iter_scans(replica, logs, searched_intervals, shared_end_offset)
            replica_of_scan += [replica] * (len(scans) - len(replica_of_scan))
        other_batches = [scan.undamaged_batches for scan in scans[len(best_batches) :]]
        arrangement = arrange_replicas(best_batches, other_batches, searched_intervals)
        if not arrangement.segments:
            self._refuse_partition(partition, NO_BATCH_MESSAGE)
            return False
        if not is_compacted:
            last_offsets = (
                batch_run.last_offset
                for _, batch_runs in arrangement.segments
                for batch_run in batch_runs
            )
            last_offset = max(sources.end_offset - 1, *last_offsets)
            expected_intervals = [(sources.start_offset, last_offset)]
        output_directory = PurePath(merged_directory_name(partition, sources.best_replica))
        self._write_merged_log(
            output_directory, RearrangementPlan(scans, arrangement), sources.replicas
        )
        epochs_and_offsets, contributions = epochs_and_contributions(
            arrangement, scans, replica_of_scan, is_compacted
        )
        self._staging.write_file(
            str(output_directory / LEADER_EPOCH_CHECKPOINT),
            encode_epoch_checkpoint(epochs_and_offsets),
        )
        self._report_partition(partition, output_directory, contributions, expected_intervals)
        return True

    def _write_merged_log(
        self, output_directory: PurePath, plan: RearrangementPlan, replicas: Sequence[DiskReplica]
    ) -> None:
        """Write the segments of a merged log, and the files that are copied or derived."""
        staging = self._staging
        log_names, _ = write_rearranged_logs(staging, str(output_directory), plan, -1)
        merged_logs = [classify_file(str(staging.directory / name), name) for name in log_names]
        scans = plan.scanned_logs
        if any(scan.damage_codes for scan in scans) and any(scan.producers for scan in scans):
            commits_unknown = self.options.commit_unknown
            restored = restore_markers(
                staging,
                merged_logs,
                map(replica_logs, replicas),
                iter_checked_blocks,
                self.options.paths,
                commits_unknown=commits_unknown,
            )
            report_restored_markers(
                self.run, str(output_directory), restored, commits_unknown=commits_unknown
            )
        self._copy_other_files(output_directory, replicas, merged_logs[0])
        offset_gaps = OffsetGaps(merged_logs[0].base_offset_or_zero - 1)
        write_missing_files(
            staging, output_directory, merged_logs, self.options.index_interval_bytes, offset_gaps
        )

    def _is_compacted(self, partition: PartitionComparison) -> bool:
        """Whether the log cleaner may have removed offsets of a partition."""
        topic, _ = partition.topic_partition
        if any(
            partition.topic_partition
            in replica.directory.offsets_by_checkpoint.get(CLEANER_CHECKPOINT, {})
            for replica in partition.replicas
        ):
            return True
        for replica in partition.replicas:
            with self.run.catch_input_errors():
                is_compacted = is_topic_compacted(topic, Path(replica.directory.path))
                if is_compacted is not None:
                    return is_compacted
        return topic.startswith("__")  # without a metadata log, by Kafka's own topics

    def _refuse_partition(self, partition: PartitionComparison, reason: str) -> None:
        """Report a partition that is not written, if it had something to write."""
        if max_replica_bytes(partition):
            self.run.sink.write_to_stderr(
                f"not merged: {escape_unprintable(partition.name)}: {reason}\n"
            )
            self.run.output.raise_exit_code(ExitCode.FINDINGS)
            self._n_refused_partitions += 1

    def _choose_branch(self, partition: PartitionComparison) -> ReplicaBranch | None:
        """The branch to write; None, after a note, if there is none or the user has to name it."""
        if not partition.is_compared:
            self._refuse_partition(partition, "its replicas could not be compared")
            return None
        branches = [
            branch
            for branch in partition.replica_branches.branches
            if any(map(has_batches, branch.replicas))
        ]
        if not branches:  # logs that can only be read in part are not compared
            replicas = [replica for replica in partition.replicas if not replica.is_excluded]
            branches = [ReplicaBranch(replicas)] if any(map(has_batches, replicas)) else []
        if len(branches) == 1:
            return branches[0]
        if not branches:
            self._refuse_partition(partition, NO_BATCH_MESSAGE)
            return None
        for branch in branches if self.options.branch is not None else ():
            if any(replica.broker_id == self.options.branch for replica in branch.replicas):
                return branch
        branches_text = " and ".join(
            (
                f"{escape_unprintable(branch.owner_names)} (latest epoch {branch.latest_epoch}, "
                f"log end offset {branch.end_offset})"
            )
            for branch in branches
        )
        reason = (
            f"the replicas {branches_text} diverged at offset "
            f"{partition.replica_branches.diverged_at}"
        )
        self._refuse_partition(partition, f"{reason}; choose one with --branch BROKER")
        return None

    def _iter_scans(
        self,
        replica: DiskReplica,
        logs: Iterable[InputFile],
        searched_intervals: OffsetIntervals,
        end_offset: int,
    ) -> Iterator[ScannedLog]:
        """Scan the logs of a replica that may contain `searched_intervals`, for undamaged batches
        from the first of these up to `end_offset`."""
        range_by_base_offset = {
            base: (first, end) for base, first, end, _ in replica.segment_fingerprints
        }
        salvager, on_progress = (
            Salvager(self.options.decompression_limit, self.options.n_jobs),
            self._progress.on_progress,
        )
        for log in logs:
            offset_range = (
                None if is_swap_file(log) else range_by_base_offset.get(log.base_offset_or_zero)
            )
            if offset_range is not None and not intersect_intervals(
                [(offset_range[0], offset_range[1] - 1)], searched_intervals
            ):
                on_progress(file_size(log))
                continue
            with self.run.catch_input_errors():
                scanned_log = salvager.scan_log(
                    log, base_offset_in_name(log) or 0, False, lambda _: None, on_progress
                )
                min_offset = min(first for first, _ in searched_intervals)
                yield replace(
                    scanned_log,
                    undamaged_batches=scanned_log.undamaged_batches.select_offset_range(
                        min_offset, end_offset
                    ),
                )

    def _copy_other_files(
        self, output_directory: PurePath, replicas: Sequence[DiskReplica], first_log: InputFile
    ) -> None:
        """Copy files that cannot be derived: topic id, and producers before the first log."""
        snapshot_name = f"{first_log.base_offset:020}{PRODUCER_SNAPSHOT_KIND.suffix}"
        for file_names in (PARTITION_METADATA_KIND.names, frozenset({snapshot_name})):
            for replica in replicas:
                if replica.listing is not None and copy_undamaged_file(
                    self.run, self._staging, output_directory, replica.listing, file_names
                ):
                    break
        for replica in replicas:
            if replica.listing is not None:
                write_known_topic_id(
                    self._staging, output_directory, self._topic_ids, replica.listing.path
                )

    def _report_partition(
        self,
        partition: PartitionComparison,
        output_directory: PurePath,
        contributions: list[MergeContribution],
        expected_intervals: OffsetIntervals,
    ) -> None:
        """Report which replicas the offsets of a partition came from, and which are in none.
        expected_intervals: offsets that some replica should have."""
        merged_intervals = merge_intervals(
            interval for contribution in contributions for interval in contribution.offset_intervals
        )
        missing_intervals = subtract_intervals(expected_intervals, merged_intervals)
        self._n_missing_offsets += count_offsets(missing_intervals)
        if missing_intervals:
            self.run.output.raise_exit_code(ExitCode.FINDINGS)
        row: dict[str, object] = {
            "topic": partition.topic_partition[0],
            "partition": partition.topic_partition[1],
            "file": format_display_name(str(output_directory)),
            "offsets": intervals_to_lists(merged_intervals),
            "from": [
                {
                    "broker_id": contribution.replica.broker_id,
                    "file": contribution.replica.file,
                    "offsets": intervals_to_lists(contribution.offset_intervals),
                    "bytes": contribution.n_bytes,
                }
                for contribution in contributions
            ],
            "missing": intervals_to_lists(missing_intervals),
        }
        source_texts = [
            (
                f"{_format_intervals(contribution.offset_intervals)} from "
                f"{escape_unprintable(contribution.replica.owner_name)}"
            )
            for contribution in contributions
        ]
        missing_text = (
            f"; in {self._no_replica_text}: {_format_intervals(missing_intervals)}"
            if missing_intervals
            else ""
        )
        line = (
            f"{escape_unprintable(str(output_directory))}: "
            f"{'; '.join(source_texts)}{missing_text}\n"
        )
        self.run.sink.write_document(MERGE_ROW, row, [line])

    @property
    def _no_replica_text(self) -> str:
        return "no replica that could be read" if self.run.summary.n_unread_inputs else "no replica"

    def _show_summary(self, n_merged_partitions: int, destination: str) -> None:
        summary_text = (
            f"merged {format_count(n_merged_partitions, 'partition')} into "
            f"{escape_unprintable(format_display_name(destination))}"
        )
        if not n_merged_partitions:
            summary_text = "nothing was merged"
        n_unread = self.run.summary.n_unread_inputs
        is_incomplete = self._n_missing_offsets or self._n_refused_partitions or n_unread
        if self._n_refused_partitions:
            summary_text += f"; {format_count(self._n_refused_partitions, 'partition')} not merged"
        if self._n_missing_offsets:
            summary_text += (
                f"; {format_count(self._n_missing_offsets, 'offset')} in {self._no_replica_text}"
            )
        if n_unread:
            summary_text += (
                f"; {format_count(n_unread, 'input')} unread, which may have more records"
            )
        elif not is_incomplete:
            summary_text += "; nothing is missing"
        self.run.sink.write_hint(summary_text, "warn" if is_incomplete else "good")


def _format_intervals(intervals: OffsetIntervals) -> str:
    return ", ".join(starmap(format_range, intervals))


def _find_sources(partition: PartitionComparison, branch: ReplicaBranch) -> MergeSources:
    """The replicas to merge: the best one of the branch, then those that share offsets with it."""
    branches = partition.replica_branches.branches or [branch]
    shared_end_by_replica = dict(iter_shared_end_offsets(branches, branch))
    best_replica = max(filter(has_batches, branch.replicas), key=replica_rank)
    other_replicas = [
        replica
        for replica in partition.replicas
        if replica in shared_end_by_replica and replica is not best_replica
    ]
    other_replicas.sort(key=replica_rank, reverse=True)
    return MergeSources(
        (best_replica, *other_replicas),
        shared_end_by_replica,
        min(
            replica_start_offset(replica, partition.topic_partition)
            for replica in (best_replica, *other_replicas)
        ),
        max(
            min(replica_end_offset(replica), shared_end_by_replica.get(replica, MAX_LOG_END_OFFSET))
            for replica in (*branch.replicas, *other_replicas)
        ),
    )


def _find_gaps(
    sources: MergeSources, best_scans: Sequence[ScannedLog], is_compacted: bool
) -> tuple[OffsetIntervals, OffsetIntervals]:
    """The offsets that the merged log should have, and those to search for in other replicas.

    Offsets that the log cleaner removed are not restored: in a compacted log, only damaged offsets
    of the best replica are searched for.
    """
    best_batches = [scan.undamaged_batches for scan in best_scans]
    gaps = subtract_intervals(
        [(sources.start_offset, MAX_LOG_END_OFFSET)],
        (interval for batches in best_batches for interval in batches.offset_intervals),
    )
    if not is_compacted:
        return [(sources.start_offset, sources.end_offset - 1)], gaps
    damaged_intervals = [
        *sources.best_replica.damaged_offsets,
        *iter_partly_read_interval(sources.best_replica, best_batches),
        *iter_undecodable_intervals(best_scans, sources.end_offset),
    ]
    expected_intervals = intersect_intervals(damaged_intervals, gaps)
    end_gaps = [gap for gap in gaps if sources.start_offset in gap or MAX_LOG_END_OFFSET in gap]
    return expected_intervals, merge_intervals([*expected_intervals, *end_gaps])
