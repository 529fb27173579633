"""Segments written one after another, rolled as a broker rolls them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from kfmt_cli.broker.rolling import Active, Rolling, fits, room
from kfmt_cli.errors import InputError
from kfmt_cli.writing.batches import Written
from kfmt_cli.writing.output import OutputFile, Staging
from kfmt_cli.writing.segment_writer import SegmentWriter


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A KRaft snapshot written under the staging folder. batches: the number per append."""

    name: str
    file: OutputFile
    batches: list[int]


class RollingWriter:
    """Writes batches into segments. logs, snapshots: the files written, by folder."""

    def __init__(self, staging: Staging, rolling: Rolling) -> None:
        self._staging = staging
        self._rolling = rolling
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
            self._staging, name, base_offset, self._rolling.index_interval_bytes
        )
        self._first_time = None
        self.logs.setdefault(self._folder, []).append(self._segment)

    def append(self, batches: Written) -> None:
        """Append batches, rolling as a broker would; raises InputError, OutputError."""
        if self._snapshot is not None:
            self._snapshot.file.write(batches.data)
            self._snapshot.batches.append(len(batches.starts))
            return
        first = 0
        while first < len(batches.starts):
            if self._segment is None:
                self._start(int(batches.base_offset[first]))
            assert self._segment is not None
            rest = batches.part(first, len(batches.starts))
            n = self._room(self._segment, rest)
            if n:
                if self._first_time is None:
                    self._first_time = int(rest.max_timestamp[0])
                self._segment.append(rest.part(0, n))
            first += n
            if first < len(batches.starts):
                self._start(int(batches.base_offset[first]))

    def _room(self, segment: SegmentWriter, rest: Written) -> int:
        """The number of batches that go into the segment; at least one if it is empty."""
        last = rest.last_offset
        if not segment.size and not fits(int(last[0]), segment.base_offset):
            raise InputError(
                f"offset {last[0]} does not fit in the index of a segment with base offset "
                f"{segment.base_offset}"
            )
        active = Active(
            segment.base_offset, segment.size, segment.index, self._first_time, self._whole
        )
        return room(active, self._rolling, rest.starts, rest.ends, last, rest.max_timestamp)

    def close(self) -> None:
        """Close the last segment."""
        if self._segment is not None:
            self._segment.close()
        if self._snapshot is not None:
            self._snapshot.file.close()
        self._segment = self._snapshot = None

    def abandon(self) -> None:
        """Close open files as they are."""
        if self._segment is not None:
            self._segment.abandon()
        if self._snapshot is not None:
            self._snapshot.file.abandon()
