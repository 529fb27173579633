"""check: the history of partitions, predicted starts and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.broker.metadata.metadata_files import iter_metadata_problems, read_voter_ids
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
from kfmt_cli.broker.start.directory import LogDirectory, PartitionReplica
from kfmt_cli.broker.start.identities import BrokerIdentities
from kfmt_cli.broker.start.known_properties import find_known_node_id
from kfmt_cli.broker.start.outcome import (
    AFTER_CLEAN_SHUTDOWN,
    AFTER_CRASH,
    NextStart,
    PredictedStart,
)
from kfmt_cli.broker.state.coordinator_loading import COORDINATOR_TOPICS
from kfmt_cli.broker.version import PredictedVersion
from kfmt_cli.checks.base import Scope
from kfmt_cli.checks.history.history_check import HistoryCheck, HistoryFiles
from kfmt_cli.checks.history.offsets import OffsetEvidence
from kfmt_cli.checks.history.owners import iter_cluster_findings
from kfmt_cli.checks.partition.coordinators import CoordinatorLoadingCheck
from kfmt_cli.checks.partition.directory_names import (
    find_partition_name_problem,
    iter_non_partition_findings,
)
from kfmt_cli.checks.registry import load_check_classes
from kfmt_cli.commands.check.directory_result import DirectoryCheckResult
from kfmt_cli.commands.check.parent_directories import ParentDirectories
from kfmt_cli.commands.check.second_look import IntervalsByPartition, update_changed_intervals
from kfmt_cli.commands.check.start_prediction import predict_starts
from kfmt_cli.commands.settings_resolver import is_topic_compacted
from kfmt_cli.disk.changes import was_deleted_meanwhile
from kfmt_cli.disk.directory_listing import DirectoryListing, is_segment_log, list_directory
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
    identities: list[BrokerIdentities] = field(default_factory=list)
    """The directories of each broker, with the partitions in them."""
    parents: ParentDirectories = field(init=False)
    """The log directories of the partitions."""
    _leader_epochs_by_partition: dict[str, list[tuple[int, int]] | None] = field(
        default_factory=dict
    )
    """The leader epochs of each partition with logs, by path."""
    _loading_check_by_path: dict[str, CoordinatorLoadingCheck] = field(default_factory=dict)

    shows_both_kinds: bool = True
    """Whether starts after a crash and after a clean shutdown are shown, not only the next one."""

    def __post_init__(self) -> None:
        self.parents = ParentDirectories(self.log_directory_by_path)

    @property
    def coming_starts(self) -> list[PredictedStart]:
        """The starts that will happen next in their log directories."""
        kinds = {next_start.after for next_start in self.next_starts}
        return [start for start in self.predicted_starts if start.after in kinds]

    @property
    def shown_start_kinds(self) -> list[str]:
        """The kinds of starts that are shown to people."""
        kinds = {next_start.after for next_start in self.next_starts}
        all_kinds = [AFTER_CRASH, AFTER_CLEAN_SHUTDOWN]
        if self.shows_both_kinds or not kinds:
            return all_kinds
        return [kind for kind in all_kinds if kind in kinds]

    @property
    def shown_starts(self) -> list[PredictedStart]:
        """The starts of these kinds."""
        kinds = self.shown_start_kinds
        return [start for start in self.predicted_starts if start.after in kinds]

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
            epochs, snapshot_by_offset, self.parents.log_start_offset(listing), self.on_unreadable
        )
        return [check_class(history_files) for check_class in load_check_classes(Scope.HISTORY)]

    def create_loading_check(self, listing: DirectoryListing | None) -> CoordinatorLoadingCheck:
        """The check that loads a partition if it is of a coordinator's topic."""
        directory_name = "" if listing is None else Path(listing.path).name
        topic = parse_topic_partition(directory_name)[0]
        is_loaded = topic in COORDINATOR_TOPICS and not directory_marker_suffix(directory_name)
        loading_check = CoordinatorLoadingCheck(topic if is_loaded else None)
        if is_loaded and listing is not None:
            self._loading_check_by_path[listing.path] = loading_check
        return loading_check

    def predict_starts(
        self, listings: list[DirectoryListing], explicit_paths: frozenset[str]
    ) -> None:
        """Predict the start of each broker: what prevents it, and the effect on each partition.

        explicit_paths: the paths of the directories that the user named.
        """
        listings_by_parent: dict[str, list[DirectoryListing]] = {}
        names_with_logs = {listing.name for listing in listings if _has_logs(listing)}
        for listing in listings:
            log_directory = self.log_directory_by_path.get(str(Path(listing.path)))
            if log_directory is not None:
                log_directory.start_failures += (
                    (finding.file, f"{finding.file}: {finding.message}")
                    for finding in iter_non_partition_findings(listing)
                    if finding.file not in names_with_logs  # their own starts fail
                )
            parent_directory = self.parents.find(listing)
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
            for path, directory in self.parents.unlisted.items()
            if path in listings_by_parent
        )
        for broker_directories in group_directories_by_broker(
            [*self.log_directory_by_path.values(), *implicit_directories],
            explicit_paths,
            self.log_directory_by_path,
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
            broker_failures = broker_directories.adjust_starts()
            node_id = find_known_node_id(broker_directories)
            self.identities.append(BrokerIdentities(broker_directories, node_id))
            for check_class in load_check_classes(Scope.BROKERS):
                self._report_findings(
                    check_class().check_broker(broker_directories, self.identities[-1])
                )
            self.predicted_starts += broker_failures
            self._add_broker_starts(broker_directories, broker_failures)
        self._report_findings(iter_cluster_findings(self.brokers))

    def _predict_replica(
        self,
        listing: DirectoryListing,
        log_directory: LogDirectory,
        predicted_version: PredictedVersion,
    ) -> PartitionReplica:
        """A partition with its predicted starts."""
        directory_result = self.result_by_name[listing.name]
        directory_result.clean_shutdown_path = log_directory.clean_shutdown_path
        if log_directory.is_fully_listed:
            directory_result.next_start_kind = log_directory.next_start_kind
        starts: list[PredictedStart] = []
        name_problem = (
            find_partition_name_problem(Path(listing.path).name)
            if log_directory.path in self.log_directory_by_path
            else None
        )
        if name_problem is not None:
            starts += (
                PredictedStart(
                    directory_result.display_path,
                    start_kind,
                    f"{directory_result.display_path}: {name_problem}",
                    predicted_version=predicted_version,
                )
                for start_kind in (AFTER_CRASH, AFTER_CLEAN_SHUTDOWN)
            )
        with InputErrorHandler(self.on_unreadable):
            starts += (
                ()
                if name_problem is not None
                else self._predict_partition(
                    listing, directory_result, log_directory, predicted_version
                )
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

    def _predict_partition(
        self,
        listing: DirectoryListing,
        result: DirectoryCheckResult,
        log_directory: LogDirectory,
        predicted_version: PredictedVersion,
    ) -> list[PredictedStart]:
        """The predicted starts of a partition; raises InputError. If a broker wrote the partition
        meanwhile, only starts that are predicted again from its current files."""
        settings = (result, log_directory, self.index_interval_bytes, predicted_version)
        try:
            starts = list(predict_starts(listing, *settings))
        except InputError as error:
            if not was_deleted_meanwhile(error):
                raise
            listing = list_directory(listing.path)
            starts = list(predict_starts(listing, *settings))
        is_harmless = not any(start.is_failure or start.loses_data for start in starts)
        if is_harmless or result.log_errors or not listing.has_changed:
            return starts
        second_starts = predict_starts(list_directory(listing.path), *settings)
        return [
            second
            for first, second in zip(starts, second_starts, strict=False)
            if (first.reason, first.becomes, first.lost, first.unreachable)
            == (second.reason, second.becomes, second.lost, second.unreachable)
        ]

    def _add_broker_starts(
        self, broker: BrokerDirectories, broker_failures: list[PredictedStart]
    ) -> None:
        """Record the starts on a broker's partitions, and the next start of each log directory."""
        failure_reasons: list[str] = []
        for log_directory in broker.directories:
            expected_shutdown_kind = log_directory.next_start_kind
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

    def read_parents(self, listings: list[DirectoryListing]) -> None:
        """Read the checkpoints of each partition, which a running broker never writes before its
        log."""
        for listing in listings:
            self.parents.find(listing)

    def check_lost_offsets(self, listings: list[DirectoryListing]) -> None:
        """Record offsets that are already lost, and report the evidence."""
        for listing in listings:
            directory_result = self.result_by_name[listing.name]
            log_directory = self.parents.find(listing)
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

    def check_coordinators(self) -> None:
        """Check whether coordinators can load the partitions of their topics."""
        for broker in self.brokers:
            for replica in broker.replicas:
                loading_check = self._loading_check_by_path.get(replica.directory.path)
                if loading_check is not None:
                    self._report_findings(
                        loading_check.iter_findings(replica.display_path, broker.predicted_version)
                    )

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
                intervals_by_partition: IntervalsByPartition = {
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
                arguments = (listing, log_directory, intervals_by_partition, lost_end_by_partition)
                findings = list(_iter_checkpoint_findings(*arguments))
                if findings and update_changed_intervals(
                    intervals_by_partition, listing, partition_listings
                ):
                    findings = list(_iter_checkpoint_findings(*arguments))
                self._report_findings(findings)
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
        for log_directory in (
            *self.log_directory_by_path.values(),
            *self.parents.unlisted.values(),
        ):
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


def _iter_checkpoint_findings(
    listing: DirectoryListing,
    log_directory: LogDirectory,
    intervals_by_partition: IntervalsByPartition,
    lost_end_by_partition: Mapping[tuple[str | None, int | None], int],
) -> Iterator[Finding]:
    for check_class in load_check_classes(Scope.CHECKPOINTS):
        yield from check_class().check_directory(
            listing, log_directory, intervals_by_partition, lost_end_by_partition
        )


def _can_be_in_checkpoints(listing: DirectoryListing) -> bool:
    """Whether checkpoints can name a partition's directory. None names a directory that is marked
    as deleted or stray, and an active partition may have the same name."""
    return directory_marker_suffix(listing.path.rstrip("/")) not in ("delete", "stray")


def _has_logs(listing: DirectoryListing) -> bool:
    return any(is_segment_log(listing.input_file(file_name)) for file_name in listing.files)


def _is_partition(listing: DirectoryListing, *, is_in_log_directory: bool) -> bool:
    """Whether a broker would load a directory as a partition. is_in_log_directory: it is in a log
    directory, where even an empty one is a partition."""
    directory_name = listing.path.rstrip("/").rpartition("/")[2]
    return _has_logs(listing) or (
        parse_broker_topic_partition(directory_name) is not None
        and (is_in_log_directory or bool(listing.files))
    )
