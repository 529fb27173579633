"""Which place each undamaged batch of a partition has, when its logs contradict each other.

Nothing undamaged is dropped. The offsets of a batch decide where it belongs, in whichever file it
lies: names of files may have been exchanged, batches moved, segments copied. Equal copies are kept
once. Where two batches claim the same offsets, or where the place of a batch in its file says that
its base offset is wrong (the checksum of magic 2 does not cover it), one of them is set aside.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET

END = (1 << 63) - 1
MOST_BYTES = (1 << 31) - 1  # of a segment


@dataclass(frozen=True, slots=True)
class HeldBatches:
    """The undamaged batches of a log by their position, an entry each."""

    base_offset: int
    """Of the file's name."""
    position: IntArray
    size: IntArray
    base: IntArray
    last: IntArray
    crc: IntArray
    replaces: bool = False
    """It is a finished copy that a broker puts in the place of others."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Batches that lie side by side in a log."""

    log: int
    """Its number."""
    position: int
    size: int
    first_offset: int
    last_offset: int
    batches: int


@dataclass(slots=True)
class Arranged:
    """Segments by their base offsets, in order; and lanes of what is set aside, each in the order
    of its offsets."""

    segments: list[tuple[int, list[Neighbours]]] = field(default_factory=list)
    aside: list[list[Neighbours]] = field(default_factory=list)
    copies: int = 0
    """Equal ones that are left out."""


def arrange(logs: Sequence[HeldBatches], spare: HeldBatches | None = None) -> Arranged:
    """The places of the batches of a partition's logs. spare: batches that are only to fill what is
    left free; as a log they have the number after all others."""
    rows = _NeighbourRows(logs)
    done = Arranged()
    taken = _Taken()
    # What a swap had finished comes first, then what lies where its file's name says, then what
    # belongs to no other file, then what lies out of order.
    in_chain = [_chain(log, *rows.bounds[i]) for i, log in enumerate(logs)]
    inside = [_inside(log, *rows.bounds[i]) for i, log in enumerate(logs)]
    misnamed = [not (chain & mine).any() for chain, mine in zip(in_chain, inside, strict=True)]
    waiting: list[tuple[int, IntArray]] = []
    for i, log in enumerate(logs):
        if log.replaces:
            waiting.append((i, np.flatnonzero(in_chain[i])))
    for i, log in enumerate(logs):
        if not log.replaces:
            waiting.append((i, np.flatnonzero(in_chain[i] & inside[i])))
    for i, log in enumerate(logs):
        if misnamed[i] and not log.replaces:
            waiting.append((i, np.flatnonzero(in_chain[i])))
    refused: list[tuple[int, int]] = []
    for i, chosen in waiting:
        refused += ((i, row) for row in taken.add(i, logs[i], chosen))
    for i, log in enumerate(logs):
        if not log.replaces and not misnamed[i]:
            refused += _beyond(taken, i, log, in_chain[i] & ~inside[i])
    for i, log in enumerate(logs):
        refused += _moved(taken, i, log, in_chain[i], rows.bounds[i])
    if spare is not None:
        taken.add(len(logs), spare, np.arange(len(spare.base)))
    every = [*logs, *([] if spare is None else [spare])]
    done.segments = _segments(every, taken, rows.bases)
    aside = [place for place in refused if not taken.has_copy(logs[place[0]], place[1])]
    done.copies = len(refused) - len(aside)
    done.aside = _lanes(logs, aside)
    return done


class _NeighbourRows:
    """What the names of the logs say. bounds: the first offset of each, and that of the next."""

    def __init__(self, logs: Sequence[HeldBatches]) -> None:
        self.bases = sorted({log.base_offset for log in logs if len(log.base) and not log.replaces})
        self.bounds = []
        for log in logs:
            later = [base for base in self.bases if base > log.base_offset]
            end = END if log.replaces or not later else later[0]
            self.bounds.append((log.base_offset, end))


def _inside(log: HeldBatches, first: int, end: int) -> BoolArray:
    found: BoolArray = (log.base >= first) & (log.last < end)
    return found


def _chain(log: HeldBatches, first: int, end: int) -> BoolArray:
    """The most batches whose offsets increase; of several such choices, the one in which more of
    them continue where the one before ends, and more lie within the bounds."""
    n = len(log.base)
    chosen = np.ones(n, np.bool_)
    if n < 2 or bool((log.base[1:] > log.last[:-1]).all()):
        return chosen
    weights = np.where(_inside(log, first, end), 4 * n + 1, 4 * n).tolist()
    bases, lasts = log.base.tolist(), log.last.tolist()
    ends = sorted(set(lasts))
    # The best sum up to an end; less that end, and less the batch that it ends with, so that of
    # equal ones the lower and then the earlier counts.
    tree: list[_Best] = [_NONE] * (len(ends) + 1)
    at_end: dict[int, _Best] = {first - 1: _NONE}
    before = [-1] * n
    for i, (base, last, weight) in enumerate(zip(bases, lasts, weights, strict=True)):
        best = _best(tree, bisect_left(ends, base))
        joined = at_end.get(base - 1)
        if joined is not None and joined[0] + 2 > best[0]:
            best = joined[0] + 2, *joined[1:]
        before[i] = -best[2] - 1
        value = best[0] + weight, -last, -i - 1
        _raise(tree, bisect_left(ends, last) + 1, value)
        if value > at_end.get(last, _NONE):
            at_end[last] = value
    chosen[:] = False
    row = -_best(tree, len(ends))[2] - 1
    while row >= 0:
        chosen[row] = True
        row = before[row]
    return chosen


_Best = tuple[int, int, int]
_NONE: _Best = (0, 0, 0)


def _best(tree: list[_Best], at: int) -> _Best:
    found = _NONE
    while at > 0:
        found = max(found, tree[at])
        at -= at & -at
    return found


def _raise(tree: list[_Best], at: int, value: _Best) -> None:
    while at < len(tree):
        tree[at] = max(tree[at], value)
        at += at & -at


class _Taken:
    """The batches that have a place, in the order of their offsets."""

    def __init__(self) -> None:
        empty = np.empty(0, np.int64)
        self.base, self.last, self.crc, self.size = empty, empty, empty, empty
        self.log, self.row = empty, empty

    def free(self, base: IntArray, last: IntArray) -> BoolArray:
        """Whether no offset of ranges is taken."""
        before = np.searchsorted(self.last, base)
        ends = np.append(self.base, END)
        found: BoolArray = ends[before] > last
        return found

    def add(self, number: int, log: HeldBatches, rows: IntArray) -> list[int]:
        """Give batches of a log their place; those that have none."""
        free = (log.base[rows] >= 0) & self.free(log.base[rows], log.last[rows])
        chosen = rows[free]
        # Of those that come together, none may overlap.
        order = np.argsort(log.base[chosen], kind="stable")
        chosen = chosen[order]
        sound = np.ones(len(chosen), np.bool_)
        if len(chosen):
            reach = np.maximum.accumulate(log.last[chosen])
            sound[1:] = log.base[chosen][1:] > reach[:-1]
        refused = [*rows[~free].tolist(), *chosen[~sound].tolist()]
        chosen = chosen[sound]
        at = np.searchsorted(self.base, log.base[chosen])
        for name in ("base", "last", "crc", "size"):
            setattr(self, name, np.insert(getattr(self, name), at, getattr(log, name)[chosen]))
        self.log = np.insert(self.log, at, number)
        self.row = np.insert(self.row, at, chosen)
        return refused

    def has_copy(self, log: HeldBatches, row: int) -> bool:
        """Whether a batch equal to this one has a place."""
        at = int(np.searchsorted(self.base, log.base[row]))
        if at == len(self.base):
            return False
        names = ("base", "last", "crc", "size")
        return all(int(getattr(self, name)[at]) == int(getattr(log, name)[row]) for name in names)

    def fits(self, base: int, last: int, first: int) -> bool:
        """Whether offsets fill the room between two batches, or before all of them from an offset
        on."""
        at = int(np.searchsorted(self.base, base))
        if at == len(self.base) or last + 1 != int(self.base[at]):
            return False
        return base == (int(self.last[at - 1]) + 1 if at else first)


def _beyond(taken: _Taken, number: int, log: HeldBatches, rows: BoolArray) -> list[tuple[int, int]]:
    """Batches in order that reach beyond their file's bounds: they are taken where they follow on
    the batch before them, or lie among others."""
    refused: list[tuple[int, int]] = []
    for row in np.flatnonzero(rows).tolist():
        base, last = int(log.base[row]), int(log.last[row])
        goes_on = row > 0 and int(log.last[row - 1]) + 1 == base
        is_among = len(taken.base) and last < int(taken.last[-1])
        refused += (
            [(number, n) for n in taken.add(number, log, np.array([row]))]
            if goes_on or is_among
            else [(number, row)]
        )
    return refused


def _moved(
    taken: _Taken, number: int, log: HeldBatches, chain: BoolArray, bounds: tuple[int, int]
) -> list[tuple[int, int]]:
    """Batches out of order: they were moved where their offsets fill a room elsewhere, or where
    there is no room for them here. Else their base offset is wrong."""
    refused = []
    kept = np.flatnonzero(chain)
    for row in np.flatnonzero(~chain).tolist():
        base, last = int(log.base[row]), int(log.last[row])
        at = int(np.searchsorted(kept, row))
        before = int(log.last[kept[at - 1]]) if at else bounds[0] - 1
        after = int(log.base[kept[at]]) if at < len(kept) else bounds[1]
        has_room = after - before - 1 > last - base
        if has_room and not taken.fits(base, last, bounds[0]):
            refused.append((number, row))
        else:
            refused += ((number, n) for n in taken.add(number, log, np.array([row])))
    return refused


def _segments(
    logs: Sequence[HeldBatches], taken: _Taken, bases: list[int]
) -> list[tuple[int, list[Neighbours]]]:
    """What has a place, cut into segments as the names of the logs were."""
    found: list[tuple[int, list[Neighbours]]] = []
    size, end, boundary = 0, -1, 0
    for part in _parts(logs, zip(taken.log.tolist(), taken.row.tolist(), strict=True), bases):
        while boundary < len(bases) and bases[boundary] <= part.first_offset:
            boundary += 1
        name = bases[boundary - 1] if boundary else part.first_offset
        begins = not found or (name > found[-1][0] and name > end)
        if not begins and part.last_offset - found[-1][0] > MAX_RELATIVE_OFFSET:
            begins, name = True, part.first_offset
        if not begins and size + part.size > MOST_BYTES:
            begins, name = True, part.first_offset
        if begins:
            if name <= end or part.last_offset - name > MAX_RELATIVE_OFFSET:
                name = part.first_offset
            found.append((name, []))
            size = 0
        found[-1][1].append(part)
        size += part.size
        end = part.last_offset
    return found


def _lanes(logs: Sequence[HeldBatches], aside: list[tuple[int, int]]) -> list[list[Neighbours]]:
    """Batches that are set aside, so that those of a lane do not overlap."""
    aside.sort(key=lambda place: int(logs[place[0]].base[place[1]]))
    lanes: list[list[tuple[int, int]]] = []
    ends: list[int] = []
    for number, row in aside:
        base, last = int(logs[number].base[row]), int(logs[number].last[row])
        lane = next((i for i, end in enumerate(ends) if end < base), len(lanes))
        if lane == len(lanes):
            lanes.append([])
            ends.append(last)
        lanes[lane].append((number, row))
        ends[lane] = last
    return [list(_parts(logs, lane, [])) for lane in lanes]


def _parts(
    logs: Sequence[HeldBatches], places: Iterable[tuple[int, int]], bases: Sequence[int]
) -> Iterable[Neighbours]:
    """Batches in their order, those side by side together; none goes over the base of a segment."""
    held: Neighbours | None = None
    borders = set(bases)
    for number, row in places:
        log = logs[number]
        position, size = int(log.position[row]), int(log.size[row])
        base, last = int(log.base[row]), int(log.last[row])
        if (
            held is not None
            and held.log == number
            and held.position + held.size == position
            and base not in borders
            and last - held.first_offset <= MAX_RELATIVE_OFFSET
            and held.size + size <= MOST_BYTES
        ):
            held = Neighbours(
                number, held.position, held.size + size, held.first_offset, last, held.batches + 1
            )
            continue
        if held is not None:
            yield held
        held = Neighbours(number, position, size, base, last, 1)
    if held is not None:
        yield held
