"""check: the history of partitions, predicted starts and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.broker.metadata.metadata_files import (
    iter_metadata_problems,
    metadata_snapshots,
    read_voter_ids,
    snapshot_end_offset,
)
from kfmt_cli.broker.start.broker_groups import group_directories_by_broker
from kfmt_cli.broker.start.brokers import BrokerDirectories
from kfmt_cli.broker.start.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    METADATA_LOG_NAME,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    CheckpointError,
    CheckpointNumberError,
    read_epoch_entries,
)
from kfmt_cli.broker.start.directory import LogDirectory, PartitionReplica, load_log_directory
from kfmt_cli.broker.start.outcome import (
    AFTER_CLEAN_SHUTDOWN,
    AFTER_CRASH,
    NextStart,
    PredictedStart,
)
from kfmt_cli.broker.version import PredictedVersion
from kfmt_cli.checks.base import Scope
from kfmt_cli.checks.history.history_check import HistoryCheck, HistoryFiles
from kfmt_cli.checks.history.offsets import OffsetEvidence
from kfmt_cli.checks.partition.directory_names import iter_non_partition_findings
from kfmt_cli.checks.registry import load_check_classes
from kfmt_cli.commands.check.directory_result import DirectoryCheckResult
from kfmt_cli.commands.check.start_prediction import predict_starts
from kfmt_cli.commands.settings_resolver import is_topic_compacted
from kfmt_cli.disk.directory_listing import DirectoryListing, is_segment_log
from kfmt_cli.disk.file_names import (
    directory_marker_suffix,
    parse_broker_topic_partition,
    parse_topic_partition,
    partition_directory,
    valid_directory_marker_suffix,
)
from kfmt_cli.errors import InputError, InputErrorHandler
from kfmt_cli.findings.codes import BATCH_TRUNCATED, ZERO_TAIL
from kfmt_cli.findings.finding import Finding
from kfmt_cli.topics import CLUSTER_METADATA

# Findings for a log whose end is missing.
_MISSING_LOG_END_CODES = frozenset({ZERO_TAIL, BATCH_TRUNCATED})


@dataclass(slots=True)
class CheckResults:
    """The directories that were checked, with their results and the predicted starts."""

    result_by_name: dict[str, DirectoryCheckResult]
    on_finding: Callable[[Finding], None]
    find_directory_result: Callable[[str], DirectoryCheckResult]
    """Returns the result for the directory of a file."""
    on_unreadable: Callable[[InputError], None]
    index_interval_bytes: int
    log_directory_by_path: dict[str, LogDirectory]
    """The log directories that were checked, by path."""
    explicit_version: PredictedVersion | None
    """The version that the user named."""
    predicted_starts: list[PredictedStart] = field(default_factory=list)
    next_starts: list[NextStart] = field(default_factory=list)
    """The next start of each log directory."""
    brokers: list[BrokerDirectories] = field(default_factory=list)
    missing_meta_properties: list[tuple[str, list[str]]] = field(default_factory=list)
    """The lines of each missing meta.properties, with the path of its directory."""
    _parent_by_path: dict[str, LogDirectory] = field(default_factory=dict)
    _parent_by_partition: dict[str, LogDirectory] = field(default_factory=dict)
    _leader_epochs_by_partition: dict[str, list[tuple[int, int]] | None] = field(
        default_factory=dict
    )
    """The leader epochs of each partition with logs, by path."""

    def create_history_checks(self, listing: DirectoryListing) -> list[HistoryCheck]:
        """The history checks for the logs of a partition and the files next to them."""
        epochs = self._leader_epochs_by_partition[listing.path] = self._read_leader_epochs(listing)
        snapshot_files = (
            listing.input_file(name) for name in listing.regular_files if name.endswith(".snapshot")
        )
        snapshot_by_offset = {
            snapshot_file.base_offset: snapshot_file
            for snapshot_file in snapshot_files
            if snapshot_file.base_offset is not None
        }
        history_files = HistoryFiles(
            epochs, snapshot_by_offset, self._log_start_offset(listing), self.on_unreadable
        )
        return [check_class(history_files) for check_class in load_check_classes(Scope.HISTORY)]

    def predict_starts(
        self, listings: list[DirectoryListing], explicit_paths: frozenset[str]
    ) -> None:
        """Predict the start of each broker: what prevents it, and the effect on each partition.

        explicit_paths: the paths of the directories that the user named.
        """
        listings_by_parent: dict[str, list[DirectoryListing]] = {}
        for listing in listings:
            log_directory = self.log_directory_by_path.get(str(Path(listing.path)))
            if log_directory is not None:
                name_findings = iter_non_partition_findings(listing)
                log_directory.start_failures += (
                    (finding.file, f"{finding.file}: {finding.message}")
                    for finding in name_findings
                )
            parent_directory = self._parent_log_directory(listing)
            if not _is_partition(
                listing, is_in_log_directory=parent_directory.path in self.log_directory_by_path
            ):
                continue
            if Path(listing.path).name == METADATA_LOG_NAME:
                parent_directory.early_failures += iter_metadata_problems(
                    listing, parent_directory.read_errors
                )
            listings_by_parent.setdefault(parent_directory.path, []).append(listing)
        implicit_directories = (
            directory
            for path, directory in self._parent_by_path.items()
            if path in listings_by_parent
        )
        for broker_directories in group_directories_by_broker(
            [*self.log_directory_by_path.values(), *implicit_directories], explicit_paths
        ):
            broker_directories.set_predicted_version(self.explicit_version)
            for log_directory in broker_directories.directories:
                log_directory.replicas = [
                    self._predict_replica(
                        partition_listing, log_directory, broker_directories.predicted_version
                    )
                    for partition_listing in listings_by_parent.get(log_directory.path, [])
                ]
            self.brokers.append(broker_directories)
            self._set_metadata_log_ends(broker_directories)
            self.missing_meta_properties += broker_directories.iter_restored_meta_properties()
            broker_failures = broker_directories.adjust_starts()
            for check_class in load_check_classes(Scope.BROKERS):
                self._report_findings(check_class().check_broker(broker_directories))
            self.predicted_starts += broker_failures
            self._add_broker_starts(broker_directories, broker_failures)

    def _predict_replica(
        self,
        listing: DirectoryListing,
        log_directory: LogDirectory,
        predicted_version: PredictedVersion,
    ) -> PartitionReplica:
        """A partition with its predicted starts."""
        directory_result = self.result_by_name[listing.name]
        directory_result.clean_shutdown_path = log_directory.clean_shutdown_path
        starts: list[PredictedStart] = []
        with InputErrorHandler(self.on_unreadable):
            starts += predict_starts(
                listing,
                directory_result,
                log_directory,
                self.index_interval_bytes,
                predicted_version,
            )
        contained_ranges = [
            (first_offset, end_offset - 1)
            for first_offset, end_offset in directory_result.offset_intervals.values()
            if end_offset > first_offset
        ]
        return PartitionReplica(
            listing,
            directory_result.display_path,
            {start.after: start for start in starts},
            contained_ranges,
        )

    def _add_broker_starts(
        self, broker: BrokerDirectories, broker_failures: list[PredictedStart]
    ) -> None:
        """Record the starts on a broker's partitions, and the next start of each log directory."""
        failure_reasons: list[str] = []
        for log_directory in broker.directories:
            expected_shutdown_kind = (
                AFTER_CRASH if log_directory.clean_shutdown_path is None else AFTER_CLEAN_SHUTDOWN
            )
            failure_reasons += (
                failure.reason
                for failure in broker_failures
                if failure.after == expected_shutdown_kind and failure.reason
            )
            for replica in log_directory.replicas:
                for start in replica.start_by_shutdown_kind.values():
                    if start.after == expected_shutdown_kind and not start.starts and start.reason:
                        failure_reasons.append(start.reason)
                    if start.has_effect or not valid_directory_marker_suffix(replica.name):
                        self.result_by_name[replica.directory.name].predicted_starts.append(start)
                        self.predicted_starts.append(start)
        for log_directory in broker.directories:
            if log_directory.is_fully_listed:
                self.next_starts.append(broker.predict_next_start(log_directory, failure_reasons))

    def _log_start_offset(self, listing: DirectoryListing) -> int:
        """The log start offset of a partition; 0 if unknown."""
        topic, partition = parse_topic_partition(partition_directory(listing.path).name)
        if topic is None:
            return 0
        if topic == CLUSTER_METADATA:  # it begins at the oldest snapshot
            snapshot_end_offsets = (
                snapshot_end_offset(file) or 0 for file in metadata_snapshots(listing)
            )
            return next(snapshot_end_offsets, 0)
        return self._parent_log_directory(listing).checkpoint_offset(
            LOG_START_CHECKPOINT, (topic, partition or 0)
        )

    def _parent_log_directory(self, listing: DirectoryListing) -> LogDirectory:
        """The log directory of a partition, even if the user named only the partition."""
        parent = self._parent_by_partition.get(listing.path)
        if parent is None:
            parent = self._parent_by_partition[listing.path] = self._find_parent_log_directory(
                listing
            )
        return parent

    def _find_parent_log_directory(self, listing: DirectoryListing) -> LogDirectory:
        # Path(".").parent is ".", not the real parent of the directory.
        named_parent = Path(listing.path).parent
        real_parent = partition_directory(listing.path).parent
        parent_path = str(
            named_parent
            if os.path.realpath(named_parent) == os.path.realpath(real_parent)
            else real_parent
        )
        log_directory = self.log_directory_by_path.get(parent_path) or self._parent_by_path.get(
            parent_path
        )
        if log_directory is None:
            log_directory = self._parent_by_path[parent_path] = load_log_directory(real_parent)
            log_directory.path = parent_path
        return log_directory

    def check_lost_offsets(self, listings: list[DirectoryListing]) -> None:
        """Record offsets that are already lost, and report the evidence."""
        for listing in listings:
            directory_result = self.result_by_name[listing.name]
            log_directory = self._parent_log_directory(listing)
            if not _is_partition(
                listing, is_in_log_directory=log_directory.path in self.log_directory_by_path
            ):
                continue
            partition_path = partition_directory(listing.path)
            parsed_topic_partition = parse_topic_partition(partition_path.name)
            topic_partition = (parsed_topic_partition[0] or "", parsed_topic_partition[1] or 0)
            can_be_in_checkpoints = _can_be_in_checkpoints(listing)
            checkpoint_names = (
                (RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT) if can_be_in_checkpoints else ()
            )
            offset_by_checkpoint = {
                name: log_directory.checkpoint_offset(name, topic_partition)
                for name in checkpoint_names
            }
            is_compacted = None
            with InputErrorHandler(self.on_unreadable):
                is_compacted = is_topic_compacted(parsed_topic_partition[0], partition_path.parent)
            damaged_base_offsets = frozenset(
                listing.input_file(Path(finding.file).name).base_offset_or_zero
                for finding in directory_result.log_errors
                if finding.code not in _MISSING_LOG_END_CODES
            )
            log_start_offset = (
                log_directory.checkpoint_offset(LOG_START_CHECKPOINT, topic_partition)
                if can_be_in_checkpoints
                else 0
            )
            leader_epochs = self._leader_epochs_by_partition.get(listing.path)
            evidence = OffsetEvidence(
                *(
                    directory_result.display_path,
                    listing,
                    directory_result.offset_intervals,
                    offset_by_checkpoint,
                    log_start_offset,
                    is_compacted,
                ),
                *(
                    max((start for _, start in leader_epochs or ()), default=None),
                    damaged_base_offsets,
                ),
            )
            directory_result.lost_offsets += (
                (first_offset, last_offset)
                for first_offset, last_offset, _ in evidence.lost_offsets
            )
            for check_class in load_check_classes(Scope.OFFSETS):
                self._report_findings(check_class().check_evidence(evidence))

    def check_checkpoints(self, listings: list[DirectoryListing]) -> None:
        """Check offsets in checkpoints against the logs, and failing starts against findings."""
        for listing in listings:
            log_directory = self.log_directory_by_path.get(str(Path(listing.path)))
            if log_directory is not None:
                partition_listings = [
                    partition_listing
                    for partition_listing in listings
                    if Path(partition_listing.path).parent == Path(listing.path)
                    and _can_be_in_checkpoints(partition_listing)
                ]
                intervals_by_partition = {
                    parse_topic_partition(
                        partition_listing.path.rpartition("/")[2]
                    ): self.result_by_name[partition_listing.name].offset_intervals
                    for partition_listing in partition_listings
                }
                lost_end_by_partition = {
                    parse_topic_partition(partition_listing.path.rpartition("/")[2]): lost_ranges[
                        -1
                    ][1]
                    + 1
                    for partition_listing in partition_listings
                    if (lost_ranges := self.result_by_name[partition_listing.name].lost_offsets)
                }
                for check_class in load_check_classes(Scope.CHECKPOINTS):
                    self._report_findings(
                        check_class().check_directory(
                            listing, log_directory, intervals_by_partition, lost_end_by_partition
                        )
                    )
        for predicted_start in self.predicted_starts:
            for check_class in load_check_classes(Scope.STARTS):
                self._report_findings(
                    check_class().check_start(
                        predicted_start,
                        self.find_directory_result(predicted_start.file).all_findings,
                    )
                )

    def report_unreadable(self) -> None:
        """Report the files that could not be read for the predictions."""
        for log_directory in (*self.log_directory_by_path.values(), *self._parent_by_path.values()):
            for error in log_directory.read_errors:
                self.on_unreadable(error)

    def _set_metadata_log_ends(self, broker: BrokerDirectories) -> None:
        """Record whether the broker can load its metadata log, and the log end offsets if the
        broker is the only voter: no other controller can restore lost offsets."""
        for replica in broker.directories[0].replicas:
            if replica.name != METADATA_LOG_NAME:
                continue
            broker.is_metadata_log_failing = not all(
                start.starts for start in replica.start_by_shutdown_kind.values()
            )
            if self._is_only_voter(replica.directory):
                end_offset_by_kind = {
                    shutdown_kind: start.log_end_offset
                    for shutdown_kind, start in replica.start_by_shutdown_kind.items()
                }
                broker.metadata_end_offset_by_kind = {
                    shutdown_kind: log_end
                    for shutdown_kind, log_end in end_offset_by_kind.items()
                    if log_end is not None
                }

    def _is_only_voter(self, listing: DirectoryListing) -> bool:
        """Whether no other replica of the metadata log can restore truncated records."""
        with InputErrorHandler(self.on_unreadable):
            return len(read_voter_ids(listing)) == 1
        return False

    def _read_leader_epochs(self, listing: DirectoryListing) -> list[tuple[int, int]] | None:
        """The leader epochs of a partition; None if the checkpoint is missing or unreadable."""
        if LEADER_EPOCH_CHECKPOINT in listing.regular_files:
            with (
                InputErrorHandler(self.on_unreadable),
                suppress(CheckpointError, CheckpointNumberError),
            ):
                return read_epoch_entries(listing.input_file(LEADER_EPOCH_CHECKPOINT))
        return None

    def _report_findings(self, findings: Iterable[Finding]) -> None:
        for finding in list(findings):
            self.on_finding(finding)


def _can_be_in_checkpoints(listing: DirectoryListing) -> bool:
    """Whether checkpoints can name a partition's directory. None names a directory that is marked
    as deleted or stray, and an active partition may have the same name."""
    return directory_marker_suffix(listing.path.rstrip("/")) not in ("delete", "stray")


def _is_partition(listing: DirectoryListing, *, is_in_log_directory: bool) -> bool:
    """Whether a broker would load a directory as a partition. is_in_log_directory: it is in a log
    directory, where even an empty one is a partition."""
    directory_name = listing.path.rstrip("/").rpartition("/")[2]
    has_logs = any(is_segment_log(listing.input_file(file_name)) for file_name in listing.files)
    return has_logs or (
        parse_broker_topic_partition(directory_name) is not None
        and (is_in_log_directory or bool(listing.files))
    )
