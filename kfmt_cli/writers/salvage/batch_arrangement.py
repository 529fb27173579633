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
        mask = (self.last_offset >= low) & (self.last_offset < end)
        names = ("position", "size", "first_offset", "last_offset", "crc", "leader_epoch")
        return replace(self, **{name: getattr(self, name)[mask] for name in names})

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
        first_rows = rows[np.diff(self.leader_epoch[rows], prepend=-2) != 0]
        epochs, first_offsets = self.leader_epoch[first_rows], self.first_offset[first_rows]
        return list(zip(epochs.tolist(), first_offsets.tolist(), strict=True))


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
    conflict_logs: list[list[BatchRun]] = field(default_factory=list)
    n_copies: int = 0
    """Equal copies of placed batches, which are dropped."""


def arrange_batches(
    logs: Sequence[UndamagedBatches], remains: UndamagedBatches | None = None
) -> BatchArrangement:
    """Place the batches of a partition's logs.

    remains: batches that only fill free offset ranges; their log index is `len(logs)`.
    """
    bounds = _LogOffsetBounds(logs)
    arrangement = BatchArrangement()
    placed_batches = _PlacedBatches()
    # The order of placement: completed replacements; batches within the bounds of their file's
    # name; misnamed files; batches beyond their file's bounds; batches out of order.
    chain_masks = [_longest_chain(log, *bounds.bounds[i]) for i, log in enumerate(logs)]
    bounds_masks = [_is_within(log, *bounds.bounds[i]) for i, log in enumerate(logs)]
    is_misnamed = [
        not (chain_mask & bounds_mask).any()
        for chain_mask, bounds_mask in zip(chain_masks, bounds_masks, strict=True)
    ]
    original_indexes = [i for i, log in enumerate(logs) if not log.is_replacement]
    candidates = [(i, chain_masks[i]) for i, log in enumerate(logs) if log.is_replacement]
    candidates += ((i, chain_masks[i] & bounds_masks[i]) for i in original_indexes)
    candidates += ((i, chain_masks[i]) for i in original_indexes if is_misnamed[i])
    unplaced_batches: list[tuple[int, int]] = []
    for i, mask in candidates:
        unplaced_batches += (
            (i, row) for row in placed_batches.add(i, logs[i], np.flatnonzero(mask))
        )
    for i in original_indexes:
        if not is_misnamed[i]:
            unplaced_batches += _place_beyond_bounds(
                placed_batches, i, logs[i], chain_masks[i] & ~bounds_masks[i]
            )
    for i, log in enumerate(logs):
        unplaced_batches += _place_moved(placed_batches, i, log, chain_masks[i], bounds.bounds[i])
    if remains is not None:
        placed_batches.add(len(logs), remains, np.arange(len(remains.first_offset)))
    all_logs = [*logs, *([] if remains is None else [remains])]
    arrangement.segments = _split_segments(all_logs, placed_batches, bounds.base_offsets)
    conflicting_batches = [
        log_and_row
        for log_and_row in unplaced_batches
        if not placed_batches.has_copy(logs[log_and_row[0]], log_and_row[1])
    ]
    arrangement.n_copies = len(unplaced_batches) - len(conflicting_batches)
    arrangement.conflict_logs = _conflict_logs(logs, conflicting_batches)
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
    placed_batches = _PlacedBatches()
    for i, log in enumerate(own_logs):
        placed_batches.add(i, log, np.flatnonzero(_longest_chain(log, *bounds.bounds[i])))
    first_offset = (
        int(placed_batches.first_offset[0]) if len(placed_batches.first_offset) else MAX_LOG_END
    )
    last_offset = int(placed_batches.last_offset[-1]) if len(placed_batches.first_offset) else -1
    for i, log in enumerate(other_logs, len(own_logs)):
        overlap_mask = lows[np.searchsorted(highs, log.first_offset)] <= log.last_offset
        selected_rows = np.flatnonzero(
            overlap_mask & _longest_chain(log, log.base_offset, MAX_LOG_END)
        )
        placed_batches.add(
            i, log, selected_rows[placed_batches.has_fitting_epoch(log, selected_rows)]
        )
    base_offsets = {
        log.base_offset for log in other_logs if not first_offset <= log.base_offset <= last_offset
    }
    base_offsets.update(bounds.base_offsets)
    return BatchArrangement(
        _split_segments([*own_logs, *other_logs], placed_batches, sorted(base_offsets))
    )


class _LogOffsetBounds:
    """The offset bounds given by log names. bounds: each log's base offset, and the next log's."""

    def __init__(self, logs: Sequence[UndamagedBatches]) -> None:
        self.base_offsets = sorted(
            {log.base_offset for log in logs if len(log.first_offset) and not log.is_replacement}
        )
        self.bounds = []
        for log in logs:
            later_base_offsets = [base for base in self.base_offsets if base > log.base_offset]
            end = (
                MAX_LOG_END
                if log.is_replacement or not later_base_offsets
                else later_base_offsets[0]
            )
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
    for i, (base_offset, last_offset, weight) in enumerate(
        zip(base_offsets, last_offsets, weights, strict=True)
    ):
        best = _prefix_max(fenwick_tree, bisect_left(distinct_ends, base_offset))
        adjacent = best_by_end.get(base_offset - 1)
        if adjacent is not None and adjacent[0] + 2 > best[0]:
            best = adjacent[0] + 2, *adjacent[1:]
        predecessors[i] = -best[2] - 1
        score = best[0] + weight, -last_offset, -i - 1
        _update_max(fenwick_tree, bisect_left(distinct_ends, last_offset) + 1, score)
        if score > best_by_end.get(last_offset, _NO_CHAIN):
            best_by_end[last_offset] = score
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

    def is_free(self, base_offsets: IntArray, last_offsets: IntArray) -> BoolArray:
        """The mask of offset ranges [base, last] without any placed batch."""
        positions = np.searchsorted(self.last_offset, base_offsets)
        next_offsets = np.append(self.first_offset, MAX_LOG_END)
        mask: BoolArray = next_offsets[positions] > last_offsets
        return mask

    def add(self, log_index: int, log: UndamagedBatches, rows: IntArray) -> list[int]:
        """Place batches of a log; returns the rows that could not be placed."""
        is_free = (log.first_offset[rows] >= 0) & self.is_free(
            log.first_offset[rows], log.last_offset[rows]
        )
        selected_rows = rows[is_free]
        # Batches placed together must not overlap.
        order = np.argsort(log.first_offset[selected_rows], kind="stable")
        selected_rows = selected_rows[order]
        is_disjoint = _disjoint_mask(
            log.first_offset[selected_rows], log.last_offset[selected_rows]
        )
        unplaced_rows = [*rows[~is_free].tolist(), *selected_rows[~is_disjoint].tolist()]
        selected_rows = selected_rows[is_disjoint]
        positions = np.searchsorted(self.first_offset, log.first_offset[selected_rows])
        for name in ("first_offset", "last_offset", "crc", "size", "leader_epoch"):
            setattr(
                self,
                name,
                np.insert(getattr(self, name), positions, getattr(log, name)[selected_rows]),
            )
        self.log_index = np.insert(self.log_index, positions, log_index)
        self.row = np.insert(self.row, positions, selected_rows)
        return unplaced_rows

    def has_fitting_epoch(self, log: UndamagedBatches, rows: IntArray) -> BoolArray:
        """The mask of batches whose leader epoch is between those of their neighbours."""
        epochs = log.leader_epoch[rows]
        positions = np.searchsorted(self.first_offset, log.first_offset[rows])
        # Compare with the previous batch's epoch, not the greatest so far: no checksum covers it.
        latest_known_index = np.maximum.accumulate(
            np.where(self.leader_epoch >= 0, np.arange(len(self.leader_epoch)), -1)
        )
        previous_epoch = np.insert(
            np.where(latest_known_index >= 0, self.leader_epoch[latest_known_index], -1), 0, -1
        )[positions]
        next_epoch = np.append(self.leader_epoch, MAX_LOG_END)[positions]
        mask: BoolArray = (epochs < 0) | (
            (epochs >= previous_epoch) & ((epochs <= next_epoch) | (next_epoch < 0))
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
    last_placed = -1
    for i, first_offset in enumerate([] if mask.all() else first_offsets.tolist()):
        mask[i] = first_offset > last_placed
        last_placed = int(last_offsets[i]) if mask[i] else last_placed
    return mask


def _place_beyond_bounds(
    placed_batches: _PlacedBatches, log_index: int, log: UndamagedBatches, mask: BoolArray
) -> list[tuple[int, int]]:
    """Place batches that are in order but beyond their file's bounds, if they continue the previous
    batch or are before the last placed one; returns the unplaced ones by log and row."""
    unplaced_batches: list[tuple[int, int]] = []
    for row in np.flatnonzero(mask).tolist():
        base_offset, last_offset = int(log.first_offset[row]), int(log.last_offset[row])
        is_continuation = row > 0 and int(log.last_offset[row - 1]) + 1 == base_offset
        is_before_last = len(placed_batches.first_offset) and last_offset < int(
            placed_batches.last_offset[-1]
        )
        unplaced_batches += (
            [
                (log_index, unplaced_row)
                for unplaced_row in placed_batches.add(log_index, log, np.array([row]))
            ]
            if is_continuation or is_before_last
            else [(log_index, row)]
        )
    return unplaced_batches


def _place_moved(
    placed_batches: _PlacedBatches,
    log_index: int,
    log: UndamagedBatches,
    chain_mask: BoolArray,
    bounds: tuple[int, int],
) -> list[tuple[int, int]]:
    """Place the batches that are not in the chain; returns the unplaced ones by log and row.

    A batch was moved if its offsets fill a gap elsewhere, or if the gap at its position is too
    small for it. Other batches have a wrong base offset and are not placed.
    """
    unplaced_batches = []
    chain_rows = np.flatnonzero(chain_mask)
    for row in np.flatnonzero(~chain_mask).tolist():
        base_offset, last_offset = int(log.first_offset[row]), int(log.last_offset[row])
        index = int(np.searchsorted(chain_rows, row))
        previous_end = int(log.last_offset[chain_rows[index - 1]]) if index else bounds[0] - 1
        next_start = (
            int(log.first_offset[chain_rows[index]]) if index < len(chain_rows) else bounds[1]
        )
        fits_at_position = next_start - previous_end - 1 > last_offset - base_offset
        if fits_at_position and not placed_batches.fills_gap(base_offset, last_offset, bounds[0]):
            unplaced_batches.append((log_index, row))
        else:
            unplaced_batches += (
                (log_index, unplaced_row)
                for unplaced_row in placed_batches.add(log_index, log, np.array([row]))
            )
    return unplaced_batches


def _split_segments(
    logs: Sequence[UndamagedBatches], placed_batches: _PlacedBatches, base_offsets: list[int]
) -> list[tuple[int, list[BatchRun]]]:
    """The placed batches, divided into segments at the base offsets of the logs."""
    segments: list[tuple[int, list[BatchRun]]] = []
    size, last_offset, next_base_index = 0, -1, 0
    for run in _merge_contiguous(
        logs,
        zip(placed_batches.log_index.tolist(), placed_batches.row.tolist(), strict=True),
        base_offsets,
    ):
        while (
            next_base_index < len(base_offsets)
            and base_offsets[next_base_index] <= run.first_offset
        ):
            next_base_index += 1
        base_offset = base_offsets[next_base_index - 1] if next_base_index else run.first_offset
        begins_segment = not segments or (
            base_offset > segments[-1][0] and base_offset > last_offset
        )
        if not begins_segment and run.last_offset - segments[-1][0] > MAX_RELATIVE_OFFSET:
            begins_segment, base_offset = True, run.first_offset
        if not begins_segment and size + run.size > MAX_SEGMENT_BYTES:
            begins_segment, base_offset = True, run.first_offset
        if begins_segment:
            if base_offset <= last_offset or run.last_offset - base_offset > MAX_RELATIVE_OFFSET:
                base_offset = run.first_offset
            segments.append((base_offset, []))
            size = 0
        segments[-1][1].append(run)
        size += run.size
        last_offset = run.last_offset
    return segments


def _conflict_logs(
    logs: Sequence[UndamagedBatches], conflicting_batches: list[tuple[int, int]]
) -> list[list[BatchRun]]:
    """Conflicting batches, distributed to as few logs without overlaps as needed."""
    conflicting_batches.sort(key=lambda batch: int(logs[batch[0]].first_offset[batch[1]]))
    conflict_logs: list[list[tuple[int, int]]] = []
    last_offsets: list[int] = []
    for log_index, row in conflicting_batches:
        base_offset = int(logs[log_index].first_offset[row])
        last_offset = int(logs[log_index].last_offset[row])
        log_number = next(
            (i for i, log_last_offset in enumerate(last_offsets) if log_last_offset < base_offset),
            len(conflict_logs),
        )
        if log_number == len(conflict_logs):
            conflict_logs.append([])
            last_offsets.append(last_offset)
        conflict_logs[log_number].append((log_index, row))
        last_offsets[log_number] = last_offset
    return [list(_merge_contiguous(logs, batches, [])) for batches in conflict_logs]


def _merge_contiguous(
    logs: Sequence[UndamagedBatches],
    logs_and_rows: Iterable[tuple[int, int]],
    base_offsets: Sequence[int],
) -> Iterable[BatchRun]:
    """Join contiguous batches; no run crosses the base offset of a segment or a limit of one."""
    current_run: BatchRun | None = None
    segment_starts = set(base_offsets)
    for log_index, row in logs_and_rows:
        log = logs[log_index]
        position, size = int(log.position[row]), int(log.size[row])
        base_offset, last_offset = int(log.first_offset[row]), int(log.last_offset[row])
        if (
            current_run is not None
            and current_run.log_index == log_index
            and current_run.position + current_run.size == position
            and base_offset not in segment_starts
            and last_offset - current_run.first_offset <= MAX_RELATIVE_OFFSET
            and current_run.size + size <= MAX_SEGMENT_BYTES
        ):
            current_run = BatchRun(
                log_index,
                current_run.position,
                current_run.size + size,
                current_run.first_offset,
                last_offset,
                current_run.n_batches + 1,
            )
            continue
        if current_run is not None:
            yield current_run
        current_run = BatchRun(log_index, position, size, base_offset, last_offset, 1)
    if current_run is not None:
        yield current_run
