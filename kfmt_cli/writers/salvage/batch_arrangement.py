"""Places the undamaged batches of a partition whose logs contradict each other.

No undamaged batch is dropped. A batch is placed by its offsets, whichever file contains it: file
names may have been exchanged, batches moved, segments copied. Of equal copies, one is kept. If two
batches have the same offsets, one of them is written to a separate log of conflicting batches. So
is a batch whose position in its file shows that its base offset is wrong (the checksum of magic 2
does not cover it).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kfmt_cli.broker.start.offset_intervals import OffsetIntervals, merge_intervals
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET

MAX_LOG_END = (1 << 63) - 1
MAX_SEGMENT_BYTES = (1 << 31) - 1  # per segment


@dataclass(frozen=True, slots=True)
class UndamagedBatches:
    """The undamaged batches of a log, ordered by position; one array element per batch."""

    base_offset: int
    """The base offset in the file's name."""
    position: IntArray
    size: IntArray
    first_offset: IntArray
    last_offset: IntArray
    crc: IntArray
    leader_epoch: IntArray
    """Leader epochs, -1 if unknown."""
    is_replacement: bool = False
    """Whether the log is a completed replacement, which a broker swaps in for other segments."""

    def select_within(self, low: int, end: int) -> UndamagedBatches:
        """The batches with last offsets in [low, end)."""
        rows = (self.last_offset >= low) & (self.last_offset < end)
        names = ("position", "size", "first_offset", "last_offset", "crc", "leader_epoch")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    @property
    def offset_intervals(self) -> OffsetIntervals:
        """The first and last offset of each batch."""
        return list(zip(self.first_offset.tolist(), self.last_offset.tolist(), strict=True))

    def _rows_in(self, position: int, size: int) -> IntArray:
        """The rows of the batches that begin in a byte range of the log."""
        return np.flatnonzero((self.position >= position) & (self.position < position + size))

    def offset_intervals_in(self, position: int, size: int) -> OffsetIntervals:
        """The offsets of the batches that begin in a byte range of the log, merged."""
        rows = self._rows_in(position, size)
        return merge_intervals(
            zip(self.first_offset[rows].tolist(), self.last_offset[rows].tolist(), strict=True)
        )

    def epochs_in(self, position: int, size: int) -> list[tuple[int, int]]:
        """The leader epochs in a byte range of the log, each with its first offset."""
        rows = self._rows_in(position, size)
        starts = rows[np.diff(self.leader_epoch[rows], prepend=-2) != 0]
        return list(
            zip(self.leader_epoch[starts].tolist(), self.first_offset[starts].tolist(), strict=True)
        )


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Contiguous batches in a log."""

    log_index: int
    position: int
    size: int
    first_offset: int
    last_offset: int
    n_batches: int


@dataclass(slots=True)
class BatchArrangement:
    """Segments by base offset, and logs of conflicting batches, each in order of offsets."""

    segments: list[tuple[int, list[BatchRun]]] = field(default_factory=list)
    conflicting: list[list[BatchRun]] = field(default_factory=list)
    n_copies: int = 0
    """Equal copies of placed batches, which are dropped."""


def arrange(
    logs: Sequence[UndamagedBatches], remains: UndamagedBatches | None = None
) -> BatchArrangement:
    """Place the batches of a partition's logs.

    remains: batches that only fill free offset ranges; their log index is `len(logs)`.
    """
    bounds = _LogOffsetBounds(logs)
    arrangement = BatchArrangement()
    placed = _PlacedBatches()
    # The order of placement: completed replacements; batches within the bounds of their file's
    # name; misnamed files; batches beyond their file's bounds; batches out of order.
    in_chain = [_longest_chain(log, *bounds.bounds[i]) for i, log in enumerate(logs)]
    in_bounds = [_is_within(log, *bounds.bounds[i]) for i, log in enumerate(logs)]
    is_misnamed = [
        not (chain & within).any() for chain, within in zip(in_chain, in_bounds, strict=True)
    ]
    originals = [i for i, log in enumerate(logs) if not log.is_replacement]
    candidates = [(i, in_chain[i]) for i, log in enumerate(logs) if log.is_replacement]
    candidates += ((i, in_chain[i] & in_bounds[i]) for i in originals)
    candidates += ((i, in_chain[i]) for i in originals if is_misnamed[i])
    unplaced: list[tuple[int, int]] = []
    for i, mask in candidates:
        unplaced += ((i, row) for row in placed.add(i, logs[i], np.flatnonzero(mask)))
    for i in originals:
        if not is_misnamed[i]:
            unplaced += _place_beyond_bounds(placed, i, logs[i], in_chain[i] & ~in_bounds[i])
    for i, log in enumerate(logs):
        unplaced += _place_moved(placed, i, log, in_chain[i], bounds.bounds[i])
    if remains is not None:
        placed.add(len(logs), remains, np.arange(len(remains.first_offset)))
    all_logs = [*logs, *([] if remains is None else [remains])]
    arrangement.segments = _divide_segments(all_logs, placed, bounds.base_offsets)
    conflicting = [
        log_and_row
        for log_and_row in unplaced
        if not placed.has_copy(logs[log_and_row[0]], log_and_row[1])
    ]
    arrangement.n_copies = len(unplaced) - len(conflicting)
    arrangement.conflicting = _conflict_logs(logs, conflicting)
    return arrangement


def arrange_replicas(
    own_logs: Sequence[UndamagedBatches],
    other_logs: Sequence[UndamagedBatches],
    intervals: OffsetIntervals,
) -> BatchArrangement:
    """Place the batches of one replica, and fill offset intervals from other replicas.

    A batch of another replica is placed only if its offsets are free and its leader epoch is
    between its neighbours'. Segments begin at the base offsets of the replica's own logs, and of
    other logs outside its offsets. By index, the other replicas' logs follow its own. intervals: in
    order.
    """
    lows, highs = np.array([*intervals, (MAX_LOG_END, MAX_LOG_END)], np.int64).T
    bounds = _LogOffsetBounds(own_logs)
    placed = _PlacedBatches()
    for i, log in enumerate(own_logs):
        placed.add(i, log, np.flatnonzero(_longest_chain(log, *bounds.bounds[i])))
    first = int(placed.first_offset[0]) if len(placed.first_offset) else MAX_LOG_END
    end = int(placed.last_offset[-1]) if len(placed.first_offset) else -1
    for i, log in enumerate(other_logs, len(own_logs)):
        overlaps = lows[np.searchsorted(highs, log.first_offset)] <= log.last_offset
        selected_rows = np.flatnonzero(overlaps & _longest_chain(log, log.base_offset, MAX_LOG_END))
        placed.add(i, log, selected_rows[placed.has_fitting_epoch(log, selected_rows)])
    bases = {log.base_offset for log in other_logs if not first <= log.base_offset <= end}
    bases.update(bounds.base_offsets)
    return BatchArrangement(_divide_segments([*own_logs, *other_logs], placed, sorted(bases)))


class _LogOffsetBounds:
    """The offset bounds given by log names. bounds: each log's base offset, and the next log's."""

    def __init__(self, logs: Sequence[UndamagedBatches]) -> None:
        self.base_offsets = sorted(
            {log.base_offset for log in logs if len(log.first_offset) and not log.is_replacement}
        )
        self.bounds = []
        for log in logs:
            following = [base for base in self.base_offsets if base > log.base_offset]
            end = MAX_LOG_END if log.is_replacement or not following else following[0]
            self.bounds.append((log.base_offset, end))


def _is_within(log: UndamagedBatches, first: int, end: int) -> BoolArray:
    mask: BoolArray = (log.first_offset >= first) & (log.last_offset < end)
    return mask


def _longest_chain(log: UndamagedBatches, first: int, end: int) -> BoolArray:
    """The mask of the longest chain of batches with increasing offsets.

    Of equally long chains, the one with more batches that continue the previous batch or are within
    the bounds [first, end).
    """
    n = len(log.first_offset)
    in_chain = np.ones(n, np.bool_)
    if n < 2 or bool((log.first_offset[1:] > log.last_offset[:-1]).all()):
        return in_chain
    weights = np.where(_is_within(log, first, end), 4 * n + 1, 4 * n).tolist()
    base_offsets, last_offsets = log.first_offset.tolist(), log.last_offset.tolist()
    distinct_ends = sorted(set(last_offsets))
    # A score is the best sum up to an end offset, then that offset and the index of the last batch,
    # both negated: of equal sums, the one with the lower end wins, then the one with the earlier
    # batch.
    fenwick_tree: list[_ChainScore] = [_NO_CHAIN] * (len(distinct_ends) + 1)
    best_by_end: dict[int, _ChainScore] = {first - 1: _NO_CHAIN}
    predecessors = [-1] * n
    for i, (base, last, weight) in enumerate(zip(base_offsets, last_offsets, weights, strict=True)):
        best = _prefix_max(fenwick_tree, bisect_left(distinct_ends, base))
        adjacent = best_by_end.get(base - 1)
        if adjacent is not None and adjacent[0] + 2 > best[0]:
            best = adjacent[0] + 2, *adjacent[1:]
        predecessors[i] = -best[2] - 1
        score = best[0] + weight, -last, -i - 1
        _update_max(fenwick_tree, bisect_left(distinct_ends, last) + 1, score)
        if score > best_by_end.get(last, _NO_CHAIN):
            best_by_end[last] = score
    in_chain[:] = False
    row = -_prefix_max(fenwick_tree, len(distinct_ends))[2] - 1
    while row >= 0:
        in_chain[row] = True
        row = predecessors[row]
    return in_chain


_ChainScore = tuple[int, int, int]
_NO_CHAIN: _ChainScore = (0, 0, 0)


def _prefix_max(tree: list[_ChainScore], index: int) -> _ChainScore:
    best = _NO_CHAIN
    while index > 0:
        best = max(best, tree[index])
        index -= index & -index
    return best


def _update_max(tree: list[_ChainScore], index: int, value: _ChainScore) -> None:
    while index < len(tree):
        tree[index] = max(tree[index], value)
        index += index & -index


class _PlacedBatches:
    """The placed batches, one array element each, in order of offsets."""

    def __init__(self) -> None:
        empty = np.empty(0, np.int64)
        self.first_offset, self.last_offset, self.crc, self.size = empty, empty, empty, empty
        self.log_index, self.row, self.leader_epoch = empty, empty, empty

    def is_free(self, base: IntArray, last: IntArray) -> BoolArray:
        """The mask of offset ranges [base, last] without any placed batch."""
        positions = np.searchsorted(self.last_offset, base)
        next_offsets = np.append(self.first_offset, MAX_LOG_END)
        mask: BoolArray = next_offsets[positions] > last
        return mask

    def add(self, log_index: int, log: UndamagedBatches, rows: IntArray) -> list[int]:
        """Place batches of a log; returns the rows that could not be placed."""
        is_free = (log.first_offset[rows] >= 0) & self.is_free(
            log.first_offset[rows], log.last_offset[rows]
        )
        selected = rows[is_free]
        # Batches placed together must not overlap.
        order = np.argsort(log.first_offset[selected], kind="stable")
        selected = selected[order]
        is_disjoint = _disjoint_mask(log.first_offset[selected], log.last_offset[selected])
        unplaced = [*rows[~is_free].tolist(), *selected[~is_disjoint].tolist()]
        selected = selected[is_disjoint]
        positions = np.searchsorted(self.first_offset, log.first_offset[selected])
        for name in ("first_offset", "last_offset", "crc", "size", "leader_epoch"):
            setattr(
                self, name, np.insert(getattr(self, name), positions, getattr(log, name)[selected])
            )
        self.log_index = np.insert(self.log_index, positions, log_index)
        self.row = np.insert(self.row, positions, selected)
        return unplaced

    def has_fitting_epoch(self, log: UndamagedBatches, rows: IntArray) -> BoolArray:
        """The mask of batches whose leader epoch is between those of their neighbours."""
        epoch = log.leader_epoch[rows]
        positions = np.searchsorted(self.first_offset, log.first_offset[rows])
        # Compare with the previous batch's epoch, not the greatest so far: no checksum covers it.
        latest_known = np.maximum.accumulate(
            np.where(self.leader_epoch >= 0, np.arange(len(self.leader_epoch)), -1)
        )
        previous_epoch = np.insert(
            np.where(latest_known >= 0, self.leader_epoch[latest_known], -1), 0, -1
        )[positions]
        next_epoch = np.append(self.leader_epoch, MAX_LOG_END)[positions]
        mask: BoolArray = (epoch < 0) | (
            (epoch >= previous_epoch) & ((epoch <= next_epoch) | (next_epoch < 0))
        )
        return mask

    def has_copy(self, log: UndamagedBatches, row: int) -> bool:
        """Whether an equal batch was placed."""
        index = int(np.searchsorted(self.first_offset, log.first_offset[row]))
        if index == len(self.first_offset):
            return False
        names = ("first_offset", "last_offset", "crc", "size")
        return all(
            int(getattr(self, name)[index]) == int(getattr(log, name)[row]) for name in names
        )

    def fills_gap(self, first_offset: int, last_offset: int, log_start: int) -> bool:
        """Whether a range exactly fills the gap between two placed batches, or from `log_start`
        to the first of them."""
        index = int(np.searchsorted(self.first_offset, first_offset))
        if index == len(self.first_offset) or last_offset + 1 != int(self.first_offset[index]):
            return False
        return first_offset == (int(self.last_offset[index - 1]) + 1 if index else log_start)


def _disjoint_mask(first_offsets: IntArray, last_offsets: IntArray) -> BoolArray:
    """The mask of ranges, in order of their first offsets, that begin after all placed before.

    A range that is not placed hides no other: a damaged header may claim any number of offsets.
    """
    mask: BoolArray = np.ones(len(first_offsets), np.bool_)
    mask[1:] = first_offsets[1:] > np.maximum.accumulate(last_offsets)[:-1]
    if not mask.all():
        last_placed = -1
        for i, (first, last) in enumerate(
            zip(first_offsets.tolist(), last_offsets.tolist(), strict=True)
        ):
            mask[i] = first > last_placed
            last_placed = last if mask[i] else last_placed
    return mask


def _place_beyond_bounds(
    placed: _PlacedBatches, log_index: int, log: UndamagedBatches, rows: BoolArray
) -> list[tuple[int, int]]:
    """Place batches that are in order but beyond their file's bounds, if they continue the previous
    batch or are before the last placed one; returns the unplaced ones by log and row."""
    unplaced: list[tuple[int, int]] = []
    for row in np.flatnonzero(rows).tolist():
        base, last = int(log.first_offset[row]), int(log.last_offset[row])
        is_continuation = row > 0 and int(log.last_offset[row - 1]) + 1 == base
        is_among = len(placed.first_offset) and last < int(placed.last_offset[-1])
        unplaced += (
            [(log_index, n) for n in placed.add(log_index, log, np.array([row]))]
            if is_continuation or is_among
            else [(log_index, row)]
        )
    return unplaced


def _place_moved(
    placed: _PlacedBatches,
    log_index: int,
    log: UndamagedBatches,
    chain: BoolArray,
    bounds: tuple[int, int],
) -> list[tuple[int, int]]:
    """Place the batches that are not in the chain; returns the unplaced ones by log and row.

    A batch was moved if its offsets fill a gap elsewhere, or if the gap at its position is too
    small for it. Other batches have a wrong base offset and are not placed.
    """
    unplaced = []
    chain_rows = np.flatnonzero(chain)
    for row in np.flatnonzero(~chain).tolist():
        base, last = int(log.first_offset[row]), int(log.last_offset[row])
        index = int(np.searchsorted(chain_rows, row))
        previous_end = int(log.last_offset[chain_rows[index - 1]]) if index else bounds[0] - 1
        next_start = (
            int(log.first_offset[chain_rows[index]]) if index < len(chain_rows) else bounds[1]
        )
        has_room = next_start - previous_end - 1 > last - base
        if has_room and not placed.fills_gap(base, last, bounds[0]):
            unplaced.append((log_index, row))
        else:
            unplaced += ((log_index, n) for n in placed.add(log_index, log, np.array([row])))
    return unplaced


def _divide_segments(
    logs: Sequence[UndamagedBatches], placed: _PlacedBatches, base_offsets: list[int]
) -> list[tuple[int, list[BatchRun]]]:
    """The placed batches, divided into segments at the base offsets of the logs."""
    segments: list[tuple[int, list[BatchRun]]] = []
    size, end, boundary = 0, -1, 0
    for run in _merge_contiguous(
        logs, zip(placed.log_index.tolist(), placed.row.tolist(), strict=True), base_offsets
    ):
        while boundary < len(base_offsets) and base_offsets[boundary] <= run.first_offset:
            boundary += 1
        name = base_offsets[boundary - 1] if boundary else run.first_offset
        begins = not segments or (name > segments[-1][0] and name > end)
        if not begins and run.last_offset - segments[-1][0] > MAX_RELATIVE_OFFSET:
            begins, name = True, run.first_offset
        if not begins and size + run.size > MAX_SEGMENT_BYTES:
            begins, name = True, run.first_offset
        if begins:
            if name <= end or run.last_offset - name > MAX_RELATIVE_OFFSET:
                name = run.first_offset
            segments.append((name, []))
            size = 0
        segments[-1][1].append(run)
        size += run.size
        end = run.last_offset
    return segments


def _conflict_logs(
    logs: Sequence[UndamagedBatches], conflicting: list[tuple[int, int]]
) -> list[list[BatchRun]]:
    """Conflicting batches, distributed to as few logs without overlaps as needed."""
    conflicting.sort(key=lambda batch: int(logs[batch[0]].first_offset[batch[1]]))
    conflict_logs: list[list[tuple[int, int]]] = []
    ends: list[int] = []
    for log_index, row in conflicting:
        base, last = int(logs[log_index].first_offset[row]), int(logs[log_index].last_offset[row])
        log_number = next((i for i, end in enumerate(ends) if end < base), len(conflict_logs))
        if log_number == len(conflict_logs):
            conflict_logs.append([])
            ends.append(last)
        conflict_logs[log_number].append((log_index, row))
        ends[log_number] = last
    return [list(_merge_contiguous(logs, batches, [])) for batches in conflict_logs]


def _merge_contiguous(
    logs: Sequence[UndamagedBatches],
    logs_and_rows: Iterable[tuple[int, int]],
    base_offsets: Sequence[int],
) -> Iterable[BatchRun]:
    """Join contiguous batches; no run crosses the base offset of a segment or a limit of one."""
    current: BatchRun | None = None
    segment_starts = set(base_offsets)
    for log_index, row in logs_and_rows:
        log = logs[log_index]
        position, size = int(log.position[row]), int(log.size[row])
        base, last = int(log.first_offset[row]), int(log.last_offset[row])
        if (
            current is not None
            and current.log_index == log_index
            and current.position + current.size == position
            and base not in segment_starts
            and last - current.first_offset <= MAX_RELATIVE_OFFSET
            and current.size + size <= MAX_SEGMENT_BYTES
        ):
            current = BatchRun(
                log_index,
                current.position,
                current.size + size,
                current.first_offset,
                last,
                current.n_batches + 1,
            )
            continue
        if current is not None:
            yield current
        current = BatchRun(log_index, position, size, base, last, 1)
    if current is not None:
        yield current
