"""Copies the undamaged batches of a log, byte for byte, and reports the holes between them.

A batch is kept if its header, its checksum and each of its records are undamaged, and if its
offsets are below the next segment's. Logs whose undamaged batches are not in order are arranged
instead (`arrange.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.checks.log.verifier import Stretch, open_checked
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.core.readable_source import Lost
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.findings import log as codes
from kfmt_cli.findings.damage import BATCH_TRUNCATED, GARBAGE
from kfmt_cli.findings.finding import Finding, is_error
from kfmt_cli.findings.partition import SEGMENTS_OVERLAP
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.log.block import HEADER_SIZE, Block, runs
from kfmt_cli.log.decoding import placed_runs
from kfmt_cli.log.decompress import decompress_ahead, is_heavy
from kfmt_cli.log.open_log import OpenLog
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.writing.convert.reencode import Producer, Reencoded, reencoded
from kfmt_cli.writing.salvage.arrange import HeldBatches
from kfmt_cli.writing.salvage.holes import NO_END, Hole, Holes, Put, Salvaged
from kfmt_cli.writing.salvage.lost import LostParts

# Codes for a batch that may be undamaged, but misplaced.
_OF_PLACES = (codes.OFFSETS_BACKWARDS, codes.OFFSET_OUT_OF_SEGMENT)
# Codes for bytes that are no whole batch; their findings have the number.
_OF_SIZES = (GARBAGE, BATCH_TRUNCATED)
MOST_CUT = 64 << 20  # bytes of a batch that the end of the file cuts
_HELD = (
    *("position", "size", "base_offset", "last_offset", "crc"),
    "partition_leader_epoch",
)


@dataclass(frozen=True, slots=True)
class _SalvagedPiece:
    """A checked run of batches."""

    run: Block
    stretch: Stretch
    sound: BoolArray
    """The mask of batches that are undamaged by themselves."""
    split: list[Reencoded]
    """The remains of the others."""


@dataclass(slots=True)
class Scanned:
    """A scanned log."""

    log: Input
    held: HeldBatches
    """Its undamaged batches."""
    bytes: int
    positions: IntArray
    """The position of every batch with a header."""
    named: list[tuple[int, str]]
    """Why other batches are damaged, by position."""
    split: list[Reencoded]
    producers: set[Producer]
    """The producers of transactions in the undamaged batches."""


@dataclass(slots=True)
class Salvager:
    """Processes the logs of one partition, in order."""

    limit: Limit
    jobs: int
    split: bool = False
    """Whether to keep the readable records of damaged batches."""
    lost: LostParts = field(default_factory=LostParts)
    """The bytes that cannot be read."""
    last_offset: int = -1
    """The last offset of the batches kept."""
    producers: set[Producer] = field(default_factory=set)
    """The producers of transactions in them, by id and epoch."""

    def scan(
        self,
        log: Input,
        base: int,
        replaces: bool,
        found: Callable[[list[Finding]], None],
        advance: Callable[[int], None],
    ) -> Scanned:
        """Scan a log without writing; raises InputError. base: its segment's base offset."""
        tables: list[IntArray] = []
        positions: list[IntArray] = []
        named: list[tuple[int, str]] = []
        split: list[Reencoded] = []
        producers: set[Producer] = set()
        with open_checked(log, read_ahead=False, around=self.lost.around) as opened:
            total = Stretch(True, self.limit, base)
            for piece in self._pieces(log, opened, base, advance):
                findings = self._of_bytes(log, piece.run, total.join(piece.stretch))
                found(findings)
                errors = filter(is_error, findings)
                named += ((error.position or 0, error.code.name) for error in errors)
                split += piece.split
                batches = piece.run.batches
                rows = np.flatnonzero(piece.sound)
                tables.append(np.array([batches[column][rows] for column in _HELD]))
                positions.append(batches.position.copy())
                producers |= _transactional(batches, rows)
            size = opened.reader.bytes_read
        columns = np.concatenate([np.empty((len(_HELD), 0), np.int64), *tables], axis=1)
        order = np.argsort(columns[0], kind="stable")
        position, batch_size, first, last, crc, epoch = columns[:, order]
        held = HeldBatches(base, position, batch_size, first, last, crc, epoch, replaces)
        places = np.concatenate([np.empty(0, np.int64), *positions])
        return Scanned(log, held, size, places, named, split, producers)

    def _pieces(
        self, log: Input, opened: OpenLog, base: int, advance: Callable[[int], None]
    ) -> Iterator[_SalvagedPiece]:
        """Check the runs of a log's batches, on several threads."""

        def look(run: Block) -> _SalvagedPiece:
            stretch = Stretch(True, self.limit, base)
            stretch.take(run)
            sound = _sound(run, stretch.findings, self.lost.of(log))
            split: list[Reencoded] = []
            if self.split:
                made = self._remains(log, opened, run, sound, stretch.findings)
                split = [each for each in made if each is not None and _fits(each, base)]
            return _SalvagedPiece(run, stretch, sound, split)

        workers = self.jobs if opened.is_large else 0
        yield from map_ordered(look, self._ahead(opened.blocks, advance), workers, is_heavy)

    def salvage(
        self,
        log: Input,
        until: int,
        put: Put,
        tell: Callable[[Hole], None],
        found: Callable[[list[Finding]], None] = lambda _: None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Salvaged:
        """Salvage the next log, in which the offsets of undamaged batches increase; raises
        InputError.

        until: the base offset of the next segment with content, `NO_END` without one. put: receives
        the bytes of the batches kept. tell: receives each hole. found: receives the findings.
        """
        base = log.base_offset
        assert base is not None
        done = Salvaged(max(self.last_offset, base - 1))
        holes = Holes(done, tell, put, until, self.producers)
        with open_checked(log, read_ahead=False, around=self.lost.around) as opened:
            total = Stretch(True, self.limit, base)
            for piece in self._pieces(log, opened, base, advance):
                findings = self._of_bytes(log, piece.run, total.join(piece.stretch))
                found(findings)
                self._piece(piece, holes, findings)
            done.bytes = opened.reader.bytes_read
            holes.close(done.bytes, None if until == NO_END else until)
        self.last_offset = done.last_offset
        return done

    def _of_bytes(self, log: Input, run: Block, findings: list[Finding]) -> list[Finding]:
        """Leave out findings about filler."""
        lost = self.lost.of(log)
        if not lost.ranges:
            return findings
        batches = run.batches
        told = []
        for finding in findings:
            at = finding.position or 0
            i = int(np.searchsorted(batches.position, at, side="right")) - 1
            first, size = at, HEADER_SIZE
            if finding.code in _OF_SIZES and isinstance(finding.found, int):
                size = finding.found
            elif i >= 0 and at < batches.position[i] + batches.size[i]:
                first, size = int(batches.position[i]), int(batches.size[i])
            if lost.first_in(first, size) is None:
                told.append(finding)
        return told

    def _remains(
        self, log: Input, opened: OpenLog, run: Block, sound: BoolArray, findings: list[Finding]
    ) -> Iterator[Reencoded | None]:
        """What is left of the damaged batches of a run, and of one that the end of the file cuts;
        of one with lost bytes, what is before them."""
        batches, lost = run.batches, self.lost.of(log)
        for i in np.flatnonzero(~sound).tolist():
            at, size = int(batches.position[i]), int(batches.size[i])
            end = lost.first_in(at, size)
            if end is None:
                yield reencoded(run, i, self.limit, findings)
            else:
                yield self._start_of(opened, at, end - at, findings)
        if opened.size is None:
            return
        cut = [finding for finding in run.findings if finding.code is BATCH_TRUNCATED]
        for finding in cut:
            position, left = finding.position, finding.found
            if position is not None and isinstance(left, int):
                end = lost.first_in(position, left)
                size = left if end is None else end - position
                yield self._start_of(opened, position, size, cut)

    def _start_of(
        self, opened: OpenLog, position: int, size: int, findings: list[Finding]
    ) -> Reencoded | None:
        """The records in the first bytes of a batch."""
        block = opened.reader.cut_short(position, min(size, MOST_CUT))
        return None if block is None else reencoded(block, 0, self.limit, findings)

    def _ahead(self, blocks: Iterator[Block], advance: Callable[[int], None]) -> Iterator[Block]:
        for block in blocks:
            advance(len(block.data))
            for part in decompress_ahead(block, self.limit):
                yield from runs(part)

    def _piece(self, piece: _SalvagedPiece, holes: Holes, findings: list[Finding]) -> None:
        """Copy the undamaged batches that have a place. The remains of damaged ones may have taken
        it."""
        batches, done = piece.run.batches, holes.done
        beyond = batches.last_offset >= holes.until
        early = ~beyond & (batches.base_offset <= done.last_offset)
        left_out = [
            (at, code.name)
            for rows, code in ((beyond, SEGMENTS_OVERLAP), (early, codes.OFFSETS_BACKWARDS))
            for at in batches.position[piece.sound & rows].tolist()
        ]
        holes.seen(findings, left_out, piece.split)
        rows = np.flatnonzero(piece.sound & ~beyond & ~early)
        position, size = batches.position[rows], batches.size[rows]
        # Copy contiguous batches together.
        begins = np.flatnonzero(np.diff(position) != size[:-1]) + 1
        next_ = 0
        for part in np.split(rows, begins) if len(rows) else ():
            first, final = int(part[0]), int(part[-1])
            start, end = int(batches.start[first]), int(batches.end[final])
            at = int(batches.position[first])
            holes.batches += first - next_
            holes.close(at, int(batches.base_offset[first]))
            holes.put(memoryview(piece.run.data)[start:end])
            done.batches_after += len(part)
            done.bytes_after += end - start
            done.last_offset = int(batches.last_offset[final])
            self.producers |= _transactional(batches, part)
            holes.position, holes.batches, next_ = at + end - start, 0, final + 1
            holes.after = done.last_offset
        holes.batches += len(batches) - next_
        done.batches += len(batches)


def _fits(made: Reencoded, base: int) -> bool:
    """Whether offsets have a place in a segment."""
    return made.last_offset - base <= MAX_RELATIVE_OFFSET


def _transactional(batches: BatchTable, rows: IntArray) -> set[Producer]:
    """The producers of transactions among some batches."""
    rows = rows[(batches.transactional[rows] == 1) & (batches.is_v2[rows] == 1)]
    both = np.unique(
        np.array([batches[name][rows] for name in ("producer_id", "producer_epoch")]), axis=1
    )
    return {(int(id_), int(epoch)) for id_, epoch in both.T}


def _sound(run: Block, findings: list[Finding], lost: Lost) -> BoolArray:
    """The mask of batches without errors, except in their order, and without lost bytes: the
    checksum does not cover the base offset."""
    batches = run.batches
    sound: BoolArray = batches.crc_valid == 1
    if not len(batches):
        return sound
    sound &= batches.last_offset >= batches.base_offset
    ends = batches.position + batches.size
    wrong = [
        error.position or 0 for error in filter(is_error, findings) if error.code not in _OF_PLACES
    ]
    if wrong:
        at = np.array(wrong)
        owner = np.searchsorted(batches.position, at, side="right") - 1
        inside = (owner >= 0) & (at < ends[owner])
        sound[owner[inside]] = False
    for each in lost.after(int(batches.position[0])):
        if each.first >= ends[-1]:
            break
        sound[(batches.position < each.end) & (ends > each.first)] = False
    return sound


@dataclass(frozen=True, slots=True)
class LogExtent:
    """The offset range of the undamaged batches of a log."""

    first: int
    last: int
    is_ordered: bool
    """Whether their offsets increase."""


def extent_of(log: Input, limit: Limit, lost: LostParts) -> LogExtent | None:
    """The offset range of the undamaged batches of a log, None without any; raises InputError."""
    first, last, end, is_ordered = NO_END, -1, -NO_END, True
    with open_checked(log, read_ahead=True, around=lost.around) as opened:
        for run in (run for block in opened.blocks for run in placed_runs(block, limit)):
            rows = np.flatnonzero(_sound(run, run.findings, lost.of(log)))
            if len(rows):
                bases, ends = (run.batches[name][rows] for name in ("base_offset", "last_offset"))
                is_ordered &= bool((bases > np.append(end, ends[:-1])).all())
                first, last = min(first, int(bases.min())), max(last, int(ends.max()))
                end = int(ends[-1])
    return None if first == NO_END else LogExtent(first, last, is_ordered)
