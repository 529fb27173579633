"""How a starting broker rebuilds producer state, and how that can fail the start.

It begins at the newest readable snapshot and processes the batches after it, without checking their
checksums. Source: `ProducerStateManager`, `UnifiedLog.rebuildProducerState`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kfmt_cli.broker.start.segment import OpenSegment
from kfmt_cli.broker.start.stored import StartFailed, StoredBatch, read_marker, wrapped
from kfmt_cli.disk.kinds.fixed import PRODUCER_SNAPSHOT
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.errors import ForeignError


class Snapshots:
    """The snapshots of a partition, and the transactions open so far.

    files: by offset, None for one that this start has written. has_transactions: the sound logs
    contain transactions, so their batches are also processed.
    """

    def __init__(self, has_transactions: bool) -> None:
        self.files: dict[int, Input | None] = {}
        self._has_transactions = has_transactions
        self._map_end = 0
        self._last = 0
        self._open: dict[int, int] = {}  # the first offset of each producer's transaction
        self._ongoing: set[int] = set()
        self._written: dict[int, dict[int, int]] = {}  # open ones per snapshot written
        self._last_abort: int | None = None
        self._ended: set[int] = set()
        self._started: list[int] = []
        self._completed: list[tuple[int, str]] = []

    def load(self, files: Mapping[int, Input | None]) -> None:
        """Begin with these snapshots and an empty state."""
        self.files = dict(files)
        self._map_end = self._last = 0
        self._become({})

    def _become(self, transactions: dict[int, int]) -> None:
        self._open = dict(transactions)
        self._ongoing = set(transactions.values())
        self._ended.clear()

    def passes(self, segment: OpenSegment) -> bool:
        """Whether a segment changes only the end of the state."""
        return segment.sound_end is not None and not self._has_transactions

    def recovered(self, end: int) -> None:
        """Mark everything up to an offset as processed."""
        self._map_end = max(self._map_end, end)

    def begin_index(self) -> None:
        """Begin rebuilding the transaction index of the next segment."""
        self._last_abort = None

    def update(self, segment: OpenSegment, batch: StoredBatch, *, indexed: bool = False) -> None:
        """Process a batch; raises CorruptError, StartFailed. indexed: write the transaction that it
        aborts to the transaction index."""
        place = f"{segment.name} byte {batch.position}"
        first = self._open.get(batch.producer_id)
        if batch.producer_id >= 0 and batch.is_control:
            marker = read_marker(segment.bytes, batch)
            if marker is not None and first is not None:
                del self._open[batch.producer_id]
                if indexed and marker.is_abort:
                    self._index(place, batch.base_offset)
                self._completed.append((first, place))
        elif batch.producer_id >= 0 and first is None and batch.is_transactional:
            self._open[batch.producer_id] = batch.base_offset
            self._started.append(batch.base_offset)
        elif batch.producer_id >= 0 and first is not None and not batch.is_transactional:
            raise StartFailed(
                f"{place}: non-transactional batch inside a transaction of producer "
                f"{batch.producer_id}"
            )
        self._map_end = wrapped(batch.last_offset + 1)

    def _index(self, place: str, offset: int) -> None:
        if self._last_abort is not None and offset <= self._last_abort:
            raise StartFailed(f"{place}: an aborted transaction ends before the previous one")
        self._last_abort = offset

    def settle(self) -> None:
        """Begin and end the transactions of the processed batches; raises StartFailed. A broker
        does so after each batch in log recovery, but once per segment when it loads one."""
        self._ongoing.update(self._started)
        for first, place in self._completed:
            if first not in self._ongoing:
                raise StartFailed(
                    f"{place}: marker of a transaction whose first offset {first} is also another "
                    "transaction's"
                )
            self._ongoing.discard(first)
            self._ended.add(first)
        self._started.clear()
        self._completed.clear()

    @property
    def first_unstable(self) -> int | None:
        """The first offset of the oldest transaction that is open, or that ended since the newest
        snapshot; None if there is no such transaction."""
        return min(self._ongoing | self._ended, default=None)

    def emptied(self, segment: OpenSegment) -> None:
        """Forget what was to be indexed of a segment that recovery has emptied."""

    def take(self) -> None:
        """Write a snapshot if the state has advanced."""
        if self._map_end > self._last:
            self.files[self._map_end] = None
            self._write(self._map_end)
            self._last = self._map_end

    def _write(self, offset: int) -> None:
        """Keep the state for a snapshot that this start writes."""
        self._written[offset] = dict(self._open)

    def _read(self, offset: int, file: Input | None) -> bool:
        """Restore the state from a snapshot; False if it is damaged. Raises InputError."""
        told = self._written[offset] if file is None else _transactions(file)
        if told is None:
            return False
        self._become(told)
        return True

    def rebuild(
        self, segments: list[OpenSegment], log_start: int, end: int, *, after_clean: bool
    ) -> None:
        """Process the batches after the newest snapshot; raises CorruptError, StartFailed,
        InputError."""
        if after_clean and not self.files:
            return
        self.files = {
            offset: file for offset, file in self.files.items() if log_start < offset <= end
        }
        if end != self._map_end:
            self._load_newest(log_start)
        if end > self._map_end:
            self._go_over(segments, log_start, end)
        self._map_end = end
        self.take()

    def _load_newest(self, log_start: int) -> None:
        self._become({})
        while self.files:
            newest = max(self.files)
            file = self.files[newest]
            if self._read(newest, file):
                self._map_end = self._last = newest
                return
            del self.files[newest]
        self._map_end = self._last = log_start

    def _go_over(self, segments: list[OpenSegment], log_start: int, end: int) -> None:
        below = [segment.base for segment in segments if segment.base <= self._map_end]
        first = below[-1] if below else -1
        of_end = max((segment.base for segment in segments if segment.base <= end), default=None)
        last_two = {segment.base for segment in segments[-2:]}
        for segment in segments:
            if not first <= segment.base < end:
                continue
            start = max(segment.base, self._map_end, log_start)
            self._map_end = start
            if segment.base in last_two:
                self.take()
            if self.passes(segment):
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
            self.settle()

    def remove_stray(self, bases: list[int]) -> None:
        """Remove snapshots between segments, except the newest one after the last segment."""
        stray = None
        for offset in sorted(self.files):
            if offset not in bases:
                if stray is not None:
                    del self.files[stray]
                stray = offset
        if stray is not None and bases and stray < max(bases):
            del self.files[stray]


def _transactions(file: Input) -> dict[int, int] | None:
    """The first offset of each producer's open transaction in a snapshot; None if it is damaged.
    Raises InputError if it cannot be read."""
    try:
        contents = file.contents()
    except ForeignError:
        return None
    if contents.findings:
        return None
    table = contents.table
    firsts = table.current_txn_first_offset.tolist()
    pairs = zip(table.producer_id.tolist(), firsts, strict=True)
    return {producer: first for producer, first in pairs if first >= 0}


def is_snapshot(name: str) -> bool:
    """Whether a broker treats a file as a snapshot."""
    return name.endswith(PRODUCER_SNAPSHOT.suffix)
