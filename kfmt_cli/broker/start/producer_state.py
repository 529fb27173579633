"""How a starting broker rebuilds producer state, and how that can fail the start.

It begins at the newest readable snapshot and processes the batches after it, without checking their
checksums. Source: `ProducerStateManager`, `UnifiedLog.rebuildProducerState`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kfmt_cli.broker.log_reading.stored_batches import (
    StartError,
    StoredBatch,
    read_transaction_marker,
    wrap_int64,
)
from kfmt_cli.broker.start.recovery_segment import RecoverySegment
from kfmt_cli.disk.kinds.fixed_size_rows import PRODUCER_SNAPSHOT_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import WrongFileKindError
from kfmt_cli.formats.control import ABORT


class ProducerSnapshots:
    """The snapshots of a partition, and the transactions open so far.

    file_by_offset: the snapshot files by offset, None for a snapshot that this start has written.
    has_transactions: whether logs that recovery leaves unchanged contain transactions, so that
    their batches are also processed.
    """

    def __init__(self, has_transactions: bool) -> None:
        self.file_by_offset: dict[int, InputFile | None] = {}
        self._has_transactions = has_transactions
        self._map_end_offset = 0
        self._last_snapshot_offset = 0
        # The first offset of each producer's open transaction.
        self._first_offset_by_producer: dict[int, int] = {}
        self._ongoing_first_offsets: set[int] = set()
        # The first offsets of open transactions by producer, for each snapshot written.
        self._first_offsets_by_snapshot_offset: dict[int, dict[int, int]] = {}
        self._last_abort_offset: int | None = None
        self._unreplicated_first_offsets: set[int] = set()
        self._pending_first_offsets: list[int] = []
        self._pending_ends: list[tuple[int, str]] = []

    def reset_state(self, file_by_offset: Mapping[int, InputFile | None]) -> None:
        """Begin with these snapshots and an empty state."""
        self.file_by_offset = dict(file_by_offset)
        self._map_end_offset = self._last_snapshot_offset = 0
        self._restore_open_transactions({})

    def _restore_open_transactions(self, first_offset_by_producer: dict[int, int]) -> None:
        self._first_offset_by_producer = dict(first_offset_by_producer)
        self._ongoing_first_offsets = set(first_offset_by_producer.values())
        self._unreplicated_first_offsets.clear()

    def can_skip_segment(self, segment: RecoverySegment) -> bool:
        """Whether a segment without transactions can be skipped: it changes only the end offset."""
        return segment.unchanged_end_offset is not None and not self._has_transactions

    def mark_offsets_processed(self, end_offset: int) -> None:
        """Mark everything up to an offset as processed."""
        self._map_end_offset = max(self._map_end_offset, end_offset)

    def begin_transaction_index(self) -> None:
        """Begin rebuilding the transaction index of the next segment."""
        self._last_abort_offset = None

    def process_batch(
        self, segment: RecoverySegment, batch: StoredBatch, *, writes_index: bool = False
    ) -> None:
        """Process a batch; raises CorruptError, StartError. writes_index: write the transaction
        that it aborts to the transaction index."""
        location = f"{segment.log_name} byte {batch.position}"
        first_offset = self._first_offset_by_producer.get(batch.producer_id)
        if batch.producer_id >= 0 and batch.is_control:
            marker = read_transaction_marker(segment.log_bytes.read_batch(batch), location)
            if marker is not None and first_offset is not None:
                del self._first_offset_by_producer[batch.producer_id]
                if writes_index and marker.control_type == ABORT:
                    self._add_indexed_abort(location, batch.base_offset)
                self._pending_ends.append((first_offset, location))
        elif batch.producer_id >= 0 and first_offset is None and batch.is_transactional:
            self._first_offset_by_producer[batch.producer_id] = batch.base_offset
            self._pending_first_offsets.append(batch.base_offset)
        elif batch.producer_id >= 0 and first_offset is not None and not batch.is_transactional:
            raise StartError(
                f"{location}: non-transactional batch inside a transaction of producer "
                f"{batch.producer_id}"
            )
        self._map_end_offset = wrap_int64(batch.last_offset + 1)

    def _add_indexed_abort(self, location: str, abort_offset: int) -> None:
        if self._last_abort_offset is not None and abort_offset <= self._last_abort_offset:
            raise StartError(f"{location}: an aborted transaction ends before the previous one")
        self._last_abort_offset = abort_offset

    def apply_pending_transactions(self) -> None:
        """Begin and end the transactions of the processed batches; raises StartError. A broker
        does so after each batch in log recovery, but once per segment when it loads one."""
        self._ongoing_first_offsets.update(self._pending_first_offsets)
        for first_offset, location in self._pending_ends:
            if first_offset not in self._ongoing_first_offsets:
                raise StartError(
                    f"{location}: marker of a transaction whose first offset {first_offset} is "
                    "also "
                    "another transaction's"
                )
            self._ongoing_first_offsets.discard(first_offset)
            self._unreplicated_first_offsets.add(first_offset)
        self._pending_first_offsets.clear()
        self._pending_ends.clear()

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open, or that ended since the newest
        snapshot; None if there is no such transaction."""
        return min(self._ongoing_first_offsets | self._unreplicated_first_offsets, default=None)

    def discard_transaction_index(self, segment: RecoverySegment) -> None:
        """Discard the index entries of a segment that recovery has truncated to nothing."""

    def take_snapshot(self) -> None:
        """Write a snapshot if the state has advanced."""
        if self._map_end_offset > self._last_snapshot_offset:
            self.file_by_offset[self._map_end_offset] = None
            self._save_snapshot_state(self._map_end_offset)
            self._last_snapshot_offset = self._map_end_offset

    def _save_snapshot_state(self, offset: int) -> None:
        """Save the state of a snapshot that this start writes."""
        self._first_offsets_by_snapshot_offset[offset] = dict(self._first_offset_by_producer)

    def _restore_snapshot_state(self, offset: int, file: InputFile | None) -> bool:
        """Restore the state from a snapshot; False if it is damaged. Raises InputError."""
        first_offset_by_producer = (
            self._first_offsets_by_snapshot_offset[offset]
            if file is None
            else _read_open_first_offsets(file)
        )
        if first_offset_by_producer is None:
            return False
        self._restore_open_transactions(first_offset_by_producer)
        return True

    def rebuild_state(
        self,
        segments: list[RecoverySegment],
        log_start_offset: int,
        end_offset: int,
        *,
        is_after_clean_shutdown: bool,
    ) -> None:
        """Process the batches after the newest snapshot; raises CorruptError, StartError,
        InputError."""
        if is_after_clean_shutdown and not self.file_by_offset:
            return
        self.file_by_offset = {
            offset: file
            for offset, file in self.file_by_offset.items()
            if log_start_offset < offset <= end_offset
        }
        if end_offset != self._map_end_offset:
            self._load_newest_snapshot(log_start_offset)
        if end_offset > self._map_end_offset:
            self._process_segments(segments, log_start_offset, end_offset)
        self._map_end_offset = end_offset
        self.take_snapshot()

    def _load_newest_snapshot(self, log_start_offset: int) -> None:
        self._restore_open_transactions({})
        while self.file_by_offset:
            newest_offset = max(self.file_by_offset)
            file = self.file_by_offset[newest_offset]
            if self._restore_snapshot_state(newest_offset, file):
                self._map_end_offset = self._last_snapshot_offset = newest_offset
                return
            del self.file_by_offset[newest_offset]
        self._map_end_offset = self._last_snapshot_offset = log_start_offset

    def _process_segments(
        self, segments: list[RecoverySegment], log_start_offset: int, end_offset: int
    ) -> None:
        processed_base_offsets = [
            segment.base_offset
            for segment in segments
            if segment.base_offset <= self._map_end_offset
        ]
        first_base_offset = processed_base_offsets[-1] if processed_base_offsets else -1
        end_base_offset = max(
            (segment.base_offset for segment in segments if segment.base_offset <= end_offset),
            default=None,
        )
        last_two_base_offsets = {segment.base_offset for segment in segments[-2:]}
        for segment in segments:
            if not first_base_offset <= segment.base_offset < end_offset:
                continue
            start_offset = max(segment.base_offset, self._map_end_offset, log_start_offset)
            self._map_end_offset = start_offset
            if segment.base_offset in last_two_base_offsets:
                self.take_snapshot()
            if self.can_skip_segment(segment):
                continue
            end_position = segment.size
            if (
                segment.base_offset == end_base_offset
                and (end_batch := segment.translate_offset(end_offset)) is not None
            ):
                end_position = end_batch.position
            start_batch = segment.translate_offset(start_offset)
            if start_batch is None:
                continue
            for batch in segment.iter_batches(start_batch.position):
                if batch.end_position > end_position:
                    break
                if batch.magic >= 2:
                    self.process_batch(segment, batch)
            self.apply_pending_transactions()

    def remove_stray_snapshots(self, segment_bases: list[int]) -> None:
        """Remove snapshots between segments, except the newest one after the last segment."""
        stray_offset = None
        for offset in sorted(self.file_by_offset):
            if offset not in segment_bases:
                if stray_offset is not None:
                    del self.file_by_offset[stray_offset]
                stray_offset = offset
        if stray_offset is not None and segment_bases and stray_offset < max(segment_bases):
            del self.file_by_offset[stray_offset]


def _read_open_first_offsets(file: InputFile) -> dict[int, int] | None:
    """The first offset of each producer's open transaction in a snapshot; None if it is damaged.
    Raises InputError if it cannot be read."""
    try:
        snapshot_contents = file.read_contents()
    except WrongFileKindError:
        return None
    if snapshot_contents.findings:
        return None
    producer_table = snapshot_contents.table
    first_offsets = producer_table.current_txn_first_offset.tolist()
    ids_and_first_offsets = zip(producer_table.producer_id.tolist(), first_offsets, strict=True)
    return {
        producer_id: first_offset
        for producer_id, first_offset in ids_and_first_offsets
        if first_offset >= 0
    }


def is_producer_snapshot(file_name: str) -> bool:
    """Whether a broker treats a file as a snapshot."""
    return file_name.endswith(PRODUCER_SNAPSHOT_KIND.suffix)
