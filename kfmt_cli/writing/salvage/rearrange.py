"""Writes a partition with rearranged batches, and reports on its logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from kfmt_cli.broker.start.ranges import Ranges, merged, without
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.opening import open_source
from kfmt_cli.findings.log import OFFSETS_BACKWARDS
from kfmt_cli.findings.partition import SEGMENTS_OVERLAP
from kfmt_cli.writing.convert.reencode import Reencoded
from kfmt_cli.writing.output import OutputFile, Staging, copy_times
from kfmt_cli.writing.salvage.arrange import Arranged, HeldBatches, Neighbours, arrange
from kfmt_cli.writing.salvage.holes import NO_END, Hole, Salvaged
from kfmt_cli.writing.salvage.salvager import Scanned

ASIDE = "contradicting"
PIECE = 8 << 20


@dataclass(frozen=True, slots=True)
class Rearranged:
    """The places of all batches."""

    scanned: Sequence[Scanned]
    """The logs."""
    arranged: Arranged
    split: Sequence[tuple[int, Reencoded]] = ()
    """The remains of damaged batches, with the index of their log."""
    data: bytes = b""
    """Their bytes, consecutively."""

    def placed(self, number: int) -> list[Reencoded]:
        """The remains of a log's damaged batches that have a place."""
        every = (part for _, parts in self.arranged.segments for part in parts)
        mine = [
            (around.position, around.position + around.size)
            for around in every
            if around.log == len(self.scanned)
        ]
        found, at = [], 0
        for log, reencoded in self.split:
            if log == number and any(begin <= at < end for begin, end in mine):
                found.append(reencoded)
            at += len(reencoded.written.data)
        return found


def rearranged(scanned: Sequence[Scanned]) -> Rearranged:
    """Place every undamaged batch, and the remains of damaged ones in free ranges."""
    producers = {producer for part in scanned for producer in part.producers}
    split = [
        (i, part)
        for i, one in enumerate(scanned)
        for part in one.split
        if part.producer is None or part.producer in producers
    ]
    data = [reencoded.written.data for _, reencoded in split]
    ends = np.cumsum([0, *map(len, data)])
    spare = HeldBatches(
        0,
        ends[:-1],
        np.diff(ends),
        np.array([reencoded.base_offset for _, reencoded in split], np.int64),
        np.array([reencoded.last_offset for _, reencoded in split], np.int64),
        np.zeros(len(split), np.int64),
        np.full(len(split), -1),
    )
    # A damaged copy must not replace other segments.
    held = [replace(part.held, replaces=False) if part.named else part.held for part in scanned]
    return Rearranged(scanned, arrange(held, spare), split, b"".join(map(bytes, data)))


def write_arranged(
    staging: Staging, below: str, made: Rearranged, last: int
) -> tuple[list[str], list[str]]:
    """Write the segments and the batches set aside; returns the names of both. last: the base
    offset of the last log of which nothing was placed."""
    written, aside = [], []
    end = -1
    for base, parts in made.arranged.segments:
        name = f"{below}/{base:020}{LOG.suffix}"
        with staging.file(name) as out:
            _write_parts(out, made, parts)
        first = next((part.log for part in parts if part.log < len(made.scanned)), None)
        if first is not None:
            # Retention of messages without timestamps uses the file's modification time.
            copy_times(made.scanned[first].log.path, staging.folder / name)
        written.append(name)
        end = parts[-1].last_offset
    if last > end:  # an empty segment at the end sets the log end offset
        name = f"{below}/{last:020}{LOG.suffix}"
        if name not in written:
            staging.put(name, b"")
            written.append(name)
    for number, lane in enumerate(made.arranged.aside, 1):
        folder = ASIDE if number == 1 else f"{ASIDE}-{number}"
        for parts in _by_reach(lane):
            name = f"{below}/{folder}/{max(parts[0].first_offset, 0):020}{LOG.suffix}"
            with staging.file(name) as out:
                _write_parts(out, made, parts)
            aside.append(name)
    return written, aside


def _by_reach(lane: Sequence[Neighbours]) -> Iterator[list[Neighbours]]:
    """Split a lane into parts that each fit in one log."""
    held: list[Neighbours] = []
    for part in lane:
        if held and part.last_offset - max(held[0].first_offset, 0) >= 1 << 31:
            yield held
            held = []
        held.append(part)
    if held:
        yield held


def _write_parts(out: OutputFile, made: Rearranged, parts: Sequence[Neighbours]) -> None:
    """Copy parts of logs into a file, in order."""
    for part in parts:
        at, end = part.position, part.position + part.size
        if part.log == len(made.scanned):
            out.write(made.data[at:end])
            continue
        log = made.scanned[part.log].log
        with closing(open_source(log.path, log.name)) as source:
            while at < end:
                n = min(PIECE, end - at)
                piece = source.block(at, n, n)
                assert piece, f"{log.name} byte {at}: the file was truncated"
                out.write(piece)
                at += len(piece)


def told_of(made: Rearranged) -> Iterator[tuple[Salvaged, list[Hole]]]:
    """The result for each log: its counts, and the byte ranges that are not in the segments."""
    parts = (part for _, parts in made.arranged.segments for part in parts)
    placed = merged(
        range_
        for part in parts
        if part.log < len(made.scanned)
        for range_ in made.scanned[part.log].held.offsets_in(part.position, part.size)
    )
    for number in range(len(made.scanned)):
        done, holes = _of_log(made, number)
        yield done, [_without_placed(hole, placed) for hole in holes]


def _of_log(made: Rearranged, number: int) -> tuple[Salvaged, list[Hole]]:
    """The result for a log, whose holes miss offsets even if other logs have them."""
    one = made.scanned[number]
    bases = (part.held.base_offset for part in made.scanned)
    until = min((base for base in bases if base > one.held.base_offset), default=NO_END)
    every = (part for _, parts in made.arranged.segments for part in parts)
    mine = sorted(
        (replaced for replaced in every if replaced.log == number),
        key=lambda replaced: replaced.position,
    )
    done = Salvaged(-1, bytes=one.bytes, batches=len(one.positions))
    done.batches_after = sum(around.batches for around in mine)
    done.bytes_after = sum(around.size for around in mine)
    named = sorted([*one.named, *_out_of_place(one, mine, until)])
    split = made.placed(number)
    for reencoded in split:
        done.batches_after += 1
        done.bytes_after += len(reencoded.written.data)
        done.reencoded += reencoded.records
    holes = []
    at, after = 0, one.held.base_offset - 1
    for part in mine:
        if part.position > at:
            holes.append(_hole(one, named, split, (at, part.position), (after, part.first_offset)))
        at, after = part.position + part.size, part.last_offset
    ends = one.held.position + one.held.size
    is_cut = len(ends) > 0 and int(ends.max()) < one.bytes
    # Beyond the offsets of its name, no other name tells where a log ended.
    end = None if until == NO_END or (is_cut and after >= until) else until
    if one.bytes > at:
        holes.append(_hole(one, named, split, (at, one.bytes), (after, end)))
    done.holes = len(holes)
    return done, holes


def _without_placed(hole: Hole, placed: Ranges) -> Hole:
    """A hole that misses only the offsets that no other log has."""
    if hole.first_offset is None:
        return hole
    if hole.last_offset is None:
        ends = (high for low, high in placed if low <= hole.first_offset <= high)
        return replace(hole, first_offset=next(ends, hole.first_offset - 1) + 1)
    lost = without([(hole.first_offset, hole.last_offset)], placed)
    first, last = (lost[0][0], lost[-1][1]) if lost else (None, None)
    return replace(hole, first_offset=first, last_offset=last)


def _out_of_place(one: Scanned, mine: Sequence[Neighbours], until: int) -> list[tuple[int, str]]:
    """The undamaged batches of a log that are not in the segments, with a code."""
    begins = np.array([around.position for around in mine], np.int64)
    ends = np.array([around.position + around.size for around in mine], np.int64)
    at = np.searchsorted(begins, one.held.position, side="right") - 1
    inside = (at >= 0) & (one.held.position < np.append(ends, 0)[at])
    is_beyond = one.held.last >= until
    return [
        (position, (SEGMENTS_OVERLAP if beyond else OFFSETS_BACKWARDS).name)
        for position, beyond in zip(
            one.held.position[~inside].tolist(), is_beyond[~inside].tolist(), strict=True
        )
    ]


def _hole(
    one: Scanned,
    named: Sequence[tuple[int, str]],
    split: Sequence[Reencoded],
    at: tuple[int, int],
    between: tuple[int, int | None],
) -> Hole:
    """The hole for a byte range of a log. between: the offset before it, and the next one kept."""
    begin, end = at
    batches = int(((one.positions >= begin) & (one.positions < end)).sum())
    first: int | None = between[0] + 1
    last = None if between[1] is None else between[1] - 1
    if last is not None and last < between[0] + 1:
        first = last = None
    codes = tuple(sorted({code for place, code in named if begin <= place < end}))
    records = sum(part.records for part in split if begin <= part.position < end)
    return Hole(begin, end - begin, batches, first, last, records, codes)
