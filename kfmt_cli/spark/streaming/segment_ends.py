"""Finds the ends of logs, and whether a log still has the history that a stream has read.

A broker that becomes a follower may truncate its log and rewrite it: its end then falls below the
position, or the batch before the position has another leader epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from kfmt_cli.broker.log_reading.stored_batches import (
    CorruptError,
    LogBytes,
    StartError,
    StoredBatch,
    iter_stored_batches,
)
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.formats import batch_header_readers as header
from kfmt_cli.log.block import BATCH_HEADER_BYTES
from kfmt_cli.spark.streaming.partition_directories import GET_BASE_OFFSET
from kfmt_cli.spark.streaming.positions import PartitionPosition

UNLIMITED = 1 << 62  # bytes or offsets per trigger without a limit


@dataclass(slots=True)
class TriggerBudget:
    """The bytes and offsets that a trigger may still read."""

    remaining_bytes: int = UNLIMITED
    remaining_offsets: int = UNLIMITED
    is_unused: bool = True
    """Whether nothing has been read yet: a trigger reads at least one batch."""

    @property
    def can_read_more(self) -> bool:
        """Whether the trigger may read anything more."""
        return self.remaining_bytes > 0 and self.remaining_offsets > 0

    def can_consume(self, n_bytes: int, n_offsets: int) -> bool:
        """Whether the trigger may also read this much."""
        return n_bytes <= self.remaining_bytes and n_offsets <= self.remaining_offsets

    def exhaust(self) -> None:
        """Set the remaining bytes to 0, as the next batch does not fit."""
        self.remaining_bytes = 0

    def consume(self, n_bytes: int, n_offsets: int) -> None:
        """Subtract what is read; the rest may become negative, as batches are read completely."""
        self.is_unused = False
        self.remaining_bytes -= n_bytes
        self.remaining_offsets -= n_offsets


@dataclass(frozen=True, slots=True)
class ReadableEnd:
    """The end of the complete batches of a segment, up to a budget."""

    position: PartitionPosition
    """After the last batch within the budget; the segment's base offset if there is none."""
    start_byte: int = 0
    """The byte at which the batches with the requested offsets begin."""
    error: str | None = None
    """The reason why the batches after it cannot be stepped over."""


@dataclass(frozen=True, slots=True)
class HistoryDivergence:
    """Evidence that a log's history differs from the one that was read."""

    message: str
    divergence_offset: int
    """The offset at which the other history begins, or the best estimate of it."""


@dataclass(slots=True)
class SegmentEndCache:
    """Finds the ends of segments; reads a segment again only from where it has changed."""

    _end_by_path: dict[str, tuple[int, int, ReadableEnd]] = field(default_factory=dict)
    """Size, modification time and end of segments, by path."""

    def find_cached_end(self, segment: FileSplit) -> ReadableEnd | None:
        """The end of a segment that has not changed since it was read."""
        file_size, modified_ns, segment_end = self._end_by_path.get(segment.path, (-1, 0, None))
        return (
            segment_end
            if (file_size, modified_ns) == (segment.file_size, segment.modified_ns)
            else None
        )

    def find_segment_end(
        self,
        segment: FileSplit,
        start_position: PartitionPosition,
        budget: TriggerBudget | None = None,
    ) -> ReadableEnd:
        """The end of a segment's batches from a position within the budget; raises InputError."""
        effective_budget = budget or TriggerBudget()
        start_byte = (
            start_position.byte if start_position.segment == segment.base_offset_or_zero else 0
        )
        cached_end = self.find_cached_end(segment)
        if cached_end is not None:
            end_position = cached_end.position
            if end_position.offset <= start_position.offset or effective_budget.can_consume(
                end_position.byte - start_byte, end_position.offset - start_position.offset
            ):
                return replace(cached_end, start_byte=min(start_byte, end_position.byte))
        with closing(LogBytes(segment.path, segment.path)) as log_bytes:
            start_byte = (
                start_byte
                if is_batch_start(log_bytes, start_position, segment.base_offset_or_zero)
                else 0
            )
            position = (
                start_position
                if start_byte
                else PartitionPosition(segment.base_offset_or_zero, segment.base_offset_or_zero)
            )
            outdated_end = self._end_by_path.get(segment.path)
            if (
                budget is None
                and outdated_end is not None
                and outdated_end[2].position.byte > start_byte
            ):
                end_position = outdated_end[2].position
                position = (
                    end_position
                    if is_batch_start(log_bytes, end_position, segment.base_offset_or_zero)
                    else position
                )
            segment_end, is_complete = _scan_batches(
                log_bytes, segment, position, start_position.offset, effective_budget
            )
        if is_complete:
            self._end_by_path[segment.path] = segment.file_size, segment.modified_ns, segment_end
        return segment_end

    def find_log_end(
        self, segments: Sequence[FileSplit], position: PartitionPosition
    ) -> ReadableEnd:
        """The end of a log; raises InputError. position: a position in the log, before which
        nothing has to be read."""
        return self.find_segment_end(segments[-1], position)

    def find_divergence(
        self, segments: Sequence[FileSplit], position: PartitionPosition
    ) -> HistoryDivergence | None:
        """How a log's history differs from the one read up to a position; None if it does not.
        Raises InputError."""
        if segments[-1].base_offset_or_zero < position.offset:
            log_end = self.find_log_end(segments, position)
            if log_end.position.offset < position.offset and log_end.error is None:
                message = f"the log ends at offset {log_end.position.offset}"
                return HistoryDivergence(
                    message,
                    self._find_divergence_offset(segments, position, log_end.position.offset),
                )
        if position.epoch < 0:
            return None
        leader_epoch = self._find_epoch_before_position(segments, position)
        if leader_epoch in (-1, position.epoch):
            return None
        message = (
            f"offset {position.offset - 1} has leader epoch {leader_epoch} instead of "
            f"{position.epoch}"
        )
        return HistoryDivergence(
            message, self._find_divergence_offset(segments, position, position.offset - 1)
        )

    def _find_epoch_before_position(
        self, segments: Sequence[FileSplit], position: PartitionPosition
    ) -> int:
        """The leader epoch of the batch with the offset before a position, or a later epoch of an
        earlier batch; -1 if it is unknown, as after cleaning."""
        segment = next(
            (
                log_segment
                for log_segment in segments
                if log_segment.base_offset_or_zero == position.segment
            ),
            None,
        )
        if segment is not None and position.last >= 0:
            with closing(LogBytes(segment.path, segment.path)) as log_bytes:
                if is_batch_start(log_bytes, position, position.segment):
                    return position.epoch
        return self.find_leader_epoch_before(segments, position.offset, position.epoch)

    def find_latest_epoch(
        self, segments: Sequence[FileSplit], end_position: PartitionPosition
    ) -> int:
        """The leader epoch of the last batch before a position; -1 if it is unknown. Raises
        InputError."""
        if end_position.epoch >= 0:
            return end_position.epoch
        return self.find_leader_epoch_before(segments, end_position.offset)

    def find_leader_epoch_before(
        self, segments: Sequence[FileSplit], offset: int, stop_above_epoch: int = UNLIMITED
    ) -> int:
        """The leader epoch of the batch that contains the offset before `offset`; -1 if it is
        unknown. Stops at the first batch with an epoch above `stop_above_epoch`, and returns that
        epoch. Raises InputError."""
        segment = segments[max(bisect_right(segments, offset - 1, key=GET_BASE_OFFSET) - 1, 0)]
        with closing(LogBytes(segment.path, segment.path)) as log_bytes:
            try:
                for batch in iter_stored_batches(
                    log_bytes, 0, min(segment.file_size, log_bytes.size)
                ):
                    leader_epoch = read_leader_epoch(log_bytes, batch)
                    if batch.base_offset >= offset:
                        # A batch after one that was cleaned away has its epoch or a later one.
                        return (
                            leader_epoch if 0 <= leader_epoch < stop_above_epoch < UNLIMITED else -1
                        )
                    if leader_epoch > stop_above_epoch or batch.last_offset >= offset - 1:
                        return max(leader_epoch, -1)
            except (CorruptError, StartError):
                pass
        return -1

    def _find_divergence_offset(
        self, segments: Sequence[FileSplit], position: PartitionPosition, max_offset: int
    ) -> int:
        """The offset of the first batch with a later leader epoch than the position's, at most
        `max_offset`, and at least the first offset of the log."""
        for segment in reversed(segments if position.epoch >= 0 else ()):
            with closing(LogBytes(segment.path, segment.path)) as log_bytes:
                try:
                    for batch in iter_stored_batches(
                        log_bytes, 0, min(segment.file_size, log_bytes.size)
                    ):
                        leader_epoch = read_leader_epoch(log_bytes, batch)
                        if leader_epoch > position.epoch:
                            max_offset = min(max_offset, batch.base_offset)
                            break
                        if batch.base_offset > max_offset:
                            break
                    first_batch = next(iter_stored_batches(log_bytes, 0, log_bytes.size), None)
                    if (
                        first_batch is not None
                        and 0 <= read_leader_epoch(log_bytes, first_batch) <= position.epoch
                    ):
                        break
                except (CorruptError, StartError):
                    continue
        return max(max_offset, segments[0].base_offset_or_zero)


def has_batch_start(segment: FileSplit, position: PartitionPosition) -> bool:
    """Whether the batch with the next offset begins at the position's byte in a segment, or will
    begin there: the previous batch ends there, or a batch with this offset begins there. Raises
    InputError."""
    base_offset = segment.base_offset_or_zero
    if position.segment != base_offset or not 0 < position.byte <= segment.file_size:
        return False
    with closing(LogBytes(segment.path, segment.path)) as log_bytes:
        return is_batch_start(log_bytes, position, base_offset)


def is_batch_start(log_bytes: LogBytes, position: PartitionPosition, base_offset: int) -> bool:
    """As `has_batch_start`, in an open log."""
    if position.segment != base_offset or not 0 < position.byte <= log_bytes.size:
        return False
    try:
        if position.last >= 0:
            batch = next(iter_stored_batches(log_bytes, position.last, log_bytes.size), None)
            if (
                batch is None
                or batch.end_position != position.byte
                or batch.last_offset + 1 != position.offset
            ):
                return False
            return position.epoch in (-1, read_leader_epoch(log_bytes, batch))
        if position.byte == log_bytes.size:
            return True
        batch = next(iter_stored_batches(log_bytes, position.byte, log_bytes.size), None)
    except (CorruptError, StartError):
        return False
    return batch is not None and batch.base_offset == position.offset


def read_leader_epoch(log_bytes: LogBytes, batch: StoredBatch) -> int:
    """The leader epoch in a batch; -1 if it has none."""
    if batch.magic < 2:
        return -1
    return header.partition_leader_epoch(log_bytes.read_bytes(batch.position, BATCH_HEADER_BYTES))


def _scan_batches(
    log_bytes: LogBytes,
    segment: FileSplit,
    position: PartitionPosition,
    first_offset: int,
    budget: TriggerBudget,
) -> tuple[ReadableEnd, bool]:
    """Step over the batches from a position; returns the end of those within the budget, which
    counts from `first_offset`, and whether these are all batches."""
    last_batch, start_byte, error_text, is_scan_complete = None, -1, None, True
    try:
        for batch in iter_stored_batches(
            log_bytes, position.byte, min(segment.file_size, log_bytes.size)
        ):
            if batch.last_offset >= first_offset:
                start_byte = batch.position if start_byte < 0 else start_byte
                n_offsets = batch.last_offset + 1 - max(first_offset, segment.base_offset_or_zero)
                is_first_batch = budget.is_unused and batch.position == start_byte
                if not is_first_batch and not budget.can_consume(
                    batch.end_position - start_byte, n_offsets
                ):
                    is_scan_complete = False
                    break
            last_batch = batch
    except (CorruptError, StartError) as error:
        error_text = str(error)
    if last_batch is not None:
        next_offset = max(last_batch.last_offset + 1, position.offset)
        epoch = read_leader_epoch(log_bytes, last_batch)
        position = PartitionPosition(
            next_offset,
            segment.base_offset_or_zero,
            last_batch.end_position,
            last_batch.position,
            epoch,
        )
    return ReadableEnd(
        position, position.byte if start_byte < 0 else start_byte, error_text
    ), is_scan_complete
