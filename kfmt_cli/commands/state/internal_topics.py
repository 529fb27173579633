"""Finds the partitions of internal topics under some paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kfmt_cli.broker.log_reading.offset_map import latest_in_run_mask
from kfmt_cli.broker.start.checkpoints import is_log_directory
from kfmt_cli.broker.state import can_replay
from kfmt_cli.broker.state.replay import CompactedTopicReplay, TopicReplay
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import DirectoryListing, file_topic
from kfmt_cli.disk.file_names import (
    directory_marker_suffix,
    parse_topic_partition,
    partition_directory,
)
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
    partition: int | None = None
    """Its number; None if unknown."""


def find_internal_partitions(
    paths: Sequence[InputPath | str], of_topic: str | None, report_error: Callable[[str], None]
) -> list[InternalTopicPartition]:
    """The distinct partitions under the paths.

    of_topic: the topic, if the directory is not named after it. report_error: called with a message
    for each unreadable input and each path without such a partition; other log directories than
    those of the partitions may have the logs that these refer to.
    """
    partition_by_path: dict[str, InternalTopicPartition] = {}
    messages_about_log_directories: list[str] = []
    for input_path in resolve_paths(paths, report_error):
        try:
            partition_by_real_path = dict(_iter_internal_partitions(input_path, of_topic))
        except InputError as error:
            report_error(str(error))
            continue
        if not partition_by_real_path and not input_path.listing_errors:
            message = "contains no internal topic partitions"
            known_topic = find_known_topic(
                parse_topic_partition(partition_directory(input_path.path).name)[0]
            )
            if known_topic is not None:
                message = f"kfmt does not replay this topic ({known_topic.doc})"
            message = f"{format_display_name(input_path.path)}: {message}"
            if any(map(is_log_directory, input_path.directories)):
                messages_about_log_directories.append(message)
            else:
                report_error(message)
        for real_path, partition in partition_by_real_path.items():
            partition_by_path.setdefault(real_path, partition)
    for message in () if partition_by_path else messages_about_log_directories:
        report_error(message)
    return list(partition_by_path.values())


def _iter_internal_partitions(
    input_path: InputPath, of_topic: str | None
) -> Iterator[tuple[str, InternalTopicPartition]]:
    """The partitions at a path, each with its real path; raises InputError."""
    user_path = input_path.path
    if input_path.file is not None:
        yield os.path.realpath(user_path), _file_partition(input_path.file, of_topic)
    for listing in input_path.directories:
        directory_path = partition_directory(listing.path)
        is_user_path = listing.path == user_path
        topic = parse_topic_partition(directory_path.name)[0] or (
            of_topic if is_user_path else None
        )
        if (
            topic is None
            or not can_replay(topic)
            or (directory_marker_suffix(directory_path.name) and not is_user_path)
        ):
            continue
        partition = _directory_partition(listing, topic, str(directory_path.parent))
        if partition.logs or partition.snapshots:
            yield os.path.realpath(directory_path), partition


def _file_partition(log_file: InputFile, of_topic: str | None) -> InternalTopicPartition:
    topic = of_topic or file_topic(log_file)
    if topic is None or not can_replay(topic):
        message = "not inside an internal topic's directory; name the topic with --as-topic"
        raise InputError(f"{log_file.name}: {message}")
    logs, snapshots = ([], [log_file]) if log_file.kind is KRAFT_SNAPSHOT_KIND else ([log_file], [])
    partition = parse_topic_partition(partition_directory(log_file.path).parent.name)[1]
    return InternalTopicPartition(log_file.name, topic, logs, snapshots, None, partition)


def _directory_partition(
    listing: DirectoryListing, topic: str, log_directory: str
) -> InternalTopicPartition:
    from kfmt_cli.broker.metadata.opened_log import metadata_snapshots

    partition = parse_topic_partition(partition_directory(listing.path).name)[1]
    snapshots = metadata_snapshots(listing)[::-1]
    return InternalTopicPartition(
        listing.name, topic, listing.logs, snapshots, log_directory, partition
    )


def replay_log_records(
    topic_replay: TopicReplay,
    log_file: InputFile,
    decompression_limit: DecompressionLimit | None = None,
) -> Iterator[Finding]:
    """Apply the records of a log to a replay, which decide on its state at the end; yields the
    findings. Raises InputError."""
    is_compacted = isinstance(topic_replay, CompactedTopicReplay) and topic_replay.needs_only_latest
    with open_checked_log(log_file, read_ahead=False) as opened_log:
        for record_or_finding in iter_records_and_findings(
            opened_log,
            decompression_limit or DecompressionLimit(),
            latest_in_run_mask if is_compacted else None,
        ):
            if isinstance(record_or_finding, Finding):
                yield record_or_finding
            else:
                topic_replay.apply_record(record_or_finding)
