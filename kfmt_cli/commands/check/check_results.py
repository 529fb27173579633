"""check: the history of partitions, predicted starts and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.broker.start.broker_groups import group_by_broker
from kfmt_cli.broker.start.brokers import BrokerDirectories, NextStart, PartitionReplica
from kfmt_cli.broker.start.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    CheckpointError,
    NumberError,
    read_epoch_entries,
)
from kfmt_cli.broker.start.directory import LogDirectory, open_log_directory
from kfmt_cli.broker.start.log_directory_files import (
    LOG_START_CHECKPOINT,
    METADATA_LOG_NAME,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
)
from kfmt_cli.broker.start.metadata_files import (
    find_metadata_problems,
    metadata_snapshots,
    read_voters,
    snapshot_end_offset,
)
from kfmt_cli.broker.start.outcome import AFTER_CLEAN_SHUTDOWN, AFTER_CRASH, PredictedStart
from kfmt_cli.broker.version import PredictedVersion
from kfmt_cli.checks.base import Scope
from kfmt_cli.checks.history.history_check import HistoryCheck, HistoryFiles
from kfmt_cli.checks.history.offsets import OffsetEvidence
from kfmt_cli.checks.partition.directory_names import iter_non_partition_findings
from kfmt_cli.checks.registry import check_classes
from kfmt_cli.commands.check.directory_result import DirectoryCheckResult
from kfmt_cli.commands.check.start_prediction import predict_starts
from kfmt_cli.commands.settings_resolver import is_topic_compacted
from kfmt_cli.disk.directory_listing import DirectoryListing, is_segment_log
from kfmt_cli.disk.file_names import (
    directory_mark,
    parse_broker_topic_partition,
    parse_topic_partition,
    partition_directory,
    valid_directory_mark,
)
from kfmt_cli.errors import InputError, InputErrorHandler
from kfmt_cli.findings.damage import BATCH_TRUNCATED, ZERO_TAIL
from kfmt_cli.findings.finding import Finding
from kfmt_cli.topics import CLUSTER_METADATA

# Findings for a log whose end is missing.
_MISSING_END_CODES = frozenset({ZERO_TAIL, BATCH_TRUNCATED})


@dataclass(slots=True)
class CheckResults:
    """The directories that were checked, with their results and the predicted starts."""

    result_by_name: dict[str, DirectoryCheckResult]
    on_finding: Callable[[Finding], None]
    find_result: Callable[[str], DirectoryCheckResult]
    """Returns the result for the directory of a file."""
    on_unreadable: Callable[[InputError], None]
    index_interval_bytes: int
    log_directory_by_path: dict[str, LogDirectory]
    """The log directories that were checked, by path."""
    explicit_version: PredictedVersion | None
    """The version that the user named."""
    starts: list[PredictedStart] = field(default_factory=list)
    next_starts: list[NextStart] = field(default_factory=list)
    """The next start of each log directory."""
    brokers: list[BrokerDirectories] = field(default_factory=list)
    missing_meta_properties: list[tuple[str, list[str]]] = field(default_factory=list)
    """The lines of each missing meta.properties, with the path of its directory."""
    _parent_by_path: dict[str, LogDirectory] = field(default_factory=dict)
    _parent_by_partition: dict[str, LogDirectory] = field(default_factory=dict)
    _epochs_by_partition: dict[str, list[tuple[int, int]] | None] = field(default_factory=dict)
    """The leader epochs of each partition with logs, by path."""

    def create_history_checks(self, listing: DirectoryListing) -> list[HistoryCheck]:
        """The history checks for the logs of a partition and the files next to them."""
        epochs = self._epochs_by_partition[listing.path] = self._read_epochs(listing)
        snapshot_files = (
            listing.input_file(name) for name in listing.regular_files if name.endswith(".snapshot")
        )
        snapshot_by_offset = {
            file.base_offset: file for file in snapshot_files if file.base_offset is not None
        }
        files = HistoryFiles(
            epochs, snapshot_by_offset, self._log_start_offset(listing), self.on_unreadable
        )
        return [check_type(files) for check_type in check_classes(Scope.HISTORY)]

    def predict_starts(
        self, listings: list[DirectoryListing], explicit_paths: frozenset[str]
    ) -> None:
        """Predict the start of each broker: what prevents it, and the effect on each partition.

        explicit_paths: the paths of the directories that the user named.
        """
        partitions_by_parent: dict[str, list[DirectoryListing]] = {}
        for listing in listings:
            directory = self.log_directory_by_path.get(str(Path(listing.path)))
            if directory is not None:
                invalid_directories = iter_non_partition_findings(listing)
                directory.failures += (
                    (finding.file, f"{finding.file}: {finding.message}")
                    for finding in invalid_directories
                )
            parent = self._parent_log_directory(listing)
            if not _is_partition(
                listing, is_in_log_directory=parent.path in self.log_directory_by_path
            ):
                continue
            if Path(listing.path).name == METADATA_LOG_NAME:
                parent.early_failures += find_metadata_problems(listing, parent.read_errors)
            partitions_by_parent.setdefault(parent.path, []).append(listing)
        implicit_directories = (
            directory
            for path, directory in self._parent_by_path.items()
            if path in partitions_by_parent
        )
        for broker in group_by_broker(
            [*self.log_directory_by_path.values(), *implicit_directories], explicit_paths
        ):
            broker.predict_version(self.explicit_version)
            for directory in broker.directories:
                directory.replicas = [
                    self._predict_replica(partition_listing, directory, broker.predicted_version)
                    for partition_listing in partitions_by_parent.get(directory.path, [])
                ]
            self.brokers.append(broker)
            self._set_metadata_state(broker)
            self.missing_meta_properties += broker.missing_meta_properties()
            broker_failures = broker.adjust_starts()
            for check in check_classes(Scope.BROKERS):
                self._report_all(check().check_broker(broker))
            self.starts += broker_failures
            self._add_broker_starts(broker, broker_failures)

    def _predict_replica(
        self, listing: DirectoryListing, parent: LogDirectory, predicted_version: PredictedVersion
    ) -> PartitionReplica:
        """A partition with its predicted starts."""
        result = self.result_by_name[listing.name]
        result.clean_shutdown_path = parent.clean_shutdown_path
        starts: list[PredictedStart] = []
        with InputErrorHandler(self.on_unreadable):
            starts += predict_starts(
                listing, result, parent, self.index_interval_bytes, predicted_version
            )
        contained_ranges = [
            (first, end - 1) for first, end in result.offset_intervals.values() if end > first
        ]
        return PartitionReplica(
            listing, result.display_path, {start.after: start for start in starts}, contained_ranges
        )

    def _add_broker_starts(
        self, broker: BrokerDirectories, broker_failures: list[PredictedStart]
    ) -> None:
        """Record the starts on a broker's partitions, and the next start of each log directory."""
        reasons: list[str] = []
        for directory in broker.directories:
            expected_kind = (
                AFTER_CRASH if directory.clean_shutdown_path is None else AFTER_CLEAN_SHUTDOWN
            )
            reasons += (
                failure.reason
                for failure in broker_failures
                if failure.after == expected_kind and failure.reason
            )
            for replica in directory.replicas:
                for start in replica.start_by_kind.values():
                    if start.after == expected_kind and not start.starts and start.reason:
                        reasons.append(start.reason)
                    if start.has_effect or not valid_directory_mark(replica.name):
                        self.result_by_name[replica.directory.name].starts.append(start)
                        self.starts.append(start)
        for directory in broker.directories:
            if directory.is_fully_listed:
                self.next_starts.append(broker.next_start(directory, reasons))

    def _log_start_offset(self, listing: DirectoryListing) -> int:
        """The log start offset of a partition; 0 if unknown."""
        topic, partition = parse_topic_partition(partition_directory(listing.path).name)
        if topic is None:
            return 0
        if topic == CLUSTER_METADATA:  # it begins at the oldest snapshot
            snapshot_ends = (snapshot_end_offset(file) or 0 for file in metadata_snapshots(listing))
            return next(snapshot_ends, 0)
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
        path = str(
            named_parent
            if os.path.realpath(named_parent) == os.path.realpath(real_parent)
            else real_parent
        )
        log_directory = self.log_directory_by_path.get(path) or self._parent_by_path.get(path)
        if log_directory is None:
            log_directory = self._parent_by_path[path] = open_log_directory(real_parent)
            log_directory.path = path
        return log_directory

    def check_lost_offsets(self, listings: list[DirectoryListing]) -> None:
        """Record offsets that are already lost, and report the evidence."""
        for listing in listings:
            result = self.result_by_name[listing.name]
            parent = self._parent_log_directory(listing)
            if not _is_partition(
                listing, is_in_log_directory=parent.path in self.log_directory_by_path
            ):
                continue
            directory = partition_directory(listing.path)
            topic_and_partition = parse_topic_partition(directory.name)
            topic_partition = (topic_and_partition[0] or "", topic_and_partition[1] or 0)
            can_be_in_checkpoints = _can_be_in_checkpoints(listing)
            checkpoints = (
                (RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT) if can_be_in_checkpoints else ()
            )
            checkpoint_offsets = {
                name: parent.checkpoint_offset(name, topic_partition) for name in checkpoints
            }
            is_compacted = None
            with InputErrorHandler(self.on_unreadable):
                is_compacted = is_topic_compacted(topic_and_partition[0], directory.parent)
            damaged_base_offsets = frozenset(
                listing.input_file(Path(finding.file).name).base_or_zero
                for finding in result.log_errors
                if finding.code not in _MISSING_END_CODES
            )
            log_start_offset = (
                parent.checkpoint_offset(LOG_START_CHECKPOINT, topic_partition)
                if can_be_in_checkpoints
                else 0
            )
            epochs = self._epochs_by_partition.get(listing.path)
            evidence = OffsetEvidence(
                *(
                    result.display_path,
                    listing,
                    result.offset_intervals,
                    checkpoint_offsets,
                    log_start_offset,
                    is_compacted,
                ),
                *(max((start for _, start in epochs or ()), default=None), damaged_base_offsets),
            )
            result.lost_offsets += ((first, last) for first, last, _ in evidence.lost_offsets)
            for check in check_classes(Scope.OFFSETS):
                self._report_all(check().check_evidence(evidence))

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
                offset_intervals = {
                    parse_topic_partition(
                        partition_listing.path.rpartition("/")[2]
                    ): self.result_by_name[partition_listing.name].offset_intervals
                    for partition_listing in partition_listings
                }
                reported_ends = {
                    parse_topic_partition(partition_listing.path.rpartition("/")[2]): lost_ranges[
                        -1
                    ][1]
                    + 1
                    for partition_listing in partition_listings
                    if (lost_ranges := self.result_by_name[partition_listing.name].lost_offsets)
                }
                for check in check_classes(Scope.CHECKPOINTS):
                    self._report_all(
                        check().check_directory(
                            listing, log_directory, offset_intervals, reported_ends
                        )
                    )
        for start in self.starts:
            for check in check_classes(Scope.STARTS):
                self._report_all(
                    check().check_start(start, self.find_result(start.file).all_findings)
                )

    def report_unreadable(self) -> None:
        """Report the files that could not be read for the predictions."""
        for directory in (*self.log_directory_by_path.values(), *self._parent_by_path.values()):
            for error in directory.read_errors:
                self.on_unreadable(error)

    def _set_metadata_state(self, broker: BrokerDirectories) -> None:
        """Record whether the broker can load its metadata log, and the log end offsets if the
        broker is the only voter: no other controller can restore lost offsets."""
        for replica in broker.directories[0].replicas:
            if replica.name != METADATA_LOG_NAME:
                continue
            broker.metadata_log_fails = not all(
                start.starts for start in replica.start_by_kind.values()
            )
            if self._is_only_voter(replica.directory):
                end_by_kind = {
                    kind: start.log_end_offset for kind, start in replica.start_by_kind.items()
                }
                broker.metadata_end_by_kind = {
                    kind: end for kind, end in end_by_kind.items() if end is not None
                }

    def _is_only_voter(self, listing: DirectoryListing) -> bool:
        """Whether no other replica of the metadata log can restore truncated records."""
        with InputErrorHandler(self.on_unreadable):
            return len(read_voters(listing)) == 1
        return False

    def _read_epochs(self, listing: DirectoryListing) -> list[tuple[int, int]] | None:
        """The leader epochs of a partition; None if the checkpoint is missing or unreadable."""
        if LEADER_EPOCH_CHECKPOINT in listing.regular_files:
            with InputErrorHandler(self.on_unreadable), suppress(CheckpointError, NumberError):
                return read_epoch_entries(listing.input_file(LEADER_EPOCH_CHECKPOINT))
        return None

    def _report_all(self, findings: Iterable[Finding]) -> None:
        for finding in list(findings):
            self.on_finding(finding)


def _can_be_in_checkpoints(listing: DirectoryListing) -> bool:
    """Whether checkpoints can name a partition's directory. None names a directory that is marked
    as deleted or stray, and an active partition may have the same name."""
    return directory_mark(listing.path.rstrip("/")) not in ("delete", "stray")


def _is_partition(listing: DirectoryListing, *, is_in_log_directory: bool) -> bool:
    """Whether a broker would load a directory as a partition. is_in_log_directory: it is in a log
    directory, where even an empty one is a partition."""
    name = listing.path.rstrip("/").rpartition("/")[2]
    has_logs = any(is_segment_log(listing.input_file(file)) for file in listing.files)
    return has_logs or (
        parse_broker_topic_partition(name) is not None
        and (is_in_log_directory or bool(listing.files))
    )
