"""How a starting broker rebuilds the state of producers, as far as that can end the start.

It begins at the newest snapshot that it can read and goes over the batches behind it, without a
look at their checksums. Source: `ProducerStateManager`, `UnifiedLog.rebuildProducerState`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kfmt_cli.broker.start.segment import OpenSegment
from kfmt_cli.broker.start.stored import StartFailed, Stored, read_marker
from kfmt_cli.errors import InputError
from kfmt_cli.files.kinds.fixed import PRODUCER_SNAPSHOT, read_rows
from kfmt_cli.files.kinds.kind import Input


class Snapshots:
    """The snapshots of a partition. files: by offset, None for one that this start has written."""

    def __init__(self, wrong_txns: frozenset[int]) -> None:
        self.files: dict[int, Input | None] = {}
        self._wrong_txns = wrong_txns
        self._map_end = 0
        self._last = 0

    def load(self, files: Mapping[int, Input | None]) -> None:
        """Begin with these snapshots and no state."""
        self.files = dict(files)
        self._map_end = self._last = 0

    def recovered(self, end: int) -> None:
        """Everything up to an offset has been gone over."""
        self._map_end = max(self._map_end, end)

    def update(self, segment: OpenSegment, batch: Stored) -> None:
        """Go over a batch; raises CorruptError, StartFailed."""
        if batch.producer_id >= 0:
            if batch.is_control:
                read_marker(segment.bytes, batch)
            elif batch.base_offset in self._wrong_txns:
                raise StartFailed(
                    f"{segment.name} byte {batch.position}: a batch that is not transactional in a "
                    f"transaction of producer {batch.producer_id}"
                )
        self._map_end = batch.last_offset + 1

    def take(self) -> None:
        """Write a snapshot where the state has moved on."""
        if self._map_end > self._last:
            self.files[self._map_end] = None
            self._last = self._map_end

    def rebuild(
        self, segments: list[OpenSegment], log_start: int, end: int, *, after_clean: bool
    ) -> None:
        """Go over what lies behind the newest snapshot; raises CorruptError, StartFailed."""
        if after_clean and not self.files:
            return
        self.files = {it: file for it, file in self.files.items() if log_start < it <= end}
        if end != self._map_end:
            self._load_newest(log_start)
        if end > self._map_end:
            self._go_over(segments, log_start, end)
        self._map_end = end
        self.take()

    def _load_newest(self, log_start: int) -> None:
        while self.files:
            newest = max(self.files)
            if _is_readable(self.files[newest]):
                self._map_end = self._last = newest
                return
            del self.files[newest]
        self._map_end = self._last = log_start

    def _go_over(self, segments: list[OpenSegment], log_start: int, end: int) -> None:
        below = [it.base for it in segments if it.base <= self._map_end]
        first = below[-1] if below else -1
        of_end = max((it.base for it in segments if it.base <= end), default=None)
        for segment in segments:
            if not first <= segment.base < end:
                continue
            start = max(segment.base, self._map_end, log_start)
            self._map_end = start
            if segment.sound_end is not None:
                continue
            until = segment.size
            if segment.base == of_end and (found := segment.translate(end)) is not None:
                until = found.position
            begin = segment.translate(start)
            if begin is None:
                continue
            for batch in segment.batches(begin.position):
                if batch.end > until:
                    break
                if batch.magic >= 2:
                    self.update(segment, batch)

    def remove_stray(self, bases: list[int]) -> None:
        """Forget snapshots between segments, but for the newest behind the last one."""
        stray = None
        for offset in sorted(self.files):
            if offset not in bases:
                if stray is not None:
                    del self.files[stray]
                stray = offset
        if stray is not None and bases and stray < max(bases):
            del self.files[stray]


def _is_readable(file: Input | None) -> bool:
    try:
        return file is None or not read_rows(file).findings
    except InputError:
        return False


def is_snapshot(name: str) -> bool:
    """Whether a broker takes a file for a snapshot."""
    return name.endswith(PRODUCER_SNAPSHOT.suffix)
