"""A broker's start on one partition's directory: its result, or why it fails.

Source: `org.apache.kafka.storage.internals.log.LogLoader`,
`org.apache.kafka.storage.internals.log.UnifiedLog.rebuildProducerState`, `ProducerStateManager`.
Their behaviour was also observed: `tests/interop/test_start.py`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from kfmt_cli.broker.defaults import DEFAULT_SEGMENT_INDEX_BYTES
from kfmt_cli.broker.log_reading.not_files import Access, FileAccessError, check_access
from kfmt_cli.broker.log_reading.stored_batches import (
    CorruptError,
    StartError,
    StoredBatch,
    wrap_int64,
)
from kfmt_cli.broker.start.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    CheckpointError,
    CheckpointNumberError,
    read_valid_epoch_entries,
)
from kfmt_cli.broker.start.loaded_log import LoadedLog, LogLoaderInput
from kfmt_cli.broker.start.recovery_segment import (
    MAX_INDEX_BYTES,
    InvalidOffset,
    OffsetOverflow,
    RecoverySegment,
)
from kfmt_cli.broker.start.start_files import StartFiles
from kfmt_cli.broker.transactions.producer_state import ProducerStateManager, is_producer_snapshot
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.kinds import INDEX_KINDS
from kfmt_cli.disk.kinds.fixed_size_rows import (
    OFFSET_INDEX_KIND,
    PRODUCER_SNAPSHOT_KIND,
    TIME_INDEX_KIND,
)
from kfmt_cli.disk.kinds.kind import read_small_file
from kfmt_cli.formats.index import ABORTED_TRANSACTION, MAX_RELATIVE_OFFSET

_ABORTED_TRANSACTION_DTYPE = ABORTED_TRANSACTION.dtype
_INDEX_SUFFIXES = tuple(index.suffix for index in INDEX_KINDS)


def load_log(
    loader_input: LogLoaderInput, producer_state: ProducerStateManager | None = None
) -> LoadedLog:
    """Start on a partition; raises InputError, and StartError if the broker does not start.

    producer_state: the producer state to rebuild; afterwards it has the remaining snapshots.
    """
    loader = _LogLoader(loader_input, producer_state or ProducerStateManager())
    try:
        return loader.load()
    except (CorruptError, InvalidOffset) as error:
        loader.close()
        raise StartError(str(error)) from error
    except StartError:
        loader.close()
        raise


class _LogLoader:
    def __init__(self, loader_input: LogLoaderInput, producer_state: ProducerStateManager) -> None:
        self._loader_input = loader_input
        self._start_files = StartFiles(loader_input.directory, loader_input.kafka_version)
        self._segment_by_base: dict[int, RecoverySegment] = {}
        self._split_part_by_base: dict[int, RecoverySegment] = {}  # the parts of split segments
        self._producer_state = producer_state
        producer_state.before_write = self._check_snapshot_access

    def _check_snapshot_access(self, offset: int) -> None:
        """Check that the snapshot at an offset can be written; raises StartError."""
        snapshot_name = f"{offset:020}{PRODUCER_SNAPSHOT_KIND.suffix}"
        check_access(self._loader_input.directory, snapshot_name, Access.WRITE)

    def close(self) -> None:
        for segment in self._segment_by_base.values():
            segment.close()

    def load(self) -> LoadedLog:
        self._check_leader_epochs()
        self._start_files.complete_swaps()
        snapshot_file_by_name = {
            file_name: snapshot_file
            for file_name, snapshot_file in self._start_files.file_by_name.items()
            if is_producer_snapshot(file_name)
        }
        self._producer_state.reset(
            {
                self._start_files.parse_name_offset(file_name): snapshot_file
                for file_name, snapshot_file in snapshot_file_by_name.items()
            }
        )
        while not self._open_segments():  # each round splits a segment
            pass
        log_end_offset = None
        while log_end_offset is None:  # each round splits a segment
            log_end_offset = self._recover_log()
        self._check_index_sizes(self._segment_by_base[max(self._segment_by_base)])
        segments = [
            self._segment_by_base[base_offset] for base_offset in sorted(self._segment_by_base)
        ]
        log_start_offset = max(self._loader_input.log_start_offset, segments[0].base_offset)
        loaded_log = LoadedLog(
            segments, self._start_files.deleted_names, log_start_offset, log_end_offset
        )
        self._producer_state.reset(self._producer_state.snapshot_by_offset)
        self._producer_state.remove_stray_snapshots(list(self._segment_by_base))
        if not self._loader_input.is_clean_shutdown or self._producer_state.snapshot_by_offset:
            self._rebuild_producer_state(segments, log_start_offset, log_end_offset)
        self._check_first_unstable_offset(loaded_log)
        first_ongoing_offset = self._producer_state.first_ongoing_offset
        loaded_log.last_stable_offset = (
            log_end_offset
            if first_ongoing_offset is None
            else max(first_ongoing_offset, log_start_offset)
        )
        remaining_snapshots = self._producer_state.snapshot_by_offset
        loaded_log.deleted_names += (
            file_name
            for file_name in snapshot_file_by_name
            if self._start_files.parse_name_offset(file_name) not in remaining_snapshots
        )
        return loaded_log

    def _check_index_sizes(self, last_segment: RecoverySegment) -> None:
        """Check that the last segment's indexes can be opened and fit into segment.index.bytes, the
        size to which the broker resizes them; raises StartError."""
        last_segment.open_indexes()
        if last_segment.is_recovered:
            return
        for index_kind in (OFFSET_INDEX_KIND, TIME_INDEX_KIND):
            index_name = f"{last_segment.base_offset:020}{index_kind.suffix}"
            entry_bytes = index_kind.layouts[0].dtype.itemsize
            index_file = self._start_files.file_by_name.get(index_name)
            max_index_bytes = DEFAULT_SEGMENT_INDEX_BYTES // entry_bytes * entry_bytes
            if (
                index_file is not None
                and file_size(index_file) // entry_bytes * entry_bytes > max_index_bytes
            ):
                raise StartError(
                    f"{self._loader_input.directory.input_file(index_name).name}: "
                    f"{file_size(index_file)} bytes, but "
                    f"segment.index.bytes is {DEFAULT_SEGMENT_INDEX_BYTES}"
                )

    def _check_first_unstable_offset(self, loaded_log: LoadedLog) -> None:
        """Find the batch where the oldest open transaction begins; raises StartError."""
        first_unstable_offset = self._producer_state.first_unstable_offset
        if first_unstable_offset is None:
            return
        first_unstable_offset = max(first_unstable_offset, loaded_log.log_start_offset)
        if first_unstable_offset > loaded_log.log_end_offset:
            raise StartError(
                f"{self._loader_input.directory.name}: a transaction is open from offset "
                f"{first_unstable_offset}, which "
                "is not in the log"
            )
        n_earlier_segments = sum(
            segment.base_offset <= first_unstable_offset for segment in loaded_log.segments
        )
        for segment in loaded_log.segments[max(n_earlier_segments - 1, 0) :]:
            if (
                segment.unchanged_end_offset is not None
                or segment.translate_offset(first_unstable_offset) is not None
            ):
                return

    def _check_leader_epochs(self) -> None:
        """Check the leader epochs, which the broker reads before anything else."""
        check_access(self._loader_input.directory, LEADER_EPOCH_CHECKPOINT, Access.READ)
        checkpoint_file = self._start_files.file_by_name.get(LEADER_EPOCH_CHECKPOINT)
        if checkpoint_file is None:
            return
        try:
            read_valid_epoch_entries(checkpoint_file)
        except (CheckpointError, CheckpointNumberError) as error:
            raise StartError(str(error), is_offline=isinstance(error, CheckpointError)) from error

    def _open_segments(self) -> bool:
        """Open every segment; False if one was split and all must be opened again."""
        self._segment_by_base = dict(self._split_part_by_base)
        try:
            for file_name in sorted(self._start_files.file_by_name):
                if file_name not in self._start_files.file_by_name:
                    continue
                if file_name.endswith(_INDEX_SUFFIXES):
                    base_offset = self._start_files.parse_name_offset(file_name)
                    if not self._start_files.exists(f"{base_offset:020}.log"):
                        self._start_files.delete_file(file_name)
                elif file_name.endswith(".log"):
                    self._open_segment(self._start_files.parse_name_offset(file_name))
        except OffsetOverflow:
            return False
        return True

    def _open_segment(self, base_offset: int) -> None:
        if base_offset in self._split_part_by_base:
            return
        log_name = f"{base_offset:020}.log"
        log_file = self._start_files.file_by_name.get(log_name)
        directory = self._loader_input.directory
        if log_file is None:  # the broker creates a log with that name
            self._segment_by_base[base_offset] = RecoverySegment.create_empty(
                directory, base_offset, self._loader_input.kafka_version
            )
            return
        display_name = directory.input_file(log_name).name
        unchanged_range = (
            None
            if log_name in self._start_files.swapped_names
            else self._loader_input.unchanged_range_by_base.get(base_offset)
        )
        unchanged_end_offset = None if unchanged_range is None else unchanged_range[1]
        segment = RecoverySegment(
            base_offset,
            display_name,
            log_file.path,
            file_size(log_file),
            unchanged_end_offset,
            self._loader_input.kafka_version,
        )
        original_size = 0 if log_name in self._start_files.swapped_names else segment.size
        segment.original_size = self._start_files.replaced_size_by_name.get(log_name, original_size)
        self._segment_by_base[base_offset] = segment
        index_file = self._start_files.file_by_name.get(f"{base_offset:020}.index")
        segment.directory = directory
        if not self._start_files.exists(f"{base_offset:020}.index") and (
            f"{base_offset:020}.index" not in self._start_files.created_index_names
        ):
            # The broker recovers it at once, with the segments that are already open.
            self._recover_segment(segment, is_opening=True)
            return
        segment.index_file = index_file
        if index_file is None:
            segment.unchanged_end_offset = None
        if not self._start_files.exists(f"{base_offset:020}.timeindex"):
            check_access(directory, f"{base_offset:020}.timeindex", Access.OPEN)
        check_access(directory, f"{base_offset:020}.txnindex", Access.OPEN_EXISTING)
        self._recover_invalid_transaction_index(base_offset)

    def _recover_invalid_transaction_index(self, base_offset: int) -> None:
        """Recover a segment if its transaction index has an entry that ends before the segment."""
        index_file = self._start_files.file_by_name.get(f"{base_offset:020}.txnindex")
        if index_file is None:
            return
        index_bytes = read_small_file(index_file, MAX_INDEX_BYTES)
        index_entries = np.frombuffer(
            index_bytes,
            _ABORTED_TRANSACTION_DTYPE,
            len(index_bytes) // _ABORTED_TRANSACTION_DTYPE.itemsize,
        )
        versions, last_offsets = index_entries["version"], index_entries["last_offset"]
        is_unknown = (
            versions != 0
            if self._loader_input.kafka_version.checks_all_of_aborted_version
            else versions >= 0x100
        )
        for is_unknown_version, last_offset in zip(
            is_unknown.tolist(), last_offsets.tolist(), strict=True
        ):
            if is_unknown_version:
                raise StartError(f"{index_file.name}: an entry has an unknown version")
            if last_offset < base_offset:
                self._recover_segment(self._segment_by_base[base_offset], is_opening=True)
                return

    def _recover_segment(self, segment: RecoverySegment, *, is_opening: bool = False) -> int:
        """Recover a segment; returns the number of bytes truncated. is_opening: whether the segment
        is not part of the log yet."""
        producer_state = self._producer_state
        earlier_segments = [
            other_segment
            for base_offset, other_segment in sorted(self._segment_by_base.items())
            if base_offset < segment.base_offset or not is_opening
        ]
        producer_state.reset(producer_state.snapshot_by_offset)
        self._rebuild_producer_state(
            earlier_segments, self._loader_input.log_start_offset, segment.base_offset
        )
        segment.is_recovered = True
        segment.open_indexes()
        truncated_bytes = 0
        if self._can_skip_segment(segment):
            if segment.unchanged_end_offset is not None and not segment.is_legacy:
                producer_state.map_end_offset = max(
                    producer_state.map_end_offset, segment.unchanged_end_offset
                )
        else:
            try:
                truncated_bytes = segment.recover(
                    self._loader_input.index_interval_bytes,
                    partial(self._update_producer_state, segment),
                )
            except OffsetOverflow:
                self._split_segment(segment, is_opening=is_opening)
                raise
        producer_state.take_snapshot()
        return truncated_bytes

    def _can_skip_segment(self, segment: RecoverySegment) -> bool:
        """Whether an unchanged segment without transactions can be skipped: it changes only the end
        offset."""
        return segment.unchanged_end_offset is not None and not self._loader_input.has_transactions

    def _update_producer_state(self, segment: RecoverySegment, batch: StoredBatch) -> None:
        aborted_transaction = self._producer_state.process_batch(segment.log_bytes, batch)
        if aborted_transaction is not None:
            segment.add_aborted_transaction(aborted_transaction, batch.position)
        self._producer_state.apply_pending_transactions()

    def _rebuild_producer_state(
        self, segments: list[RecoverySegment], log_start_offset: int, end_offset: int
    ) -> None:
        """Process the batches after the newest snapshot, without checking their checksums; raises
        CorruptError, StartError, InputError."""
        producer_state = self._producer_state
        producer_state.snapshot_by_offset = {
            offset: file
            for offset, file in producer_state.snapshot_by_offset.items()
            if log_start_offset < offset <= end_offset
        }
        if end_offset != producer_state.map_end_offset:
            producer_state.load_newest_snapshot(log_start_offset)
        if end_offset > producer_state.map_end_offset:
            self._process_segments(segments, log_start_offset, end_offset)
        producer_state.map_end_offset = end_offset
        producer_state.take_snapshot()

    def _process_segments(
        self, segments: list[RecoverySegment], log_start_offset: int, end_offset: int
    ) -> None:
        producer_state = self._producer_state
        processed_base_offsets = [
            segment.base_offset
            for segment in segments
            if segment.base_offset <= producer_state.map_end_offset
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
            start_offset = max(segment.base_offset, producer_state.map_end_offset, log_start_offset)
            producer_state.map_end_offset = start_offset
            if segment.base_offset in last_two_base_offsets:
                producer_state.take_snapshot()
            if self._can_skip_segment(segment):
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
                    producer_state.process_batch(segment.log_bytes, batch)
            producer_state.apply_pending_transactions()

    def _split_segment(self, segment: RecoverySegment, *, is_opening: bool) -> None:
        """Split a segment whose offsets are out of range; one that is opening is left as it is."""
        end_offset = segment.next_offset
        relative_offset = wrap_int64(wrap_int64(end_offset - 1) - segment.base_offset)
        if not (
            end_offset > segment.base_offset and not 0 <= relative_offset <= MAX_RELATIVE_OFFSET
        ):
            raise StartError(
                f"{segment.log_name}: a batch has offsets below the segment's base offset, or "
                "too far above it"
            )
        self._segment_by_base.pop(segment.base_offset)
        part_by_base: dict[int, RecoverySegment] = {}
        current_part: RecoverySegment | None = None
        next_position = 0
        for batch in segment.iter_batches():
            if current_part is None or not current_part.can_hold_batch(batch):
                first_offset = segment.read_first_offset(batch)
                if current_part is not None and current_part.base_offset == first_offset:
                    raise StartError(f"{segment.log_name}: a batch does not fit into any segment")
                current_part = segment.create_part(first_offset, next_position)
                part_by_base[current_part.base_offset] = current_part
            next_position = current_part.size = batch.end_position
        self._split_part_by_base.pop(segment.base_offset, None)
        self._split_part_by_base |= part_by_base
        self._segment_by_base |= part_by_base
        if is_opening:  # its index has been begun, so it is not recovered again
            self._start_files.created_index_names.add(f"{segment.base_offset:020}.index")
        elif segment.base_offset not in part_by_base:
            self._start_files.delete_file(f"{segment.base_offset:020}.log")
        if next_position < segment.size:
            raise StartError(
                f"{segment.log_name} byte {next_position}: cannot split here, no batch starts "
                "at this byte"
            )

    def _recover_log(self) -> int | None:
        """Recover unflushed segments; returns the log end offset, None if a segment was split and
        recovery must start again."""
        loader_input, segment_by_base = self._loader_input, self._segment_by_base
        if not loader_input.is_clean_shutdown:
            base_offsets = sorted(segment_by_base)
            offsets_up_to_recovery_point = [
                base for base in base_offsets if base <= loader_input.recovery_point
            ]
            pending_base_offsets = (
                [base for base in base_offsets if base >= offsets_up_to_recovery_point[-1]]
                if offsets_up_to_recovery_point
                else base_offsets
            )
            while pending_base_offsets:
                segment = segment_by_base[pending_base_offsets.pop(0)]
                try:
                    truncated_bytes = self._recover_segment(segment)
                except OffsetOverflow:
                    return None
                except InvalidOffset:
                    truncated_bytes = segment.truncate_to_base()
                except FileAccessError:
                    if not loader_input.kafka_version.truncates_at_access_errors:
                        raise
                    truncated_bytes = segment.truncate_to_base()
                if truncated_bytes > 0:
                    for base_offset in pending_base_offsets:
                        self._start_files.delete_file(f"{base_offset:020}.log")
                        segment_by_base.pop(base_offset).close()
                    pending_base_offsets.clear()
        if segment_by_base:
            log_end_offset = segment_by_base[max(segment_by_base)].end_offset
            if log_end_offset >= loader_input.log_start_offset:
                return log_end_offset
            for base_offset in sorted(segment_by_base):
                self._start_files.delete_file(f"{base_offset:020}.log")
                segment_by_base.pop(base_offset).close()
            self._producer_state.snapshot_by_offset.clear()
        segment_by_base[loader_input.log_start_offset] = self._create_empty_segment(
            loader_input.log_start_offset
        )
        return loader_input.log_start_offset

    def _create_empty_segment(self, base_offset: int) -> RecoverySegment:
        """An empty segment, which may reuse the name of a deleted one."""
        log_name = f"{base_offset:020}.log"
        segment = RecoverySegment.create_empty(
            self._loader_input.directory, base_offset, self._loader_input.kafka_version
        )
        if log_name in self._start_files.deleted_names:
            self._start_files.deleted_names.remove(log_name)
            segment.original_size = file_size(self._loader_input.directory.input_file(log_name))
        return segment
