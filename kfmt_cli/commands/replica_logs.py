"""Selects logs so that a command shows each record once, even if several replicas are under its
paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from kfmt_cli.broker.log_reading.partial_logs import IntervalsByPath
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.file_names import file_topic_partition
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.execution.replica_selection import (
    DirectoryIdentities,
    ReplicaFiles,
    ReplicaSelection,
    TopicAndPartition,
)
from kfmt_cli.log.selection.selection import Selection


@dataclass(slots=True)
class SelectedReplicas:
    """Which logs are read, and which of their offsets."""

    _selection: ReplicaSelection = field(default_factory=ReplicaSelection)
    _logs_by_partition: dict[int, list[InputFile]] = field(default_factory=dict)
    """The logs that are read of a partition with several replicas, by its number."""

    @property
    def intervals_by_path(self) -> IntervalsByPath:
        """The offsets that are read of logs, if others have the rest."""
        return {
            path: intervals
            for path, intervals in self._selection.intervals_by_path.items()
            if intervals is not None
        }

    def partition_logs(self, logs: Sequence[InputFile]) -> Sequence[InputFile]:
        """The logs from which the records of a partition are read, of all its replicas. logs: those
        of one replica, at least one."""
        directory = logs[0].path.rpartition("/")[0]
        partition_and_rank = self._selection.rank_by_directory.get(directory)
        return (
            logs if partition_and_rank is None else self._logs_by_partition[partition_and_rank[0]]
        )

    def restrict_selection(self, log: InputFile, selection: Selection) -> Selection | None:
        """A selection of a log's records without those read from other replicas; None if none
        remain."""
        if log.path not in self._selection.replica_paths:
            return selection
        if log.path not in self._selection.intervals_by_path:
            return None
        intervals = self._selection.intervals_by_path[log.path]
        return (
            selection
            if intervals is None
            else replace(selection, offset_intervals=tuple(intervals))
        )


def select_log_replicas(
    run: CommandRun, logs: Iterable[InputFile], jobs: int, *, all_replicas: bool
) -> SelectedReplicas:
    """Select the logs from which each record is read once; all logs if `all_replicas`."""
    logs_by_directory: dict[TopicAndPartition, dict[str, list[InputFile]]]
    logs_by_directory = defaultdict(lambda: defaultdict(list))
    directory_identities = DirectoryIdentities()
    for log in () if all_replicas else logs:
        topic, partition = file_topic_partition(log.path)
        if (
            topic is not None
            and partition is not None
            and log.kind is LOG_KIND
            and log.base_offset is not None
        ):
            identity = directory_identities.find_identity(log.path)
            logs_by_directory[topic, partition][identity].append(log)
    replicas_by_partition = [
        (
            topic_partition,
            [
                ReplicaFiles(
                    directory,
                    _find_topic_id(directory),
                    [
                        (log, file_size(log))
                        for log in sorted(logs, key=lambda log: log.base_offset_or_zero)
                    ],
                )
                for directory, logs in (
                    (logs[0].path.rpartition("/")[0], logs) for logs in directories.values()
                )
            ],
        )
        for topic_partition, directories in logs_by_directory.items()
        if len(directories) > 1
    ]
    if not replicas_by_partition:
        return SelectedReplicas()
    from kfmt_cli.execution.replica_splits import select_replicas

    selection = select_replicas(replicas_by_partition, jobs)
    for message in selection.messages:
        run.sink.write_to_stderr(f"{message}\n")
    for read_error in selection.read_error_by_path.values():
        run.report_input_error(read_error)
    logs_by_partition: dict[int, list[InputFile]] = defaultdict(list)
    for _, replicas in replicas_by_partition:
        for replica in replicas:
            logs_by_partition[selection.rank_by_directory[replica.directory][0]] += [
                log for log, _ in replica.logs if log.path in selection.intervals_by_path
            ]
    return SelectedReplicas(selection, logs_by_partition)


def _find_topic_id(directory: str) -> str | None:
    """The topic id of a partition's directory; None if it is unknown or cannot be read."""
    from kfmt_cli.arrow.topic_ids import read_directory_topic_id

    try:
        return read_directory_topic_id(directory)
    except InputError:
        return None
