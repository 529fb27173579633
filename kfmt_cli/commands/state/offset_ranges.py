"""Compares the reading positions in internal topics with the logs that they refer to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.broker.log_reading.log_end import read_log_end_offset
from kfmt_cli.broker.log_reading.stored_batches import StartError
from kfmt_cli.broker.metadata.meta_properties import read_topic_id
from kfmt_cli.broker.start.checkpoints import LOG_START_CHECKPOINT
from kfmt_cli.broker.start.directory import LogDirectory, load_log_directory
from kfmt_cli.broker.state.replay import StateRow
from kfmt_cli.commands.settings_resolver import is_topic_remote
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.disk.directory_listing import classify_file, is_segment_log, list_directory
from kfmt_cli.disk.file_access import is_directory
from kfmt_cli.disk.file_names import parse_topic_partition
from kfmt_cli.errors import InputError, InputErrorHandler
from kfmt_cli.rows.types.state_rows import (
    COMMITTED_OFFSET_ROW,
    MIRROR_CHECKPOINT_ROW,
    MIRROR_SYNC_ROW,
    SHARE_PARTITION_ROW,
    SOURCE_OFFSET_ROW,
    StateType,
)

IN_RANGE, BELOW_LOG_START, BEYOND_LOG_END = "in range", "below log start", "beyond log end"
_MIRROR_PARTITION_FIELDS = {"cluster", "topic", "partition"}


@dataclass(frozen=True, slots=True)
class ReadingPosition:
    """The offset that a group or a connector reads next in a partition."""

    reader: str
    """Its name in messages."""
    topic: str
    partition: int
    next_offset: int | None
    """None if it is not decided yet."""
    n_completed: int | None = 0
    """Number of records after it whose delivery is complete; None if unknown."""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The log start and the log end offset of a partition."""

    log_start_offset: int
    log_end_offset: int

    def find_range(self, position: ReadingPosition) -> str | None:
        """Whether the log contains the offset that is read next; at the log end, it will. None if
        there is no such offset."""
        if position.next_offset is None:
            return None
        if position.next_offset < self.log_start_offset:
            return BELOW_LOG_START
        return BEYOND_LOG_END if position.next_offset > self.log_end_offset else IN_RANGE

    def compute_lag(self, position: ReadingPosition) -> int | None:
        """Number of offsets still to be read that the log contains; None if unknown."""
        if position.next_offset is None or position.n_completed is None:
            return None
        n_unread = self.log_end_offset - position.next_offset - position.n_completed
        return max(0, min(n_unread, self.log_end_offset - self.log_start_offset))


def _group_position(row: FieldDict) -> ReadingPosition | None:
    return _create_position(f"group {row.group}", row.topic, row.partition, row.offset)


def _share_group_position(row: FieldDict) -> ReadingPosition | None:
    """Source: `org.apache.kafka.coordinator.group.GroupCoordinatorService`,
    computeShareGroupLagAndBuildResponse."""
    n_completed = row.delivery_complete_count
    if not isinstance(n_completed, int) or n_completed < 0:
        n_completed = None
    reader = f"share group {row.group}"
    return _create_position(reader, row.topic, row.partition, row.start_offset, n_completed)


def _mirror_sync_position(row: FieldDict) -> ReadingPosition | None:
    """MirrorMaker stores the offset of a record that it has read."""
    if not isinstance(row.upstream_offset, int):
        return None
    return _create_position("MirrorMaker", row.topic, row.partition, row.upstream_offset + 1)


def _source_position(row: FieldDict) -> ReadingPosition | None:
    """The position of MirrorMaker in the source cluster; None for other connectors.

    Source: `org.apache.kafka.connect.mirror.MirrorUtils`, wrapPartition and wrapOffset.
    """
    source_partition, source_offset = (
        None if text is None else json.loads(text)
        for text in (row.source_partition, row.source_offset)
    )
    if (
        not isinstance(source_partition, dict)
        or source_partition.keys() != _MIRROR_PARTITION_FIELDS
        or not isinstance(source_offset, dict)
        or not isinstance(offset := source_offset.get("offset"), int)
    ):
        return None
    return _create_position(
        f"connector {row.connector}",
        source_partition["topic"],
        source_partition["partition"],
        offset + 1,
    )


def _create_position(
    reader: str, topic: object, partition: object, next_offset: object, n_completed: int | None = 0
) -> ReadingPosition | None:
    if not isinstance(topic, str) or not isinstance(partition, int):
        return None
    if not isinstance(next_offset, int) or next_offset < 0:
        next_offset = None
    return ReadingPosition(reader, topic, partition, next_offset, n_completed)


POSITION_BY_TYPE: dict[StateType, Callable[[FieldDict], ReadingPosition | None]] = {
    COMMITTED_OFFSET_ROW: _group_position,
    SHARE_PARTITION_ROW: _share_group_position,
    MIRROR_CHECKPOINT_ROW: _group_position,
    MIRROR_SYNC_ROW: _mirror_sync_position,
    SOURCE_OFFSET_ROW: _source_position,
}


@dataclass(slots=True)
class OffsetRanges:
    """Looks up the logs of the partitions in which groups and connectors read.

    on_error: receives errors about files that cannot be read. interval_by_path: the base offset of
    the first segment and the log end offset of partitions that have been read, by their paths.
    """

    on_error: Callable[[InputError], None]
    interval_by_path: dict[str, tuple[int, int]] = field(default_factory=dict)
    _directory_by_path: dict[str, LogDirectory] = field(default_factory=dict)
    """The log directories given, and those of the internal topics."""
    _bounds_by_partition: dict[tuple[str, str], LogBounds | None] = field(default_factory=dict)
    _topic_by_id_by_path: dict[str, dict[str, str]] = field(default_factory=dict)

    def add_log_directories(self, paths: Iterable[str]) -> None:
        """Add directories in which logs are looked up."""
        for path in paths:
            if path not in self._directory_by_path:
                log_directory = self._directory_by_path[path] = load_log_directory(Path(path))
                for error in log_directory.read_errors:
                    self.on_error(error)

    def forget_partition(self, name: str) -> None:
        """Look up the offsets of partitions of this name again, in their logs."""
        for path in [path for path in self.interval_by_path if path.endswith(f"/{name}")]:
            del self.interval_by_path[path]
        for key in [key for key in self._bounds_by_partition if key[1] == name]:
            del self._bounds_by_partition[key]

    def complete_row(
        self, row_type: StateType, row: StateRow, path: str
    ) -> tuple[StateRow, ReadingPosition | None, LogBounds | None]:
        """A row, completed with the range and the lag of its reading position if it has one; the
        position, and the offsets of its log; both None if unknown.

        path: the log directory of the internal topic, which was added.
        """
        if row_type not in POSITION_BY_TYPE:
            return row, None, None
        value_by_column = FieldDict(zip(row_type.member_names, row, strict=True))
        if row_type is SHARE_PARTITION_ROW:
            value_by_column.topic = self._read_topic_by_id(path).get(str(value_by_column.topic_id))
        position = POSITION_BY_TYPE[row_type](value_by_column)
        log_bounds = None
        if position is not None:
            paths = (
                self._other_clusters(path)
                if row_type is SOURCE_OFFSET_ROW
                else self._broker_directories(path)
            )
            log_bounds = self._find_log_bounds(position, paths)
        if position is not None and log_bounds is not None:
            value_by_column |= {
                "log_start_offset": log_bounds.log_start_offset,
                "log_end_offset": log_bounds.log_end_offset,
                "lag": log_bounds.compute_lag(position),
                "range": log_bounds.find_range(position),
            }
        return tuple(value_by_column.values()), position, log_bounds

    def _broker_directories(self, path: str) -> list[str]:
        """The log directories of a broker: this one, and those of the same node and cluster."""
        identity = self._directory_by_path[path].meta_properties
        if identity.cluster_id is None:
            return [path]
        return [
            path,
            *(
                other_path
                for other_path, other in self._directory_by_path.items()
                if other_path != path and identity.is_same_broker(other.meta_properties)
            ),
        ]

    def _other_clusters(self, path: str) -> list[str]:
        """The log directories of the clusters that this one may mirror."""
        cluster_id = self._directory_by_path[path].meta_properties.cluster_id
        return [
            other_path
            for other_path, other in self._directory_by_path.items()
            if cluster_id is not None and other.meta_properties.cluster_id not in (None, cluster_id)
        ]

    def _find_log_bounds(self, position: ReadingPosition, paths: list[str]) -> LogBounds | None:
        """The offsets of a partition in the first of some log directories that has it; None if none
        has it, or it cannot be read."""
        partition_name = f"{position.topic}-{position.partition}"
        for path in paths:
            if is_directory(f"{path}/{partition_name}"):
                key = path, partition_name
                if key not in self._bounds_by_partition:
                    self._bounds_by_partition[key] = None
                    with InputErrorHandler(self.on_error):
                        self._bounds_by_partition[key] = self._read_log_bounds(position, path)
                return self._bounds_by_partition[key]
        return None

    def _read_log_bounds(self, position: ReadingPosition, path: str) -> LogBounds | None:
        """The offsets of a partition in a log directory; None if it has no log. Raises InputError.

        Source: `org.apache.kafka.storage.internals.log.LogLoader`, load.
        """
        partition_path = f"{path}/{position.topic}-{position.partition}"
        interval = self.interval_by_path.get(partition_path)
        if interval is None:
            listing = list_directory(partition_path)
            log_end_offset = read_log_end_offset(listing)
            if log_end_offset is None:
                return None
            segment_logs = filter(is_segment_log, listing.logs)
            interval = min(log.base_offset_or_zero for log in segment_logs), log_end_offset
        first_base_offset, log_end_offset = interval
        log_start_offset = self._directory_by_path[path].checkpoint_offset(
            LOG_START_CHECKPOINT, (position.topic, position.partition)
        )
        if not is_topic_remote(position.topic, map(Path, self._broker_directories(path))):
            log_start_offset = max(log_start_offset, first_base_offset)
        return LogBounds(log_start_offset, log_end_offset)

    def _read_topic_by_id(self, path: str) -> dict[str, str]:
        """The topics with a partition in the log directories of a broker, by their ids."""
        if path not in self._topic_by_id_by_path:
            topic_by_id = self._topic_by_id_by_path[path] = {}
            for directory in self._broker_directories(path):
                with InputErrorHandler(self.on_error):
                    for partition_name in list_directory(directory).partition_names:
                        topic_id = self._read_topic_id(
                            f"{directory}/{partition_name}/partition.metadata"
                        )
                        if topic_id is not None:
                            topic_by_id[format_uuid(topic_id)] = (
                                parse_topic_partition(partition_name)[0] or ""
                            )
        return self._topic_by_id_by_path[path]

    def _read_topic_id(self, path: str) -> bytes | None:
        """The topic id in a partition.metadata; None if it has none or cannot be read."""
        try:
            return read_topic_id(classify_file(path, format_display_name(path)))
        except StartError:  # `check` reports it
            return None
        except InputError as error:
            if not error.is_missing:
                self.on_error(error)
            return None
