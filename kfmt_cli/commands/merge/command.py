"""merge: the best log of each partition out of replicas that are damaged in different places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from pathlib import Path, PurePath

import numpy as np

from kfmt_cli.broker.start.checkpoints import LEADER_EPOCH_CHECKPOINT
from kfmt_cli.broker.start.log_directory_files import CLEANER_CHECKPOINT, LOG_START_CHECKPOINT
from kfmt_cli.broker.start.offset_intervals import (
    OffsetInterval,
    OffsetIntervals,
    count_offsets,
    intersect_intervals,
    intervals_to_lists,
    merge_intervals,
    subtract_intervals,
)
from kfmt_cli.commands.command_run import CommandRun, Progress
from kfmt_cli.commands.replicas.branches import ReplicaBranch
from kfmt_cli.commands.replicas.command import OfflineCluster, PartitionComparison, ReplicasCommand
from kfmt_cli.commands.replicas.nodes import DiskReplica, TopicAndPartition
from kfmt_cli.commands.salvage.partition_logs import base_offset_in_name, is_swap_file
from kfmt_cli.commands.settings_resolver import is_topic_compacted
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import classify_file, file_size
from kfmt_cli.disk.file_names import directory_mark, partition_directory
from kfmt_cli.disk.kinds import PARTITION_METADATA_KIND
from kfmt_cli.disk.kinds.fixed_size_rows import PRODUCER_SNAPSHOT_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.findings.finding import has_errors
from kfmt_cli.render.style import escape_terminal, format_count, format_range
from kfmt_cli.rows.types.cluster_rows import MERGE_ROW
from kfmt_cli.writers.derived_files import encode_epoch_checkpoint, write_missing_files
from kfmt_cli.writers.output import (
    Staging,
    copy_file,
    require_free_space,
    require_new,
    stage_output,
)
from kfmt_cli.writers.salvage.arrangement_writer import RearrangementPlan, write_rearranged
from kfmt_cli.writers.salvage.batch_arrangement import (
    MAX_LOG_END,
    BatchArrangement,
    UndamagedBatches,
    arrange_replicas,
)
from kfmt_cli.writers.salvage.holes import OffsetGaps
from kfmt_cli.writers.salvage.salvager import Salvager, ScannedLog

SPARE_BYTES = 1 << 20  # for indexes and folders
NO_BATCH_MESSAGE = "no replica has a batch that is undamaged and can be decoded"


@dataclass(slots=True)
class MergeContribution:
    """What a replica gives to a merged partition."""

    replica: DiskReplica
    offset_intervals: OffsetIntervals = field(default_factory=list)
    n_bytes: int = 0


@dataclass(slots=True)
class MergeCommand:
    """One call of `merge`."""

    run: CommandRun
    jobs: int
    limit: DecompressionLimit
    index_interval_bytes: int
    """index.interval.bytes."""
    branch_broker_id: int | None
    """The broker whose branch to take where replicas have diverged."""
    topics: frozenset[str]
    """Only these; all if empty."""
    _n_missing_offsets: int = 0
    _n_refused_partitions: int = 0
    _staging: Staging = field(init=False)
    _progress: Progress = field(init=False)

    def merge(self, paths: tuple[str, ...], destination: str) -> None:
        """Merge the replicas under some paths into DST; raises UsageError, InputError and
        OutputError."""
        for path in paths:
            require_new(path, destination)
        cluster = ReplicasCommand(self.run, self.jobs, self.limit).compare_paths(paths, ())
        self._note_marked(cluster)
        partitions = list(self._select_partitions(cluster.partitions))
        if not partitions:
            raise InputError(
                f"{', '.join(map(format_display_name, paths))}: no partition with a log"
            )
        require_free_space(destination, sum(map(_max_replica_bytes, partitions)) + SPARE_BYTES)
        replicas = [replica for partition in partitions for replica in partition.replicas]
        total_bytes = sum(file_size(log) for replica in replicas for log in _logs(replica))
        n_merged = 0
        progress = self.run.host.progress(total_bytes)
        with progress as self._progress, stage_output(destination) as self._staging:
            self.run.report_leftovers(self._staging.removed_leftovers)
            for partition in partitions:
                n_merged += self._merge_partition(partition)
            if not n_merged:
                self._staging.reject()
        self._show_summary(n_merged, destination)

    def _note_marked(self, cluster: OfflineCluster) -> None:
        """Name the directories that are no replica, because a broker has marked them."""
        for node in cluster.nodes:
            for replica in node.broker.replicas:
                if mark := directory_mark(replica.name):
                    self.run.sink.note(
                        f"not used: {escape_terminal(replica.display_path)}: marked -{mark}\n"
                    )

    def _note_partly_read(self, partition: PartitionComparison) -> None:
        """Name the replicas with logs that are read around lost bytes."""
        for replica in partition.replicas:
            if replica.n_partly_read:
                logs = format_count(replica.n_partly_read, "log")
                note = "the rest is merged, but not compared with other replicas"
                display_path = escape_terminal(replica.file or replica.owner)
                self.run.sink.note(f"{display_path}: {logs} can be read in part only: {note}\n")

    def _select_partitions(
        self, partitions: Sequence[PartitionComparison]
    ) -> Iterator[PartitionComparison]:
        """The wanted partitions, by name; raises UsageError for unknown topics or brokers."""
        replicas = [copy for each in partitions for copy in each.replicas]
        brokers = sorted({copy.broker_id for copy in replicas if copy.broker_id is not None})
        if self.branch_broker_id is not None and self.branch_broker_id not in brokers:
            ids_text = ", ".join(map(str, brokers)) or "none"
            raise UsageError(
                f"--branch: no replica of broker {self.branch_broker_id}; known: {ids_text}"
            )
        topics = {partition.topic_partition[0] for partition in partitions}
        for topic in sorted(self.topics - topics):
            raise UsageError(f"--topics: no replica of {topic}; known: {', '.join(sorted(topics))}")
        for partition in sorted(partitions, key=lambda each: each.topic_partition):
            is_selected = not self.topics or partition.topic_partition[0] in self.topics
            if is_selected and any(map(_logs, partition.replicas)):
                yield partition

    def _merge_partition(self, partition: PartitionComparison) -> bool:
        """Write the merged log of a partition; returns whether there is one."""
        self._note_partly_read(partition)
        branch = self._choose_branch(partition)
        if branch is None:
            return False
        end_by_replica = dict(
            _shared_end_offsets(partition.replica_branches.branches or [branch], branch)
        )
        best_replica = max(filter(_has_batches, branch.replicas), key=_replica_rank)
        other_replicas = [
            r for r in partition.replicas if r in end_by_replica and r is not best_replica
        ]
        other_replicas.sort(key=_replica_rank, reverse=True)
        start_offset = min(
            _first_offset(each, partition.topic_partition)
            for each in (best_replica, *other_replicas)
        )
        all_replicas = (*branch.replicas, *other_replicas)
        end_offset = max(
            min(_end_offset(each), end_by_replica.get(each, MAX_LOG_END)) for each in all_replicas
        )
        scans_by_source = [
            list(
                self._iter_scans(
                    best_replica, _logs(best_replica), [(start_offset, MAX_LOG_END)], MAX_LOG_END
                )
            )
        ]
        best_batches = [scan.undamaged for scan in scans_by_source[0]]
        wanted_intervals = gaps = subtract_intervals(
            [(start_offset, MAX_LOG_END)],
            (pair for log in best_batches for pair in log.offset_intervals),
        )
        expected_intervals = [(start_offset, end_offset - 1)]
        if is_compacted := self._is_compacted(partition):  # what was cleaned stays so
            damaged_intervals = [
                *best_replica.damaged_offsets,
                *_iter_partly_read_interval(best_replica, best_batches),
            ]
            expected_intervals = intersect_intervals(
                [*damaged_intervals, *_iter_undecodable_intervals(scans_by_source[0], end_offset)],
                gaps,
            )
            wanted_intervals = merge_intervals(
                [
                    *expected_intervals,
                    *(gap for gap in gaps if start_offset in gap or MAX_LOG_END in gap),
                ]
            )
        for replica in (best_replica, *other_replicas):
            logs = [*([] if replica is best_replica else _logs(replica)), *_swap_logs(replica)]
            scans_by_source.append(
                list(self._iter_scans(replica, logs, wanted_intervals, end_by_replica[replica]))
            )
        scans = [scan for part in scans_by_source for scan in part]
        replica_of_scan = [
            r
            for r, part in zip(
                (best_replica, best_replica, *other_replicas), scans_by_source, strict=True
            )
            for _ in part
        ]
        other_batches = [scan.undamaged for scan in scans[len(best_batches) :]]
        arrangement = arrange_replicas(best_batches, other_batches, wanted_intervals)
        if not arrangement.segments:
            self._refuse_partition(partition, NO_BATCH_MESSAGE)
            return False
        if not is_compacted:
            last_offsets = (part.last_offset for _, parts in arrangement.segments for part in parts)
            expected_intervals = [(start_offset, max(end_offset - 1, *last_offsets))]
        staging = self._staging
        directory = PurePath(_directory_name(partition, best_replica))
        log_names, _ = write_rearranged(
            staging, str(directory), RearrangementPlan(scans, arrangement), -1
        )
        merged_logs = [classify_file(str(staging.directory / name), name) for name in log_names]
        self._copy_other_files(directory, (best_replica, *other_replicas), merged_logs[0])
        write_missing_files(
            staging,
            directory,
            merged_logs,
            self.index_interval_bytes,
            OffsetGaps(merged_logs[0].base_or_zero - 1),
        )
        epochs, sources = _epochs_and_sources(arrangement, scans, replica_of_scan, is_compacted)
        staging.write_file(
            str(directory / LEADER_EPOCH_CHECKPOINT), encode_epoch_checkpoint(epochs)
        )
        self._report_partition(partition, directory, sources, expected_intervals)
        return True

    def _is_compacted(self, partition: PartitionComparison) -> bool:
        """Whether the log cleaner may have removed offsets of a partition."""
        topic, _ = partition.topic_partition
        if any(
            partition.topic_partition
            in copy.directory.offsets_by_checkpoint.get(CLEANER_CHECKPOINT, {})
            for copy in partition.replicas
        ):
            return True
        for replica in partition.replicas:
            with self.run.catch_unreadable():
                is_compacted = is_topic_compacted(topic, Path(replica.directory.path))
                if is_compacted is not None:
                    return is_compacted
        return topic.startswith("__")  # without a metadata log, by Kafka's own topics

    def _refuse_partition(self, partition: PartitionComparison, reason: str) -> None:
        """Report a partition that is not written, if it had something to write."""
        if _max_replica_bytes(partition):
            self.run.sink.note(f"not merged: {escape_terminal(partition.name)}: {reason}\n")
            self.run.host.raise_exit_code(ExitCode.FINDINGS)
            self._n_refused_partitions += 1

    def _choose_branch(self, partition: PartitionComparison) -> ReplicaBranch | None:
        """The branch to write; None, with a sentence, if it has to be named."""
        branches = [
            b for b in partition.replica_branches.branches if any(map(_has_batches, b.replicas))
        ]
        if not branches:  # of logs that can be read in part, none is compared
            replicas = [copy for copy in partition.replicas if not copy.is_set_aside]
            branches = [ReplicaBranch(replicas)] if any(map(_has_batches, replicas)) else []
        if len(branches) == 1:
            return branches[0]
        if not branches:
            self._refuse_partition(partition, NO_BATCH_MESSAGE)
            return None
        for branch in branches if self.branch_broker_id is not None else ():
            if any(replica.broker_id == self.branch_broker_id for replica in branch.replicas):
                return branch
        branches_text = " and ".join(
            (
                f"{escape_terminal(each.owner_names)} (latest epoch {each.latest_epoch}, log end "
                f"offset {each.end})"
            )
            for each in branches
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
        wanted_intervals: OffsetIntervals,
        end_offset: int,
    ) -> Iterator[ScannedLog]:
        """The undamaged batches in logs of a replica that have wanted offsets, below
        `end_offset`."""
        interval_by_base = {base: (first, last) for base, first, last, _ in replica.segments}
        salvager, on_progress = Salvager(self.limit, self.jobs), self._progress.on_progress
        for log in logs:
            interval = None if is_swap_file(log) else interval_by_base.get(log.base_or_zero)
            if interval is not None and not intersect_intervals(
                [(interval[0], interval[1] - 1)], wanted_intervals
            ):
                on_progress(file_size(log))
                continue
            with self.run.catch_unreadable():
                scan = salvager.scan(
                    log, base_offset_in_name(log) or 0, False, lambda _: None, on_progress
                )
                min_offset = min(first for first, _ in wanted_intervals)
                yield replace(scan, undamaged=scan.undamaged.select_within(min_offset, end_offset))

    def _copy_other_files(
        self, directory: PurePath, replicas: Iterable[DiskReplica], first_log: InputFile
    ) -> None:
        """Copy what cannot be derived: the topic id, and the producers before the first log."""
        snapshot_name = f"{first_log.base_offset:020}{PRODUCER_SNAPSHOT_KIND.suffix}"
        for names in (PARTITION_METADATA_KIND.names, frozenset({snapshot_name})):
            for replica in replicas:
                if self._try_copy(directory, replica, names):
                    break

    def _try_copy(self, directory: PurePath, replica: DiskReplica, names: frozenset[str]) -> bool:
        """Copy an undamaged file of a replica; returns whether there is one."""
        if replica.listing is None:
            return False
        for name in names.intersection(replica.listing.regular_files):
            file = replica.listing.input_file(name)
            with self.run.catch_unreadable():
                if file.kind.read is None or not has_errors(file.kind.read(file).findings):
                    copy_file(self._staging, file, str(directory / name))
                    return True
        return False

    def _report_partition(
        self,
        partition: PartitionComparison,
        directory: PurePath,
        sources: list[MergeContribution],
        expected_intervals: OffsetIntervals,
    ) -> None:
        """Report which offsets of a partition came from where, and which are in no replica.
        expected_intervals: those that should have been in one."""
        offset_intervals = merge_intervals(
            range_ for source in sources for range_ in source.offset_intervals
        )
        missing_intervals = subtract_intervals(expected_intervals, offset_intervals)
        self._n_missing_offsets += count_offsets(missing_intervals)
        if missing_intervals:
            self.run.host.raise_exit_code(ExitCode.FINDINGS)
        row: dict[str, object] = {
            "topic": partition.topic_partition[0],
            "partition": partition.topic_partition[1],
            "file": format_display_name(str(directory)),
            "offsets": intervals_to_lists(offset_intervals),
            "from": [
                {
                    "broker_id": source.replica.broker_id,
                    "file": source.replica.file,
                    "offsets": intervals_to_lists(source.offset_intervals),
                    "bytes": source.n_bytes,
                }
                for source in sources
            ],
            "missing": intervals_to_lists(missing_intervals),
        }
        source_texts = [
            (
                f"{_format_ranges(source.offset_intervals)} from "
                f"{escape_terminal(source.replica.owner)}"
            )
            for source in sources
        ]
        missing_text = (
            f"; in {self._no_replica_text}: {_format_ranges(missing_intervals)}"
            if missing_intervals
            else ""
        )
        line = f"{escape_terminal(str(directory))}: {'; '.join(source_texts)}{missing_text}\n"
        self.run.sink.write_document(MERGE_ROW, row, [line])

    @property
    def _no_replica_text(self) -> str:
        return "no replica that could be read" if self.run.summary.n_unread else "no replica"

    def _show_summary(self, n_merged: int, destination: str) -> None:
        summary = (
            f"merged {format_count(n_merged, 'partition')} into "
            f"{escape_terminal(format_display_name(destination))}"
        )
        if not n_merged:
            summary = "nothing was merged"
        n_unread = self.run.summary.n_unread
        is_incomplete = self._n_missing_offsets or self._n_refused_partitions or n_unread
        if self._n_refused_partitions:
            summary += f"; {format_count(self._n_refused_partitions, 'partition')} not merged"
        if self._n_missing_offsets:
            summary += (
                f"; {format_count(self._n_missing_offsets, 'offset')} in {self._no_replica_text}"
            )
        if n_unread:
            summary += f"; {format_count(n_unread, 'input')} unread, which may have more records"
        elif not is_incomplete:
            summary += "; nothing is missing"
        self.run.sink.write_hint(summary, "warn" if is_incomplete else "good")


def _max_replica_bytes(partition: PartitionComparison) -> int:
    """The bytes of the largest replica."""
    sizes = (sum(map(file_size, _logs(replica))) for replica in partition.replicas)
    return max(sizes, default=0)


def _shared_end_offsets(
    branches: Sequence[ReplicaBranch], selected_branch: ReplicaBranch
) -> Iterator[tuple[DiskReplica, int]]:
    """The replicas that share offsets with a branch, and the offset below which they do."""
    for branch in branches:
        divergence_offsets = [
            each.diverged_at for each in (branch, selected_branch) if each.diverged_at is not None
        ]
        shared_end_offset = (
            MAX_LOG_END
            if branch is selected_branch
            else min(divergence_offsets, default=MAX_LOG_END)
        )
        for replica in branch.replicas:
            if _has_batches(replica):
                yield replica, shared_end_offset


def _has_batches(replica: DiskReplica) -> bool:
    """Whether a replica may have batches to merge."""
    return bool(replica.segments or replica.n_partly_read)


def _logs(replica: DiskReplica) -> list[InputFile]:
    return [] if replica.listing is None else replica.listing.logs


def _swap_logs(replica: DiskReplica) -> list[InputFile]:
    """The logs with which the broker was about to replace others, which it may have deleted."""
    if replica.listing is None:
        return []
    files = map(replica.listing.input_file, replica.listing.regular_files)
    return [file for file in files if file.kind is LOG_KIND and is_swap_file(file)]


def _replica_rank(replica: DiskReplica) -> tuple[int, int]:
    """The replica that gives the most has the greatest."""
    return count_offsets(replica.undamaged_offsets), replica.log_end or 0


def _iter_undecodable_intervals(
    scans: Sequence[ScannedLog], log_end_offset: int
) -> Iterator[OffsetInterval]:
    """The offsets between undamaged batches where a log has other batches, such as those that
    cannot be decompressed. log_end_offset: of the last log."""
    for scan, next_scan in zip(scans, [*scans, None][1:], strict=True):
        batches = scan.undamaged
        next_base_offset = log_end_offset if next_scan is None else next_scan.undamaged.base_offset
        undecodable_positions = scan.header_positions[
            ~np.isin(scan.header_positions, batches.position)
        ]
        for at in np.unique(np.searchsorted(batches.position, undecodable_positions)).tolist():
            first_offset = int(batches.last_offset[at - 1]) + 1 if at else batches.base_offset
            yield (
                first_offset,
                (
                    int(batches.first_offset[at])
                    if at < len(batches.first_offset)
                    else next_base_offset
                )
                - 1,
            )


def _first_offset(replica: DiskReplica, topic_partition: TopicAndPartition) -> int:
    """The first offset of a replica's logs, whether they can be read or not."""
    base_offsets = [log.base_or_zero for log in _logs(replica)]
    return max(
        min(base_offsets, default=0),
        replica.directory.checkpoint_offset(LOG_START_CHECKPOINT, topic_partition),
    )


def _iter_partly_read_interval(
    replica: DiskReplica, batches_by_log: Sequence[UndamagedBatches]
) -> Iterator[OffsetInterval]:
    """The offsets of the last log of a replica, if it was read around lost bytes. batches_by_log:
    the batches of its logs."""
    known_bases = {base for base, *_ in replica.segments}
    for last_batches in batches_by_log[-1:]:
        if last_batches.base_offset not in known_bases and len(last_batches.last_offset):
            yield last_batches.base_offset, int(last_batches.last_offset.max())


def _end_offset(replica: DiskReplica) -> int:
    """The end of the offsets that a replica had: those below its high watermark were there."""
    return max(replica.log_end or 0, replica.high_watermark or 0)


def _format_ranges(ranges: OffsetIntervals) -> str:
    return ", ".join(starmap(format_range, ranges))


def _directory_name(partition: PartitionComparison, replica: DiskReplica) -> str:
    """The name of the partition's directory, with the bytes that a replica's has."""
    assert replica.listing is not None
    name = partition_directory(replica.listing.path).name
    return name if format_display_name(name) == partition.name else partition.name


def _epochs_and_sources(
    arrangement: BatchArrangement,
    scans: Sequence[ScannedLog],
    replica_of_scan: Sequence[DiskReplica],
    is_compacted: bool,
) -> tuple[list[tuple[int, int]], list[MergeContribution]]:
    """The leader epochs of a merged log, each with its first offset; where its bytes come from.
    is_compacted: offsets between batches are not missed."""
    epochs: list[tuple[int, int]] = []
    source_by_replica: dict[DiskReplica, MergeContribution] = {}
    for _, batch_runs in arrangement.segments:
        for batch_run in batch_runs:
            replica = replica_of_scan[batch_run.log_index]
            source = source_by_replica.setdefault(replica, MergeContribution(replica))
            batches = scans[batch_run.log_index].undamaged
            full_interval = [(batch_run.first_offset, batch_run.last_offset)]
            source.offset_intervals += (
                full_interval
                if is_compacted
                else batches.offset_intervals_in(batch_run.position, batch_run.size)
            )
            source.n_bytes += batch_run.size
            for epoch, offset in batches.epochs_in(batch_run.position, batch_run.size):
                if epoch >= 0 and (not epochs or epoch > epochs[-1][0]):
                    epochs.append((epoch, offset))
    for source in source_by_replica.values():
        source.offset_intervals = merge_intervals(source.offset_intervals)
    return epochs, list(source_by_replica.values())
