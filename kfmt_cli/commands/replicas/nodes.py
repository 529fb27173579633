"""replicas: the nodes of a cluster and their replicas, read from their disks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.broker.log_reading.offset_intervals import (
    OffsetIntervals,
    merge_intervals,
    read_log_offsets,
    subtract_intervals,
)
from kfmt_cli.broker.log_reading.stored_batches import StartError
from kfmt_cli.broker.metadata.cluster_image import ClusterImage, read_cluster_with_end
from kfmt_cli.broker.metadata.meta_properties import read_topic_id
from kfmt_cli.broker.start.brokers import BrokerDirectories
from kfmt_cli.broker.start.checkpoints import (
    LOG_START_CHECKPOINT,
    METADATA_LOG_NAME,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
)
from kfmt_cli.broker.start.directory import LogDirectory, PartitionReplica
from kfmt_cli.broker.start.outcome import AFTER_CLEAN_SHUTDOWN, AFTER_CRASH, OFFLINE, PredictedStart
from kfmt_cli.commands.check.check_results import CheckResults
from kfmt_cli.commands.check.directory_result import DirectoryCheckResult
from kfmt_cli.core.json_text import parse_json
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.disk.directory_listing import DirectoryListing, classify_file
from kfmt_cli.disk.file_access import path_exists
from kfmt_cli.disk.file_names import parse_broker_topic_partition, valid_directory_marker_suffix
from kfmt_cli.disk.kinds import PARTITION_METADATA_KIND
from kfmt_cli.disk.kinds.kind import read_small_file
from kfmt_cli.disk.path_resolution import is_tiered
from kfmt_cli.errors import InputError, InputErrorHandler
from kfmt_cli.topics import CLUSTER_METADATA

TopicAndPartition = tuple[str, int]
NO_BROKER_EPOCH = -1
_MAX_MARKER_BYTES = 1 << 12


@dataclass(slots=True, eq=False)
class DiskReplica:
    """A replica of a partition. node_index: the index of its node."""

    node_index: int
    broker_id: int | None
    directory: LogDirectory
    listing: DirectoryListing | None = None
    """Its directory; None if it is missing."""
    file: str | None = None
    topic_id: str | None = None
    log_start: int | None = None
    log_end: int | None = None
    is_log_end_known: bool = True
    """Whether its last log could be read."""
    predicted_log_start: int | None = 0
    """Log start offset after the next start."""
    predicted_log_end: int | None = 0
    """Log end offset after the next start; None if the replica goes offline or is unread."""
    has_prediction: bool = True
    """Whether the next start is known; not if a file of its directory could not be read."""
    epochs: list[tuple[int, int]] = field(default_factory=list)
    high_watermark: int | None = None
    recovery_point: int | None = None
    damaged_offsets: OffsetIntervals = field(default_factory=list)
    segment_fingerprints: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Base offset, first offset, end offset and fingerprint of each log."""
    n_partly_read_logs: int = 0
    """Logs with unreadable bytes; none of them is in `segments`."""
    is_tiered: bool = False
    """Whether it is in tiered storage, which has closed segments only."""
    is_excluded: bool = False
    """Whether it is not used as the partition's replica: it has another topic id, or its node
    is not admitted."""

    @property
    def owner_name(self) -> str:
        """Its broker, or its directory if the broker is unknown."""
        return f"broker {self.broker_id}" if self.broker_id is not None else self.file or ""

    @property
    def latest_epoch(self) -> int | None:
        """The leader epoch of the last batch."""
        return self.epochs[-1][0] if self.epochs else None

    @property
    def undamaged_offsets(self) -> OffsetIntervals:
        """The offsets in undamaged batches."""
        segment_offsets = merge_intervals(
            (first_offset, end_offset - 1)
            for _, first_offset, end_offset, _ in self.segment_fingerprints
        )
        return subtract_intervals(segment_offsets, self.damaged_offsets)

    @property
    def offsets_after_start(self) -> OffsetIntervals:
        """The undamaged offsets that remain after the next start."""
        if self.predicted_log_end is None or self.is_excluded:
            return []
        log_start, last_offset = self.predicted_log_start or 0, self.predicted_log_end - 1
        return subtract_intervals(
            self.undamaged_offsets, [(-1, log_start - 1), (last_offset + 1, 1 << 63)]
        )


def replica_by_broker(replicas: Iterable[DiskReplica]) -> dict[int | None, DiskReplica]:
    """The replica of each broker; of several, the one that is not set aside."""
    replica_by_id: dict[int | None, DiskReplica] = {}
    for replica in replicas:
        if replica.broker_id not in replica_by_id or not replica.is_excluded:
            replica_by_id[replica.broker_id] = replica
    return replica_by_id


@dataclass(slots=True)
class ClusterNode:
    """A node of the cluster: its log directories."""

    node_index: int
    broker_directories: BrokerDirectories
    cluster_image: ClusterImage | None = None
    """The cluster in its metadata log."""
    rejection_reason: str | None = None
    """Why the cluster does not admit it."""
    start_failure_reason: str | None = None
    """Why it does not start. Its replicas are compared like all others, but it cannot lead."""

    @property
    def absence_reason(self) -> str | None:
        """Why it takes no part in elections."""
        if self.rejection_reason is None and self.start_failure_reason is not None:
            return f"it does not start: {self.start_failure_reason}"
        return self.rejection_reason

    @property
    def directories(self) -> list[LogDirectory]:
        """Its log directories, the one with the metadata log first."""
        return self.broker_directories.directories

    @property
    def node_id(self) -> int | None:
        """Its id in meta.properties."""
        return self.broker_directories.node_id

    @property
    def cluster_id(self) -> str | None:
        """The cluster id in meta.properties."""
        cluster_ids = (directory.meta_properties.cluster_id for directory in self.directories)
        return next((id_ for id_ in cluster_ids if id_), None)

    @property
    def directory_ids(self) -> set[str]:
        """The ids of its log directories."""
        ids = (directory.meta_properties.directory_id for directory in self.directories)
        return {id_ for id_ in ids if id_}

    @property
    def display_path(self) -> str:
        """Its first directory, as displayed."""
        return format_display_name(self.directories[0].path)

    def read_clean_shutdown_epoch(self) -> int | None:
        """The broker epoch in `.kafka_cleanshutdown`, NO_EPOCH if it has none; None if a
        directory lacks the file."""
        marker_paths = [directory.clean_shutdown_path for directory in self.directories]
        if None in marker_paths:
            return None
        marker_path = marker_paths[0] or ""
        with suppress(InputError, ValueError, AttributeError, TypeError):
            marker_content = read_small_file(
                classify_file(marker_path, format_display_name(marker_path)), _MAX_MARKER_BYTES
            )
            return int(parse_json(marker_content).get("brokerEpoch", NO_BROKER_EPOCH))
        return NO_BROKER_EPOCH  # before 3.7, the file is empty


def read_nodes(check_results: CheckResults, read_errors: list[InputError]) -> list[ClusterNode]:
    """The nodes whose directories were checked; errors of unreadable files are added to
    `read_errors`."""
    nodes: list[ClusterNode] = []
    for broker_directories in check_results.brokers:
        node = ClusterNode(len(nodes), broker_directories)
        node.cluster_image = _read_cluster_image(node, read_errors)
        nodes.append(node)
    for next_start in check_results.next_starts:
        for node in nodes:
            is_start_of_node = any(
                next_start.file == format_display_name(directory.path)
                for directory in node.directories
            )
            if is_start_of_node and not next_start.starts and node.start_failure_reason is None:
                node.start_failure_reason = next_start.reason
    return nodes


def _read_cluster_image(node: ClusterNode, read_errors: list[InputError]) -> ClusterImage | None:
    """The cluster in a node's metadata log; None without one, or if a part of it is unknown."""
    for log_directory in node.directories:
        for partition_replica in log_directory.replicas:
            if partition_replica.name == METADATA_LOG_NAME:
                predicted_broker_start = _find_next_start(partition_replica, log_directory)
                log_end = (
                    predicted_broker_start.log_end_offset
                    if predicted_broker_start is not None
                    else None
                )
                n_previous_errors = len(read_errors)
                image = read_cluster_with_end(partition_replica.directory, read_errors, log_end)
                return image if len(read_errors) == n_previous_errors else None
    return None


def _find_next_start(
    partition_replica: PartitionReplica, log_directory: LogDirectory
) -> PredictedStart | None:
    return partition_replica.start_by_shutdown_kind.get(
        AFTER_CRASH if log_directory.clean_shutdown_path is None else AFTER_CLEAN_SHUTDOWN
    )


def read_replicas(
    nodes: Iterable[ClusterNode],
    result_by_directory: Mapping[str, DirectoryCheckResult],
    read_errors: list[InputError],
) -> dict[TopicAndPartition, list[DiskReplica]]:
    """The replicas of each partition on the disks of some nodes."""
    replicas_by_partition: dict[TopicAndPartition, list[DiskReplica]] = {}
    for node in nodes:
        for log_directory in node.directories:
            for partition_replica in log_directory.replicas:
                topic_partition = parse_broker_topic_partition(partition_replica.name)
                if (
                    topic_partition is None
                    or valid_directory_marker_suffix(partition_replica.name)
                    or topic_partition[0] == CLUSTER_METADATA
                ):
                    continue
                check_result = result_by_directory[partition_replica.directory.name]
                disk_replica = _read_replica(
                    node,
                    log_directory,
                    partition_replica,
                    check_result,
                    topic_partition,
                    read_errors,
                )
                replicas_by_partition.setdefault(topic_partition, []).append(disk_replica)
    return replicas_by_partition


def _read_replica(
    node: ClusterNode,
    log_directory: LogDirectory,
    partition_replica: PartitionReplica,
    check_result: DirectoryCheckResult,
    topic_partition: TopicAndPartition,
    read_errors: list[InputError],
) -> DiskReplica:
    disk_replica = DiskReplica(
        node.node_index,
        node.node_id,
        log_directory,
        partition_replica.directory,
        check_result.display_path,
    )
    disk_replica.topic_id = _read_topic_id(partition_replica.directory, read_errors)
    disk_replica.is_tiered = is_tiered(partition_replica.directory.path)
    disk_replica.n_partly_read_logs = check_result.n_partly_read_logs
    deleted_base_offsets = _find_deleted_logs(partition_replica.directory)
    for log_fingerprint in check_result.fingerprints:
        if log_fingerprint.base_offset in deleted_base_offsets:
            continue
        first_offset, end_offset = check_result.offset_intervals.get(
            log_fingerprint.base_offset, (log_fingerprint.base_offset, log_fingerprint.base_offset)
        )
        disk_replica.segment_fingerprints.append(
            (log_fingerprint.base_offset, first_offset, end_offset, log_fingerprint.fingerprint)
        )
        for epoch, offset in log_fingerprint.epochs:
            if not disk_replica.epochs or disk_replica.epochs[-1][0] != epoch:
                disk_replica.epochs.append((epoch, offset))
    end_offsets = [end for _, end in check_result.offset_intervals.values()]
    for last_log in partition_replica.directory.logs[-1:]:
        disk_replica.is_log_end_known = any(
            log.base_offset == last_log.base_offset_or_zero for log in check_result.fingerprints
        )
    checkpointed_log_start = log_directory.checkpoint_offset(LOG_START_CHECKPOINT, topic_partition)
    if end_offsets:
        disk_replica.log_start = max(checkpointed_log_start, min(check_result.offset_intervals))
        disk_replica.log_end = max(end_offsets)
    disk_replica.high_watermark = log_directory.offsets_by_checkpoint.get(
        REPLICATION_CHECKPOINT, {}
    ).get(topic_partition)
    disk_replica.recovery_point = log_directory.offsets_by_checkpoint.get(
        RECOVERY_POINT_CHECKPOINT, {}
    ).get(topic_partition)
    disk_replica.damaged_offsets = _find_damaged_offsets(
        partition_replica.directory, check_result, read_errors
    )
    predicted_start = _find_next_start(partition_replica, log_directory)
    disk_replica.has_prediction = predicted_start is not None
    if predicted_start is None or predicted_start.becomes == OFFLINE or not predicted_start.starts:
        disk_replica.predicted_log_start = disk_replica.predicted_log_end = None
    else:
        disk_replica.predicted_log_start = predicted_start.log_start_offset
        disk_replica.predicted_log_end = predicted_start.log_end_offset
    return disk_replica


def _read_topic_id(
    directory_listing: DirectoryListing, read_errors: list[InputError]
) -> str | None:
    for file_name in PARTITION_METADATA_KIND.names.intersection(directory_listing.regular_files):
        with InputErrorHandler(read_errors.append), suppress(StartError):
            return format_uuid(read_topic_id(directory_listing.input_file(file_name)))
    return None


def _find_deleted_logs(directory: DirectoryListing) -> frozenset[int]:
    """The base offsets of the logs that a running broker deleted after they were listed."""
    if not directory.seen_at.has_changed(directory.path):
        return frozenset()
    return frozenset(log.base_offset_or_zero for log in directory.logs if not path_exists(log.path))


def _find_damaged_offsets(
    directory_listing: DirectoryListing,
    check_result: DirectoryCheckResult,
    read_errors: list[InputError],
) -> OffsetIntervals:
    """The offsets in damaged batches of a partition's logs, and those of unreadable logs."""
    logs = directory_listing.logs
    base_offsets = [log.base_offset_or_zero for log in logs]
    read_base_offsets = {log.base_offset for log in check_result.fingerprints}
    last_offsets = [*(base_offset - 1 for base_offset in base_offsets[1:]), *base_offsets[-1:]]
    damaged_intervals = [
        interval
        for log, interval in zip(logs, zip(base_offsets, last_offsets, strict=True), strict=True)
        # A running broker deleted a log that no longer exists, or put another in its place.
        if interval[0] not in read_base_offsets
        and path_exists(log.path)
        and not directory_listing.seen_at.has_changed(directory_listing.path)
    ]
    sorted_base_offsets = sorted(check_result.offset_intervals)
    next_base_offset_by_base = (
        dict(zip(sorted_base_offsets, [*sorted_base_offsets[1:], None], strict=True))
        if sorted_base_offsets
        else {}
    )
    file_names_with_errors = {Path(finding.file).name for finding in check_result.log_errors}
    for log_file in map(
        directory_listing.input_file,
        sorted(file_names_with_errors.intersection(directory_listing.files)),
    ):
        with InputErrorHandler(read_errors.append):
            log_offsets = read_log_offsets(log_file, log_file.base_offset_or_zero)
            damaged_intervals += subtract_intervals(
                log_offsets.contained_offsets(
                    next_base_offset_by_base.get(log_file.base_offset_or_zero)
                ),
                log_offsets.undamaged_offsets(),
            )
    return merge_intervals(damaged_intervals)
