"""A broker's start on one partition's directory: its result, or why it fails.

Source: `org.apache.kafka.storage.internals.log.LogLoader`,
`org.apache.kafka.storage.internals.log.UnifiedLog.rebuildProducerState`, `ProducerStateManager`.
Their behaviour was also observed: `tests/interop/test_start.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES, DEFAULT_SEGMENT_INDEX_BYTES
from kfmt_cli.broker.start.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    CheckpointError,
    NumberError,
    read_valid_epochs,
)
from kfmt_cli.broker.start.producer_state import ProducerSnapshots, is_producer_snapshot
from kfmt_cli.broker.start.recovery_segment import (
    MAX_INDEX_BYTES,
    InvalidOffset,
    OffsetOverflow,
    RecoverySegment,
)
from kfmt_cli.broker.start.start_files import StartFiles
from kfmt_cli.broker.start.stored_batches import CorruptError, StartError, StoredBatch, wrap_int64
from kfmt_cli.broker.version import KafkaVersion
from kfmt_cli.disk.directory_listing import DirectoryListing, file_size
from kfmt_cli.disk.kinds import INDEX_KINDS
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND, TIME_INDEX_KIND
from kfmt_cli.disk.kinds.kind import read_small_file
from kfmt_cli.formats.index import ABORTED_TRANSACTION, MAX_RELATIVE_OFFSET

_ABORTED_TRANSACTION_DTYPE = ABORTED_TRANSACTION.dtype
_INDEX_SUFFIXES = tuple(index.suffix for index in INDEX_KINDS)


@dataclass(frozen=True, slots=True)
class LogLoaderInput:
    """The input of a start on a partition."""

    directory: DirectoryListing
    is_clean: bool
    version: KafkaVersion
    """The version of the broker."""
    recovery_point: int = 0
    """The recovery point in the checkpoints, 0 if missing."""
    log_start: int = 0
    """The log start offset in the checkpoints, 0 if missing."""
    unchanged_range_by_base: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Logs that recovery leaves unchanged: first offset and end offset by base offset."""
    bases_with_valid_index: frozenset[int] = frozenset()
    """Base offsets of segments with a valid index."""
    has_transactions: bool = False
    """Whether the unchanged logs contain transactions."""
    index_interval_bytes: int = DEFAULT_INDEX_INTERVAL_BYTES


@dataclass(slots=True)
class LoadedLog:
    """The result of a start on a partition."""

    segments: list[RecoverySegment]
    """The remaining segments, in order."""
    deleted: list[str]
    """File names, in order."""
    log_start: int
    log_end: int

    def close(self) -> None:
        """Close the logs."""
        for segment in self.segments:
            segment.close()


def load_log(loader_input: LogLoaderInput, snapshots: ProducerSnapshots | None = None) -> LoadedLog:
    """Start on a partition; raises InputError, and StartError if the broker does not start.

    snapshots: the producer state to rebuild; afterwards it has the remaining snapshots.
    """
    loader = _LogLoader(loader_input, snapshots or ProducerSnapshots(loader_input.has_transactions))
    try:
        return loader.load()
    except (CorruptError, InvalidOffset) as error:
        loader.close()
        raise StartError(str(error)) from error
    except StartError:
        loader.close()
        raise


class _LogLoader:
    def __init__(self, loader_input: LogLoaderInput, snapshots: ProducerSnapshots) -> None:
        self._input = loader_input
        self._files = StartFiles(loader_input.directory, loader_input.version)
        self._segments: dict[int, RecoverySegment] = {}
        self._split_segments: dict[int, RecoverySegment] = {}  # the parts of split segments
        self._snapshots = snapshots

    def close(self) -> None:
        for segment in self._segments.values():
            segment.close()

    def load(self) -> LoadedLog:
        self._check_epochs()
        self._files.complete_swaps()
        snapshot_by_name = {
            name: file
            for name, file in self._files.file_by_name.items()
            if is_producer_snapshot(name)
        }
        self._snapshots.reset(
            {self._files.parse_offset(name): file for name, file in snapshot_by_name.items()}
        )
        while not self._open_segments():  # each round splits a segment
            pass
        log_end = None
        while log_end is None:  # each round splits a segment
            log_end = self._recover_log()
        self._check_index_sizes(self._segments[max(self._segments)])
        segments = [self._segments[base] for base in sorted(self._segments)]
        log_start = max(self._input.log_start, segments[0].base)
        loaded_log = LoadedLog(segments, self._files.deleted, log_start, log_end)
        self._snapshots.reset(self._snapshots.file_by_offset)
        self._snapshots.remove_stray_snapshots(list(self._segments))
        self._snapshots.rebuild(
            segments, log_start, log_end, after_clean_shutdown=self._input.is_clean
        )
        self._check_first_unstable(loaded_log)
        remaining_snapshots = self._snapshots.file_by_offset
        loaded_log.deleted += (
            name
            for name in snapshot_by_name
            if self._files.parse_offset(name) not in remaining_snapshots
        )
        return loaded_log

    def _check_index_sizes(self, last_segment: RecoverySegment) -> None:
        """Check that the last segment's indexes fit into segment.index.bytes, the size to which the
        broker resizes them; raises StartError."""
        if last_segment.is_recovered:
            return
        for index in (OFFSET_INDEX_KIND, TIME_INDEX_KIND):
            name = f"{last_segment.base:020}{index.suffix}"
            entry_bytes = index.layouts[0].dtype.itemsize
            file = self._files.file_by_name.get(name)
            max_bytes = DEFAULT_SEGMENT_INDEX_BYTES // entry_bytes * entry_bytes
            if file is not None and file_size(file) // entry_bytes * entry_bytes > max_bytes:
                raise StartError(
                    f"{self._input.directory.input_file(name).name}: {file_size(file)} bytes, but "
                    f"segment.index.bytes is {DEFAULT_SEGMENT_INDEX_BYTES}"
                )

    def _check_first_unstable(self, loaded_log: LoadedLog) -> None:
        """Find the batch where the oldest open transaction begins; raises StartError."""
        first_unstable_offset = self._snapshots.first_unstable_offset
        if first_unstable_offset is None:
            return
        first_unstable_offset = max(first_unstable_offset, loaded_log.log_start)
        if first_unstable_offset > loaded_log.log_end:
            raise StartError(
                f"{self._input.directory.name}: a transaction is open from offset "
                f"{first_unstable_offset}, which "
                "is not in the log"
            )
        n_below = sum(segment.base <= first_unstable_offset for segment in loaded_log.segments)
        for segment in loaded_log.segments[max(n_below - 1, 0) :]:
            if (
                segment.unchanged_end_offset is not None
                or segment.translate_offset(first_unstable_offset) is not None
            ):
                return

    def _check_epochs(self) -> None:
        """Check the leader epochs, which the broker reads before anything else."""
        file = self._files.file_by_name.get(LEADER_EPOCH_CHECKPOINT)
        if file is None:
            return
        try:
            read_valid_epochs(file)
        except (CheckpointError, NumberError) as error:
            raise StartError(str(error), is_offline=isinstance(error, CheckpointError)) from error

    def _open_segments(self) -> bool:
        """Open every segment; False if one was split and all must be opened again."""
        self._segments = dict(self._split_segments)
        try:
            for name in sorted(self._files.file_by_name):
                if name not in self._files.file_by_name:
                    continue
                if name.endswith(_INDEX_SUFFIXES):
                    offset = self._files.parse_offset(name)
                    if f"{offset:020}.log" not in self._files.file_by_name:
                        self._files.delete(name)
                elif name.endswith(".log"):
                    self._open_segment(name, self._files.parse_offset(name))
        except OffsetOverflow:
            return False
        return True

    def _open_segment(self, name: str, base: int) -> None:
        if base in self._split_segments:
            return
        log_name = f"{base:020}.log"
        file = self._files.file_by_name.get(log_name)
        directory = self._input.directory
        if file is None:  # the broker creates a log with that name
            self._segments[base] = RecoverySegment.create_empty(
                base, directory.input_file(name).name, self._input.version
            )
            return
        display_name = directory.input_file(log_name).name
        unchanged_range = (
            None
            if log_name in self._files.swapped_names
            else self._input.unchanged_range_by_base.get(base)
        )
        unchanged_end_offset = None if unchanged_range is None else unchanged_range[1]
        segment = RecoverySegment(
            base,
            display_name,
            file.path,
            file_size(file),
            unchanged_end_offset,
            self._input.version,
        )
        original_size = 0 if log_name in self._files.swapped_names else segment.size
        segment.original_size = self._files.replaced_size_by_name.get(log_name, original_size)
        self._segments[base] = segment
        index_file = self._files.file_by_name.get(f"{base:020}.index")
        segment.has_index_directory = f"{base:020}.index" in directory.directories
        if segment.has_index_directory:
            segment.unchanged_end_offset = None
        elif index_file is None and f"{base:020}.index" not in self._files.created_indexes:
            # The broker recovers it at once, with the segments that are already open.
            self._recover_segment(segment, is_opening=True)
        else:
            segment.index_file = index_file
            self._check_transaction_index(base)

    def _check_transaction_index(self, base: int) -> None:
        """Recover a segment if its transaction index has an entry that ends before the segment."""
        file = self._files.file_by_name.get(f"{base:020}.txnindex")
        if file is None:
            return
        data = read_small_file(file, MAX_INDEX_BYTES)
        rows = np.frombuffer(
            data, _ABORTED_TRANSACTION_DTYPE, len(data) // _ABORTED_TRANSACTION_DTYPE.itemsize
        )
        for i, last_offset in enumerate(rows["last_offset"].tolist()):
            # A broker checks only the first of the version's two bytes.
            if 0 < data[i * _ABORTED_TRANSACTION_DTYPE.itemsize] < 0x80:
                raise StartError(f"{file.name}: an entry has an unknown version")
            if last_offset < base:
                self._recover_segment(self._segments[base], is_opening=True)
                return

    def _recover_segment(self, segment: RecoverySegment, *, is_opening: bool = False) -> int:
        """Recover a segment; returns the number of bytes truncated. is_opening: whether the segment
        is not part of the log yet."""
        snapshots = self._snapshots
        earlier_segments = [
            open_segment
            for base, open_segment in sorted(self._segments.items())
            if base < segment.base or not is_opening
        ]
        snapshots.reset(snapshots.file_by_offset)
        snapshots.rebuild(
            earlier_segments, self._input.log_start, segment.base, after_clean_shutdown=False
        )
        segment.is_recovered = True
        truncated_bytes = 0
        snapshots.begin_transaction_index()
        if snapshots.can_skip(segment) and segment.unchanged_end_offset is not None:
            if not segment.is_legacy:
                snapshots.mark_recovered(segment.unchanged_end_offset)
        else:
            try:
                truncated_bytes = segment.recover(
                    self._input.index_interval_bytes, partial(self._update_producer_state, segment)
                )
            except OffsetOverflow:
                self._split_segment(segment)
                raise
        snapshots.take_snapshot()
        return truncated_bytes

    def _update_producer_state(self, segment: RecoverySegment, batch: StoredBatch) -> None:
        self._snapshots.update(segment, batch, writes_index=True)
        self._snapshots.resolve_transactions()

    def _split_segment(self, segment: RecoverySegment) -> None:
        """Split a segment whose offsets are out of range for its base offset."""
        end_offset = segment.next_offset
        relative_offset = wrap_int64(wrap_int64(end_offset - 1) - segment.base)
        if not (end_offset > segment.base and not 0 <= relative_offset <= MAX_RELATIVE_OFFSET):
            raise StartError(
                f"{segment.name}: a batch has offsets below the segment's base offset, or too far "
                "above it"
            )
        self._segments.pop(segment.base)
        segment_by_base: dict[int, RecoverySegment] = {}
        current_segment: RecoverySegment | None = None
        position = 0
        for batch in segment.iter_batches():
            if current_segment is None or not current_segment.can_hold(batch):
                first_offset = segment.first_offset(batch)
                if current_segment is not None and current_segment.base == first_offset:
                    raise StartError(f"{segment.name}: a batch fits into no segment")
                current_segment = segment.split_at(first_offset, position)
                segment_by_base[current_segment.base] = current_segment
            position = current_segment.size = batch.end_position
        self._split_segments.pop(segment.base, None)
        self._split_segments |= segment_by_base
        self._segments |= segment_by_base
        if segment.base not in segment_by_base:
            self._files.delete(f"{segment.base:020}.log")
        if position < segment.size:
            raise StartError(
                f"{segment.name} byte {position}: cannot split here, no batch starts at this byte"
            )

    def _recover_log(self) -> int | None:
        """Recover unflushed segments; returns the log end offset, None if a segment was split and
        recovery must start again."""
        loader_input, segments = self._input, self._segments
        if not loader_input.is_clean:
            bases = sorted(segments)
            bases_up_to_recovery_point = [
                base for base in bases if base <= loader_input.recovery_point
            ]
            pending_bases = (
                [base for base in bases if base >= bases_up_to_recovery_point[-1]]
                if bases_up_to_recovery_point
                else bases
            )
            while pending_bases:
                segment = segments[pending_bases.pop(0)]
                try:
                    truncated_bytes = self._recover_segment(segment)
                except OffsetOverflow:
                    return None
                except InvalidOffset:
                    truncated_bytes = segment.truncate_to_base()
                    self._snapshots.discard_transaction_index(segment)
                if truncated_bytes > 0:
                    for base in pending_bases:
                        self._files.delete(f"{base:020}.log")
                        segments.pop(base).close()
                    pending_bases.clear()
        if segments:
            log_end = segments[max(segments)].end_offset
            if log_end >= loader_input.log_start:
                return log_end
            for base in sorted(segments):
                self._files.delete(f"{base:020}.log")
                segments.pop(base).close()
            self._snapshots.file_by_offset.clear()
        segments[loader_input.log_start] = self._create_empty(loader_input.log_start)
        return loader_input.log_start

    def _create_empty(self, base: int) -> RecoverySegment:
        """An empty segment, which may reuse the name of a deleted one."""
        log_name = f"{base:020}.log"
        segment = RecoverySegment.create_empty(
            base, self._input.directory.input_file(log_name).name, self._input.version
        )
        if log_name in self._files.deleted:
            self._files.deleted.remove(log_name)
            segment.original_size = file_size(self._input.directory.input_file(log_name))
        return segment
