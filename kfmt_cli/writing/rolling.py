"""Segments written one after another, rolled as a broker rolls them.

Source: `org.apache.kafka.storage.internals.log.LogSegment.shouldRoll`: the segment would exceed its
size; the batch is too much newer than the segment's first one; an index is full; an offset is out
of range for an index.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from kfmt_cli.broker.defaults import (
    INDEX_INTERVAL_BYTES,
    MOST_SEGMENT_BYTES,
    SEGMENT_BYTES,
    SEGMENT_INDEX_BYTES,
    SEGMENT_MS,
)
from kfmt_cli.errors import InputError
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.writing.batches import Written
from kfmt_cli.writing.output import OutputFile, Staging, Unfinished
from kfmt_cli.writing.segment_writer import SegmentWriter


@dataclass(frozen=True, slots=True)
class Rolling:
    """A broker's settings: segment.bytes, segment.ms, segment.index.bytes, index.interval.bytes."""

    segment_bytes: int = SEGMENT_BYTES
    segment_ms: int | None = SEGMENT_MS
    """None: never by time."""
    segment_index_bytes: int = SEGMENT_INDEX_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    by_file: bool = True
    """Do not split a segment that the lines name."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A KRaft snapshot written under the staging folder. batches: the number per append."""

    name: str
    file: OutputFile
    batches: list[int]


class RollingWriter(Unfinished):
    """Writes batches into segments. logs, snapshots: the files written, by folder."""

    def __init__(self, staging: Staging, rolling: Rolling) -> None:
        self._staging = staging
        self.rolling = rolling
        self._segment: SegmentWriter | None = None
        self._snapshot: Snapshot | None = None
        self._first_time: int | None = None
        self._folder = ""
        self._whole = False
        self._names: set[str] = set()
        self.logs: dict[str, list[SegmentWriter]] = {}
        self.snapshots: dict[str, list[Snapshot]] = {}

    @property
    def base_offset(self) -> int | None:
        """The base offset of the open segment, None before its first batch."""
        return None if self._segment is None else self._segment.base_offset

    def begin(
        self,
        folder: str,
        base_offset: int | None,
        snapshot: str | None = None,
        of_file: bool = False,
    ) -> bool:
        """Begin a file; returns False if one with this name was already written.

        base_offset: None to use the next batch's. snapshot: the name of a KRaft snapshot. of_file:
        whether lines name the segment, which is then never rolled for its size or age.
        """
        self.close()
        self._folder, self._whole = folder, of_file
        if snapshot is not None:
            name = str(PurePath(folder) / snapshot)
            if name in self._names:
                return False
            self._names.add(name)
            self._snapshot = Snapshot(name, self._staging.file(name), [])
            self.snapshots.setdefault(folder, []).append(self._snapshot)
        elif base_offset is not None:
            if self._name(base_offset) in self._names:
                return False
            self._start(base_offset)
        return True

    def _name(self, base_offset: int) -> str:
        return str(PurePath(self._folder) / f"{base_offset:020}.log")

    def _start(self, base_offset: int) -> None:
        self.close()
        name = self._name(base_offset)
        self._names.add(name)
        self._segment = SegmentWriter(
            self._staging, name, base_offset, self.rolling.index_interval_bytes
        )
        self._first_time = None
        self.logs.setdefault(self._folder, []).append(self._segment)

    def append(self, batches: Written) -> None:
        """Append batches, rolling as a broker would; raises InputError, OutputError."""
        if self._snapshot is not None:
            self._snapshot.file.write(batches.data)
            self._snapshot.batches.append(len(batches))
            return
        first = 0
        while first < len(batches):
            if self._segment is None:
                self._start(int(batches.base_offset[first]))
            assert self._segment is not None
            rest = batches.part(first, len(batches))
            n = self._room(self._segment, rest)
            if n:
                if self._first_time is None:
                    self._first_time = int(rest.max_timestamp[0])
                self._segment.append(rest.part(0, n))
            first += n
            if first < len(batches):
                self._start(int(batches.base_offset[first]))

    def _room(self, segment: SegmentWriter, rest: Written) -> int:
        """The number of batches that go into the segment; at least one if it is empty."""
        rolling, times = self.rolling, rest.max_timestamp
        full = rest.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        if not segment.size and full[0]:
            raise InputError(
                f"offset {rest.last_offset[0]} does not fit in the index of a segment with base "
                f"offset {segment.base_offset}"
            )
        most = MOST_SEGMENT_BYTES if self._whole else rolling.segment_bytes
        full |= rest.ends + segment.size > most
        started = int(times[0]) if self._first_time is None else self._first_time
        if rolling.segment_ms is not None and started >= 0 and not self._whole:
            full |= times - started > rolling.segment_ms
        n = int(full.argmax()) if full.any() else len(full)
        if not self._whole:
            positions, index_bytes = rest.starts + segment.size, rolling.segment_index_bytes
            n = min(n, segment.index.room(positions, times, index_bytes))
        return n if segment.size else max(n, 1)

    def close(self) -> None:
        """Close the last segment."""
        if self._segment is not None:
            self._segment.close()
        if self._snapshot is not None:
            self._snapshot.file.close()
        self._segment = self._snapshot = None

    def abandon(self) -> None:
        if self._segment is not None:
            self._segment.abandon()
        if self._snapshot is not None:
            self._snapshot.file.abandon()
