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
from kfmt_cli.writers.output import AtomicOutput, OutputFile, Staging
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
    """A KRaft snapshot written under the staging directory. batch_counts: batches per append."""

    name: str
    file: OutputFile
    batch_counts: list[int]


class RollingWriter(AtomicOutput):
    """Writes batches into segments and snapshots. logs, snapshots: the files, by directory."""

    def __init__(self, staging: Staging, settings: RollSettings) -> None:
        self._staging = staging
        self.settings = settings
        self._segment: SegmentWriter | None = None
        self._snapshot: WrittenSnapshot | None = None
        self._first_timestamp: int | None = None
        self._directory = ""
        self._is_named = False
        self._written_names: set[str] = set()
        self.logs: dict[str, list[SegmentWriter]] = {}
        self.snapshots: dict[str, list[WrittenSnapshot]] = {}

    @property
    def base_offset(self) -> int | None:
        """The base offset of the open segment, None before its first batch."""
        return None if self._segment is None else self._segment.base_offset

    def begin(
        self,
        directory: str,
        base_offset: int | None,
        snapshot: str | None = None,
        is_named: bool = False,
    ) -> bool:
        """Begin a file; returns False if one with this name was already written.

        base_offset: None to use the next batch's base offset. snapshot: the name of a KRaft
        snapshot. is_named: whether input lines name the segment, which is then never rolled for its
        size or age.
        """
        self.close()
        self._directory, self._is_named = directory, is_named
        if snapshot is not None:
            name = str(PurePath(directory) / snapshot)
            if name in self._written_names:
                return False
            self._written_names.add(name)
            self._snapshot = WrittenSnapshot(name, self._staging.create_file(name), [])
            self.snapshots.setdefault(directory, []).append(self._snapshot)
        elif base_offset is not None:
            if self._log_name(base_offset) in self._written_names:
                return False
            self._start_segment(base_offset)
        return True

    def _log_name(self, base_offset: int) -> str:
        return str(PurePath(self._directory) / f"{base_offset:020}.log")

    def _start_segment(self, base_offset: int) -> None:
        self.close()
        name = self._log_name(base_offset)
        self._written_names.add(name)
        self._segment = SegmentWriter(
            self._staging, name, base_offset, self.settings.index_interval_bytes
        )
        self._first_timestamp = None
        self.logs.setdefault(self._directory, []).append(self._segment)

    def append(self, batches: EncodedBatches) -> None:
        """Append batches, rolling as a broker would; raises InputError, OutputError."""
        if self._snapshot is not None:
            self._snapshot.file.write(batches.data)
            self._snapshot.batch_counts.append(len(batches))
            return
        first = 0
        while first < len(batches):
            if self._segment is None:
                self._start_segment(int(batches.base_offset[first]))
            assert self._segment is not None
            remaining_batches = batches.select_range(first, len(batches))
            n_fitting = self._count_fitting(self._segment, remaining_batches)
            if n_fitting:
                if self._first_timestamp is None:
                    self._first_timestamp = int(remaining_batches.max_timestamp[0])
                self._segment.append(remaining_batches.select_range(0, n_fitting))
            first += n_fitting
            if first < len(batches):
                self._start_segment(int(batches.base_offset[first]))

    def _count_fitting(self, segment: SegmentWriter, batches: EncodedBatches) -> int:
        """The number of batches that fit in the segment; at least one if it is empty."""
        settings, timestamps = self.settings, batches.max_timestamp
        is_full = batches.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        if not segment.size and is_full[0]:
            raise InputError(
                f"offset {batches.last_offset[0]} does not fit in the index of a segment with base "
                f"offset {segment.base_offset}"
            )
        max_bytes = MAX_SEGMENT_BYTES if self._is_named else settings.segment_bytes
        is_full |= batches.ends + segment.size > max_bytes
        first_timestamp = (
            int(timestamps[0]) if self._first_timestamp is None else self._first_timestamp
        )
        if settings.segment_ms is not None and first_timestamp >= 0 and not self._is_named:
            is_full |= timestamps - first_timestamp > settings.segment_ms
        n = int(is_full.argmax()) if is_full.any() else len(is_full)
        if not self._is_named:
            positions, index_bytes = batches.starts + segment.size, settings.segment_index_bytes
            n = min(n, segment.index.count_fitting_batches(positions, timestamps, index_bytes))
        return n if segment.size else max(n, 1)

    def close(self) -> None:
        """Close the open segment or snapshot."""
        if self._segment is not None:
            self._segment.close()
        if self._snapshot is not None:
            self._snapshot.file.close()
        self._segment = self._snapshot = None

    def discard(self) -> None:
        if self._segment is not None:
            self._segment.discard()
        if self._snapshot is not None:
            self._snapshot.file.discard()
