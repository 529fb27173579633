"""Selecting batches and records by ranges of offsets and times.

All commands share one rule. A batch is wanted if one of its records can be: its offsets and
timestamps, if known, overlap the bounds. A row without a timestamp (magic 0, or -1 from producers
and brokers) is outside any time bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

import numpy as np

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import NO_TIMESTAMP, Block, runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.decompress import decompress_ahead
from kfmt_cli.log.derived_columns import read_complete
from kfmt_cli.log.records import Records
from kfmt_cli.log.selection.committed import Committed
from kfmt_cli.log.selection.record_match import Match
from kfmt_cli.rows.log_tables import BatchTable

LOG_APPEND_TIME = 1


@dataclass(frozen=True, slots=True)
class Selection:
    """Inclusive bounds, None for no bound, and criteria for records. Times are in milliseconds."""

    first_offset: int | None = None
    last_offset: int | None = None
    first_time: int | None = None
    last_time: int | None = None
    match: Match = field(default_factory=Match)
    """Criteria for records."""
    committed: Committed | None = None
    """The records of the partition that read_committed consumers receive; None for no such
    limit."""

    def __bool__(self) -> bool:
        """Whether it excludes anything."""
        return self != Selection()

    def beginning(self, offset: int) -> Selection:
        """The same selection, starting at an offset."""
        return replace(self, first_offset=max(offset, self.first_offset or 0))

    def within(self, bounds: Selection) -> Selection:
        """The same selection, but also within the bounds of another one."""
        return replace(
            self,
            first_offset=_closer(max, self.first_offset, bounds.first_offset),
            last_offset=_closer(min, self.last_offset, bounds.last_offset),
            first_time=_closer(max, self.first_time, bounds.first_time),
            last_time=_closer(min, self.last_time, bounds.last_time),
        )

    def logs(self, logs: Sequence[Input]) -> Sequence[Input]:
        """The logs of a partition, in order of base offset, that can contain wanted records."""
        return [
            log
            for log, later in zip_longest(logs, logs[1:])
            if not self._is_after(log, later)
            and (self.last_offset is None or log.base <= self.last_offset)
        ]

    def _is_after(self, log: Input, later: Input | None) -> bool:
        """Whether all wanted records come after a log. later: the next one, which begins after it
        unless one of them is a copy."""
        if self.first_offset is None or later is None or later.base_offset is None:
            return False
        return log.base < later.base_offset <= self.first_offset

    @property
    def _has_times(self) -> bool:
        return self.first_time is not None or self.last_time is not None

    def holds(self, offsets: IntArray) -> BoolArray:
        """Which offsets are within the bounds."""
        return _within(offsets, self.first_offset, self.last_offset)

    def batches(self, block: Block, limit: Limit | None = None) -> Block:
        """The block with only its wanted batches, and all its findings.

        Only decompression shows where a wrapper of magic 0 or 1 begins. limit: decompress wrappers
        that depend on it, and fill the base offsets of those kept; None: keep them all, for a
        caller that decodes the records anyway and then calls `rows`.
        """
        near = _select(block, self._reaches(block.batches))
        unknown = near.batches.has_base_offset == 0
        by_offset = self.first_offset is not None or self.last_offset is not None
        if limit is None or not by_offset or not unknown.any():
            return near
        wrappers = replace(near, batches=near.batches.select(unknown), findings=[])
        read_records(wrappers, limit)
        for name in ("base_offset", "has_base_offset"):
            near.batches[name][unknown] = wrappers.batches[name]
        return _select(near, self._reaches(near.batches))

    def rows(self, run: Block, records: Records) -> tuple[Block, Records]:
        """The wanted batches of a decoded run, and their wanted records."""
        keep = self.of_records(run, records)
        reaches = self._reaches(run.batches)
        if self.match.of_records:  # then a batch counts only for its records
            held = np.concatenate([[0], np.cumsum(keep)])[records.ends]
            reaches &= np.diff(held, prepend=0) > 0
        if keep.all() and reaches.all():
            return run, records
        counts = records.counts
        keep &= np.repeat(reaches, counts)
        kept = np.concatenate([[0], np.cumsum(keep)])
        ends = kept[records.ends][reaches]
        return _select(run, reaches), replace(records, rows=records.rows.select(keep), ends=ends)

    def near(self, block: Block, limit: Limit) -> Iterator[tuple[Block, Records]]:
        """The batches of a block that can contain wanted records, run by run, with all their
        records; `of_records` tells which are wanted."""
        for part in decompress_ahead(self.batches(block), limit):
            for run in map(self.match.near, runs(part)):
                yield run, read_complete(run, limit)

    def counted(self, block: Block, limit: Limit, findings: list[Finding]) -> Iterator[Block]:
        """The batches with wanted records; their offsets and record counts cover only those
        records. findings: gets those about batches that cannot be decoded."""
        for run, records in self.near(replace(block, findings=[]), limit):
            findings += [*run.findings, *records.findings]
            kept = np.flatnonzero(self.of_records(run, records))
            ends = np.searchsorted(kept, records.ends)
            counts = np.diff(ends, prepend=0)
            held = _select(run, counts > 0)
            batches, ends, counts = held.batches.copy(), ends[counts > 0], counts[counts > 0]
            offsets = records.rows.offset[kept]
            batches.records_count, batches.has_base_offset = counts, 1
            batches.base_offset, batches.last_offset = offsets[ends - counts], offsets[ends - 1]
            yield replace(held, batches=batches, findings=[])

    def of_records(self, run: Block, records: Records) -> BoolArray:
        """Which records are wanted."""
        keep = self.holds(records.rows.offset)
        if self._has_times:
            times = records.rows.timestamp
            keep &= (records.rows.has_timestamp == 1) & (times != NO_TIMESTAMP)
            keep &= _within(times, self.first_time, self.last_time)
        if self.match:
            matching = np.zeros(len(keep), np.bool_)
            matching[self.match.rows(run, records, np.flatnonzero(keep))] = True
            keep = matching
        return keep

    def _reaches(self, batches: BatchTable) -> BoolArray:
        """Which batches can contain a wanted record."""
        keep = np.ones(len(batches), np.bool_)
        if self.first_offset is not None:
            keep &= (batches.last_offset >= self.first_offset) | _says_nothing(batches)
        if self.last_offset is not None:
            keep &= (batches.base_offset <= self.last_offset) | (batches.has_base_offset == 0)
        if self._has_times:
            keep &= self._reaches_times(batches)
        if self.committed is not None:
            keep &= self.committed.of_batches(batches)
        return keep & self.match.batches(batches)

    def _reaches_times(self, batches: BatchTable) -> BoolArray:
        largest = batches.max_timestamp
        keep: BoolArray = (batches.has_timestamp == 1) & (largest != NO_TIMESTAMP)
        if self.first_time is not None:
            keep &= largest >= self.first_time
        if self.last_time is not None:
            # It is the only timestamp if the broker set them, or in an uncompressed message.
            alone = (batches.is_v2 == 0) & (batches.compression == 0)
            only = alone | (batches.timestamp_type == LOG_APPEND_TIME)
            keep &= ~only | (largest <= self.last_time)
        return keep


@dataclass(frozen=True, slots=True)
class Asked:
    """Which records of every partition are wanted; `of` makes the selection for one partition."""

    wanted: Selection = field(default_factory=Selection)
    last: int | None = None
    """How many of the last of them only."""
    committed: bool = False
    """Only records that read_committed consumers receive."""
    latest: bool = False
    """Only the latest of them for each key, which the caller finds."""

    def __bool__(self) -> bool:
        """Whether it excludes anything."""
        return self != Asked()

    @property
    def needs_logs(self) -> bool:
        """Whether `of` must read the logs of a partition."""
        return self.last is not None or self.committed or self.latest

    def of(
        self, first_of_last: Callable[[int, Selection], int], committed: Callable[[], Committed]
    ) -> Selection:
        """The selection for a partition.

        first_of_last: returns the offset of the first of the last N of some. committed: returns
        what read_committed consumers receive. Each reads logs, and is called only if needed.
        """
        wanted = self.wanted
        if self.committed:
            wanted = replace(wanted, committed=committed())
        if self.last is not None:
            wanted = wanted.beginning(first_of_last(self.last, wanted))
        return wanted


def _closer(of: Callable[[list[int]], int], *bounds: int | None) -> int | None:
    given = [bound for bound in bounds if bound is not None]
    return of(given) if given else None


def _says_nothing(batches: BatchTable) -> BoolArray:
    """Wrappers whose own offset does not bound their messages' offsets.

    In magic 1 it may be 0, as librdkafka wrote it; in magic 0 only the messages' offsets count.
    """
    loose = (batches.magic == 0) | (batches.last_offset == 0)
    unknown: BoolArray = loose & (batches.has_base_offset == 0)
    return unknown


def _within(values: IntArray, first: int | None, last: int | None) -> BoolArray:
    keep = np.ones(len(values), np.bool_)
    if first is not None:
        keep &= values >= first
    if last is not None:
        keep &= values <= last
    return keep


def _select(block: Block, keep: BoolArray) -> Block:
    """The block with only these batches; the block itself if that is all of them."""
    if keep.all():
        return block
    return replace(block, batches=block.batches.select(keep), decompressed=None)
