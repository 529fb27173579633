"""Brokers, derived from their log directories, and the effect of a start on all partitions.

Source: `kafka.server.KafkaRaftServer.initializeLogDirs`, `kafka.log.LogManager.loadLogs`,
`LogManager.isStrayKraftReplica`, `kafka.server.ReplicaManager.handleLogDirFailure`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kfmt_cli.broker.log_reading.not_files import Access, find_start_files
from kfmt_cli.broker.log_reading.stored_batches import StartError
from kfmt_cli.broker.metadata.cluster_image import (
    ClusterImage,
    is_reserved_directory_id,
    read_cluster_image,
)
from kfmt_cli.broker.metadata.meta_properties import read_topic_id
from kfmt_cli.broker.metadata.opened_log import metadata_snapshots
from kfmt_cli.broker.start.checkpoints import BOOTSTRAP_CHECKPOINT, METADATA_LOG_NAME
from kfmt_cli.broker.start.directory import (
    LogDirectory,
    PartitionReplica,
    find_directory_contradictions,
)
from kfmt_cli.broker.start.outcome import (
    AFTER_CLEAN_SHUTDOWN,
    AFTER_CRASH,
    OFFLINE,
    STRAY,
    UNSERVED,
    NextStart,
    PredictedStart,
)
from kfmt_cli.broker.start.unserved import (
    format_foreign_topic_reason,
    format_stray_reason,
    mark_unserved,
)
from kfmt_cli.broker.state.replay import LoadFailure
from kfmt_cli.broker.version import (
    DEFAULT_PREDICTED_VERSION,
    LAST_ZOOKEEPER_VERSION,
    METADATA_VERSION_FEATURE,
    KafkaVersion,
    PredictedVersion,
    version_from_feature_level,
)
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.disk.directory_listing import classify_file, list_directory
from kfmt_cli.disk.file_access import is_file
from kfmt_cli.disk.file_names import valid_directory_marker_suffix
from kfmt_cli.disk.kinds import PARTITION_METADATA_KIND
from kfmt_cli.errors import InputError


@dataclass(frozen=True, slots=True)
class ForeignOwner:
    """The broker that a log directory belongs to, instead of the one in its meta.properties."""

    directory: LogDirectory
    node_id: int
    is_by_directory_id: bool
    """Whether the metadata log registers the directory.id to that broker; otherwise it assigns all
    partitions in the directory to that broker."""


class BrokerDirectories:
    """The log directories of one broker; the one with the metadata log comes first.

    metadata_end_offset_by_kind: the log end offset of the metadata log after each kind of start
    that truncates it permanently. is_metadata_log_failing: whether the metadata log, which is
    loaded before all others, fails to load. predicted_version: the version of the broker.
    foreign_owner: the owner of a log directory that belongs to another broker; set by
    `adjust_starts`.
    """

    def __init__(self, directories: list[LogDirectory]) -> None:
        self.directories = directories
        self.predicted_version = DEFAULT_PREDICTED_VERSION
        self.metadata_end_offset_by_kind: dict[str, int] = {}
        self.is_metadata_log_failing = False
        self.foreign_owner: ForeignOwner | None = None
        self._has_explicit_version = False
        self._offline_reasons: dict[tuple[str, str], str] = {}
        self._image_by_end_offset: dict[int | None, ClusterImage | None] = {}

    @property
    def is_kraft(self) -> bool:
        """Whether it is a KRaft broker."""
        return any(directory.is_kraft for directory in self.directories)

    @property
    def replicas(self) -> list[PartitionReplica]:
        """The replicas in all its log directories."""
        return [replica for directory in self.directories for replica in directory.replicas]

    def early_failures(self) -> list[tuple[str, str]]:
        """Files and reasons that stop the broker before it reads any log."""
        failures = [
            failure for directory in self.directories for failure in directory.early_failures
        ]
        failures += self.directories[0].bootstrap_failures
        path = self._metadata_log_name
        failures += [(path, f"{path}: {problem}") for problem in self.level_problems()]
        if (failure := self._load_failure) is not None:
            name = self._metadata_log_name
            failures.append((name, f"{name}: {failure.message}"))
        if self.is_kraft:
            failures = [*find_directory_contradictions(self.directories), *failures]
        return failures

    def level_problems(self, version: KafkaVersion | None = None) -> list[str]:
        """The feature levels that a version cannot start with, after a failed downgrade or too
        large a step. version: by default the one that the user named, if any."""
        if version is None and self._has_explicit_version:
            version = self.predicted_version.kafka_version
        image = None if version is None else self._cluster_image(AFTER_CRASH)
        if version is None or image is None:
            return []
        node_ids = {directory.meta_properties.node_id for directory in self.directories}
        is_controller = not image.voter_ids or not image.voter_ids.isdisjoint(node_ids)
        return list(version.iter_level_problems(image.level_by_feature, is_controller))

    @property
    def _load_failure(self) -> LoadFailure | None:
        """The record of the metadata log that the broker halts at, if it can open the log."""
        image, directory = self._cluster_image(AFTER_CRASH), self.directories[0]
        is_closed = any(
            file.startswith(self._metadata_log_name) for file, _ in directory.early_failures
        )
        return None if is_closed or image is None else image.load_failure

    @property
    def _metadata_log_name(self) -> str:
        return format_display_name(f"{self.directories[0].path}/{METADATA_LOG_NAME}")

    def set_predicted_version(self, explicit_version: PredictedVersion | None) -> None:
        """Set its version: the explicit one, else the metadata log's, else the last version with
        ZooKeeper for a broker with ZooKeeper, else the default."""
        self._has_explicit_version = (
            explicit_version is not None and not explicit_version.is_nearest
        )
        image = None if explicit_version is not None else self._cluster_image(AFTER_CRASH)
        feature_level = (
            None if image is None else image.level_by_feature.get(METADATA_VERSION_FEATURE)
        )
        has_zookeeper = any(
            directory.meta_properties.version == 0 for directory in self.directories
        )
        default_version = LAST_ZOOKEEPER_VERSION if has_zookeeper else DEFAULT_PREDICTED_VERSION
        self.predicted_version = explicit_version or (
            default_version if feature_level is None else version_from_feature_level(feature_level)
        )

    def adjust_starts(self) -> list[PredictedStart]:
        """Adjust the predicted starts of partitions to the broker's files and to each other.

        Returns a start for each file that stops the broker.
        """
        file_starts: list[PredictedStart] = []
        load_failure = self._load_failure
        self.foreign_owner = self._find_foreign_owner()
        for start_kind in (AFTER_CRASH, AFTER_CLEAN_SHUTDOWN):
            early_failed_starts = [
                PredictedStart(
                    *(file, start_kind, reason),
                    predicted_version=self.predicted_version,
                    failing_offset=(
                        load_failure.offset
                        if load_failure is not None and reason.endswith(load_failure.message)
                        else None
                    ),
                )
                for file, reason in self.early_failures()
            ]
            file_starts += early_failed_starts
            for directory in self.directories:
                if not early_failed_starts:  # otherwise the broker does not get this far
                    self._apply_partition_identities(directory, start_kind)
                file_starts += self._adjust_directory_starts(directory, start_kind)
            if not early_failed_starts:
                self._mark_duplicate_replicas(start_kind)
        return file_starts

    def _apply_partition_identities(self, directory: LogDirectory, start_kind: str) -> None:
        for replica in directory.replicas:
            start = replica.start_by_shutdown_kind.get(start_kind)
            if start is not None and start.reason is None and replica.name != METADATA_LOG_NAME:
                self._apply_partition_identity(directory, replica, start)

    def _adjust_directory_starts(
        self, directory: LogDirectory, start_kind: str
    ) -> Iterable[PredictedStart]:
        failures = list(directory.start_failures)
        offline_failures = list(directory.offline_failures)
        loaded_replicas = [
            replica
            for replica in directory.replicas
            if start_kind in replica.start_by_shutdown_kind
        ]
        starts = [replica.start_by_shutdown_kind[start_kind] for replica in loaded_replicas]
        offline_failures += [
            (start.file, start.reason) for start in starts if start.is_offline and start.reason
        ]
        if offline_failures and self._can_start_without_directory(directory, start_kind):
            self._offline_reasons[directory.path, start_kind] = offline_failures[0][1]
            for replica, start in zip(loaded_replicas, starts, strict=True):
                mark_unserved(replica, start, OFFLINE, offline_failures[0][1])
        else:
            failures += directory.offline_failures
        return [
            PredictedStart(file, start_kind, reason, predicted_version=self.predicted_version)
            for file, reason in failures
        ]

    def _can_start_without_directory(self, directory: LogDirectory, start_kind: str) -> bool:
        """Whether the broker starts if it takes a log directory offline: one without the metadata
        log, if any other is left."""
        other_directories = (
            other_directory
            for other_directory in self.directories
            if other_directory is not directory
        )
        return not directory.has_metadata_log and any(
            not other_directory.offline_failures
            and not any(
                start.is_offline
                for replica in other_directory.replicas
                if (start := replica.start_by_shutdown_kind.get(start_kind)) is not None
            )
            for other_directory in other_directories
        )

    def _apply_partition_identity(
        self, directory: LogDirectory, replica: PartitionReplica, start: PredictedStart
    ) -> None:
        """Apply the effect of the partition's identity to its start."""
        partition_directory = replica.directory
        topic_id = None
        access_errors: list[tuple[str, StartError]] = []
        metadata_files = find_start_files(
            partition_directory, PARTITION_METADATA_KIND.names, Access.READ_EXISTING, access_errors
        )
        for _, error in access_errors:
            start.reason, start.is_offline = str(error), error.is_offline
            return
        for metadata_file in metadata_files:
            try:
                topic_id = format_uuid(read_topic_id(metadata_file))
            except StartError as error:
                start.reason, start.is_offline = str(error), error.is_offline
                return
            except InputError as error:
                directory.read_errors.append(error)
                start.reason, start.is_offline = str(error), True
                return
        topic_partition = replica.topic_partition
        if (
            not self.is_kraft
            or topic_partition is None
            or valid_directory_marker_suffix(replica.name) in ("delete", "stray")
        ):
            return
        image = self._cluster_image(start.after)
        if topic_id is None:
            mark_unserved(replica, start, STRAY, "partition.metadata is missing")
        elif image is not None and not image.has_replica(
            topic_id, topic_partition[1], self.node_id
        ):
            mark_unserved(
                replica, start, STRAY, format_stray_reason(image, topic_partition[0], topic_id)
            )
            is_known_topic = image.topic_id_by_name.get(topic_partition[0]) == topic_id
            start.is_consequence = is_known_topic and self.foreign_owner is not None
        else:
            reason = self._unserved_reason(directory, image, topic_partition, topic_id)
            if reason is not None:
                mark_unserved(replica, start, UNSERVED, reason)
                start.is_consequence = self.foreign_owner is not None

    def _unserved_reason(
        self,
        directory: LogDirectory,
        image: ClusterImage | None,
        topic_partition: tuple[str, int],
        topic_id: str,
    ) -> str | None:
        """Why the broker does not serve a partition that it keeps."""
        if image is not None and image.topic_id_by_name.get(topic_partition[0]) != topic_id:
            return format_foreign_topic_reason(image, topic_partition[0], topic_id)
        if directory.unserved_reason is not None:
            return directory.unserved_reason
        assigned_id = (
            None
            if image is None
            else image.find_assigned_directory_id(*topic_partition, self.node_id)
        )
        directory_ids = (
            log_directory.meta_properties.directory_id for log_directory in self.directories
        )
        if (
            assigned_id is None
            or is_reserved_directory_id(assigned_id)
            or assigned_id in directory_ids
        ):
            return None
        if directory.meta_properties.directory_id is None:
            return "meta.properties has no directory.id, so the broker generates a new one"
        reason = f"the metadata log assigns it to the log directory with id {assigned_id}"
        return f"{reason}, which this broker does not have"

    def _find_foreign_owner(self) -> ForeignOwner | None:
        """The owner of a log directory in the metadata log, if meta.properties names another."""
        image, node_id = self._cluster_image(AFTER_CRASH), self.node_id
        if image is None or node_id is None:
            return None
        node_id_by_directory_id = image.node_id_by_directory_id
        for directory in self.directories:
            owner_id = node_id_by_directory_id.get(
                directory.meta_properties.directory_id or "", node_id
            )
            if owner_id != node_id:
                return ForeignOwner(directory, owner_id, is_by_directory_id=True)
            common_id = image.find_only_common_replica(
                replica.topic_partition for replica in directory.replicas
            )
            if common_id is not None and common_id != node_id:
                return ForeignOwner(directory, common_id, is_by_directory_id=False)
        return None

    def assigned_replicated_partitions(self, directory: LogDirectory) -> list[tuple[str, int]]:
        """The partitions with several replicas whose replica the metadata log assigns to a log
        directory."""
        image = self._cluster_image(AFTER_CRASH)
        directory_id = directory.meta_properties.directory_id
        if image is None or directory_id is None:
            return []
        topic_partitions = sorted(
            topic_partition
            for topic_partition, registration in image.registration_by_partition.items()
            if len(registration.leadership.replicas) > 1
        )
        return [
            topic_partition
            for topic_partition in topic_partitions
            if image.find_assigned_directory_id(*topic_partition, self.node_id) == directory_id
        ]

    def is_owned_by_other_broker(self, directory: LogDirectory) -> bool:
        """Whether a directory belongs to another broker of the same cluster."""
        node_id = directory.meta_properties.node_id
        if node_id is None or self.node_id in (None, node_id):
            return False
        image = self._cluster_image(AFTER_CRASH)
        registrations = [] if image is None else image.registration_by_partition.values()
        return any(node_id in registration.leadership.replicas for registration in registrations)

    @property
    def cluster_image(self) -> ClusterImage | None:
        """The cluster after a start that recovers the metadata log; None if it is missing or
        unreadable."""
        return self._cluster_image(AFTER_CRASH)

    @property
    def node_id(self) -> int | None:
        """Its id in meta.properties."""
        node_ids = (directory.meta_properties.node_id for directory in self.directories)
        return next((broker_id for broker_id in node_ids if broker_id is not None), None)

    def _cluster_image(self, start_kind: str) -> ClusterImage | None:
        """The cluster image after a start of this kind; None if the metadata log is missing, or
        cannot be read completely: the unread part may name other topics."""
        end_offset = self.metadata_end_offset_by_kind.get(start_kind)
        if end_offset not in self._image_by_end_offset:
            self._image_by_end_offset[end_offset] = self._read_cluster_image(end_offset)
        return self._image_by_end_offset[end_offset]

    def _read_cluster_image(self, end_offset: int | None) -> ClusterImage | None:
        metadata_directory = next(
            (directory for directory in self.directories if directory.has_metadata_log), None
        )
        if metadata_directory is None:
            return None
        try:
            metadata_listing = list_directory(f"{metadata_directory.path}/{METADATA_LOG_NAME}")
        except InputError as error:
            metadata_directory.read_errors.append(error)
            return None
        bootstrap_path = f"{metadata_directory.path}/{BOOTSTRAP_CHECKPOINT}"
        bootstrap_file = (
            classify_file(bootstrap_path, BOOTSTRAP_CHECKPOINT) if is_file(bootstrap_path) else None
        )
        n_previous_errors = len(metadata_directory.read_errors)
        image = read_cluster_image(
            metadata_listing, metadata_directory.read_errors, end_offset, bootstrap_file
        )
        is_complete = len(metadata_directory.read_errors) == n_previous_errors and (
            metadata_listing.logs or metadata_snapshots(metadata_listing)
        )
        return image if is_complete else None

    def _mark_duplicate_replicas(self, start_kind: str) -> None:
        replica_by_partition_and_suffix: dict[tuple[tuple[str, int], str], PartitionReplica] = {}
        for directory in self.directories:
            for replica in directory.replicas:
                topic_partition = replica.topic_partition
                start = replica.start_by_shutdown_kind.get(start_kind)
                marker_suffix = valid_directory_marker_suffix(replica.name)
                if topic_partition is None or start is None or marker_suffix in ("delete", "stray"):
                    continue
                if start.becomes in (STRAY, OFFLINE) or start.reason is not None:
                    continue
                other_replica = replica_by_partition_and_suffix.setdefault(
                    (topic_partition, marker_suffix), replica
                )
                if other_replica is not replica:
                    start.reason = (
                        f"{replica.display_path}: same partition as {other_replica.display_path}"
                    )
                    start.is_duplicate = True
                elif marker_suffix == "future" and self._has_promotion_conflict(
                    directory, topic_partition, start_kind
                ):
                    start.reason = (
                        f"{replica.display_path}: the broker promotes this -future replica, but "
                        "the partition's directory already exists"
                    )

    def _has_promotion_conflict(
        self, directory: LogDirectory, topic_partition: tuple[str, int], start_kind: str
    ) -> bool:
        """Whether a future replica is in its assigned log directory, where the partition's
        directory already exists."""
        image = self._cluster_image(start_kind)
        if image is None or not self.is_kraft:
            return False
        has_partition_directory = any(
            replica.name == f"{topic_partition[0]}-{topic_partition[1]}"
            for replica in directory.replicas
        )
        assigned_id = image.find_assigned_directory_id(*topic_partition, self.node_id)
        return has_partition_directory and assigned_id == directory.meta_properties.directory_id

    def predict_next_start(self, directory: LogDirectory, failure_reasons: list[str]) -> NextStart:
        """The next start of one of its directories. failure_reasons: why the broker does not
        start."""
        start_kind = directory.next_start_kind
        name, version = format_display_name(directory.path), self.predicted_version
        early_reasons = [reason for _, reason in self.early_failures()]
        reason = next(iter([*early_reasons, *failure_reasons]), None)
        if reason is None:
            offline_reason = self._offline_reasons.get((directory.path, start_kind))
            becomes = None if offline_reason is None else OFFLINE
            return NextStart(name, start_kind, True, offline_reason, becomes, None, version)
        # A failure before the logs are loaded leaves the marker in place.
        retry_kind = start_kind if early_reasons or self.is_metadata_log_failing else AFTER_CRASH
        return NextStart(name, start_kind, False, reason, None, retry_kind, version)
