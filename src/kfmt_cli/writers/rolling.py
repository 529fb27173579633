"""Segments one behind the other, rolled as a broker rolls them.

Source: `org.apache.kafka.storage.internals.log.LogSegment.shouldRoll`: the segment would grow
beyond its size; the batch is so much younger than the segment's first; an index is full; an offset
does not fit into one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from kfmt_cli.errors import InputError
from kfmt_cli.writers.batches import Written
from kfmt_cli.writers.index import MAX_RELATIVE
from kfmt_cli.writers.output import Staging
from kfmt_cli.writers.segment import SegmentWriter


@dataclass(frozen=True, slots=True)
class Rolling:
    """A broker's settings: segment.bytes, segment.ms, segment.index.bytes, index.interval.bytes.

    age: None for never by age. by_file: a batch whose line names another file begins that segment.
    """

    size: int = 1 << 30
    age: int | None = 7 * 24 * 3600 * 1000
    index_bytes: int = 10 << 20
    interval: int = 4096
    by_file: bool = True


class RollingWriter:
    """Takes batches and puts them into segments. folders, logs: what was written, by folder."""

    def __init__(self, staging: Staging, rolling: Rolling) -> None:
        self._staging = staging
        self._rolling = rolling
        self._segment: SegmentWriter | None = None
        self._first_time: int | None = None
        self._folder = ""
        self.logs: dict[str, list[SegmentWriter]] = {}

    def begin(self, folder: str, base_offset: int) -> None:
        """Begin a segment of its own here."""
        self._close()
        self._folder = folder
        name = str(PurePath(folder) / f"{base_offset:020}.log")
        self._segment = SegmentWriter(self._staging, name, base_offset, self._rolling.interval)
        self._first_time = None
        self.logs.setdefault(folder, []).append(self._segment)

    def append(self, batches: Written) -> None:
        """The next batches, rolling where a broker would; raises InputError, OutputError."""
        first = 0
        while first < len(batches.starts):
            if self._segment is None:
                self.begin(self._folder, int(batches.base_offset[first]))
            assert self._segment is not None
            rest = batches.part(first, len(batches.starts))
            if int(rest.base_offset[0]) < self._segment.base_offset:
                raise InputError(
                    f"offset {rest.base_offset[0]} lies before the segment's base offset "
                    f"{self._segment.base_offset}"
                )
            n = self._room(self._segment, rest)
            if n:
                if self._first_time is None:
                    self._first_time = int(rest.max_timestamp[0])
                self._segment.append(rest.part(0, n))
            first += n
            if first < len(batches.starts):
                self.begin(self._folder, int(batches.base_offset[first]))

    def _room(self, segment: SegmentWriter, rest: Written) -> int:
        """How many of the batches go into the segment; one at least into an empty one."""
        rolling = self._rolling
        full = rest.ends + segment.size > rolling.size
        full |= rest.last_offset - segment.base_offset > MAX_RELATIVE
        started = self._first_time
        if started is None:
            started = int(rest.max_timestamp[0])
        if rolling.age is not None and started >= 0:
            full |= rest.max_timestamp - started > rolling.age
        n = int(full.argmax()) if full.any() else len(full)
        n = min(
            n,
            segment.index.room(rest.starts + segment.size, rest.max_timestamp, rolling.index_bytes),
        )
        return n if segment.size else max(n, 1)

    def _close(self) -> None:
        if self._segment is not None:
            self._segment.close()
        self._segment = None

    def finish(self) -> None:
        """Close the last segment."""
        self._close()

    def abandon(self) -> None:
        """Let go of what is open."""
        if self._segment is not None:
            self._segment.abandon()
