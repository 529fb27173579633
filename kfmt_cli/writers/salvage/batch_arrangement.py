"""Places the undamaged batches of a partition whose logs contradict each other.

No undamaged batch is dropped. A batch is placed by its offsets, whichever file contains it: file
names may have been exchanged, batches moved, segments copied. Among equal copies, one is kept. If
two batches have the same offsets, one of them is written to a separate log of conflicting batches.
So is a batch whose position in its file shows that its base offset is wrong (the checksum of magic
2 does not cover it).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.broker.log_reading.offset_intervals import OffsetIntervals
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.writers.salvage.undamaged_batches import UndamagedBatches

MAX_LOG_END_OFFSET = (1 << 63) - 1
MAX_SEGMENT_BYTES = (1 << 31) - 1  # per segment


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
    n_dropped_copies: int = 0
    """Equal copies of placed batches, which are dropped."""


def arrange_batches(
    logs: Sequence[UndamagedBatches], remains: UndamagedBatches | None = None
) -> BatchArrangement:
    """Place the batches of a partition's logs.

    remains: batches that only fill free offset ranges; their log index is `len(logs)`.
    """
    offset_bounds = _LogOffsetBounds(logs)
    arrangement = BatchArrangement()
    placed_batches = _PlacedBatches()
    # The order of placement: completed replacements; batches within the bounds of their file's
    # name; misnamed files; batches beyond their file's bounds; batches out of order.
    chain_masks = [
        _longest_chain_mask(log, *offset_bounds.bounds_by_log[i]) for i, log in enumerate(logs)
    ]
    bounds_masks = [
        _within_offsets_mask(log, *offset_bounds.bounds_by_log[i]) for i, log in enumerate(logs)
    ]
    is_misnamed_log = [
        not (chain_mask & bounds_mask).any()
        for chain_mask, bounds_mask in zip(chain_masks, bounds_masks, strict=True)
    ]
    original_indexes = [i for i, log in enumerate(logs) if not log.is_replacement]
    placement_candidates = [(i, chain_masks[i]) for i, log in enumerate(logs) if log.is_replacement]
    placement_candidates += ((i, chain_masks[i] & bounds_masks[i]) for i in original_indexes)
    placement_candidates += ((i, chain_masks[i]) for i in original_indexes if is_misnamed_log[i])
    unplaced_batches: list[tuple[int, int]] = []
    for i, candidate_mask in placement_candidates:
        unplaced_batches += (
            (i, row)
            for row in placed_batches.place_batches(i, logs[i], np.flatnonzero(candidate_mask))
        )
    for i in original_indexes:
        if not is_misnamed_log[i]:
            unplaced_batches += _place_batches_beyond_bounds(
                placed_batches, i, logs[i], chain_masks[i] & ~bounds_masks[i]
            )
    for i, log in enumerate(logs):
        unplaced_batches += _place_moved_batches(
            placed_batches, i, log, chain_masks[i], offset_bounds.bounds_by_log[i]
        )
    if remains is not None:
        placed_batches.place_batches(len(logs), remains, np.arange(len(remains.first_offset)))
    all_logs = [*logs, *([] if remains is None else [remains])]
    arrangement.segments = _split_into_segments(
        all_logs, placed_batches, offset_bounds.base_offsets
    )
    conflicting_batches = [
        log_and_row
        for log_and_row in unplaced_batches
        if not placed_batches.has_copy(logs[log_and_row[0]], log_and_row[1])
    ]
    arrangement.n_dropped_copies = len(unplaced_batches) - len(conflicting_batches)
    arrangement.conflict_logs = _split_conflict_logs(logs, conflicting_batches)
    return arrangement


def arrange_replicas(
    own_logs: Sequence[UndamagedBatches],
    other_logs: Sequence[UndamagedBatches],
    missing_intervals: OffsetIntervals,
) -> BatchArrangement:
    """Place the batches of one replica, and fill offset intervals from other replicas.

    A batch of another replica is placed only if its offsets are free and its leader epoch is
    between its neighbours'. Segments begin at the base offsets of the replica's own logs, and of
    other logs outside its offsets. By index, the other replicas' logs follow its own.
    missing_intervals: in order.
    """
    interval_starts, interval_ends = np.array(
        [*missing_intervals, (MAX_LOG_END_OFFSET, MAX_LOG_END_OFFSET)], np.int64
    ).T
    offset_bounds = _LogOffsetBounds(own_logs)
    placed_batches = _PlacedBatches()
    for log_index, log in enumerate(own_logs):
        placed_batches.place_batches(
            log_index,
            log,
            np.flatnonzero(_longest_chain_mask(log, *offset_bounds.bounds_by_log[log_index])),
        )
    first_offset = (
        int(placed_batches.first_offset[0])
        if len(placed_batches.first_offset)
        else MAX_LOG_END_OFFSET
    )
    last_offset = int(placed_batches.last_offset[-1]) if len(placed_batches.first_offset) else -1
    for log_index, log in enumerate(other_logs, len(own_logs)):
        overlap_mask = (
            interval_starts[np.searchsorted(interval_ends, log.first_offset)] <= log.last_offset
        )
        selected_rows = np.flatnonzero(
            overlap_mask & _longest_chain_mask(log, log.base_offset, MAX_LOG_END_OFFSET)
        )
        placed_batches.place_batches(
            log_index, log, selected_rows[placed_batches.fitting_epoch_mask(log, selected_rows)]
        )
    base_offsets = {
        log.base_offset for log in other_logs if not first_offset <= log.base_offset <= last_offset
    }
    base_offsets.update(offset_bounds.base_offsets)
    return BatchArrangement(
        _split_into_segments([*own_logs, *other_logs], placed_batches, sorted(base_offsets))
    )


class _LogOffsetBounds:
    """The offset bounds given by log names. bounds_by_log: each log's base offset, and the next
    log's."""

    def __init__(self, logs: Sequence[UndamagedBatches]) -> None:
        self.base_offsets = sorted(
            {log.base_offset for log in logs if len(log.first_offset) and not log.is_replacement}
        )
        self.bounds_by_log = []
        for log in logs:
            later_base_offsets = [
                base_offset for base_offset in self.base_offsets if base_offset > log.base_offset
            ]
            next_base_offset = (
                MAX_LOG_END_OFFSET
                if log.is_replacement or not later_base_offsets
                else later_base_offsets[0]
            )
            self.bounds_by_log.append((log.base_offset, next_base_offset))


def _within_offsets_mask(log: UndamagedBatches, start_offset: int, end_offset: int) -> BoolArray:
    is_within: BoolArray = (log.first_offset >= start_offset) & (log.last_offset < end_offset)
    return is_within


def _longest_chain_mask(log: UndamagedBatches, start_offset: int, end_offset: int) -> BoolArray:
    """The mask of the longest chain of batches with increasing offsets.

    Of equally long chains, the one with more batches that continue the previous batch or are within
    the bounds [first, end).
    """
    n_batches = len(log.first_offset)
    is_in_chain = np.ones(n_batches, np.bool_)
    if n_batches < 2 or bool((log.first_offset[1:] > log.last_offset[:-1]).all()):
        return is_in_chain
    weights = np.where(
        _within_offsets_mask(log, start_offset, end_offset), 4 * n_batches + 1, 4 * n_batches
    ).tolist()
    base_offsets, last_offsets = log.first_offset.tolist(), log.last_offset.tolist()
    distinct_last_offsets = sorted(set(last_offsets))
    # A score is the best sum up to an end offset, then that offset and the index of the last batch,
    # both negated: of equal sums, the one with the lower end wins, then the one with the earlier
    # batch.
    fenwick_tree: list[_ChainScore] = [_NO_CHAIN] * (len(distinct_last_offsets) + 1)
    best_score_by_offset: dict[int, _ChainScore] = {start_offset - 1: _NO_CHAIN}
    predecessor_rows = [-1] * n_batches
    for i, (base_offset, last_offset, weight) in enumerate(
        zip(base_offsets, last_offsets, weights, strict=True)
    ):
        best_score = _max_prefix_score(
            fenwick_tree, bisect_left(distinct_last_offsets, base_offset)
        )
        adjacent_score = best_score_by_offset.get(base_offset - 1)
        if adjacent_score is not None and adjacent_score[0] + 2 > best_score[0]:
            best_score = adjacent_score[0] + 2, *adjacent_score[1:]
        predecessor_rows[i] = -best_score[2] - 1
        chain_score = best_score[0] + weight, -last_offset, -i - 1
        _update_max_score(
            fenwick_tree, bisect_left(distinct_last_offsets, last_offset) + 1, chain_score
        )
        if chain_score > best_score_by_offset.get(last_offset, _NO_CHAIN):
            best_score_by_offset[last_offset] = chain_score
    is_in_chain[:] = False
    row = -_max_prefix_score(fenwick_tree, len(distinct_last_offsets))[2] - 1
    while row >= 0:
        is_in_chain[row] = True
        row = predecessor_rows[row]
    return is_in_chain


_ChainScore = tuple[int, int, int]
_NO_CHAIN: _ChainScore = (0, 0, 0)


def _max_prefix_score(fenwick_tree: list[_ChainScore], index: int) -> _ChainScore:
    best_score = _NO_CHAIN
    while index > 0:
        best_score = max(best_score, fenwick_tree[index])
        index -= index & -index
    return best_score


def _update_max_score(fenwick_tree: list[_ChainScore], index: int, score: _ChainScore) -> None:
    while index < len(fenwick_tree):
        fenwick_tree[index] = max(fenwick_tree[index], score)
        index += index & -index


class _PlacedBatches:
    """The placed batches, one array element each, in order of offsets."""

    def __init__(self) -> None:
        empty = np.empty(0, np.int64)
        self.first_offset, self.last_offset, self.crc, self.size = empty, empty, empty, empty
        self.log_index, self.row, self.leader_epoch = empty, empty, empty

    def free_offsets_mask(self, base_offsets: IntArray, last_offsets: IntArray) -> BoolArray:
        """The mask of offset ranges [base, last] without any placed batch."""
        insert_indexes = np.searchsorted(self.last_offset, base_offsets)
        next_offsets = np.append(self.first_offset, MAX_LOG_END_OFFSET)
        is_free_range: BoolArray = next_offsets[insert_indexes] > last_offsets
        return is_free_range

    def place_batches(self, log_index: int, log: UndamagedBatches, rows: IntArray) -> list[int]:
        """Place batches of a log; returns the rows that could not be placed."""
        is_free = (log.first_offset[rows] >= 0) & self.free_offsets_mask(
            log.first_offset[rows], log.last_offset[rows]
        )
        selected_rows = rows[is_free]
        # Batches placed together must not overlap.
        row_order = np.argsort(log.first_offset[selected_rows], kind="stable")
        selected_rows = selected_rows[row_order]
        is_disjoint = _disjoint_ranges_mask(
            log.first_offset[selected_rows], log.last_offset[selected_rows]
        )
        unplaced_rows = [*rows[~is_free].tolist(), *selected_rows[~is_disjoint].tolist()]
        selected_rows = selected_rows[is_disjoint]
        insert_indexes = np.searchsorted(self.first_offset, log.first_offset[selected_rows])
        for column in ("first_offset", "last_offset", "crc", "size", "leader_epoch"):
            setattr(
                self,
                column,
                np.insert(
                    getattr(self, column), insert_indexes, getattr(log, column)[selected_rows]
                ),
            )
        self.log_index = np.insert(self.log_index, insert_indexes, log_index)
        self.row = np.insert(self.row, insert_indexes, selected_rows)
        return unplaced_rows

    def fitting_epoch_mask(self, log: UndamagedBatches, rows: IntArray) -> BoolArray:
        """The mask of batches whose leader epoch is between those of their neighbours."""
        epochs = log.leader_epoch[rows]
        insert_indexes = np.searchsorted(self.first_offset, log.first_offset[rows])
        # Compare with the previous batch's epoch, not the greatest so far: no checksum covers it.
        latest_known_indexes = np.maximum.accumulate(
            np.where(self.leader_epoch >= 0, np.arange(len(self.leader_epoch)), -1)
        )
        previous_epochs = np.insert(
            np.where(latest_known_indexes >= 0, self.leader_epoch[latest_known_indexes], -1), 0, -1
        )[insert_indexes]
        next_epochs = np.append(self.leader_epoch, MAX_LOG_END_OFFSET)[insert_indexes]
        has_fitting_epoch: BoolArray = (epochs < 0) | (
            (epochs >= previous_epochs) & ((epochs <= next_epochs) | (next_epochs < 0))
        )
        return has_fitting_epoch

    def has_copy(self, log: UndamagedBatches, row: int) -> bool:
        """Whether an equal batch was placed."""
        placed_index = int(np.searchsorted(self.first_offset, log.first_offset[row]))
        if placed_index == len(self.first_offset):
            return False
        compared_columns = ("first_offset", "last_offset", "crc", "size")
        return all(
            int(getattr(self, column)[placed_index]) == int(getattr(log, column)[row])
            for column in compared_columns
        )

    def fills_gap(self, first_offset: int, last_offset: int, log_start_offset: int) -> bool:
        """Whether a range exactly fills the gap between two placed batches, or from
        `log_start_offset` to the first of them."""
        next_index = int(np.searchsorted(self.first_offset, first_offset))
        if next_index == len(self.first_offset) or last_offset + 1 != int(
            self.first_offset[next_index]
        ):
            return False
        return first_offset == (
            int(self.last_offset[next_index - 1]) + 1 if next_index else log_start_offset
        )


def _disjoint_ranges_mask(first_offsets: IntArray, last_offsets: IntArray) -> BoolArray:
    """The mask of ranges, in order of their first offsets, that begin after all placed before.

    A range that is not placed hides no other: a damaged header may claim any number of offsets.
    """
    is_disjoint: BoolArray = np.ones(len(first_offsets), np.bool_)
    is_disjoint[1:] = first_offsets[1:] > np.maximum.accumulate(last_offsets)[:-1]
    last_placed_offset = -1
    for i, first_offset in enumerate([] if is_disjoint.all() else first_offsets.tolist()):
        is_disjoint[i] = first_offset > last_placed_offset
        last_placed_offset = int(last_offsets[i]) if is_disjoint[i] else last_placed_offset
    return is_disjoint


def _place_batches_beyond_bounds(
    placed_batches: _PlacedBatches, log_index: int, log: UndamagedBatches, candidate_mask: BoolArray
) -> list[tuple[int, int]]:
    """Place batches that are in order but beyond their file's bounds, if they continue the previous
    batch or are before the last placed one; returns the unplaced ones by log and row."""
    unplaced_batches: list[tuple[int, int]] = []
    for row in np.flatnonzero(candidate_mask).tolist():
        base_offset, last_offset = int(log.first_offset[row]), int(log.last_offset[row])
        is_continuation = row > 0 and int(log.last_offset[row - 1]) + 1 == base_offset
        is_before_last = len(placed_batches.first_offset) and last_offset < int(
            placed_batches.last_offset[-1]
        )
        unplaced_batches += (
            [
                (log_index, unplaced_row)
                for unplaced_row in placed_batches.place_batches(log_index, log, np.array([row]))
            ]
            if is_continuation or is_before_last
            else [(log_index, row)]
        )
    return unplaced_batches


def _place_moved_batches(
    placed_batches: _PlacedBatches,
    log_index: int,
    log: UndamagedBatches,
    chain_mask: BoolArray,
    offset_bounds: tuple[int, int],
) -> list[tuple[int, int]]:
    """Place the batches that are not in the chain; returns the unplaced ones by log and row.

    A batch was moved if its offsets fill a gap elsewhere, or if the gap at its position is too
    small for it. Other batches have a wrong base offset and are not placed.
    """
    unplaced_batches = []
    chain_rows = np.flatnonzero(chain_mask)
    for row in np.flatnonzero(~chain_mask).tolist():
        base_offset, last_offset = int(log.first_offset[row]), int(log.last_offset[row])
        chain_index = int(np.searchsorted(chain_rows, row))
        previous_last_offset = (
            int(log.last_offset[chain_rows[chain_index - 1]])
            if chain_index
            else offset_bounds[0] - 1
        )
        next_first_offset = (
            int(log.first_offset[chain_rows[chain_index]])
            if chain_index < len(chain_rows)
            else offset_bounds[1]
        )
        fits_at_position = next_first_offset - previous_last_offset - 1 > last_offset - base_offset
        if fits_at_position and not placed_batches.fills_gap(
            base_offset, last_offset, offset_bounds[0]
        ):
            unplaced_batches.append((log_index, row))
        else:
            unplaced_batches += (
                (log_index, unplaced_row)
                for unplaced_row in placed_batches.place_batches(log_index, log, np.array([row]))
            )
    return unplaced_batches


def _split_into_segments(
    logs: Sequence[UndamagedBatches], placed_batches: _PlacedBatches, base_offsets: list[int]
) -> list[tuple[int, list[BatchRun]]]:
    """The placed batches, divided into segments at the base offsets of the logs."""
    segments: list[tuple[int, list[BatchRun]]] = []
    segment_bytes, last_offset, next_base_index = 0, -1, 0
    for run in _iter_contiguous_runs(
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
        is_segment_start = not segments or (
            base_offset > segments[-1][0] and base_offset > last_offset
        )
        if not is_segment_start and run.last_offset - segments[-1][0] > MAX_RELATIVE_OFFSET:
            is_segment_start, base_offset = True, run.first_offset
        if not is_segment_start and segment_bytes + run.size > MAX_SEGMENT_BYTES:
            is_segment_start, base_offset = True, run.first_offset
        if is_segment_start:
            if base_offset <= last_offset or run.last_offset - base_offset > MAX_RELATIVE_OFFSET:
                base_offset = run.first_offset
            segments.append((base_offset, []))
            segment_bytes = 0
        segments[-1][1].append(run)
        segment_bytes += run.size
        last_offset = run.last_offset
    return segments


def _split_conflict_logs(
    logs: Sequence[UndamagedBatches], conflicting_batches: list[tuple[int, int]]
) -> list[list[BatchRun]]:
    """Conflicting batches, distributed to as few logs without overlaps as needed."""
    conflicting_batches.sort(key=lambda batch: int(logs[batch[0]].first_offset[batch[1]]))
    conflict_logs: list[list[tuple[int, int]]] = []
    last_offsets: list[int] = []
    for log_index, row in conflicting_batches:
        base_offset = int(logs[log_index].first_offset[row])
        last_offset = int(logs[log_index].last_offset[row])
        conflict_log_index = next(
            (i for i, log_last_offset in enumerate(last_offsets) if log_last_offset < base_offset),
            len(conflict_logs),
        )
        if conflict_log_index == len(conflict_logs):
            conflict_logs.append([])
            last_offsets.append(last_offset)
        conflict_logs[conflict_log_index].append((log_index, row))
        last_offsets[conflict_log_index] = last_offset
    return [list(_iter_contiguous_runs(logs, logs_and_rows, [])) for logs_and_rows in conflict_logs]


def _iter_contiguous_runs(
    logs: Sequence[UndamagedBatches],
    logs_and_rows: Iterable[tuple[int, int]],
    base_offsets: Sequence[int],
) -> Iterable[BatchRun]:
    """Join contiguous batches; no run crosses the base offset of a segment or a limit of one."""
    current_run: BatchRun | None = None
    segment_base_offsets = set(base_offsets)
    for log_index, row in logs_and_rows:
        log = logs[log_index]
        position, size = int(log.position[row]), int(log.size[row])
        base_offset, last_offset = int(log.first_offset[row]), int(log.last_offset[row])
        if (
            current_run is not None
            and current_run.log_index == log_index
            and current_run.position + current_run.size == position
            and base_offset not in segment_base_offsets
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
