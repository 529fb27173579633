"""Follows the partitions of a stream: finds what each trigger reads, and detects lost data.

A partition has one position: the next offset. The segment and byte stored with it only save
reading: they are used if the previous batch ends there. Rolling, deletion and cleaning between two
triggers, and a move to another directory, therefore change nothing. Only complete batches count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar

from kfmt_cli.arrow.input_files import list_input_files, mount_split_files
from kfmt_cli.arrow.tiered_logs import ManifestCache
from kfmt_cli.disk.file_names import file_topic_partition, parse_topic_partition
from kfmt_cli.errors import InputError, KfmtError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.execution.split_reader import UnreadableInputError, format_unreadable_input
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.spark.input_partition import KfmtInputPartition, ReadLimit
from kfmt_cli.spark.streaming.cleaned_logs import has_swap_files
from kfmt_cli.spark.streaming.log_advance import advance_position
from kfmt_cli.spark.streaming.loss_messages import iter_loss_messages
from kfmt_cli.spark.streaming.partition_directories import (
    FollowedPartition,
    LogSignature,
    PartitionDirectory,
    group_partitions,
)
from kfmt_cli.spark.streaming.positions import (
    PartitionPosition,
    ResumedPositions,
    compute_start_position,
    format_checkpoint_key,
    limit_position,
    resume_positions,
)
from kfmt_cli.spark.streaming.segment_ends import (
    HistoryDivergence,
    SegmentEndCache,
    TriggerBudget,
    has_batch_start,
)
from kfmt_cli.spark.streaming.stream_listing import StreamListing
from kfmt_cli.spark.streaming.triggers import (
    iter_splits_between,
    plan_trigger_partitions,
    segment_end_offsets,
    selections_between,
)
from kfmt_cli.spark.worker import WORKER_LOGGER

ResultT = TypeVar("ResultT")

# Pauses before listing again what a broker may be changing.
RETRY_PAUSES_SECONDS = (0.1, 0.5)
DATA_LOSS_ADVICE = (
    "to continue with the data that is left, set the option failOnDataLoss to false; to read "
    "everything again, start with a new checkpoint"
)

CheckpointPositions = dict[str, Any]
"""Positions as a checkpoint stores them, by partition."""


class DataLossError(KfmtError):
    """Data that a stream has to return is lost."""


@dataclass(slots=True)
class StreamFollower:
    """Finds the new data of each partition, reading only segments that have changed."""

    request: ReadRequest
    fails_on_data_loss: bool = True
    """Whether data loss is an error, instead of a warning."""
    _listing: StreamListing = field(init=False)
    _manifest_cache: ManifestCache = field(default_factory=ManifestCache)
    _segment_end_cache: SegmentEndCache = field(default_factory=SegmentEndCache)
    _partitions: dict[str, FollowedPartition] = field(default_factory=dict)
    _read_errors: dict[str, str] = field(default_factory=dict)
    """The reasons why a path, or a file or directory under one, could not be read."""
    _end_by_key: dict[str, tuple[PartitionPosition, LogSignature]] = field(default_factory=dict)
    """The position at the end of a partition, and the partition's signature when it was reached."""
    _caught_up_positions: CheckpointPositions | None = None
    """The end of all partitions until the listing changes; None if it has not been reached."""
    _reported_messages: set[str] = field(default_factory=set)
    _has_stale_partitions: bool = True
    """Whether the files have changed since they were grouped into partitions."""
    _next_trigger_key: str = ""
    """The key at which the next trigger begins: the first one for which the limit left nothing."""

    def __post_init__(self) -> None:
        self._listing = StreamListing(self.request.paths)

    def check_paths(self) -> None:
        """Check that the paths of a new query can be read; raises InputError."""
        self._update_partitions()
        for path in self.request.paths:
            if path in self._read_errors:
                raise InputError(f"{path}: {self._read_errors[path]}")

    def latest_positions(
        self,
        checkpoint: Mapping[str, Any],
        budget: TriggerBudget | None = None,
        end_positions: CheckpointPositions | None = None,
    ) -> CheckpointPositions:
        """The position after each partition's last complete batch, or after about as much as the
        budget allows; raises DataLossError, InputError.

        end_positions: the maximum positions; partitions without one wait for a later trigger.
        """
        return self._retry_if_deleted(
            lambda: self._compute_latest_positions(
                checkpoint, replace(budget or TriggerBudget()), end_positions
            )
        )

    def _compute_latest_positions(
        self,
        checkpoint: Mapping[str, Any],
        budget: TriggerBudget,
        end_positions: CheckpointPositions | None,
    ) -> CheckpointPositions:
        self._update_partitions()
        if self._caught_up_positions is not None and self._caught_up_positions == checkpoint:
            return dict(checkpoint)
        partitions, resumed_positions = self._resume_partitions(checkpoint, is_listing_current=True)
        is_deletion_settled = not self.fails_on_data_loss and not self._read_errors
        positions = {
            key: replace(
                position, deleted=int(is_deletion_settled or position.deleted)
            ).to_checkpoint_fields()
            for key, position in resumed_positions.deleted_position_by_key.items()
        }
        next_trigger_key = ""
        for partition_key in sorted(
            partitions, key=lambda key: (key < self._next_trigger_key, key)
        ):
            partition, previous_position = (
                partitions[partition_key],
                resumed_positions.position_by_key.get(partition_key),
            )
            position, could_read_more = previous_position, budget.can_read_more
            if budget.can_read_more and (end_positions is None or partition_key in end_positions):
                position = self._advance_if_readable(partition, previous_position, budget)
            if end_positions is not None and position is not None:
                position = limit_position(
                    position, previous_position, end_positions.get(partition_key)
                )
            if position is not None:
                positions[partition_key] = position.to_checkpoint_fields()
            if could_read_more and not budget.can_read_more:
                next_trigger_key = f"{partition_key}\0"  # sorts directly after it
        self._next_trigger_key = next_trigger_key
        has_caught_up = budget.can_read_more and end_positions is None
        self._caught_up_positions = dict(positions) if has_caught_up else None
        return positions

    def _advance_if_readable(
        self,
        partition: FollowedPartition,
        previous_position: PartitionPosition | None,
        budget: TriggerBudget,
    ) -> PartitionPosition | None:
        """The position after as much of a partition as the budget allows, or the previous position
        if it cannot be read and that is to be ignored."""
        try:
            return self._advance_position(partition, previous_position, budget)
        except InputError as error:
            self._handle_read_error(error)
            return previous_position

    def _handle_read_error(self, error: InputError) -> None:
        """Raise UnreadableInputError for a file that cannot be read, or log a warning. The error
        for a file that has been deleted since it was listed is raised unchanged the first time."""
        message = format_unreadable_input(error.file, str(error)) if error.file else str(error)
        if error.is_missing and message not in self._reported_messages:
            self._reported_messages.add(message)
            raise error
        if self.request.raises_if_unreadable and self.fails_on_data_loss:
            raise UnreadableInputError(message) from error
        WORKER_LOGGER.warning("kfmt: %s", error)

    def _retry_if_deleted(self, function: Callable[[], ResultT]) -> ResultT:
        """The function's result; calls it again if a file has been deleted since it was listed."""
        for pause_seconds in RETRY_PAUSES_SECONDS:
            try:
                return function()
            except InputError as error:
                if not error.is_missing:
                    raise
                time.sleep(pause_seconds)
        return function()

    def find_end_positions(self) -> CheckpointPositions:
        """The end of each partition's newest copy; raises DataLossError, InputError."""
        positions: CheckpointPositions = {}
        for partition_key, partition in self._resume_partitions({})[0].items():
            with self._mount_segments(partition):
                copy = self._find_newest_directory(partition.directories, PartitionPosition())
                end = self._segment_end_cache.find_log_end(copy.segments, PartitionPosition())
            start = replace(end.position, first=end.position.offset)
            positions[partition_key] = start.to_checkpoint_fields()
        return positions

    def last_end_positions(self) -> CheckpointPositions:
        """The end of each partition without reading: as found in the last listing, or the base
        offset of the last segment."""
        position_by_key: CheckpointPositions = {}
        for partition_key, partition in self._partitions.items():
            last_segments = [directory.segments[-1] for directory in partition.directories]
            end_offsets = [segment.base_offset_or_zero for segment in last_segments]
            for segment in last_segments:
                cached_end = self._segment_end_cache.find_cached_end(segment)
                end_offsets += [] if cached_end is None else [cached_end.position.offset]
            position_by_key[partition_key] = {"offset": max(end_offsets)}
        return position_by_key

    def plan_input_partitions(
        self, start_checkpoint: Mapping[str, Any], end_checkpoint: Mapping[str, Any]
    ) -> list[KfmtInputPartition]:
        """The data between two positions, distributed to tasks; raises DataLossError if some of it
        is missing, InputError."""
        return self._retry_if_deleted(
            lambda: self._compute_input_partitions(start_checkpoint, end_checkpoint)
        )

    def _compute_input_partitions(
        self, start_checkpoint: Mapping[str, Any], end_checkpoint: Mapping[str, Any]
    ) -> list[KfmtInputPartition]:
        partitions, resumed_ends = self._resume_partitions(end_checkpoint)
        resumed_starts = resume_positions(start_checkpoint, partitions)
        for key, position in resumed_ends.deleted_position_by_key.items():
            if position.deleted:  # planned with failOnDataLoss=false
                resumed_starts.deleted_position_by_key.pop(key, None)
        # Up to Spark 4.1, `latest_positions` does not know the start, so losses are found here.
        for loss_message in self._iter_loss_messages(resumed_starts):
            self._report_loss(loss_message)
        splits: list[FileSplit] = []
        selection_by_directory: dict[str, Selection] = {}
        limit_by_path: dict[str, ReadLimit] = {}
        for partition_key, end_position in resumed_ends.position_by_key.items():
            start_position = compute_start_position(
                resumed_starts.position_by_key.get(partition_key), end_position
            )
            if start_position.offset > end_position.offset:
                label = format_checkpoint_key(partition_key)
                self._report_loss(
                    f"{label}: the log was truncated: it had been read up to offset "
                    f"{start_position.offset}, and ends at offset {end_position.offset}"
                )
            if start_position.offset >= end_position.offset:
                continue
            partition = partitions[partition_key]
            with self._mount_segments(partition):
                copy = self._find_readable_directory(partition, start_position, end_position)
                segments, has_batch = copy.segments, self._is_batch_at
                splits += iter_splits_between(segments, start_position, end_position, has_batch)
                latest_epoch = self._segment_end_cache.find_latest_epoch(segments, end_position)
            base_selection = self.request.selection_options.selection
            selection_by_directory |= selections_between(
                base_selection, segments, start_position.offset, end_position.offset
            )
            limit_by_path |= {
                path: ReadLimit(end_offset, partition.topic_id, latest_epoch)
                for path, end_offset in segment_end_offsets(segments, end_position.offset).items()
            }
        return plan_trigger_partitions(
            self.request,
            splits,
            selection_by_directory,
            limit_by_path,
            fails_on_data_loss=self.fails_on_data_loss,
        )

    # Listings.

    def _update_partitions(self) -> None:
        """List the paths, and group the files into partitions if anything has changed."""
        # Unreadable files may be readable now, even if their directories have not changed.
        self._has_stale_partitions = (
            self._update_listing() or self._has_stale_partitions or bool(self._read_errors)
        )
        if not self._has_stale_partitions:
            return
        self._caught_up_positions = None
        files_by_path = self._listing.files_by_path
        try:
            request = replace(self.request, paths=tuple(files_by_path), reads_all_replicas=True)
            files = list_input_files(
                request,
                list_files=files_by_path.__getitem__,
                manifest_cache=self._manifest_cache,
            )
        except InputError:  # no readable file: the listing has the reasons
            files = FileSplits()
        self._partitions = group_partitions(files, self._listing.find_topic_id, self.request.paths)
        read_errors = self._listing.read_errors | files.read_errors
        self._read_errors = {
            path: reason for path, reason in read_errors.items() if self._may_contain_topics(path)
        }
        self._has_stale_partitions = False

    def _update_listing(self) -> bool:
        """List the paths, again while a broker replaces segments; returns whether they changed."""
        has_changed = self._listing.update_listing()
        for pause_seconds in RETRY_PAUSES_SECONDS:
            all_files = chain.from_iterable(self._listing.files_by_path.values())
            if not has_changed or not has_swap_files(file.path for file in all_files):
                break
            time.sleep(pause_seconds)
            self._listing.update_listing()
        return has_changed

    def _may_contain_topics(self, path: str) -> bool:
        """Whether a path may have segments of the topics."""
        if not self.request.topics or path in self.request.paths:
            return True
        name_topic = parse_topic_partition(path.rpartition("/")[2])[0]
        path_topics = {name_topic, file_topic_partition(path)[0]} - {None}
        return not path_topics or bool(path_topics & self.request.topics)

    def _resume_partitions(
        self, checkpoint: Mapping[str, Any], *, is_listing_current: bool = False
    ) -> tuple[dict[str, FollowedPartition], ResumedPositions]:
        """The current partitions with their positions; raises DataLossError for lost data. Lists
        again before it reports a loss: a broker may be renaming a directory."""
        for attempt in range(len(RETRY_PAUSES_SECONDS) + 1):
            if attempt or not is_listing_current:
                self._update_partitions()
            resumed_positions = resume_positions(checkpoint, self._partitions)
            loss_messages = [
                loss
                for loss in self._iter_loss_messages(resumed_positions)
                if loss not in self._reported_messages
            ]
            if not loss_messages:
                break
            if attempt < len(RETRY_PAUSES_SECONDS):
                time.sleep(RETRY_PAUSES_SECONDS[attempt])
        for loss_message in loss_messages:
            self._report_loss(loss_message)
        for key, old_key in resumed_positions.old_key_by_recreated_key.items():
            resumed_positions.deleted_position_by_key.pop(old_key, None)
            resumed_positions.position_by_key[key] = PartitionPosition.starting_at(
                min(directory.first_offset for directory in self._partitions[key].directories)
            )
        return self._partitions, resumed_positions

    def _iter_loss_messages(self, resumed_positions: ResumedPositions) -> Iterator[str]:
        return iter_loss_messages(
            self.request,
            self._read_errors,
            self._partitions,
            resumed_positions,
            fails_on_data_loss=self.fails_on_data_loss,
        )

    def _report_loss(self, message: str) -> None:
        """Raise DataLossError, or warn once."""
        if self.fails_on_data_loss:
            raise DataLossError(f"kfmt: {message}; {DATA_LOSS_ADVICE}")
        if message not in self._reported_messages:
            self._reported_messages.add(message)
            WORKER_LOGGER.warning("kfmt: %s", message)

    # One partition.

    def _mount_segments(self, partition: FollowedPartition) -> AbstractContextManager[None]:
        """Mount the segments of a partition, so that those in tiered storage open as logs."""
        segments = chain.from_iterable(copy.segments for copy in partition.directories)
        return mount_split_files(
            self.request, {segment.path: segment for segment in segments}.values()
        )

    def _advance_position(
        self,
        partition: FollowedPartition,
        previous_position: PartitionPosition | None,
        budget: TriggerBudget,
    ) -> PartitionPosition:
        """The position after as much of a partition as the budget allows."""
        signature = partition.signature
        known_end = self._end_by_key.get(partition.checkpoint_key)
        if previous_position is not None and known_end == (previous_position, signature):
            return previous_position
        with self._mount_segments(partition):
            directory, start_position = self._find_read_start(partition, previous_position)
            position = advance_position(
                directory.segments, start_position, budget, self._segment_end_cache
            )
        if budget.can_read_more:
            self._end_by_key[partition.checkpoint_key] = position, signature
        return position

    def _find_read_start(
        self, partition: FollowedPartition, previous_position: PartitionPosition | None
    ) -> tuple[PartitionDirectory, PartitionPosition]:
        """The copy to read from, and the position to begin at; raises DataLossError."""
        label = format_checkpoint_key(partition.checkpoint_key)
        position = previous_position or PartitionPosition()
        start_offset = position.offset if position.is_start_known else None
        candidates = partition.directories_from(start_offset)
        directory = self._find_newest_directory(candidates, position)
        if previous_position is None:
            return directory, PartitionPosition.starting_at(directory.first_offset)
        if directory.first_offset > position.offset:
            if position.is_start_known:
                last_lost_offset = directory.first_offset - 1
                self._report_loss(
                    f"{label}: offsets {position.offset} to {last_lost_offset} are lost: "
                    f"the log in {directory.path} begins at {directory.first_offset}"
                )
            return directory, PartitionPosition.starting_at(
                directory.first_offset, position.restarts + 1
            )
        divergence = self._find_divergence(directory, position)
        if divergence is not None:
            self._report_loss(
                f"{label}: the log in {directory.path} was truncated: it had been read "
                f"up to offset {position.offset}, and {divergence.message}"
            )
            leader_epoch = self._segment_end_cache.find_leader_epoch_before(
                directory.segments, divergence.divergence_offset
            )
            return directory, replace(
                PartitionPosition.starting_at(divergence.divergence_offset, position.restarts + 1),
                epoch=leader_epoch,
            )
        return directory, position

    def _find_newest_directory(
        self, directories: Sequence[PartitionDirectory], position: PartitionPosition
    ) -> PartitionDirectory:
        """The copy whose log has the largest end, unless it ends in an earlier leader epoch than
        another: then it is a branch that the leader has left."""
        if len(directories) == 1:
            return directories[0]
        ends_and_epochs = []
        for copy in directories:
            end = self._segment_end_cache.find_log_end(copy.segments, position).position
            epoch = self._segment_end_cache.find_latest_epoch(copy.segments, end)
            ends_and_epochs.append((end.offset, epoch, copy))
        _, epoch_of_longest, longest = max(ends_and_epochs, key=itemgetter(0))
        is_unknown = epoch_of_longest < 0  # as that of a log without batches
        return longest if is_unknown else max(ends_and_epochs, key=itemgetter(1, 0))[2]

    def _find_divergence(
        self, directory: PartitionDirectory, position: PartitionPosition
    ) -> HistoryDivergence | None:
        """How a copy's history differs from the one read up to a position; None if it does not."""
        try:
            return self._segment_end_cache.find_divergence(directory.segments, position)
        except InputError as error:
            self._handle_read_error(error)
            return None

    def _is_batch_at(self, segment: FileSplit, position: PartitionPosition) -> bool:
        """Whether the next offset is at the position's byte in a segment."""
        try:
            return has_batch_start(segment, position)
        except InputError as error:
            self._handle_read_error(error)
            return False

    def _find_readable_directory(
        self,
        partition: FollowedPartition,
        start_position: PartitionPosition,
        end_position: PartitionPosition,
    ) -> PartitionDirectory:
        """The copy to read a trigger from, which may be planned again after a restart; raises
        DataLossError if no copy has all of it."""
        problems = []
        newest = self._find_newest_directory(partition.directories, start_position)
        for directory in sorted(partition.directories, key=lambda copy: copy is not newest):
            if start_position.is_start_known and directory.first_offset > start_position.offset:
                problems.append(f"the log in {directory.path} begins at {directory.first_offset}")
                continue
            divergence = self._find_divergence(directory, start_position) or self._find_divergence(
                directory, end_position
            )
            if divergence is None:
                return directory
            problems.append(f"in {directory.path}, {divergence.message}")
        label = format_checkpoint_key(partition.checkpoint_key)
        self._report_loss(
            f"{label}: offsets {start_position.offset} to {end_position.offset - 1} "
            f"were to be read, but {'; '.join(problems)}"
        )
        return max(partition.directories, key=lambda copy: copy.segments[-1].base_offset_or_zero)
