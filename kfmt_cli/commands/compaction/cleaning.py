"""compaction: a dry run of the log cleaner over one partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.broker.cleaning import (
    Aborted,
    Dirty,
    Kept,
    Rules,
    TransactionsSeen,
    fill,
    keeps,
)
from kfmt_cli.broker.defaults import DEDUPE_BUFFER_BYTES
from kfmt_cli.broker.offsets.offset_map import OffsetMap
from kfmt_cli.broker.offsets.seek import blocks_from
from kfmt_cli.broker.topic_settings import TopicSettings
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.tree import modified_ms, size_of
from kfmt_cli.log.block import Block, runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.decompress import decompress_ahead
from kfmt_cli.log.derived_columns import complete
from kfmt_cli.log.records import Records

Ranges = list[list[int]]


@dataclass(slots=True)
class CleanerHistory:
    """Facts from the batch headers of a partition: aborted transactions, last stable offset, log
    end offset, timestamp of each log's first batch, and number of records."""

    aborted: list[Aborted] = field(default_factory=list)
    stable: int = 0
    log_end: int = 0
    firsts: dict[int, int] = field(default_factory=dict)
    records: int = 0
    is_damaged: bool = False

    def reaches(self, end: int) -> None:
        """Raise the log end offset to `end`, which an empty last segment may move."""
        if self.stable == self.log_end:
            self.stable = max(self.stable, end)
        self.log_end = max(self.log_end, end)


@dataclass(slots=True)
class Cleaning:
    """A dry run of cleaning one partition."""

    partition: Partition
    history: CleanerHistory
    dirty: Dirty
    settings: TopicSettings
    now: int
    offsets: bool = False
    """Record the offsets that are kept."""
    buffer_bytes: int = DEDUPE_BUFFER_BYTES
    limit: Limit = field(default_factory=Limit)
    passes: int = 0
    """Number of passes."""
    remaining: Ranges = field(default_factory=list)

    def leave(self) -> Kept:
        """Count the records without cleaning anything."""
        told = Kept()
        for file in self.partition.logs:
            self._whole(file, told)
        return told

    def clean(self) -> Kept:
        """Clean up to the first uncleanable offset, in as many passes as the map requires."""
        start, end = self.dirty.first, self.dirty.end
        masks: dict[int, BoolArray] = {}
        told = Kept()
        while True:
            self.passes += 1
            map_ = self._map(start, end)
            reached = min(map_.latest_offset + 1, end)
            is_last = reached >= end or reached <= start
            told = Kept()
            self.remaining = []
            seen = TransactionsSeen(())
            waiting = sorted(self.history.aborted)
            for i, file in enumerate(self.partition.logs):
                base = file.base
                if base >= reached:
                    if is_last:
                        self._whole(file, told)
                    continue
                upper = self._next_base(i)
                while waiting and waiting[0][0] < upper:
                    seen.expect(waiting.pop(0))
                rules = Rules(map_, self.now, self._keeps_legacy(file))
                masks[base] = self._filter(file, rules, seen, told, masks.get(base), is_last)
            if is_last:
                return told
            start = reached
            del map_, rules  # before the next one is allocated

    def _next_base(self, i: int) -> int:
        logs = self.partition.logs
        return logs[i + 1].base if i + 1 < len(logs) else 1 << 62

    def _keeps_legacy(self, file: Input) -> bool:
        """Whether tombstones of magic 0 and 1 in a log are not yet due for removal."""
        clean = [log for log in self.partition.logs if log.base < self.dirty.first]
        horizon = 0
        if clean and self.dirty.first > 0:
            horizon = modified_ms(clean[-1]) - self.settings.delete_retention_ms
        return modified_ms(file) > horizon

    def _map(self, start: int, end: int) -> OffsetMap:
        """The latest offset of each key in the dirty part, until the map is full."""
        map_ = OffsetMap(self.buffer_bytes, self.history.records)
        seen = TransactionsSeen(
            transaction for transaction in self.history.aborted if transaction[1] >= start
        )
        logs = self.partition.logs
        for i, file in enumerate(logs):
            base = file.base
            if base >= end or self._next_base(i) <= start:
                continue
            for run, records in self._records(file):
                if not fill(map_, run, records, seen.discards(run), start):
                    return map_
            map_.latest_offset = max(map_.latest_offset, min(self._next_base(i), end) - 1)
        return map_

    def _filter(
        self,
        file: Input,
        rules: Rules,
        seen: TransactionsSeen,
        told: Kept,
        before: BoolArray | None,
        is_last: bool,
    ) -> BoolArray:
        """Mask of the records of a log that survive this pass and all previous ones."""
        masks: list[BoolArray] = []
        at = 0
        for run, records in self._records(file):
            stays = keeps(run, records, seen.discards(run), rules, told)
            if before is not None:
                held = before[at : at + len(stays)]
                told.kept -= int((stays & ~held).sum())
                told.removed += int((stays & ~held).sum())
                stays &= held
            at += len(stays)
            masks.append(stays)
            if is_last:
                self._note(records, stays)
        return np.concatenate(masks) if masks else np.zeros(0, np.bool_)

    def _whole(self, file: Input, told: Kept) -> None:
        """Count a log that is not cleaned as kept."""
        if not self.offsets:
            for block in blocks_from(file, checked=False):
                told.kept += int(block.batches.counted_records.sum())
            return
        for _, records in self._records(file):
            told.kept += len(records.rows)
            self._note(records, np.ones(len(records.rows), np.bool_))

    def _note(self, records: Records, stays: BoolArray) -> None:
        """Add the offsets of the kept records to `remaining`."""
        if not self.offsets:
            return
        offsets: IntArray = records.rows.offset[stays]
        if not len(offsets):
            return
        breaks = np.flatnonzero(np.diff(offsets) != 1)
        firsts = np.concatenate([offsets[:1], offsets[breaks + 1]]).tolist()
        lasts = np.concatenate([offsets[breaks], offsets[-1:]]).tolist()
        for first, last in zip(firsts, lasts, strict=True):
            if self.remaining and first == self.remaining[-1][1] + 1:
                self.remaining[-1][1] = last
            else:
                self.remaining.append([first, last])

    def _records(self, file: Input) -> Iterator[tuple[Block, Records]]:
        """The records of the undamaged batches of a log."""
        for block in blocks_from(file, read_ahead=True, checked=False):
            for part in decompress_ahead(block, self.limit):
                for run in runs(part):
                    records = read_records(run, self.limit)
                    if not run.batches.is_v2.all():
                        complete(run, records)
                    yield run, records

    def segments_after(self) -> int:
        """Number of segments after cleaning, which merges neighbours that fit into one segment.

        Source: `kafka.log.Cleaner.groupSegmentsBySize`, which uses the sizes before cleaning.
        """
        if not self.passes:
            return len(self.partition.logs)
        n, size, first = 0, 0, None
        for file in self.partition.logs:
            base, n_bytes = file.base, size_of(file)
            if base >= self.dirty.end:
                n, size, first = n + 1, 0, None
                continue
            fits = size + n_bytes <= self.settings.segment_bytes
            if first is None or not fits or base - first >= 1 << 31:
                n, size, first = n + 1, 0, base
            size += n_bytes
        return n
