"""The indexes and snapshots that a broker writes if it finds only the logs of a partition.

This is the start that `check` predicts, with the complete state of each producer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.broker.index_builder import encode_fixed_size_rows
from kfmt_cli.broker.log_reading.stored_batches import StoredBatch, read_transaction_marker
from kfmt_cli.broker.start.log_loader import LogLoaderInput, load_log
from kfmt_cli.broker.start.producer_state import ProducerSnapshots
from kfmt_cli.broker.start.recovery_segment import RecoverySegment
from kfmt_cli.broker.transactions.producers import (
    ProducerBatch,
    ProducerStateEntry,
    ProducerStateManager,
)
from kfmt_cli.broker.version import OLDEST_VERSION
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.formats import batch_header_readers as header
from kfmt_cli.formats.index import ABORTED_TRANSACTION, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kfmt_cli.log.block import BATCH_HEADER_BYTES, increment_sequence


@dataclass(slots=True)
class RecoveredSegment:
    """A segment that remains after the start."""

    base_offset: int
    n_offset_entries: int
    """The number of entries in its offset index."""
    content_by_name: dict[str, bytes | None] = field(default_factory=dict)


def recover_partition(
    directory: DirectoryListing, index_interval_bytes: int, expired_up_to_ms: int | None
) -> tuple[list[RecoveredSegment], dict[int, bytes]]:
    """The remaining segments with their indexes, and the snapshots by offset.

    expired_up_to_ms: as for `ProducerStateManager.expire`, None to expire no producer. Raises
    StartError, InputError.
    """
    producer_snapshots = _ProducerStateSnapshots(expired_up_to_ms)
    loaded_log = load_log(
        LogLoaderInput(
            directory,
            is_clean_shutdown=False,
            kafka_version=OLDEST_VERSION,
            index_interval_bytes=index_interval_bytes,
        ),
        producer_snapshots,
    )
    loaded_log.close()
    recovered_segments = [
        _encode_index_files(
            segment, producer_snapshots.aborted_transactions_by_base.get(segment.base_offset, ())
        )
        for segment in loaded_log.segments
    ]
    return recovered_segments, {
        offset: producer_snapshots.snapshot_bytes_by_offset[offset]
        for offset, file in producer_snapshots.file_by_offset.items()
        if not file
    }


def _encode_index_files(
    segment: RecoverySegment, aborted_transactions: Iterable[dict[str, int]]
) -> RecoveredSegment:
    offsets, positions = (column.stored_values for column in segment.index_columns)
    time_entries = np.array(segment.time_entries, np.int64).reshape(-1, 2)
    index_columns = {"relative_offset": offsets - segment.base_offset, "log_position": positions}
    time_columns = {
        "timestamp": time_entries[:, 0],
        "relative_offset": time_entries[:, 1] - segment.base_offset,
    }
    base_name = f"{segment.base_offset:020}"
    content_by_name: dict[str, bytes | None] = {
        f"{base_name}.index": encode_fixed_size_rows(OFFSET_INDEX_ENTRY, index_columns),
        f"{base_name}.timeindex": encode_fixed_size_rows(TIME_INDEX_ENTRY, time_columns),
        f"{base_name}.txnindex": b"".join(map(ABORTED_TRANSACTION.encode_row, aborted_transactions))
        or None,
    }
    return RecoveredSegment(segment.base_offset, len(offsets), content_by_name)


class _ProducerStateSnapshots(ProducerSnapshots):
    """Snapshots with complete producer state. snapshot_bytes_by_offset: the snapshots that this
    start writes, by offset. aborted_transactions_by_base: the entries of each segment's transaction
    index, by base offset."""

    def __init__(self, expired_up_to_ms: int | None) -> None:
        super().__init__(has_transactions=True)
        self._expired_up_to_ms = expired_up_to_ms
        self._producer_states = ProducerStateManager()
        self._entries_by_snapshot_offset: dict[int, dict[int, ProducerStateEntry]] = {}
        self.snapshot_bytes_by_offset: dict[int, bytes] = {}
        self.aborted_transactions_by_base: dict[int, list[dict[str, int]]] = {}

    def _restore_open_transactions(self, first_offset_by_producer: dict[int, int]) -> None:
        super()._restore_open_transactions(first_offset_by_producer)
        if not first_offset_by_producer:
            self._producer_states = ProducerStateManager()

    def _restore_snapshot_state(self, offset: int, file: InputFile | None) -> bool:
        if not super()._restore_snapshot_state(offset, file):
            return False
        self._producer_states = ProducerStateManager()
        if file is None:
            self._producer_states.restore_entries(self._entries_by_snapshot_offset[offset])
        else:
            self._producer_states.load_snapshot(file.read_contents().table, offset)
        if self._expired_up_to_ms is not None:
            self._producer_states.expire_producers(self._expired_up_to_ms)
        return True

    def _save_snapshot_state(self, offset: int) -> None:
        super()._save_snapshot_state(offset)
        self._producer_states.map_end_offset = offset
        self._entries_by_snapshot_offset[offset] = self._producer_states.copy_entries()
        self.snapshot_bytes_by_offset[offset] = self._producer_states.encode_snapshot()

    def begin_transaction_index(self) -> None:
        super().begin_transaction_index()
        self._segment_aborted_transactions: list[dict[str, int]] = []

    def discard_transaction_index(self, segment: RecoverySegment) -> None:
        self.aborted_transactions_by_base.pop(segment.base_offset, None)

    def process_batch(
        self, segment: RecoverySegment, batch: StoredBatch, *, writes_index: bool = False
    ) -> None:
        super().process_batch(segment, batch, writes_index=writes_index)
        if writes_index:
            self.aborted_transactions_by_base[segment.base_offset] = (
                self._segment_aborted_transactions
            )
        if batch.producer_id < 0:
            return
        producer_batch = _read_producer_batch(segment, batch)
        if producer_batch is None:
            return
        aborted_transaction = self._producer_states.apply_batch(producer_batch)
        if writes_index and aborted_transaction is not None:
            self._segment_aborted_transactions.append(aborted_transaction)


def _read_producer_batch(segment: RecoverySegment, batch: StoredBatch) -> ProducerBatch | None:
    """The effect of a batch on its producer; None for a batch that the cleaner has emptied."""
    header_bytes = segment.log_bytes.read_bytes(batch.position, BATCH_HEADER_BYTES)
    base_sequence = np.array(header.base_sequence(header_bytes))
    last_offset_delta = np.array(header.last_offset_delta(header_bytes))
    producer_batch = ProducerBatch(
        batch.producer_id,
        header.producer_epoch(header_bytes),
        int(increment_sequence(base_sequence, last_offset_delta)),
        batch.base_offset,
        batch.last_offset,
        batch.max_timestamp,
        int(batch.is_transactional),
        batch.position,
    )
    if not batch.is_control:
        return producer_batch
    location = f"{segment.log_name} byte {batch.position}"
    marker = read_transaction_marker(segment.log_bytes.read_batch(batch), location)
    if marker is None:
        return None
    return producer_batch.with_marker(marker)
