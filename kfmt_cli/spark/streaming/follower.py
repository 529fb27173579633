"""Follows the partitions of a stream: finds what each trigger reads, and detects lost data.

A partition has one position: the next offset. The segment and byte stored with it only save
reading: they are used if the previous batch ends there. Rolling, deletion and cleaning between two
triggers, and a move to another directory, therefore change nothing. Only complete batches count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeVar

from kfmt_cli.arrow.input_files import list_input_files, mount_split_files
from kfmt_cli.arrow.tiered_logs import ManifestCache
from kfmt_cli.broker.start.stored_batches import LogBytes
from kfmt_cli.disk.file_names import file_topic_partition, parse_topic_partition
from kfmt_cli.errors import InputError, KfmtError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.execution.split_reader import UnreadableInputError, format_unreadable_input
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.spark.input_partition import KfmtInputPartition
from kfmt_cli.spark.streaming.cleaned_logs import is_swapping
from kfmt_cli.spark.streaming.log_advance import advance_in_log
from kfmt_cli.spark.streaming.partition_directories import (
    FollowedPartition,
    LogSignature,
    PartitionDirectory,
    group_partitions,
)
from kfmt_cli.spark.streaming.positions import (
    PartitionPosition,
    ResumedPositions,
    format_key,
    limit_position,
    resolve_start,
    resume_positions,
)
from kfmt_cli.spark.streaming.segment_ends import (
    HistoryDivergence,
    SegmentEndCache,
    TriggerBudget,
    is_batch_start,
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
    _idle_positions: CheckpointPositions | None = None
    """The end of all partitions until the listing changes; None if it has not been reached."""
    _reports: set[str] = field(default_factory=set)
    _is_stale: bool = True
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

        end_positions: the maximum positions; partitions without one are left for later.
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
        if self._idle_positions is not None and self._idle_positions == checkpoint:
            return dict(checkpoint)
        partitions, resumed = self._resume(checkpoint, is_listed=True)
        positions = {key: position.to_checkpoint() for key, position in resumed.deleted.items()}
        next_trigger_key = ""
        for key in sorted(partitions, key=lambda key: (key < self._next_trigger_key, key)):
            partition, previous = partitions[key], resumed.positions.get(key)
            position, had_remaining = previous, budget.has_remaining
            if budget.has_remaining and (end_positions is None or key in end_positions):
                position = self._advance_if_readable(partition, previous, budget)
            if end_positions is not None and position is not None:
                position = limit_position(position, previous, end_positions.get(key))
            if position is not None:
                positions[key] = position.to_checkpoint()
            if had_remaining and not budget.has_remaining:
                next_trigger_key = f"{key}\0"  # sorts directly after it
        self._next_trigger_key = next_trigger_key
        self._idle_positions = (
            dict(positions) if budget.has_remaining and end_positions is None else None
        )
        return positions

    def _advance_if_readable(
        self,
        partition: FollowedPartition,
        previous: PartitionPosition | None,
        budget: TriggerBudget,
    ) -> PartitionPosition | None:
        """The position after as much of a partition as the budget allows, or the previous position
        if it cannot be read and that is to be ignored."""
        try:
            return self._advance(partition, previous, budget)
        except InputError as error:
            self._handle_read_error(error)
            return previous

    def _handle_read_error(self, error: InputError) -> None:
        """Raise UnreadableInputError for a file that cannot be read, or log a warning. The error
        for a file that has been deleted since it was listed is raised unchanged the first time."""
        message = format_unreadable_input(error.file, str(error)) if error.file else str(error)
        if error.is_missing and message not in self._reports:
            self._reports.add(message)
            raise error
        if self.request.raises_if_unreadable and self.fails_on_data_loss:
            raise UnreadableInputError(message) from error
        WORKER_LOGGER.warning("kfmt: %s", error)

    def _retry_if_deleted(self, function: Callable[[], ResultT]) -> ResultT:
        """The function's result; calls it again if a file has been deleted since it was listed."""
        for pause in RETRY_PAUSES_SECONDS:
            try:
                return function()
            except InputError as error:
                if not error.is_missing:
                    raise
                time.sleep(pause)
        return function()

    def end_positions(self) -> CheckpointPositions:
        """The end of each partition's longest copy; raises DataLossError, InputError."""
        positions: CheckpointPositions = {}
        for key, partition in self._resume({})[0].items():
            with self._mount(partition):
                directories = partition.directories
                directory_ends = [
                    self._segment_end_cache.find_log_end(
                        directory.segments, PartitionPosition()
                    ).position
                    for directory in directories
                ]
            end_position = max(directory_ends, key=lambda position: position.offset)
            positions[key] = replace(end_position, first=end_position.offset).to_checkpoint()
        return positions

    def last_seen_ends(self) -> CheckpointPositions:
        """The end of each partition without reading: as found in the last listing, or the base
        offset of the last segment."""
        position_by_key: CheckpointPositions = {}
        for key, partition in self._partitions.items():
            offsets = [copy.segments[-1].base for copy in partition.directories]
            for directory in partition.directories:
                cached_end = self._segment_end_cache.find_cached(directory.segments[-1])
                offsets += [] if cached_end is None else [cached_end.position.offset]
            position_by_key[key] = {"offset": max(offsets)}
        return position_by_key

    def input_partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> list[KfmtInputPartition]:
        """The data between two positions, distributed to tasks; raises DataLossError if some of it
        is missing, InputError."""
        return self._retry_if_deleted(lambda: self._plan_input_partitions(start, end))

    def _plan_input_partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> list[KfmtInputPartition]:
        partitions, resumed_end = self._resume(end)
        resumed_start = resume_positions(start, partitions)
        # Up to Spark 4.1, `latest_positions` does not know the start, so losses are found here.
        for message in self._iter_losses(resumed_start):
            self._report_loss(message)
        splits: list[FileSplit] = []
        selections: dict[str, Selection] = {}
        end_offset_by_path: dict[str, int] = {}
        for key, end_position in resumed_end.positions.items():
            start_position = resolve_start(resumed_start.positions.get(key), end_position)
            if start_position.offset > end_position.offset:
                self._report_loss(
                    f"{format_key(key)}: the log was truncated: it had been read up to offset "
                    f"{start_position.offset}, and ends at offset {end_position.offset}"
                )
            if start_position.offset >= end_position.offset:
                continue
            partition = partitions[key]
            with self._mount(partition):
                segments = self._find_directory(partition, start_position, end_position).segments
                partition_splits = list(
                    iter_splits_between(segments, start_position, end_position, self._is_batch_at)
                )
            splits += partition_splits
            base_selection = self.request.selection_options.selection
            selections |= selections_between(
                base_selection, segments, start_position.offset, end_position.offset
            )
            end_offset_by_path |= segment_end_offsets(segments, end_position.offset)
        return plan_trigger_partitions(self.request, splits, selections, end_offset_by_path)

    # Listings.

    def _update_partitions(self) -> None:
        """List the paths, and group the files into partitions if anything has changed."""
        # Unreadable files may be readable now, even if their directories have not changed.
        self._is_stale = self._update_listing() or self._is_stale or bool(self._read_errors)
        if not self._is_stale:
            return
        self._idle_positions = None
        files_by_path = self._listing.files_by_path
        try:
            request = replace(self.request, paths=tuple(files_by_path))
            files = list_input_files(
                request,
                list_files_below=files_by_path.__getitem__,
                manifest_cache=self._manifest_cache,
            )
        except InputError:  # no readable file: the listing has the reasons
            files = FileSplits()
        self._partitions = group_partitions(files, self._listing.topic_id, self.request.paths)
        read_errors = self._listing.read_errors | files.read_errors
        self._read_errors = {
            path: reason for path, reason in read_errors.items() if self._may_contain_topics(path)
        }
        self._is_stale = False

    def _update_listing(self) -> bool:
        """List the paths, again while a broker replaces segments; returns whether they changed."""
        has_changed = self._listing.update()
        for pause in RETRY_PAUSES_SECONDS:
            all_files = chain.from_iterable(self._listing.files_by_path.values())
            if not has_changed or not is_swapping(file.path for file in all_files):
                break
            time.sleep(pause)
            self._listing.update()
        return has_changed

    def _may_contain_topics(self, path: str) -> bool:
        """Whether a path may have segments of the topics."""
        path_topics = {
            parse_topic_partition(path.rpartition("/")[2])[0],
            file_topic_partition(path)[0],
        } - {None}
        requested_topics = self.request.topics
        return (
            not requested_topics
            or path in self.request.paths
            or not path_topics
            or bool(path_topics & requested_topics)
        )

    def _resume(
        self, checkpoint: Mapping[str, Any], *, is_listed: bool = False
    ) -> tuple[dict[str, FollowedPartition], ResumedPositions]:
        """The current partitions with their positions; raises DataLossError for lost data. Lists
        again before it reports a loss: a broker may be renaming a directory."""
        for attempt in range(len(RETRY_PAUSES_SECONDS) + 1):
            if attempt or not is_listed:
                self._update_partitions()
            resumed = resume_positions(checkpoint, self._partitions)
            losses = [loss for loss in self._iter_losses(resumed) if loss not in self._reports]
            if not losses:
                break
            if attempt < len(RETRY_PAUSES_SECONDS):
                time.sleep(RETRY_PAUSES_SECONDS[attempt])
        for message in losses:
            self._report_loss(message)
        for key, old_key in resumed.old_key_by_recreated_key.items():
            resumed.deleted.pop(old_key, None)
            resumed.positions[key] = PartitionPosition.starting_at(
                min(directory.first_offset for directory in self._partitions[key].directories)
            )
        return self._partitions, resumed

    def _iter_losses(self, resumed: ResumedPositions) -> Iterator[str]:
        """Messages about paths that cannot be listed, and about partitions that are missing."""
        read_errors = self._read_errors
        if self.request.raises_if_unreadable or not self.fails_on_data_loss:
            for path, reason in read_errors.items():
                yield f"{path}: {reason}"
        else:
            for path in self.request.paths:
                if path in read_errors:
                    yield f"{path}: {read_errors[path]}"
        for key, old_key in resumed.old_key_by_recreated_key.items():
            yield (
                f"{self._partitions[key].name} was recreated: its topic id was "
                f"{old_key.rpartition('@')[2]} and is now {self._partitions[key].topic_id}; it "
                f"had been read up to offset {resumed.deleted[old_key].offset}"
            )
        if read_errors and not self.fails_on_data_loss:
            return
        for key, position in resumed.deleted.items():
            if key not in resumed.old_key_by_recreated_key.values():
                yield (
                    f"{format_key(key)}: its directory is missing; it had been read up to "
                    f"offset {position.offset}"
                )

    def _report_loss(self, message: str) -> None:
        """Raise DataLossError, or warn once."""
        if self.fails_on_data_loss:
            raise DataLossError(f"kfmt: {message}; {DATA_LOSS_ADVICE}")
        if message not in self._reports:
            self._reports.add(message)
            WORKER_LOGGER.warning("kfmt: %s", message)

    # One partition.

    def _mount(self, partition: FollowedPartition) -> AbstractContextManager[None]:
        """Mount the segments of a partition, so that those in tiered storage open as logs."""
        segment_by_path = {
            segment.path: segment
            for directory in partition.directories
            for segment in directory.segments
        }
        return mount_split_files(self.request, segment_by_path.values())

    def _advance(
        self,
        partition: FollowedPartition,
        previous: PartitionPosition | None,
        budget: TriggerBudget,
    ) -> PartitionPosition:
        """The position after as much of a partition as the budget allows."""
        signature = partition.signature
        if previous is not None and self._end_by_key.get(partition.key) == (previous, signature):
            return previous
        with self._mount(partition):
            directory, start_position = self._find_start(partition, previous)
            position = advance_in_log(
                directory.segments, start_position, budget, self._segment_end_cache
            )
        if budget.has_remaining:
            self._end_by_key[partition.key] = position, signature
        return position

    def _find_start(
        self, partition: FollowedPartition, previous: PartitionPosition | None
    ) -> tuple[PartitionDirectory, PartitionPosition]:
        """The copy to read from, and the position to begin at; raises DataLossError."""
        position = previous or PartitionPosition()
        is_start_known = previous is not None and (position.offset > 0 or position.first >= 0)
        candidates = [
            copy for copy in partition.directories if copy.first_offset <= position.offset
        ]
        if not is_start_known:
            first_offset = min(copy.first_offset for copy in partition.directories)
            candidates = [
                copy for copy in partition.directories if copy.first_offset == first_offset
            ]
        directory = self._longest_directory(candidates or partition.directories, position)
        if previous is None:
            return directory, PartitionPosition.starting_at(directory.first_offset)
        if directory.first_offset > position.offset:
            if is_start_known:
                last_lost_offset = directory.first_offset - 1
                self._report_loss(
                    f"{format_key(partition.key)}: offsets {position.offset} to "
                    f"{last_lost_offset} are lost: the log "
                    f"in {directory.path} begins at {directory.first_offset}"
                )
            return directory, PartitionPosition.starting_at(
                directory.first_offset, position.restarts + 1
            )
        divergence = self._find_divergence(directory, position)
        if divergence is not None:
            self._report_loss(
                f"{format_key(partition.key)}: the log in {directory.path} was truncated: it had "
                f"been read up to offset {position.offset}, and {divergence.message}"
            )
            epoch = self._segment_end_cache.find_epoch_before(
                directory.segments, divergence.divergence_offset
            )
            return directory, replace(
                PartitionPosition.starting_at(divergence.divergence_offset, position.restarts + 1),
                epoch=epoch,
            )
        return directory, position

    def _longest_directory(
        self, directories: Sequence[PartitionDirectory], position: PartitionPosition
    ) -> PartitionDirectory:
        """The copy whose log has the largest end."""
        if len(directories) == 1:
            return directories[0]
        return max(
            directories,
            key=lambda copy: (
                self._segment_end_cache.find_log_end(copy.segments, position).position.offset
            ),
        )

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
        if position.segment != segment.base or not 0 < position.byte <= segment.size:
            return False
        try:
            with closing(LogBytes(segment.path, segment.path)) as log_bytes:
                return is_batch_start(log_bytes, position, segment.base)
        except InputError as error:
            self._handle_read_error(error)
            return False

    def _find_directory(
        self,
        partition: FollowedPartition,
        start_position: PartitionPosition,
        end_position: PartitionPosition,
    ) -> PartitionDirectory:
        """The copy to read a trigger from, which may be planned again after a restart; raises
        DataLossError if no copy has all of it."""
        is_start_known = start_position.offset > 0 or start_position.first >= 0
        problems = []
        for directory in partition.directories:
            if is_start_known and directory.first_offset > start_position.offset:
                problems.append(f"the log in {directory.path} begins at {directory.first_offset}")
                continue
            divergence = self._find_divergence(directory, start_position) or self._find_divergence(
                directory, end_position
            )
            if divergence is None:
                return directory
            problems.append(f"in {directory.path}, {divergence.message}")
        self._report_loss(
            f"{format_key(partition.key)}: offsets {start_position.offset} to "
            f"{end_position.offset - 1} were to be "
            f"read, but {'; '.join(problems)}"
        )
        return max(partition.directories, key=lambda copy: copy.segments[-1].base)
