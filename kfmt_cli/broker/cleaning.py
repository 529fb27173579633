"""The log cleaner's rules: the batches, transactions, tombstones and markers that it keeps.

Source: `kafka.log.LogCleaner` (`buildOffsetMapForSegment`, `cleanInto`, `shouldRetainRecord`,
`CleanedTransactionMetadata`), `org.apache.kafka.common.record.MemoryRecords.filterTo`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from kfmt_cli.broker.offsets.offset_map import OffsetMap, hashes_of
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.formats.control import ABORT, COMMIT
from kfmt_cli.log.block import Block
from kfmt_cli.log.control import name_control_batches
from kfmt_cli.log.records import Records

Aborted = tuple[int, int, int]  # first offset, last offset, producer
_TXN = ("producer_id", "last_offset", "control", "control_type", "records_count")


class TransactionsSeen:
    """Tracks open transactions batch by batch. aborted: the transactions that end in an abort."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._waiting = sorted(aborted)  # which is a heap
        # By producer: whether a batch of its aborted transaction has been seen.
        self._aborted: dict[int, bool] = {}
        self._committed: set[int] = set()

    def expect(self, aborted: Aborted) -> None:
        """Add a transaction that ends in an abort."""
        heappush(self._waiting, aborted)

    def discards(self, block: Block) -> BoolArray:
        """Removable batches: those of aborted transactions, and markers without batches."""
        batches = block.batches
        found = np.zeros(len(batches), np.bool_)
        v2 = batches.is_v2 == 1
        rows = np.flatnonzero(v2 & ((batches.control == 1) | (batches.transactional == 1)))
        if not len(rows):
            return found
        name_control_batches(block)
        columns = (batches[name][rows].tolist() for name in _TXN)
        for row, producer, last, control, kind, count in zip(rows.tolist(), *columns, strict=True):
            while self._waiting and self._waiting[0][0] <= last:
                _, _, of = heappop(self._waiting)
                self._aborted.setdefault(of, False)
            if control:
                found[row] = self._marker(producer, kind if count else None)
            elif producer in self._aborted:
                self._aborted[producer] = True
                found[row] = True
            else:
                self._committed.add(producer)
        return found

    def _marker(self, producer: int, kind: int | None) -> bool:
        """Whether a marker is removable because nothing of its transaction is left."""
        if kind is None:
            return True
        if kind == ABORT:
            return not self._aborted.pop(producer, False)
        if kind == COMMIT:
            there = producer in self._committed
            self._committed.discard(producer)
            return not there
        return False


def fill(map_: OffsetMap, run: Block, records: Records, discarded: BoolArray, start: int) -> bool:
    """Put the keys of a run into the map; returns whether all of them fitted.

    discarded: batches of aborted transactions. start: the first dirty offset.
    """
    rows = records.rows
    owner = records.owner
    control = (run.batches.control == 1) & (run.batches.is_v2 == 1)
    taken = ~(discarded | control)[owner] & (rows.key_size >= 0) & (rows.offset >= start)
    chosen = np.flatnonzero(taken)
    hashes = hashes_of(records.data, rows.key[chosen], rows.key_size[chosen])
    offsets = rows.offset[chosen]
    n = map_.put(hashes, offsets)
    fits = n == len(chosen)
    last = run.batches.last_offset
    done = last[last >= start] if fits else np.append(last[last < offsets[n]], offsets[:n][-1:])
    map_.latest_offset = int(done.max(initial=map_.latest_offset))
    return fits


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides which records one cleaning keeps."""

    map: OffsetMap
    now: int
    """The current time in ms."""
    keeps_legacy: bool = True
    """Keep tombstones of magic 0 and 1 in this segment."""


@dataclass(slots=True)
class Kept:
    """Counts of the records kept and removed so far."""

    kept: int = 0
    removed: int = 0
    tombstones: int = 0
    """Tombstones kept."""
    markers: int = 0
    """Markers kept."""
    keyless: int = 0
    """Records without a key."""
    aborted: int = 0
    """Records of aborted transactions."""
    replaced: int = 0
    horizon: int | None = None
    """When the first of the kept tombstones and markers can be removed, if known."""


def keeps(
    run: Block, records: Records, discarded: BoolArray, rules: Rules, told: Kept
) -> BoolArray:
    """Which records of a run are kept; adds the counts to `told`."""
    batches, rows = run.batches, records.rows
    owner = records.owner
    v2 = batches.is_v2 == 1
    control = v2 & (batches.control == 1)
    has_horizon = v2 & (batches.delete_horizon == 1)
    due = has_horizon & (batches.base_timestamp <= rules.now)
    gone = np.where(control, discarded & due, discarded)
    dropped = gone[owner]
    offset = rows.offset
    plain = ~control[owner] & ~dropped & (offset <= rules.map.latest_offset)
    keyless = plain & (rows.key_size < 0)
    stays: BoolArray = ~(keyless | dropped)
    chosen = np.flatnonzero(plain & ~keyless)
    latest = rules.map.get(hashes_of(records.data, rows.key[chosen], rows.key_size[chosen]))
    is_latest = offset[chosen] >= latest
    is_value = rows.value_size[chosen] >= 0
    held = np.where(v2[owner[chosen]], ~due[owner[chosen]], rules.keeps_legacy)
    stays[chosen] = is_latest & (is_value | held)
    n_kept = int(stays.sum())
    told.kept += n_kept
    told.removed += len(stays) - n_kept
    told.keyless += int(keyless.sum())
    told.aborted += int((dropped & ~control[owner]).sum())
    told.replaced += int((~stays & ~keyless & ~dropped).sum())
    markers = stays & control[owner]
    tombstones = stays & (rows.value_size < 0) & ~control[owner]
    told.markers += int(markers.sum())
    told.tombstones += int(tombstones.sum())
    waiting = np.unique(owner[tombstones | markers])
    times = batches.base_timestamp[waiting][has_horizon[waiting]]
    if len(times):
        least = int(times.min())
        told.horizon = least if told.horizon is None else min(told.horizon, least)
    return stays


@dataclass(slots=True)
class Dirty:
    """The dirty range of a partition."""

    first: int
    """The first dirty offset."""
    end: int
    """The first offset that the cleaner does not clean; `why` has the reason."""
    why: str
    clean_bytes: int
    """Bytes before the first dirty offset."""
    dirty_bytes: int
    """Bytes from the first dirty offset to `end`."""
    forced: bool = False

    @property
    def ratio(self) -> float:
        """Dirty bytes as a share of all cleanable bytes."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


@dataclass(frozen=True, slots=True)
class CleanerSegment:
    """Facts about a segment. largest: the timestamp that a broker regards as the largest. first:
    the first batch's timestamp."""

    base: int
    size: int
    largest: int
    first: int | None = None


def dirty_of(
    segments: list[CleanerSegment],
    checkpoint: int | None,
    log_start: int,
    log_end: int,
    stable: int,
    min_lag: int,
    max_lag: int,
    now: int,
) -> Dirty:
    """The dirty range of a log and the part of it that can be cleaned now.

    Source: `kafka.log.LogCleanerManager.cleanableOffsets`, `calculateCleanableBytes`.
    """
    first = log_start if checkpoint is None else checkpoint
    if first < log_start or first > log_end:
        first = log_start
    active = segments[-1].base
    bounds = [(active, "the active segment"), (stable, "the last stable offset")]
    below = [segment.base for segment in segments[:-1] if segment.base <= first]
    pending = [segment for segment in segments[:-1] if segment.base >= (below[-1] if below else 0)]
    if min_lag > 0:
        young = next((segment for segment in pending if segment.largest > now - min_lag), None)
        if young is not None:
            bounds.append((young.base, "records newer than min.compaction.lag.ms"))
    limit, why = min(bounds)
    limit = max(first, limit)
    # End at the base offset of the segment that contains the limit.
    inside = [segment.base for segment in segments if segment.base <= limit] or [segments[0].base]
    end = inside[-1]
    clean = sum(segment.size for segment in _between(segments, 0, first))
    dirty = sum(segment.size for segment in _between(segments, min(first, end), end))
    times = [
        segment.first for segment in pending if segment.first is not None and segment.first > 0
    ]
    forced = bool(times) and 0 <= max_lag < now and min(times) < now - max_lag
    return Dirty(first, end, why, clean, dirty, forced and dirty > 0)


def _between(segments: list[CleanerSegment], start: int, end: int) -> list[CleanerSegment]:
    """The segments from the one that contains `start` to the last one before `end`."""
    if start == end:
        return []
    below = [segment.base for segment in segments if segment.base <= start]
    floor = below[-1] if below else start
    return [segment for segment in segments if floor <= segment.base < end]
