"""Writes a partition with rearranged batches, and reports on its logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from kfmt_cli.broker.start.offset_intervals import (
    OffsetIntervals,
    merge_intervals,
    subtract_intervals,
)
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.findings.log import OFFSETS_BACKWARDS
from kfmt_cli.findings.partition import SEGMENTS_OVERLAP
from kfmt_cli.writers.convert.reencoded_batch import ReencodedBatch
from kfmt_cli.writers.output import OutputFile, Staging, copy_times
from kfmt_cli.writers.salvage.batch_arrangement import (
    BatchArrangement,
    BatchRun,
    UndamagedBatches,
    arrange_batches,
)
from kfmt_cli.writers.salvage.holes import NO_END, LogHole, SalvageCounts
from kfmt_cli.writers.salvage.salvager import ScannedLog

CONFLICT_DIRECTORY = "contradicting"
CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class RearrangementPlan:
    """Where to write the batches of all logs."""

    scanned: Sequence[ScannedLog]
    arrangement: BatchArrangement
    remains: Sequence[tuple[int, ReencodedBatch]] = ()
    """The remains of damaged batches, with the index of their log."""
    remains_data: bytes = b""
    """The bytes of the remains, consecutively."""

    def placed_remains(self, log_index: int) -> list[ReencodedBatch]:
        """The remains of a log's damaged batches that are in the arrangement."""
        runs = (run for _, segment_runs in self.arrangement.segments for run in segment_runs)
        remains_ranges = [
            (run.position, run.position + run.size)
            for run in runs
            if run.log_index == len(self.scanned)
        ]
        placed_batches, position = [], 0
        for source_index, reencoded_batch in self.remains:
            if source_index == log_index and any(
                begin <= position < end for begin, end in remains_ranges
            ):
                placed_batches.append(reencoded_batch)
            position += len(reencoded_batch.batch.data)
        return placed_batches


def plan_rearrangement(scanned_logs: Sequence[ScannedLog]) -> RearrangementPlan:
    """Place every undamaged batch, and the remains of damaged ones in free ranges."""
    producers = {producer for scanned_log in scanned_logs for producer in scanned_log.producers}
    remains = [
        (i, reencoded_batch)
        for i, scanned_log in enumerate(scanned_logs)
        for reencoded_batch in scanned_log.remains
        if reencoded_batch.producer is None or reencoded_batch.producer in producers
    ]
    encoded_chunks = [reencoded_batch.batch.data for _, reencoded_batch in remains]
    end_positions = np.cumsum([0, *map(len, encoded_chunks)])
    remains_batches = UndamagedBatches(
        0,
        end_positions[:-1],
        np.diff(end_positions),
        np.array([reencoded_batch.base_offset for _, reencoded_batch in remains], np.int64),
        np.array([reencoded_batch.last_offset for _, reencoded_batch in remains], np.int64),
        np.zeros(len(remains), np.int64),
        np.full(len(remains), -1),
    )
    # A damaged copy must not replace other segments.
    undamaged_batches = [
        replace(log.undamaged_batches, is_replacement=False)
        if log.damage_codes
        else log.undamaged_batches
        for log in scanned_logs
    ]
    return RearrangementPlan(
        scanned_logs,
        arrange_batches(undamaged_batches, remains_batches),
        remains,
        b"".join(map(bytes, encoded_chunks)),
    )


def write_rearranged(
    staging: Staging, dst_directory: str, plan: RearrangementPlan, last_base_offset: int
) -> tuple[list[str], list[str]]:
    """Write the segments and the logs of conflicting batches; returns the names of both.

    last_base_offset: the base offset of the last log without any placed batch.
    """
    segment_names, conflict_names = [], []
    last_offset = -1
    for base_offset, runs in plan.arrangement.segments:
        name = f"{dst_directory}/{base_offset:020}{LOG_KIND.suffix}"
        with staging.create_file(name) as out:
            _copy_runs(out, plan, runs)
        first_log_index = next(
            (run.log_index for run in runs if run.log_index < len(plan.scanned)), None
        )
        if first_log_index is not None:
            # Retention uses the modification time of a log whose messages have no timestamps.
            copy_times(plan.scanned[first_log_index].log.path, staging.directory / name)
        segment_names.append(name)
        last_offset = runs[-1].last_offset
    if last_base_offset > last_offset:  # an empty segment at the end sets the log end offset
        name = f"{dst_directory}/{last_base_offset:020}{LOG_KIND.suffix}"
        if name not in segment_names:
            staging.write_file(name, b"")
            segment_names.append(name)
    for number, conflict_log in enumerate(plan.arrangement.conflict_logs, 1):
        directory = CONFLICT_DIRECTORY if number == 1 else f"{CONFLICT_DIRECTORY}-{number}"
        for runs in _split_by_index_range(conflict_log):
            name = (
                f"{dst_directory}/{directory}/{max(runs[0].first_offset, 0):020}{LOG_KIND.suffix}"
            )
            with staging.create_file(name) as out:
                _copy_runs(out, plan, runs)
            conflict_names.append(name)
    return segment_names, conflict_names


def _split_by_index_range(conflict_log: Sequence[BatchRun]) -> Iterator[list[BatchRun]]:
    """Split a log of conflicting batches into logs whose offsets fit in one index."""
    current_runs: list[BatchRun] = []
    for run in conflict_log:
        if current_runs and run.last_offset - max(current_runs[0].first_offset, 0) >= 1 << 31:
            yield current_runs
            current_runs = []
        current_runs.append(run)
    if current_runs:
        yield current_runs


def _copy_runs(out: OutputFile, plan: RearrangementPlan, runs: Sequence[BatchRun]) -> None:
    """Copy runs of batches into a file, in order."""
    for run in runs:
        position, end = run.position, run.position + run.size
        if run.log_index == len(plan.scanned):
            out.write(plan.remains_data[position:end])
            continue
        log = plan.scanned[run.log_index].log
        with closing(open_source(log.path, log.name)) as source:
            while position < end:
                n = min(CHUNK_BYTES, end - position)
                chunk = source.read_block(position, n, n)
                assert chunk, f"{log.name} byte {position}: the file was truncated"
                out.write(chunk)
                position += len(chunk)


def iter_log_results(plan: RearrangementPlan) -> Iterator[tuple[SalvageCounts, list[LogHole]]]:
    """Yield the result for each log: its counts, and its byte ranges that no segment contains."""
    runs = (run for _, segment_runs in plan.arrangement.segments for run in segment_runs)
    placed_intervals = merge_intervals(
        interval
        for run in runs
        if run.log_index < len(plan.scanned)
        for interval in plan.scanned[run.log_index].undamaged_batches.offset_intervals_in(
            run.position, run.size
        )
    )
    for log_index in range(len(plan.scanned)):
        result, holes = _log_result(plan, log_index)
        yield result, [_exclude_placed_offsets(hole, placed_intervals) for hole in holes]


def _log_result(plan: RearrangementPlan, log_index: int) -> tuple[SalvageCounts, list[LogHole]]:
    """The result for one log. Its holes include missing offsets that other logs contain."""
    scanned_log = plan.scanned[log_index]
    base_offsets = (log.undamaged_batches.base_offset for log in plan.scanned)
    next_base_offset = min(
        (base for base in base_offsets if base > scanned_log.undamaged_batches.base_offset),
        default=NO_END,
    )
    all_runs = (run for _, segment_runs in plan.arrangement.segments for run in segment_runs)
    runs = sorted(
        (run for run in all_runs if run.log_index == log_index),
        key=lambda run: run.position,
    )
    result = SalvageCounts(-1, bytes=scanned_log.n_bytes, batches=len(scanned_log.header_positions))
    result.batches_after = sum(run.n_batches for run in runs)
    result.bytes_after = sum(run.size for run in runs)
    positioned_codes = sorted(
        [*scanned_log.damage_codes, *_unplaced_batch_codes(scanned_log, runs, next_base_offset)]
    )
    remains = plan.placed_remains(log_index)
    for reencoded_batch in remains:
        result.batches_after += 1
        result.bytes_after += len(reencoded_batch.batch.data)
        result.reencoded += reencoded_batch.n_records
    holes = []
    position, previous_offset = 0, scanned_log.undamaged_batches.base_offset - 1
    for run in runs:
        if run.position > position:
            holes.append(
                _create_hole(
                    scanned_log,
                    positioned_codes,
                    remains,
                    (position, run.position),
                    (previous_offset, run.first_offset),
                )
            )
        position, previous_offset = run.position + run.size, run.last_offset
    batch_ends = scanned_log.undamaged_batches.position + scanned_log.undamaged_batches.size
    is_truncated = len(batch_ends) > 0 and int(batch_ends.max()) < scanned_log.n_bytes
    # If a log has offsets beyond the next log's base offset, no file name shows where it ended.
    next_offset = (
        None
        if next_base_offset == NO_END or (is_truncated and previous_offset >= next_base_offset)
        else next_base_offset
    )
    if scanned_log.n_bytes > position:
        holes.append(
            _create_hole(
                scanned_log,
                positioned_codes,
                remains,
                (position, scanned_log.n_bytes),
                (previous_offset, next_offset),
            )
        )
    result.holes = len(holes)
    return result, holes


def _exclude_placed_offsets(hole: LogHole, placed_intervals: OffsetIntervals) -> LogHole:
    """The hole with only those missing offsets that no other log contains."""
    if hole.first_offset is None:
        return hole
    if hole.last_offset is None:
        interval_ends = (high for low, high in placed_intervals if low <= hole.first_offset <= high)
        return replace(hole, first_offset=next(interval_ends, hole.first_offset - 1) + 1)
    missing_intervals = subtract_intervals(
        [(hole.first_offset, hole.last_offset)], placed_intervals
    )
    first, last = (
        (missing_intervals[0][0], missing_intervals[-1][1]) if missing_intervals else (None, None)
    )
    return replace(hole, first_offset=first, last_offset=last)


def _unplaced_batch_codes(
    scanned_log: ScannedLog, runs: Sequence[BatchRun], next_base_offset: int
) -> list[tuple[int, str]]:
    """Position and finding code of each undamaged batch that is not in the segments."""
    run_starts = np.array([run.position for run in runs], np.int64)
    run_ends = np.array([run.position + run.size for run in runs], np.int64)
    run_indexes = (
        np.searchsorted(run_starts, scanned_log.undamaged_batches.position, side="right") - 1
    )
    is_placed = (run_indexes >= 0) & (
        scanned_log.undamaged_batches.position < np.append(run_ends, 0)[run_indexes]
    )
    is_beyond = scanned_log.undamaged_batches.last_offset >= next_base_offset
    return [
        (position, (SEGMENTS_OVERLAP if beyond else OFFSETS_BACKWARDS).name)
        for position, beyond in zip(
            scanned_log.undamaged_batches.position[~is_placed].tolist(),
            is_beyond[~is_placed].tolist(),
            strict=True,
        )
    ]


def _create_hole(
    scanned_log: ScannedLog,
    positioned_codes: Sequence[tuple[int, str]],
    remains: Sequence[ReencodedBatch],
    byte_range: tuple[int, int],
    offset_bounds: tuple[int, int | None],
) -> LogHole:
    """The hole for a byte range of a log. offset_bounds: the last offset kept before it, and the
    first one kept after it, None if none is."""
    begin, end = byte_range
    n_batches = int(
        ((scanned_log.header_positions >= begin) & (scanned_log.header_positions < end)).sum()
    )
    first_offset: int | None = offset_bounds[0] + 1
    last_offset = None if offset_bounds[1] is None else offset_bounds[1] - 1
    if last_offset is not None and last_offset < offset_bounds[0] + 1:
        first_offset = last_offset = None
    codes = tuple(sorted({code for position, code in positioned_codes if begin <= position < end}))
    n_records = sum(
        reencoded_batch.n_records
        for reencoded_batch in remains
        if begin <= reencoded_batch.position < end
    )
    return LogHole(begin, end - begin, n_batches, first_offset, last_offset, n_records, codes)
