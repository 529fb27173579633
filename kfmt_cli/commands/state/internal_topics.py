"""Finds the partitions of internal topics under some paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kfmt_cli.broker.state import can_replay
from kfmt_cli.broker.state.replay import TopicReplay
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import DirectoryListing, file_topic
from kfmt_cli.disk.file_names import directory_mark, parse_topic_partition, partition_directory
from kfmt_cli.disk.input_paths import InputPath, resolve_paths
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.record_stream import iter_records_and_findings
from kfmt_cli.topics import find_known_topic


@dataclass(frozen=True, slots=True)
class InternalTopicPartition:
    """The logs of a partition of an internal topic."""

    name: str
    """Its name in output."""
    topic: str
    logs: list[InputFile]
    snapshots: list[InputFile]
    """KRaft snapshots, newest first."""
    log_directory: str | None
    """Its log directory, with other partitions; None for a single file."""


def find_internal_partitions(
    paths: Sequence[InputPath | str], of_topic: str | None, report_error: Callable[[str], None]
) -> list[InternalTopicPartition]:
    """The distinct partitions under the paths.

    of_topic: the topic, if the directory is not named after it. report_error: called with a message
    for each unreadable input and each path without such a partition.
    """
    partition_by_path: dict[str, InternalTopicPartition] = {}
    for input_path in resolve_paths(paths, report_error):
        try:
            partitions_at_path = dict(_iter_partitions(input_path, of_topic))
        except InputError as error:
            report_error(str(error))
            continue
        if not partitions_at_path and not input_path.listing_errors:
            message = "contains no internal topic partitions"
            topic = find_known_topic(
                parse_topic_partition(partition_directory(input_path.path).name)[0]
            )
            if topic is not None:
                message = f"kfmt does not replay this topic ({topic.doc})"
            report_error(f"{format_display_name(input_path.path)}: {message}")
        for real_path, partition in partitions_at_path.items():
            partition_by_path.setdefault(real_path, partition)
    return list(partition_by_path.values())


def _iter_partitions(
    input_path: InputPath, of_topic: str | None
) -> Iterator[tuple[str, InternalTopicPartition]]:
    """The partitions at a path, each with its real path; raises InputError."""
    path = input_path.path
    if input_path.file is not None:
        yield os.path.realpath(path), _file_partition(input_path.file, of_topic)
    for directory in input_path.directories:
        named_directory = partition_directory(directory.path)
        is_user_path = directory.path == path
        topic = parse_topic_partition(named_directory.name)[0] or (
            of_topic if is_user_path else None
        )
        if (
            topic is None
            or not can_replay(topic)
            or (directory_mark(named_directory.name) and not is_user_path)
        ):
            continue
        partition = _directory_partition(directory, topic, str(named_directory.parent))
        if partition.logs or partition.snapshots:
            yield os.path.realpath(named_directory), partition


def _file_partition(file: InputFile, of_topic: str | None) -> InternalTopicPartition:
    topic = of_topic or file_topic(file)
    if topic is None or not can_replay(topic):
        message = "not inside an internal topic's directory; name the topic with --of-topic"
        raise InputError(f"{file.name}: {message}")
    logs, snapshots = ([], [file]) if file.kind is KRAFT_SNAPSHOT_KIND else ([file], [])
    return InternalTopicPartition(file.name, topic, logs, snapshots, None)


def _directory_partition(
    directory: DirectoryListing, topic: str, log_directory: str
) -> InternalTopicPartition:
    from kfmt_cli.broker.start.metadata_files import metadata_snapshots, snapshot_end_offset

    snapshots = sorted(
        metadata_snapshots(directory), key=lambda file: snapshot_end_offset(file) or 0, reverse=True
    )
    return InternalTopicPartition(directory.name, topic, directory.logs, snapshots, log_directory)


def iter_replay_findings(
    replay: TopicReplay, log: InputFile, limit: DecompressionLimit | None = None
) -> Iterator[Finding]:
    """Apply the records of a log to a replay; yields the findings. Raises InputError."""
    with open_checked_log(log, read_ahead=False) as opened_log:
        for record in iter_records_and_findings(opened_log, limit or DecompressionLimit()):
            if isinstance(record, Finding):
                yield record
            else:
                replay.apply_record(record)
