"""Intervals of offsets, both ends inclusive: set operations, and the offsets of a log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field

from kfmt_cli.broker.log_reading.consumer import read_wrapper_first_offset
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.findings.codes import BATCH_TRUNCATED
from kfmt_cli.findings.finding import is_error
from kfmt_cli.formats import batch_header_readers as header
from kfmt_cli.formats.index import MAX_RELATIVE_OFFSET
from kfmt_cli.log.block import BATCH_HEADER_BYTES
from kfmt_cli.log.reader import LogReader

_BATCH_COLUMNS = (
    *("position", "base_offset", "last_offset", "has_base_offset", "crc_valid", "records_count"),
    *("control", "start", "end"),
)
OffsetInterval = tuple[int, int]
OffsetIntervals = list[OffsetInterval]


def merge_intervals(intervals: Iterable[OffsetInterval]) -> OffsetIntervals:
    """The intervals in order, with adjacent and overlapping ones merged."""
    merged_intervals: OffsetIntervals = []
    for first, last in sorted(interval for interval in intervals if interval[0] <= interval[1]):
        if merged_intervals and first <= merged_intervals[-1][1] + 1:
            merged_intervals[-1] = merged_intervals[-1][0], max(last, merged_intervals[-1][1])
        else:
            merged_intervals.append((first, last))
    return merged_intervals


def subtract_intervals(
    intervals: Iterable[OffsetInterval], excluded_intervals: Iterable[OffsetInterval]
) -> OffsetIntervals:
    """The parts of `intervals` that are outside `excluded_intervals`."""
    merged_excluded, excluded_index = merge_intervals(excluded_intervals), 0
    remaining_intervals: OffsetIntervals = []
    for first, last in merge_intervals(intervals):
        next_offset = first
        while excluded_index < len(merged_excluded) and merged_excluded[excluded_index][0] <= last:
            excluded_first, excluded_last = merged_excluded[excluded_index]
            if next_offset < excluded_first:
                remaining_intervals.append((next_offset, excluded_first - 1))
            next_offset = max(next_offset, excluded_last + 1)
            if excluded_last > last:
                break  # it may also exclude a part of the next one
            excluded_index += 1
        if next_offset <= last:
            remaining_intervals.append((next_offset, last))
    return remaining_intervals


def intersect_intervals(
    intervals: Iterable[OffsetInterval], other_intervals: Iterable[OffsetInterval]
) -> OffsetIntervals:
    """The parts of `intervals` that are inside `other_intervals`."""
    all_intervals = list(intervals)
    return subtract_intervals(all_intervals, subtract_intervals(all_intervals, other_intervals))


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """A batch as kfmt reads it."""

    position: int
    first_offset: int
    last_offset: int
    is_valid: bool
    """Whether its checksum is valid and its offsets are possible."""
    n_records: int = 0
    """Number of its records, not counting transaction markers and the like."""


@dataclass(slots=True)
class LogOffsets:
    """The batches of a log as kfmt reads them, including damaged ones."""

    base_offset: int
    batches: list[BatchOffsets] = field(default_factory=list)
    damaged_positions: set[int] = field(default_factory=set)
    """Positions of damage: batches that fail their checksum, and bytes that are not a batch."""

    def undamaged_offsets(
        self, malformed_positions: frozenset[int] = frozenset()
    ) -> OffsetIntervals:
        """The offsets of undamaged batches without a finding at one of these positions."""
        positions = sorted(batch.position for batch in self.batches)
        # A finding at damage does not belong to the batch before the damage.
        malformed_batch_positions = {
            positions[i - 1]
            for position in malformed_positions - self.damaged_positions
            if (i := bisect_right(positions, position))
        }
        return [
            (batch.first_offset, batch.last_offset)
            for batch in self.batches
            if batch.is_valid
            and batch.position not in malformed_batch_positions | self.damaged_positions
        ]

    def contained_offsets(
        self, next_base_offset: int | None, max_bytes: int | None = None
    ) -> OffsetIntervals:
        """The offsets that the log contains, or contained before it was damaged.

        Where a log is damaged, all offsets between the neighbouring undamaged batches count as
        contained. next_base_offset: the base offset of the next segment, None for the last one.
        max_bytes: consider only this many bytes.
        """
        intervals: OffsetIntervals = []
        positions = sorted(self.damaged_positions | {batch.position for batch in self.batches})
        batch_by_position = {batch.position: batch for batch in self.batches}
        next_offset, invalid_batch_intervals, has_damage_since_batch = self.base_offset, [], False
        for position in positions:
            if max_bytes is not None and position >= max_bytes:
                break
            batch = batch_by_position.get(position)
            if batch is None or not batch.is_valid:
                has_damage_since_batch = True
                invalid_batch_intervals += (
                    [] if batch is None else [(batch.first_offset, batch.last_offset)]
                )
                continue
            intervals.append((batch.first_offset, batch.last_offset))
            if (
                not self.base_offset
                <= batch.first_offset
                <= batch.last_offset
                <= self.base_offset + MAX_RELATIVE_OFFSET
            ):
                continue  # impossible offsets do not bound the damage around the batch
            if has_damage_since_batch:
                intervals += _gap_intervals(
                    next_offset, batch.first_offset - 1, invalid_batch_intervals
                )
            next_offset, invalid_batch_intervals, has_damage_since_batch = (
                batch.last_offset + 1,
                [],
                False,
            )
        if has_damage_since_batch:
            gap_last_offset = None if next_base_offset is None else next_base_offset - 1
            intervals += _gap_intervals(next_offset, gap_last_offset, invalid_batch_intervals)
        return merge_intervals(intervals)


def _gap_intervals(
    first_offset: int, last_offset: int | None, invalid_batch_intervals: OffsetIntervals
) -> OffsetIntervals:
    """The offsets of damaged batches in a gap. last_offset: the last offset of the gap, None if no
    batch follows. invalid_batch_intervals: the offsets in the headers of the damaged batches."""
    if last_offset is not None:
        return [(first_offset, last_offset)]
    max_offset = first_offset + MAX_RELATIVE_OFFSET
    return [
        (max(claimed_first, first_offset), claimed_last)
        for claimed_first, claimed_last in invalid_batch_intervals
        if claimed_first <= claimed_last <= max_offset
    ]


def read_log_offsets(file: InputFile, base_offset: int) -> LogOffsets:
    """The batches of a log; raises InputError."""
    log_offsets = LogOffsets(base_offset)
    with closing(open_source(file.path, file.name)) as log_source:
        for block in LogReader(log_source, base_offset).iter_blocks():
            for finding in block.findings:
                if is_error(finding) and finding.position is not None:
                    log_offsets.damaged_positions.add(finding.position)
                if finding.code is BATCH_TRUNCATED and finding.position is not None:
                    header_bytes = log_source.read_block(finding.position, BATCH_HEADER_BYTES, 1)
                    _add_truncated_batch(log_offsets, header_bytes, finding.position)
            batch_columns = (block.batches[name].tolist() for name in _BATCH_COLUMNS)
            for (
                position,
                header_base_offset,
                header_last_offset,
                has_base_offset,
                crc_valid,
                records_count,
                is_control,
                batch_start,
                batch_end,
            ) in zip(*batch_columns, strict=True):
                first_offset = header_base_offset
                last_offset = header_last_offset
                is_valid = bool(crc_valid)
                if not has_base_offset:
                    batch_bytes = bytes(block.data[batch_start:batch_end])
                    inner_first_offset = (
                        read_wrapper_first_offset(batch_bytes, header_last_offset)
                        if is_valid
                        else None
                    )
                    # The offsets in an unreadable wrapper end at the wrapper's offset.
                    first_offset = base_offset if inner_first_offset is None else inner_first_offset
                    is_valid = inner_first_offset is not None
                elif is_valid and header_last_offset < first_offset:
                    last_offset = first_offset + records_count - 1
                if not is_valid:
                    log_offsets.damaged_positions.add(position)
                is_possible = is_valid and 0 <= first_offset <= last_offset
                n_records = records_count if has_base_offset else last_offset - first_offset + 1
                log_offsets.batches.append(
                    BatchOffsets(
                        position,
                        first_offset,
                        last_offset,
                        is_possible,
                        0 if is_control else n_records,
                    )
                )
    return log_offsets


def _add_truncated_batch(log_offsets: LogOffsets, header_bytes: bytes, position: int) -> None:
    """Add the offsets of a batch that the end of the file truncates, if its header is complete."""
    if len(header_bytes) < BATCH_HEADER_BYTES or header.magic(header_bytes) != 2:
        return
    first_offset, last_offset_delta = (
        header.base_offset(header_bytes),
        header.last_offset_delta(header_bytes),
    )
    log_offsets.batches.append(
        BatchOffsets(position, first_offset, first_offset + last_offset_delta, False)
    )


def intervals_to_lists(intervals: Iterable[OffsetInterval]) -> list[list[int]]:
    """The intervals as lists, for JSON."""
    return [list(interval) for interval in intervals]


def count_offsets(intervals: Iterable[OffsetInterval]) -> int:
    """The number of offsets in the intervals."""
    return sum(last - first + 1 for first, last in intervals)
