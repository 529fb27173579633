"""Places the undamaged batches of a partition whose logs contradict each other.

Nothing undamaged is dropped. The offsets of a batch decide its place, whichever file contains it:
file names may have been exchanged, batches moved, segments copied. Equal copies are kept once. If
two batches claim the same offsets, one of them is set aside. So is a batch whose position in its
file shows that its base offset is wrong (the checksum of magic 2 does not cover it).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kfmt_cli.broker.start.ranges import Ranges, merged
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET

END = (1 << 63) - 1
MOST_BYTES = (1 << 31) - 1  # per segment


@dataclass(frozen=True, slots=True)
class HeldBatches:
    """The undamaged batches of a log by position, one entry each."""

    base_offset: int
    """The base offset in the file's name."""
    position: IntArray
    size: IntArray
    base: IntArray
    last: IntArray
    crc: IntArray
    epoch: IntArray
    """Leader epochs, -1 if unknown."""
    replaces: bool = False
    """Whether it is a completed copy, which a broker puts in the place of other segments."""

    def within(self, low: int, end: int) -> HeldBatches:
        """Those with offsets from `low` on, and all below `end`."""
        rows = (self.last >= low) & (self.last < end)
        names = ("position", "size", "base", "last", "crc", "epoch")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    @property
    def offsets(self) -> Ranges:
        """The first and last offset of each batch."""
        return list(zip(self.base.tolist(), self.last.tolist(), strict=True))

    def _rows_in(self, position: int, size: int) -> IntArray:
        """The batches in a part of the log."""
        return np.flatnonzero((self.position >= position) & (self.position < position + size))

    def offsets_in(self, position: int, size: int) -> Ranges:
        """The offsets of the batches in a part of the log."""
        rows = self._rows_in(position, size)
        return merged(zip(self.base[rows].tolist(), self.last[rows].tolist(), strict=True))

    def epochs_in(self, position: int, size: int) -> list[tuple[int, int]]:
        """The leader epochs of the batches in a part of the log, each with its first offset."""
        rows = self._rows_in(position, size)
        firsts = rows[np.diff(self.epoch[rows], prepend=-2) != 0]
        return list(zip(self.epoch[firsts].tolist(), self.base[firsts].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Contiguous batches in a log."""

    log: int
    """The index of the log."""
    position: int
    size: int
    first_offset: int
    last_offset: int
    batches: int


@dataclass(slots=True)
class Arranged:
    """Segments by base offset, and lanes of batches set aside, each in order of offsets."""

    segments: list[tuple[int, list[Neighbours]]] = field(default_factory=list)
    aside: list[list[Neighbours]] = field(default_factory=list)
    copies: int = 0
    """Equal copies, dropped."""


def arrange(logs: Sequence[HeldBatches], spare: HeldBatches | None = None) -> Arranged:
    """Place the batches of a partition's logs. spare: batches that only fill free ranges; as a log,
    they have the index after all others."""
    rows = _NeighbourRows(logs)
    done = Arranged()
    taken = _Taken()
    # First completed replacements, then batches in the range of their file's name, then misnamed
    # files, then batches beyond their range, then batches out of order.
    in_chain = [_chain(log, *rows.bounds[i]) for i, log in enumerate(logs)]
    inside = [_inside(log, *rows.bounds[i]) for i, log in enumerate(logs)]
    misnamed = [not (chain & mine).any() for chain, mine in zip(in_chain, inside, strict=True)]
    others = [i for i, log in enumerate(logs) if not log.replaces]
    waiting = [(i, in_chain[i]) for i, log in enumerate(logs) if log.replaces]
    waiting += ((i, in_chain[i] & inside[i]) for i in others)
    waiting += ((i, in_chain[i]) for i in others if misnamed[i])
    refused: list[tuple[int, int]] = []
    for i, chosen in waiting:
        refused += ((i, row) for row in taken.add(i, logs[i], np.flatnonzero(chosen)))
    for i in others:
        if not misnamed[i]:
            refused += _beyond(taken, i, logs[i], in_chain[i] & ~inside[i])
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


def arrange_replicas(
    own: Sequence[HeldBatches], others: Sequence[HeldBatches], wanted: Ranges
) -> Arranged:
    """Place the batches of one replica, and in the wanted ranges of offsets those of others that
    fit: no offset twice, and no leader epoch below that of the batch before. Segments are those of
    the replica. The logs of the others come after its own, by index. wanted: in order."""
    lows, highs = np.array([*wanted, (END, END)], np.int64).T
    rows = _NeighbourRows(own)
    taken = _Taken()
    for i, log in enumerate(own):
        taken.add(i, log, np.flatnonzero(_chain(log, *rows.bounds[i])))
    first = int(taken.base[0]) if len(taken.base) else END
    end = int(taken.last[-1]) if len(taken.base) else -1
    for i, log in enumerate(others, len(own)):
        is_wanted = lows[np.searchsorted(highs, log.base)] <= log.last
        chosen = np.flatnonzero(is_wanted & _chain(log, log.base_offset, END))
        taken.add(i, log, chosen[taken.continues(log, chosen)])
    bases = {log.base_offset for log in others if not first <= log.base_offset <= end}
    bases.update(rows.bases)
    return Arranged(_segments([*own, *others], taken, sorted(bases)))


class _NeighbourRows:
    """The offset ranges from log names. bounds: each log's first offset, and the next log's."""

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
    """The mask of the longest chain of batches with increasing offsets; of equally long ones, the
    chain with more batches that continue the previous one or are within the bounds."""
    n = len(log.base)
    chosen = np.ones(n, np.bool_)
    if n < 2 or bool((log.base[1:] > log.last[:-1]).all()):
        return chosen
    weights = np.where(_inside(log, first, end), 4 * n + 1, 4 * n).tolist()
    bases, lasts = log.base.tolist(), log.last.tolist()
    ends = sorted(set(lasts))
    # The best sum up to an end offset, then that end and the last batch, both negated: of equal
    # sums, the one with the lower end and then the earlier batch wins.
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
    """The placed batches, in order of offsets."""

    def __init__(self) -> None:
        empty = np.empty(0, np.int64)
        self.base, self.last, self.crc, self.size = empty, empty, empty, empty
        self.log, self.row, self.epoch = empty, empty, empty

    def free(self, base: IntArray, last: IntArray) -> BoolArray:
        """The mask of ranges in which no offset is taken."""
        before = np.searchsorted(self.last, base)
        ends = np.append(self.base, END)
        found: BoolArray = ends[before] > last
        return found

    def add(self, number: int, log: HeldBatches, rows: IntArray) -> list[int]:
        """Place batches of a log; returns the rows that have no place."""
        free = (log.base[rows] >= 0) & self.free(log.base[rows], log.last[rows])
        chosen = rows[free]
        # Batches placed together must not overlap.
        order = np.argsort(log.base[chosen], kind="stable")
        chosen = chosen[order]
        sound = np.ones(len(chosen), np.bool_)
        reach = np.maximum.accumulate(log.last[chosen])
        sound[1:] = log.base[chosen][1:] > reach[:-1]
        refused = [*rows[~free].tolist(), *chosen[~sound].tolist()]
        chosen = chosen[sound]
        at = np.searchsorted(self.base, log.base[chosen])
        for name in ("base", "last", "crc", "size", "epoch"):
            setattr(self, name, np.insert(getattr(self, name), at, getattr(log, name)[chosen]))
        self.log = np.insert(self.log, at, number)
        self.row = np.insert(self.row, at, chosen)
        return refused

    def continues(self, log: HeldBatches, rows: IntArray) -> BoolArray:
        """The mask of batches whose leader epoch is between those of their neighbours."""
        epoch = log.epoch[rows]
        at = np.searchsorted(self.base, log.base[rows])
        # The batch before, not the greatest so far: no checksum covers the epoch.
        latest = np.maximum.accumulate(np.where(self.epoch >= 0, np.arange(len(self.epoch)), -1))
        before = np.insert(np.where(latest >= 0, self.epoch[latest], -1), 0, -1)[at]
        after = np.append(self.epoch, END)[at]
        fits: BoolArray = (epoch < 0) | ((epoch >= before) & ((epoch <= after) | (after < 0)))
        return fits

    def has_copy(self, log: HeldBatches, row: int) -> bool:
        """Whether an equal batch is placed."""
        at = int(np.searchsorted(self.base, log.base[row]))
        if at == len(self.base):
            return False
        names = ("base", "last", "crc", "size")
        return all(int(getattr(self, name)[at]) == int(getattr(log, name)[row]) for name in names)

    def fits(self, base: int, last: int, first: int) -> bool:
        """Whether a range exactly fills the gap between two batches, or from `first` to all of
        them."""
        at = int(np.searchsorted(self.base, base))
        if at == len(self.base) or last + 1 != int(self.base[at]):
            return False
        return base == (int(self.last[at - 1]) + 1 if at else first)


def _beyond(taken: _Taken, number: int, log: HeldBatches, rows: BoolArray) -> list[tuple[int, int]]:
    """Place batches that are in order but beyond their file's bounds, if they continue the previous
    batch or are before the last placed one; returns the refused ones."""
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
    """Place batches out of order if their offsets fill a gap elsewhere, or if there is no room
    here: such batches were moved. Others have a wrong base offset; returns the refused ones."""
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
    """The placed batches, divided into segments by the names of the logs."""
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
    """The batches set aside, in lanes without overlaps."""
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
    """Batches in order, contiguous ones joined; none crosses the base offset of a segment."""
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
