"""Selects the logs from which each record is read once, however many replicas have it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import PurePath

from kfmt_cli.broker.cluster.replica_choice import (
    ReplicaChoice,
    choose_replicas,
    group_replicas,
)
from kfmt_cli.broker.cluster.replica_contents import (
    ReplicaContents,
    ReplicaLogContents,
    read_checkpoint_entries,
    read_log_contents,
)
from kfmt_cli.broker.log_reading.offset_intervals import subtract_intervals
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.core.parallel import MAX_CONNECTIONS, map_ordered
from kfmt_cli.core.urls import (
    format_display_name,
    is_local,
    is_path_or_subpath,
    path_in_listings,
)
from kfmt_cli.disk.file_access import read_bytes_at
from kfmt_cli.disk.kinds import UNKNOWN_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND, LOG_KIND
from kfmt_cli.disk.mounts import MOUNTS
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.processes import map_in_processes, useful_process_count
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.execution.replica_selection import (
    DirectoryIdentities,
    ReplicaFiles,
    ReplicaSelection,
    TopicAndPartition,
)
from kfmt_cli.render.style import format_count

NO_TIERED_CONTENTS: Mapping[str, ReplicaLogContents] = {}


def choose_logs(
    topic: str | None, replicas: Sequence[ReplicaFiles], jobs: int
) -> list[ReplicaChoice]:
    """Read directories with the same topic and partition, and choose the offsets to read from each;
    returns a choice per partition, as they may belong to different ones. jobs: processes that read
    the logs."""
    log_ahead = _choose_log_ahead(replicas)
    if log_ahead is not None:
        return [log_ahead]
    logs = [log for replica in replicas if not replica.contents for log in replica.logs]
    if all(is_local(file.path) or MOUNTS.find_tree_and_subpath(file.path) for file, _ in logs):
        n_processes = useful_process_count(jobs, sum(log_bytes for _, log_bytes in logs))
        contents = iter(list(map_in_processes(read_log_contents, logs, n_processes)))
    else:
        contents = iter(list(map_ordered(read_log_contents, logs, MAX_CONNECTIONS)))
    replica_contents = [
        ReplicaContents(
            replica.directory,
            replica.topic_id,
            replica.contents or [next(contents) for _ in replica.logs],
            () if replica.contents else read_checkpoint_entries(replica.directory),
        )
        for replica in replicas
    ]
    return [choose_replicas(group) for group in group_replicas(topic, replica_contents)]


def _choose_log_ahead(replicas: Sequence[ReplicaFiles]) -> ReplicaChoice | None:
    """The choice, without reading any log, for a local log that is ahead of the segments in tiered
    storage, as a leader's is: they only have its deleted beginning. None for other replicas."""
    if len(replicas) != 2 or sum(bool(replica.contents) for replica in replicas) != 1:
        return None
    local, tiered = sorted(replicas, key=lambda replica: bool(replica.contents))
    tiered_contents = ReplicaContents(tiered.directory, tiered.topic_id, tiered.contents)
    local_epochs = [epoch for epoch, _ in read_checkpoint_entries(local.directory)]
    if (
        local.topic_id != tiered.topic_id
        or tiered_contents.end_offset > local.logs[-1][0].base_offset_or_zero
        or tiered_contents.latest_epoch > max(local_epochs, default=-1)
    ):
        return None
    choice = ReplicaChoice(ReplicaContents(local.directory, local.topic_id))
    choice.intervals_by_path |= {log.path: None for log, _ in local.logs}
    local_intervals = [(local.logs[0][0].base_offset_or_zero, MAX_OFFSET)]
    for log in tiered.contents:
        intervals = subtract_intervals(log.undamaged_intervals, local_intervals)
        if intervals:
            is_complete = intervals == log.undamaged_intervals
            choice.intervals_by_path[log.path] = None if is_complete else intervals
    return choice


def select_replicas(
    replicas_by_partition: Sequence[tuple[TopicAndPartition, Sequence[ReplicaFiles]]], jobs: int
) -> ReplicaSelection:
    """Select the logs of partitions with several directories."""
    selection = ReplicaSelection()
    n_replicated = 0
    for topic_partition, replicas in replicas_by_partition:
        choices = choose_logs(topic_partition[0], replicas, jobs)
        selection.replica_paths |= {log.path for replica in replicas for log, _ in replica.logs}
        for choice in choices:
            selection.add_choice(topic_partition, choice, len(selection.rank_by_directory))
        n_replicated += any(len(choice.ranked_replicas) > 1 for choice in choices)
    if n_replicated:
        partitions_text = format_count(n_replicated, "partition")
        selection.messages.insert(
            0,
            f"{partitions_text} with several replicas: each record is read once, from the best "
            "one; --all-replicas reads all",
        )
    return selection


def select_replica_splits(
    splits: FileSplits,
    request: ReadRequest,
    find_topic_id: Callable[[FileSplit], str | None],
    report: Callable[[str], None] | None = None,
    tiered_contents: Mapping[str, ReplicaLogContents] = NO_TIERED_CONTENTS,
) -> FileSplits:
    """The splits of entire files without those whose records are read from other replicas. Of equal
    replicas, one under an earlier path of the request is read.

    find_topic_id: returns the topic id of a split. report: receives messages about replicas.
    tiered_contents: the contents of segments in tiered storage that may be in local logs, by path.
    """
    roots = list(map(path_in_listings, request.paths))

    def path_index(replica: ReplicaFiles) -> int:
        root_indexes = (
            i for i, root in enumerate(roots) if is_path_or_subpath(replica.directory, root)
        )
        return next(root_indexes, len(roots))

    replicas_by_partition = [
        (topic_partition, sorted(replicas, key=path_index))
        for topic_partition, replicas in _find_replicated_partitions(
            splits, find_topic_id, tiered_contents
        )
    ]
    selection = select_replicas(replicas_by_partition, request.parallelism)
    if report is not None:
        for message in selection.messages:
            report(f"{message}\n")
    if selection.replica_paths:
        splits = FileSplits(_iter_selected_splits(splits, selection))
    return _select_snapshots(splits, selection.rank_by_directory)


def _find_replicated_partitions(
    splits: FileSplits,
    find_topic_id: Callable[[FileSplit], str | None],
    tiered_contents: Mapping[str, ReplicaLogContents],
) -> Iterator[tuple[TopicAndPartition, list[ReplicaFiles]]]:
    """The partitions that have logs in several directories, or in tiered storage too."""
    logs_by_partition: dict[TopicAndPartition, dict[str | None, list[FileSplit]]]
    logs_by_partition = defaultdict(lambda: defaultdict(list))
    directory_identities = DirectoryIdentities()
    for split in splits:
        topic, partition = split.topic_partition
        if (
            (topic is not None and partition is not None)
            and (split.kind is LOG_KIND and split.base_offset is not None)
            and not split.read_error
            and (not split.is_tiered or split.path in tiered_contents)
        ):
            replica_key = (
                find_topic_id(split)
                if split.is_tiered
                else directory_identities.find_identity(split.path)
            )
            logs_by_partition[topic, partition][replica_key].append(split)
    for topic_partition, logs_by_replica in logs_by_partition.items():
        if len(logs_by_replica) > 1:
            tiered_ids = {
                find_topic_id(logs[0]) for logs in logs_by_replica.values() if logs[0].is_tiered
            }
            # Tiered storage needs topic ids: a local log without one is of the same topic.
            default_id = tiered_ids.pop() if len(tiered_ids) == 1 else None
            yield (
                topic_partition,
                [
                    _replica_files(logs, find_topic_id(logs[0]) or default_id, tiered_contents)
                    for logs in logs_by_replica.values()
                ],
            )


def _replica_files(
    logs: Sequence[FileSplit],
    topic_id: str | None,
    tiered_contents: Mapping[str, ReplicaLogContents],
) -> ReplicaFiles:
    sorted_logs = sorted(logs, key=lambda log: log.base_offset_or_zero)
    return ReplicaFiles(
        logs[0].directory,
        topic_id,
        [
            (InputFile(log.path, log.path, log.kind, log.base_offset), log.file_size)
            for log in sorted_logs
        ],
        [tiered_contents[log.path] for log in sorted_logs if log.is_tiered],
    )


def _iter_selected_splits(splits: FileSplits, selection: ReplicaSelection) -> Iterator[FileSplit]:
    for split in splits:
        if split.path not in selection.replica_paths or split.read_error:
            yield split
        elif split.path in selection.intervals_by_path:
            intervals = selection.intervals_by_path[split.path]
            yield split if intervals is None else replace(split, offset_intervals=tuple(intervals))
        elif split.path in selection.read_error_by_path:
            reason = selection.read_error_by_path[split.path]
            reason = reason.removeprefix(f"{format_display_name(split.path)}: ")
            yield FileSplit(split.path, UNKNOWN_KIND, None, 0, 0, 0, 0, read_error=reason)


def _select_snapshots(
    splits: FileSplits, rank_by_directory: Mapping[str, tuple[int, int]]
) -> FileSplits:
    """The splits with one of each KRaft snapshot that several nodes have.

    It is the one next to the best log, or one of those with the same bytes. rank_by_directory: see
    `ReplicaSelection`.
    """
    snapshots_by_name: dict[str, list[FileSplit]] = defaultdict(list)
    for split in splits:
        if split.kind is KRAFT_SNAPSHOT_KIND and not split.read_error:
            snapshots_by_name[PurePath(split.path).name].append(split)
    skipped_paths: set[str] = set()
    for snapshots in snapshots_by_name.values():
        best_by_identity: dict[object, FileSplit] = {}
        for snapshot in (
            sorted(
                snapshots, key=lambda snapshot: rank_by_directory.get(snapshot.directory, (0, 0))
            )
            if len(snapshots) > 1
            else ()
        ):
            group_and_rank = rank_by_directory.get(snapshot.directory)
            identity = _hash_file(snapshot) if group_and_rank is None else group_and_rank[0]
            if best_by_identity.setdefault(identity, snapshot) is not snapshot:
                skipped_paths.add(snapshot.path)
    if not skipped_paths:
        return splits
    return splits.select_where(lambda split: split.path not in skipped_paths)


def _hash_file(split: FileSplit) -> object:
    """A hash of a small file; its path if it cannot be read."""
    try:
        return sha256(read_bytes_at(split.path, 0, split.file_size)).digest()
    except InputError:
        return split.path
