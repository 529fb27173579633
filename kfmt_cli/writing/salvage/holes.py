"""The holes in a salvaged log, and the choice of the remains of damaged batches that fill them.

Remains are kept if their offsets continue the previous ones. A damaged batch may state any offset:
if offsets do not increase, the batch that its neighbours contradict is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.wire import Buffer
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.findings.finding import Finding, is_error
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.writing.convert.reencode import Producer, Reencoded

MOST_HELD = 8 << 20  # bytes of split batches that wait for the next batches
LOOK_AHEAD = 256  # batches examined to judge one that jumps forward
NO_END = (1 << 63) - 1  # if no segment follows
Put = Callable[[Buffer], None]


@dataclass(frozen=True, slots=True)
class Hole:
    """A dropped byte range."""

    position: int
    size: int
    batches: int
    """Batches in it with a readable header."""
    first_offset: int | None
    """The first missing offset; None if no offset is missing."""
    last_offset: int | None
    """The last missing offset; None if none is missing, or if nothing follows."""
    reencoded: int
    """Records with these offsets that were kept."""
    codes: tuple[str, ...]
    """The codes of the findings in it."""


@dataclass(slots=True)
class Salvaged:
    """The result for one log."""

    last_offset: int
    """The last offset of the batches kept, here or in earlier logs."""
    bytes: int = 0
    bytes_after: int = 0
    batches: int = 0
    batches_after: int = 0
    holes: int = 0
    reencoded: int = 0
    """Records kept from damaged batches."""


@dataclass(slots=True)
class Holes:
    """The bytes dropped since the last batch kept."""

    done: Salvaged
    tell: Callable[[Hole], None]
    put: Put
    until: int
    producers: set[Producer]
    """The producers of transactions in the batches kept."""
    position: int = 0
    batches: int = 0
    """Dropped batches with a header."""
    records: int = 0
    """Records written."""
    named: set[str] = field(default_factory=set)
    """Finding codes from earlier pieces."""
    reasons: deque[tuple[int, str]] = field(default_factory=deque)
    """Position and finding code, in the last piece."""
    split: deque[Reencoded] = field(default_factory=deque)
    """The remains of damaged batches, written once the next batches are known."""
    after: int = field(init=False)
    """The last offset before them."""

    def __post_init__(self) -> None:
        self.after = self.done.last_offset

    def seen(
        self, findings: list[Finding], left_out: list[tuple[int, str]], split: list[Reencoded]
    ) -> None:
        """Note the next piece: its errors, its undamaged batches that are dropped, and remains."""
        self.named.update(code for _, code in self.reasons)
        errors = filter(is_error, findings)
        mine = ((error.position or 0, error.code.name) for error in errors)
        self.reasons = deque(sorted([*mine, *left_out]))
        if sum(len(part.written.data) for part in self.split) > MOST_HELD:
            rest = list(self.split)[len(self.split) // 2 :]
            self._write(rest[0].position, self.until, [reencoded.base_offset for reencoded in rest])
        self.split.extend(split)

    def close(self, position: int, next_offset: int | None) -> None:
        """End the hole, at a batch that is kept or at the end of the file."""
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
        """Write the remains of batches before a position, if they have a place."""
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
    """The offset ranges of a partition that no batch contains, both ends included."""

    end: int
    """The last offset so far; initially the one before the first."""
    found: list[tuple[int, int]] = field(default_factory=list)

    def take(self, batches: BatchTable) -> None:
        """Process the next batches; the base offset of an older wrapper is unknown."""
        base, last = batches.base_offset, batches.last_offset
        before = np.append(np.int64(self.end), last[:-1])
        known = (batches.has_base_offset == 1) | (batches.is_v2 == 1)
        for i in np.flatnonzero(known & (base > before + 1)).tolist():
            self.found.append((int(before[i]) + 1, int(base[i]) - 1))
        self.end = int(last[-1])


def in_sequence(base: IntArray, last: IntArray, before: int, following: list[int]) -> BoolArray:
    """The mask of the batches that continue the offset before them.

    A batch that jumps forward is dropped if most of those after it continue the previous one.
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
