"""Writes a partition with rearranged batches, and reports on its logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from kfmt_cli.broker.log_reading.offset_intervals import (
    OffsetIntervals,
    merge_intervals,
    subtract_intervals,
)
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.findings.codes import OFFSETS_BACKWARDS, SEGMENTS_OVERLAP
from kfmt_cli.writers.convert.reencoded_batch import ReencodedBatch
from kfmt_cli.writers.output import OutputFile, StagingDirectory, copy_times
from kfmt_cli.writers.salvage.batch_arrangement import (
    BatchArrangement,
    BatchRun,
    arrange_batches,
)
from kfmt_cli.writers.salvage.holes import NO_NEXT_OFFSET, LogHole, SalvageCounts
from kfmt_cli.writers.salvage.salvager import ScannedLog
from kfmt_cli.writers.salvage.undamaged_batches import UndamagedBatches

CONFLICT_DIRECTORY = "contradicting"
COPY_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class RearrangementPlan:
    """Where to write the batches of all logs."""

    scanned_logs: Sequence[ScannedLog]
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
            if run.log_index == len(self.scanned_logs)
        ]
        placed_batches, position = [], 0
        for batch_log_index, reencoded_batch in self.remains:
            if batch_log_index == log_index and any(
                begin <= position < end for begin, end in remains_ranges
            ):
                placed_batches.append(reencoded_batch)
            position += len(reencoded_batch.encoded_batch.data)
        return placed_batches


def plan_rearrangement(scanned_logs: Sequence[ScannedLog]) -> RearrangementPlan:
    """Place every undamaged batch, and the remains of damaged ones in free ranges."""
    producers = {producer for scanned_log in scanned_logs for producer in scanned_log.producers}
    remains = [
        (log_index, reencoded_batch)
        for log_index, scanned_log in enumerate(scanned_logs)
        for reencoded_batch in scanned_log.remains
        if reencoded_batch.producer is None or reencoded_batch.producer in producers
    ]
    encoded_chunks = [reencoded_batch.encoded_batch.data for _, reencoded_batch in remains]
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


def write_rearranged_logs(
    staging: StagingDirectory, dst_directory: str, plan: RearrangementPlan, last_base_offset: int
) -> tuple[list[str], list[str]]:
    """Write the segments and the logs of conflicting batches; returns the names of both.

    last_base_offset: the base offset of the last log without any placed batch.
    """
    segment_names, conflict_names = [], []
    last_offset = -1
    for base_offset, runs in plan.arrangement.segments:
        relative_path = f"{dst_directory}/{base_offset:020}{LOG_KIND.suffix}"
        with staging.create_file(relative_path) as output_file:
            _copy_batch_runs(output_file, plan, runs)
        first_log_index = next(
            (run.log_index for run in runs if run.log_index < len(plan.scanned_logs)), None
        )
        if first_log_index is not None:
            # Retention uses the modification time of a log whose messages have no timestamps.
            copy_times(
                plan.scanned_logs[first_log_index].log.path, staging.directory / relative_path
            )
        segment_names.append(relative_path)
        last_offset = runs[-1].last_offset
    if last_base_offset > last_offset:  # an empty segment at the end sets the log end offset
        relative_path = f"{dst_directory}/{last_base_offset:020}{LOG_KIND.suffix}"
        if relative_path not in segment_names:
            staging.write_file(relative_path, b"")
            segment_names.append(relative_path)
    for log_number, conflict_log in enumerate(plan.arrangement.conflict_logs, 1):
        conflict_directory = (
            CONFLICT_DIRECTORY if log_number == 1 else f"{CONFLICT_DIRECTORY}-{log_number}"
        )
        for runs in _split_conflict_log(conflict_log):
            log_name = f"{max(runs[0].first_offset, 0):020}{LOG_KIND.suffix}"
            relative_path = f"{dst_directory}/{conflict_directory}/{log_name}"
            with staging.create_file(relative_path) as output_file:
                _copy_batch_runs(output_file, plan, runs)
            conflict_names.append(relative_path)
    return segment_names, conflict_names


def _split_conflict_log(conflict_log: Sequence[BatchRun]) -> Iterator[list[BatchRun]]:
    """Split a log of conflicting batches into logs whose offsets fit in one index."""
    current_runs: list[BatchRun] = []
    for run in conflict_log:
        if current_runs and run.last_offset - max(current_runs[0].first_offset, 0) >= 1 << 31:
            yield current_runs
            current_runs = []
        current_runs.append(run)
    if current_runs:
        yield current_runs


def _copy_batch_runs(
    output_file: OutputFile, plan: RearrangementPlan, runs: Sequence[BatchRun]
) -> None:
    """Copy runs of batches into a file, in order."""
    for run in runs:
        position, end = run.position, run.position + run.size
        if run.log_index == len(plan.scanned_logs):
            output_file.write(plan.remains_data[position:end])
            continue
        log = plan.scanned_logs[run.log_index].log
        with closing(open_source(log.path, log.name)) as source:
            while position < end:
                chunk_bytes = min(COPY_CHUNK_BYTES, end - position)
                chunk = source.read_block(position, chunk_bytes, chunk_bytes)
                assert chunk, f"{log.name} byte {position}: the file was truncated"
                output_file.write(chunk)
                position += len(chunk)


def iter_log_results(plan: RearrangementPlan) -> Iterator[tuple[SalvageCounts, list[LogHole]]]:
    """Yield the result for each log: its counts, and its byte ranges that no segment contains."""
    runs = (run for _, segment_runs in plan.arrangement.segments for run in segment_runs)
    placed_intervals = merge_intervals(
        interval
        for run in runs
        if run.log_index < len(plan.scanned_logs)
        for interval in plan.scanned_logs[
            run.log_index
        ].undamaged_batches.offset_intervals_in_bytes(run.position, run.size)
    )
    for log_index in range(len(plan.scanned_logs)):
        salvage_counts, holes = _counts_and_holes(plan, log_index)
        yield salvage_counts, [_exclude_placed_offsets(hole, placed_intervals) for hole in holes]


def _counts_and_holes(
    plan: RearrangementPlan, log_index: int
) -> tuple[SalvageCounts, list[LogHole]]:
    """The result for one log. Its holes include missing offsets that other logs contain."""
    scanned_log = plan.scanned_logs[log_index]
    log_base_offset = scanned_log.undamaged_batches.base_offset
    base_offsets = (log.undamaged_batches.base_offset for log in plan.scanned_logs)
    later_base_offsets = (offset for offset in base_offsets if offset > log_base_offset)
    next_base_offset = min(later_base_offsets, default=NO_NEXT_OFFSET)
    all_runs = (run for _, segment_runs in plan.arrangement.segments for run in segment_runs)
    log_runs = (run for run in all_runs if run.log_index == log_index)
    runs = sorted(log_runs, key=lambda run: run.position)
    salvage_counts = SalvageCounts(
        -1, bytes=scanned_log.n_bytes, batches=len(scanned_log.header_positions)
    )
    salvage_counts.batches_after = sum(run.n_batches for run in runs)
    salvage_counts.bytes_after = sum(run.size for run in runs)
    positioned_codes = sorted(
        [*scanned_log.damage_codes, *_unplaced_batch_codes(scanned_log, runs, next_base_offset)]
    )
    remains = plan.placed_remains(log_index)
    for reencoded_batch in remains:
        salvage_counts.batches_after += 1
        salvage_counts.bytes_after += len(reencoded_batch.encoded_batch.data)
        salvage_counts.reencoded += reencoded_batch.n_records
    holes = []
    hole_start, previous_offset = 0, log_base_offset - 1
    for run in runs:
        if run.position > hole_start:
            holes.append(
                _create_hole(
                    scanned_log,
                    positioned_codes,
                    remains,
                    (hole_start, run.position),
                    (previous_offset, run.first_offset),
                )
            )
        hole_start, previous_offset = run.position + run.size, run.last_offset
    batch_ends = scanned_log.undamaged_batches.position + scanned_log.undamaged_batches.size
    is_truncated = len(batch_ends) > 0 and int(batch_ends.max()) < scanned_log.n_bytes
    # If a log has offsets beyond the next log's base offset, no file name shows where it ended.
    next_offset = (
        None
        if next_base_offset == NO_NEXT_OFFSET
        or (is_truncated and previous_offset >= next_base_offset)
        else next_base_offset
    )
    if scanned_log.n_bytes > hole_start:
        holes.append(
            _create_hole(
                scanned_log,
                positioned_codes,
                remains,
                (hole_start, scanned_log.n_bytes),
                (previous_offset, next_offset),
            )
        )
    salvage_counts.holes = len(holes)
    return salvage_counts, holes


def _exclude_placed_offsets(hole: LogHole, placed_intervals: OffsetIntervals) -> LogHole:
    """The hole with only those missing offsets that no other log contains."""
    if hole.first_offset is None:
        return hole
    if hole.last_offset is None:
        last_placed_offsets = (
            last_placed
            for first_placed, last_placed in placed_intervals
            if first_placed <= hole.first_offset <= last_placed
        )
        return replace(hole, first_offset=next(last_placed_offsets, hole.first_offset - 1) + 1)
    missing_intervals = subtract_intervals(
        [(hole.first_offset, hole.last_offset)], placed_intervals
    )
    first_missing, last_missing = (
        (missing_intervals[0][0], missing_intervals[-1][1]) if missing_intervals else (None, None)
    )
    return replace(hole, first_offset=first_missing, last_offset=last_missing)


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
    is_beyond_log = scanned_log.undamaged_batches.last_offset >= next_base_offset
    return [
        (position, (SEGMENTS_OVERLAP if overlaps_next else OFFSETS_BACKWARDS).name)
        for position, overlaps_next in zip(
            scanned_log.undamaged_batches.position[~is_placed].tolist(),
            is_beyond_log[~is_placed].tolist(),
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
    hole_start, hole_end = byte_range
    n_batches = int(
        (
            (scanned_log.header_positions >= hole_start) & (scanned_log.header_positions < hole_end)
        ).sum()
    )
    first_offset: int | None = offset_bounds[0] + 1
    last_offset = None if offset_bounds[1] is None else offset_bounds[1] - 1
    if last_offset is not None and last_offset < offset_bounds[0] + 1:
        first_offset = last_offset = None
    finding_codes = tuple(
        sorted({code for position, code in positioned_codes if hole_start <= position < hole_end})
    )
    n_records = sum(
        reencoded_batch.n_records
        for reencoded_batch in remains
        if hole_start <= reencoded_batch.damaged_position < hole_end
    )
    return LogHole(
        hole_start,
        hole_end - hole_start,
        n_batches,
        first_offset,
        last_offset,
        n_records,
        finding_codes,
    )
