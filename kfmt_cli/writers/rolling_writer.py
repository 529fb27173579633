"""Writes consecutive segments, rolled as a broker rolls them.

Source: `org.apache.kafka.storage.internals.log.LogSegment.shouldRoll`: the segment would exceed its
size; the batch is too much newer than the segment's first one; an index is full; an offset is out
of range for an index.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from kfmt_cli.broker.defaults import (
    DEFAULT_INDEX_INTERVAL_BYTES,
    DEFAULT_SEGMENT_BYTES,
    DEFAULT_SEGMENT_INDEX_BYTES,
    DEFAULT_SEGMENT_MS,
    MAX_SEGMENT_BYTES,
)
from kfmt_cli.errors import InputError
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.writers.batches import EncodedBatches
from kfmt_cli.writers.output import AtomicOutput, OutputFile, StagingDirectory
from kfmt_cli.writers.segment_writer import SegmentWriter


@dataclass(frozen=True, slots=True)
class RollSettings:
    """Broker settings: segment.bytes, segment.ms, segment.index.bytes, index.interval.bytes."""

    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    segment_ms: int | None = DEFAULT_SEGMENT_MS
    """None: never by time."""
    segment_index_bytes: int = DEFAULT_SEGMENT_INDEX_BYTES
    index_interval_bytes: int = DEFAULT_INDEX_INTERVAL_BYTES
    keeps_named_segments: bool = True
    """Whether a segment that input lines name is never rolled for its size or age."""


@dataclass(frozen=True, slots=True)
class WrittenSnapshot:
    """A KRaft snapshot written under the staging directory. batches_per_append: batches per
    append."""

    relative_path: str
    output_file: OutputFile
    batches_per_append: list[int]


class RollingWriter(AtomicOutput):
    """Writes batches into segments and snapshots. segments_by_directory, snapshots_by_directory:
    the files, by directory."""

    def __init__(self, staging: StagingDirectory, settings: RollSettings) -> None:
        self._staging = staging
        self.settings = settings
        self._open_segment: SegmentWriter | None = None
        self._open_snapshot: WrittenSnapshot | None = None
        self._first_timestamp: int | None = None
        self._directory = ""
        self._is_named_by_lines = False
        self._written_names: set[str] = set()
        self.segments_by_directory: dict[str, list[SegmentWriter]] = {}
        self.snapshots_by_directory: dict[str, list[WrittenSnapshot]] = {}

    @property
    def base_offset(self) -> int | None:
        """The base offset of the open segment, None before its first batch."""
        return None if self._open_segment is None else self._open_segment.base_offset

    def begin_file(
        self,
        directory: str,
        base_offset: int | None,
        snapshot_name: str | None = None,
        is_named_by_lines: bool = False,
    ) -> bool:
        """Begin a file; returns False if one with this name was already written.

        base_offset: None to use the next batch's base offset. snapshot_name: the name of a KRaft
        snapshot. is_named_by_lines: whether input lines name the segment, which is then never
        rolled for its size or age.
        """
        self.close()
        self._directory, self._is_named_by_lines = directory, is_named_by_lines
        if snapshot_name is not None:
            snapshot_path = str(PurePath(directory) / snapshot_name)
            if snapshot_path in self._written_names:
                return False
            self._written_names.add(snapshot_path)
            self._open_snapshot = WrittenSnapshot(
                snapshot_path, self._staging.create_file(snapshot_path), []
            )
            self.snapshots_by_directory.setdefault(directory, []).append(self._open_snapshot)
        elif base_offset is not None:
            if self._log_path(base_offset) in self._written_names:
                return False
            self._start_segment(base_offset)
        return True

    def _log_path(self, base_offset: int) -> str:
        return str(PurePath(self._directory) / f"{base_offset:020}.log")

    def _start_segment(self, base_offset: int) -> None:
        self.close()
        log_path = self._log_path(base_offset)
        self._written_names.add(log_path)
        self._open_segment = SegmentWriter(
            self._staging, log_path, base_offset, self.settings.index_interval_bytes
        )
        self._first_timestamp = None
        self.segments_by_directory.setdefault(self._directory, []).append(self._open_segment)

    def append_batches(self, batches: EncodedBatches) -> None:
        """Append batches, rolling as a broker would; raises InputError, OutputError."""
        if self._open_snapshot is not None:
            self._open_snapshot.output_file.write(batches.data)
            self._open_snapshot.batches_per_append.append(len(batches))
            return
        first_index = 0
        while first_index < len(batches):
            if self._open_segment is None:
                self._start_segment(int(batches.base_offset[first_index]))
            assert self._open_segment is not None
            remaining_batches = batches.select_range(first_index, len(batches))
            n_fitting = self._count_fitting_batches(self._open_segment, remaining_batches)
            if n_fitting:
                if self._first_timestamp is None:
                    self._first_timestamp = int(remaining_batches.max_timestamp[0])
                self._open_segment.append_batches(remaining_batches.select_range(0, n_fitting))
            first_index += n_fitting
            if first_index < len(batches):
                self._start_segment(int(batches.base_offset[first_index]))

    def _count_fitting_batches(self, segment: SegmentWriter, batches: EncodedBatches) -> int:
        """The number of batches that fit in the segment; at least one if it is empty."""
        settings, max_timestamps = self.settings, batches.max_timestamp
        exceeds_segment = batches.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        if not segment.log_bytes and exceeds_segment[0]:
            raise InputError(
                f"offset {batches.last_offset[0]} does not fit in the index of a segment with base "
                f"offset {segment.base_offset}"
            )
        max_bytes = MAX_SEGMENT_BYTES if self._is_named_by_lines else settings.segment_bytes
        exceeds_segment |= batches.end_positions + segment.log_bytes > max_bytes
        first_timestamp = (
            int(max_timestamps[0]) if self._first_timestamp is None else self._first_timestamp
        )
        if settings.segment_ms is not None and first_timestamp >= 0 and not self._is_named_by_lines:
            exceeds_segment |= max_timestamps - first_timestamp > settings.segment_ms
        n_fitting = int(exceeds_segment.argmax()) if exceeds_segment.any() else len(exceeds_segment)
        if not self._is_named_by_lines:
            positions, max_index_bytes = (
                batches.start_positions + segment.log_bytes,
                settings.segment_index_bytes,
            )
            n_fitting = min(
                n_fitting,
                segment.index_builder.count_fitting_batches(
                    positions, max_timestamps, max_index_bytes
                ),
            )
        return n_fitting if segment.log_bytes else max(n_fitting, 1)

    def close(self) -> None:
        """Close the open segment or snapshot."""
        if self._open_segment is not None:
            self._open_segment.close()
        if self._open_snapshot is not None:
            self._open_snapshot.output_file.close()
        self._open_segment = self._open_snapshot = None

    def discard(self) -> None:
        if self._open_segment is not None:
            self._open_segment.discard()
        if self._open_snapshot is not None:
            self._open_snapshot.output_file.discard()
