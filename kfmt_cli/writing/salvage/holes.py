"""What is left out of a log, and which of its batches have their place in it.

A batch is kept if its offsets continue from those before it. The checksum of magic 2 does not cover
the base offset: where offsets do not increase, it is the batch that its neighbours contradict that
goes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.wire import Buffer
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.findings.finding import Finding, Severity
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.writing.convert.reencode import Producer, Reencoded

MOST_HELD = 8 << 20  # bytes of split batches that wait for what comes after them
LOOK_AHEAD = 256  # batches that are asked whether one that jumps forward is right
NO_END = (1 << 63) - 1  # where no segment follows
Put = Callable[[Buffer], None]


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes that are left out."""

    position: int
    size: int
    batches: int
    """Batches in it whose headers could be read."""
    first_offset: int | None
    """The first offset that is missing; None where both sides follow on each other."""
    last_offset: int | None
    """The last of them; None where none is missing, and where nothing comes after."""
    records: int
    """Records with these offsets that were kept nevertheless."""
    codes: tuple[str, ...]
    """The codes of what was found there."""


@dataclass(slots=True)
class Salvaged:
    """What came of a log."""

    last_offset: int
    """Of the batches that were kept, here or in logs before."""
    bytes: int = 0
    bytes_after: int = 0
    batches: int = 0
    batches_after: int = 0
    holes: int = 0
    reencoded: int = 0
    """Records of damaged batches."""


@dataclass(slots=True)
class Holes:
    """What has been left out since the last batch that was kept."""

    done: Salvaged
    tell: Callable[[Hole], None]
    put: Put
    until: int
    producers: set[Producer]
    """Of the transactions in what was kept."""
    position: int = 0
    batches: int = 0
    """With a header."""
    records: int = 0
    """Those written."""
    named: set[str] = field(default_factory=set)
    """Why, of what was taken before."""
    reasons: deque[tuple[int, str]] = field(default_factory=deque)
    """In what was taken last, by position."""
    split: deque[Reencoded] = field(default_factory=deque)
    """What is left of damaged batches, which is written when it is known what comes after."""
    after: int = field(init=False)
    """The last offset before them."""

    def __post_init__(self) -> None:
        self.after = self.done.last_offset

    def seen(
        self, findings: list[Finding], left_out: list[tuple[int, str]], split: list[Reencoded]
    ) -> None:
        """What is wrong in what is taken next: errors, what is said next to them, what is left."""
        self.named.update(code for _, code in self.reasons)
        errors = [finding for finding in findings if finding.code.severity is Severity.ERROR]
        mine = [(error.position or 0, error.code.name) for error in errors]
        self.reasons = deque(sorted([*mine, *left_out]))
        if sum(len(part.written.data) for part in self.split) > MOST_HELD:
            rest = list(self.split)[len(self.split) // 2 :]
            self._write(rest[0].position, self.until, [reencoded.base_offset for reencoded in rest])
        self.split.extend(split)

    def close(self, position: int, next_offset: int | None) -> None:
        """A batch that is kept begins here, or the file ends."""
        while self.reasons and self.reasons[0][0] < position:
            at, code = self.reasons.popleft()
            if at >= self.position:
                self.named.add(code)
        if position > self.position:
            self._write(position, self.until if next_offset is None else next_offset, [])
            first: int | None = self.after + 1
            last = None if next_offset is None else next_offset - 1
            if last is not None and first is not None and first > last:
                first = last = None
            size = position - self.position
            self.done.holes += 1
            offsets = first, last
            named = tuple(sorted(self.named))
            self.tell(Hole(self.position, size, self.batches, *offsets, self.records, named))
        self.named.clear()
        self.records = 0

    def _write(self, position: int, until: int, following: list[int]) -> None:
        """Write what is left of the batches before a byte, if it has a place."""
        found = []
        while self.split and self.split[0].position < position:
            batch = self.split.popleft()
            known = batch.producer is None or batch.producer in self.producers
            if known and batch.last_offset < until:
                found.append(batch)
        base = np.array([reencoded.base_offset for reencoded in found], np.int64)
        last = np.array([reencoded.last_offset for reencoded in found], np.int64)
        taken = in_sequence(base, last, self.done.last_offset, following)
        for i in np.flatnonzero(taken).tolist():
            self.put(found[i].written.data)
            self.done.batches_after += 1
            self.done.bytes_after += len(found[i].written.data)
            self.done.reencoded += found[i].records
            self.done.last_offset = found[i].last_offset
            self.records += found[i].records


@dataclass(slots=True)
class Gaps:
    """The offsets of a partition that none of its batches has, from..to."""

    end: int
    """Before the first."""
    found: list[tuple[int, int]] = field(default_factory=list)

    def take(self, batches: BatchTable) -> None:
        """The next batches; where an older wrapper begins is not known."""
        base, last = batches.base_offset, batches.last_offset
        before = np.append(np.int64(self.end), last[:-1])
        known = (batches.has_base_offset == 1) | (batches.is_v2 == 1)
        for i in np.flatnonzero(known & (base > before + 1)).tolist():
            self.found.append((int(before[i]) + 1, int(base[i]) - 1))
        self.end = int(last[-1])


def in_sequence(base: IntArray, last: IntArray, before: int, following: list[int]) -> BoolArray:
    """Which of some batches continue from the offset before them.

    One that jumps forward is left out if most of those after it continue from the one before it.
    following: base offsets that come after all of them.
    """
    taken = np.ones(len(base), np.bool_)
    if not len(base):
        return taken
    if (base > np.append(before, last[:-1])).all() and (not following or following[0] > last[-1]):
        return taken
    bases = np.append(base, np.array(following, np.int64))
    lowest = np.append(np.minimum.accumulate(bases[::-1])[::-1][1:], NO_END)
    for i, (first, end) in enumerate(zip(base.tolist(), last.tolist(), strict=True)):
        if first <= before:
            taken[i] = False
            continue
        if lowest[i] <= end:
            later = bases[i + 1 : i + 1 + LOOK_AHEAD]
            later = later[later > before]
            if 2 * int((later <= end).sum()) > len(later):
                taken[i] = False
                continue
        before = end
    return taken
