"""Ranges of offsets: those in a log, and their differences."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field

from kfmt_cli.broker.start.consumer import first_of_wrapper
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.opening import open_source
from kfmt_cli.findings.damage import BATCH_TRUNCATED
from kfmt_cli.findings.finding import is_error
from kfmt_cli.formats import header_numbers as header
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.log.block import HEADER_SIZE
from kfmt_cli.log.reader import LogReader

_COLUMNS = (
    *("position", "base_offset", "last_offset", "has_base_offset", "crc_valid", "records_count"),
    *("start", "end"),
)
Range = tuple[int, int]
Ranges = list[Range]


def merged(ranges: Iterable[Range]) -> Ranges:
    """Ranges in order, with adjacent and overlapping ones merged."""
    found: Ranges = []
    for first, last in sorted(range_ for range_ in ranges if range_[0] <= range_[1]):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def without(ranges: Iterable[Range], others: Iterable[Range]) -> Ranges:
    """The parts of ranges that are outside others."""
    taken, at = merged(others), 0
    left: Ranges = []
    for first, last in merged(ranges):
        rest = first
        while at < len(taken) and taken[at][0] <= last:
            low, high = taken[at]
            if rest < low:
                left.append((rest, low - 1))
            rest = max(rest, high + 1)
            if high > last:
                break  # it may take from the next one, too
            at += 1
        if rest <= last:
            left.append((rest, last))
    return left


def common(ranges: Iterable[Range], others: Iterable[Range]) -> Ranges:
    """The parts of ranges that are inside others."""
    every = list(ranges)
    return without(every, without(every, others))


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """A batch as kfmt reads it."""

    position: int
    first: int
    last: int
    is_valid: bool
    """Whether its checksum is valid and its offsets are possible."""


@dataclass(slots=True)
class LogRanges:
    """The batches of a log as kfmt reads them, including damaged ones."""

    base: int
    batches: list[HeldBatch] = field(default_factory=list)
    bad: set[int] = field(default_factory=set)
    """Positions of damage: batches that fail their checksum, and bytes that are not a batch."""

    def undamaged(self, odd: frozenset[int] = frozenset()) -> Ranges:
        """The offsets of the batches without damage, and without findings at these bytes."""
        places = sorted(batch.position for batch in self.batches)
        # What is damaged itself says nothing about the batch before it.
        faulty = {places[i - 1] for at in odd - self.bad if (i := bisect_right(places, at))}
        return [
            (batch.first, batch.last)
            for batch in self.batches
            if batch.is_valid and batch.position not in faulty | self.bad
        ]

    def held(self, next_base: int | None, size: int | None = None) -> Ranges:
        """The offsets that the log contains, or contained before it was damaged.

        A damaged place counts with all offsets between the undamaged batches around it. next_base:
        the next segment's. size: consider only this many bytes.
        """
        ranges: Ranges = []
        places = sorted(self.bad | {batch.position for batch in self.batches})
        batches = {batch.position: batch for batch in self.batches}
        after, claims, is_damaged = self.base, [], False
        for at in places:
            if size is not None and at >= size:
                break
            batch = batches.get(at)
            if batch is None or not batch.is_valid:
                is_damaged = True
                claims += [] if batch is None else [(batch.first, batch.last)]
                continue
            ranges.append((batch.first, batch.last))
            if not self.base <= batch.first <= batch.last <= self.base + MAX_RELATIVE_OFFSET:
                continue  # says nothing about the damage around it
            if is_damaged:
                ranges += _between(after, batch.first - 1, claims)
            after, claims, is_damaged = batch.last + 1, [], False
        if is_damaged:
            last = None if next_base is None else next_base - 1
            ranges += _between(after, last, claims)
        return merged(ranges)


def _between(first: int, last: int | None, claims: Ranges) -> Ranges:
    """The offsets of damaged batches in a gap; last: None if nothing follows."""
    if last is not None:
        return [(first, last)]
    most = first + MAX_RELATIVE_OFFSET
    return [(max(a, first), b) for a, b in claims if a <= b <= most]


def ranges_of(file: Input, base: int) -> LogRanges:
    """The batches of a log; raises InputError."""
    found = LogRanges(base)
    with closing(open_source(file.path, file.name)) as source:
        for block in LogReader(source, base).blocks():
            for finding in block.findings:
                if is_error(finding) and finding.position is not None:
                    found.bad.add(finding.position)
                if finding.code is BATCH_TRUNCATED and finding.position is not None:
                    head = source.block(finding.position, HEADER_SIZE, 1)
                    _add_truncated(found, head, finding.position)
            columns = (block.batches[name].tolist() for name in _COLUMNS)
            for at, low, last, known, crc_valid, count, start, end in zip(*columns, strict=True):
                first, top, is_valid = low, last, bool(crc_valid)
                if not known:
                    whole = bytes(block.data[start:end])
                    inside = first_of_wrapper(whole, last) if is_valid else None
                    # What a wrapper that cannot be read holds ends at its offset.
                    first = base if inside is None else inside
                    is_valid = inside is not None
                elif is_valid and last < first:
                    top = first + count - 1
                if not is_valid:
                    found.bad.add(at)
                valid = is_valid and 0 <= first <= top
                found.batches.append(HeldBatch(at, first, top, valid))
    return found


def _add_truncated(found: LogRanges, head: bytes, position: int) -> None:
    """Add the offsets of a batch that the end of the file truncates, if its header is complete."""
    if len(head) < HEADER_SIZE or header.magic(head) != 2:
        return
    first, delta = header.base_offset(head), header.last_offset_delta(head)
    found.batches.append(HeldBatch(position, first, first + delta, False))


def as_lists(ranges: Iterable[Range]) -> list[list[int]]:
    """Ranges as JSON has them."""
    return [list(range_) for range_ in ranges]


def size_of_ranges(ranges: Iterable[Range]) -> int:
    """The number of offsets in ranges."""
    return sum(last - first + 1 for first, last in ranges)
