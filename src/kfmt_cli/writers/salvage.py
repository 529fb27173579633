"""The undamaged batches of a log, byte for byte, and the holes between them.

A batch is taken if nothing is wrong with its header, its checksum and each of its records, and if
its offsets go on from those before it and stay below the next segment. The checksum of magic 2 does
not cover the base offset: where offsets do not increase, it is the batch that its neighbours
contradict that goes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.checks.log import codes
from kfmt_cli.checks.log.opened import open_checked
from kfmt_cli.checks.log.verify import Stretch
from kfmt_cli.checks.partition.codes import SEGMENTS_OVERLAP
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.finding import Finding, Findings, Severity, Tally
from kfmt_cli.core.layout import IntArray
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.core.table import BoolArray
from kfmt_cli.files.block import Block, runs
from kfmt_cli.files.decompress import decompress_ahead, is_heavy
from kfmt_cli.files.kinds.kind import Input

LOOK_AHEAD = 8  # batches that are asked whether one that jumps forward is right
NO_END = (1 << 63) - 1  # where no segment follows


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes that are left out.

    batches: whose headers could be read. first_offset, last_offset: those that are missing with
    them; both None where the offsets on the two sides follow on each other, last_offset None where
    nothing comes behind. codes: of what was found there.
    """

    position: int
    size: int
    batches: int
    first_offset: int | None
    last_offset: int | None
    codes: tuple[str, ...]


@dataclass(slots=True)
class Salvaged(Tally):
    """What came of a log. last_offset: of the batches that were kept, here or in logs before."""

    last_offset: int
    bytes: int = 0
    bytes_after: int = 0
    batches: int = 0
    batches_after: int = 0
    holes: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0
    findings: Findings = field(default_factory=Findings)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A run of batches, looked at.

    sound: which are undamaged by themselves. beyond: which reach into the next segment.
    """

    run: Block
    stretch: Stretch
    sound: BoolArray
    beyond: BoolArray

    @property
    def firsts(self) -> list[int]:
        """The base offsets of its first batches that may be kept."""
        rows = np.flatnonzero(self.sound & ~self.beyond)[:LOOK_AHEAD]
        bases: list[int] = self.run.batches["base_offset"][rows].tolist()
        return bases

    def reasons(self, misplaced: IntArray) -> list[tuple[int, str]]:
        """Why sound batches are left out, by position. misplaced: those out of sequence."""
        beyond = np.flatnonzero(self.sound & self.beyond)
        named = ((beyond, SEGMENTS_OVERLAP), (misplaced, codes.OFFSETS_BACKWARDS))
        position = self.run.batches["position"]
        return [(at, code.name) for rows, code in named for at in position[rows].tolist()]


@dataclass(slots=True)
class Salvager:
    """Goes over the logs of one partition in their order.

    put: is given the bytes of batches that are kept. hole: is told of what is left out.
    """

    limit: Limit
    jobs: int
    put: Callable[[memoryview], None]
    hole: Callable[[Hole], None]

    def salvage(
        self, log: Input, before: int, until: int, advance: Callable[[int], None]
    ) -> Salvaged:
        """One log; raises InputError.

        before: the last offset that was kept of the logs before it. until: where the next segment
        that holds anything begins, `NO_END` where there is none.
        """
        base = log.base_offset
        assert base is not None
        done = Salvaged(max(before, base - 1))
        holes = _Holes(done, self.hole)
        with open_checked(log, read_ahead=False) as opened:
            total = Stretch(True, self.limit, base)

            def look(run: Block) -> _Piece:
                stretch = Stretch(True, self.limit, base)
                stretch.take(run)
                beyond = run.batches["last_offset"] >= until
                return _Piece(run, stretch, _sound(run, stretch.findings), beyond)

            workers = self.jobs if opened.is_large else 0
            ahead = self._ahead(opened.blocks, advance)
            for piece, following in _with_next(map_ordered(look, ahead, workers, is_heavy)):
                found = total.join(piece.stretch)
                done.count(found)
                done.findings.take(found)
                self._piece(piece, following, done, holes, found)
            done.bytes = opened.reader.bytes_read
            holes.close(done.bytes, None if until == NO_END else until)
        return done

    def _ahead(self, blocks: Iterator[Block], advance: Callable[[int], None]) -> Iterator[Block]:
        for block in blocks:
            advance(len(block.data))
            for part in decompress_ahead(block, self.limit):
                yield from runs(part)

    def _piece(
        self,
        piece: _Piece,
        following: list[int],
        done: Salvaged,
        holes: _Holes,
        found: list[Finding],
    ) -> None:
        """Keep what is sound and in its place."""
        batches = piece.run.batches
        rows = np.flatnonzero(piece.sound & ~piece.beyond)
        base, last = batches["base_offset"][rows], batches["last_offset"][rows]
        taken = in_sequence(base, last, done.last_offset, following)
        holes.seen(found, piece.reasons(rows[~taken]))
        rows = rows[taken]
        position, size = batches["position"][rows], batches["size"][rows]
        # What is kept lies in stretches without a hole.
        begins = np.flatnonzero(np.diff(position) != size[:-1]) + 1
        next_ = 0
        for part in np.split(rows, begins) if len(rows) else ():
            first, final = int(part[0]), int(part[-1])
            start, end = int(batches["start"][first]), int(batches["end"][final])
            at = int(batches["position"][first])
            holes.batches += first - next_
            holes.close(at, int(batches["base_offset"][first]))
            self.put(memoryview(piece.run.data)[start:end])
            done.batches_after += len(part)
            done.bytes_after += end - start
            done.last_offset = int(batches["last_offset"][final])
            holes.position, holes.batches, next_ = at + end - start, 0, final + 1
        holes.batches += len(batches) - next_
        done.batches += len(batches)


@dataclass(slots=True)
class _Holes:
    """What has been left out since the last batch that was kept. batches: with a header.

    named: why, of what was taken before; reasons: in what was taken last, by position.
    """

    done: Salvaged
    tell: Callable[[Hole], None]
    position: int = 0
    batches: int = 0
    named: set[str] = field(default_factory=set)
    reasons: deque[tuple[int, str]] = field(default_factory=deque)

    def seen(self, findings: list[Finding], left_out: list[tuple[int, str]]) -> None:
        """Why something is left out in what is taken next: errors, and what is said beside them."""
        self.named.update(code for _, code in self.reasons)
        errors = [it for it in findings if it.code.severity is Severity.ERROR]
        mine = [(it.position or 0, it.code.name) for it in errors]
        self.reasons = deque(sorted([*mine, *left_out]))

    def close(self, position: int, next_offset: int | None) -> None:
        """A batch that is kept begins here, or the file ends."""
        while self.reasons and self.reasons[0][0] < position:
            at, code = self.reasons.popleft()
            if at >= self.position:
                self.named.add(code)
        if position > self.position:
            first: int | None = self.done.last_offset + 1
            last = None if next_offset is None else next_offset - 1
            if last is not None and first is not None and first > last:
                first = last = None
            named = tuple(sorted(self.named))
            size = position - self.position
            self.done.holes += 1
            self.tell(Hole(self.position, size, self.batches, first, last, named))
        self.named.clear()


def _sound(run: Block, findings: list[Finding]) -> BoolArray:
    """The batches that nothing is wrong with but, perhaps, their order."""
    batches = run.batches
    sound: BoolArray = batches["crc_valid"] == 1
    if not len(batches):
        return sound
    sound &= batches["last_offset"] >= batches["base_offset"]
    wrong = [
        it.position or 0
        for it in findings
        if it.code.severity is Severity.ERROR and it.code is not codes.OFFSETS_BACKWARDS
    ]
    if wrong:
        at = np.array(wrong)
        owner = np.searchsorted(batches["position"], at, side="right") - 1
        inside = (owner >= 0) & (at < (batches["position"] + batches["size"])[owner])
        sound[owner[inside]] = False
    return sound


def in_sequence(base: IntArray, last: IntArray, before: int, following: list[int]) -> BoolArray:
    """Which of some batches go on from the offset before them.

    One that jumps forward is left out if most of those behind it go on from the one before it.
    following: base offsets that come behind all of them.
    """
    taken = np.ones(len(base), np.bool_)
    if not len(base):
        return taken
    if (base > np.append(before, last[:-1])).all() and (not following or following[0] > last[-1]):
        return taken
    bases = [*base.tolist(), *following]
    for i, (first, end) in enumerate(zip(base.tolist(), last.tolist(), strict=True)):
        behind = [it for it in bases[i + 1 : i + 1 + LOOK_AHEAD] if it > before]
        contradict = sum(it <= end for it in behind)
        if first <= before or 2 * contradict > len(behind):
            taken[i] = False
        else:
            before = end
    return taken


def _with_next(pieces: Iterator[_Piece]) -> Iterator[tuple[_Piece, list[int]]]:
    """Each piece with the base offsets of the sound batches behind it."""
    held: _Piece | None = None
    for piece in pieces:
        if held is not None:
            yield held, piece.firsts
        held = piece
    if held is not None:
        yield held, []


def has_sound(log: Input) -> bool:
    """Whether any batch of a log seems undamaged; raises InputError."""
    with open_checked(log, read_ahead=False) as opened:
        return any(_sound(block, block.findings).any() for block in opened.blocks)
