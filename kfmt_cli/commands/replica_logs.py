"""The logs of which a command shows each record once, of all replicas under its paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kfmt_cli.arrow.topic_ids import read_directory_topic_id
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.file_names import file_topic_partition
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.execution.replica_splits import (
    ReplicaFiles,
    ReplicaSelection,
    TopicAndPartition,
    find_directory_identity,
    select_replicas,
)
from kfmt_cli.log.selection.selection import Selection


@dataclass(slots=True)
class SelectedReplicas:
    """Which logs are read, and which of their offsets."""

    _selection: ReplicaSelection = field(default_factory=ReplicaSelection)

    def restrict_selection(self, log: InputFile, selection: Selection) -> Selection | None:
        """A selection of a log's records without those read from other replicas; None if that are
        all."""
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
    for log in () if all_replicas else logs:
        topic, partition = file_topic_partition(log.path)
        if (
            topic is not None
            and partition is not None
            and log.kind is LOG_KIND
            and log.base_offset is not None
        ):
            directory_identity = find_directory_identity(log.path)
            logs_by_directory[topic, partition][directory_identity].append(log)
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
    selection = select_replicas(replicas_by_partition, jobs)
    for message in selection.messages:
        run.sink.write_to_stderr(f"{message}\n")
    for read_error in selection.read_error_by_path.values():
        run.report_input_error(read_error)
    return SelectedReplicas(selection)


def _find_topic_id(directory: str) -> str | None:
    """The topic id of a partition's directory; None if it is unknown or cannot be read."""
    try:
        return read_directory_topic_id(directory)
    except InputError:
        return None
