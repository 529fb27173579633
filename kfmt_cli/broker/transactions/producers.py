"""Producer state, replayed from the batches of a log as a broker does.

Source: `org.apache.kafka.storage.internals.log.ProducerStateManager`, `ProducerAppendInfo`,
`LogSegment.recover`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from kfmt_cli.broker.log_reading.stored_batches import (
    CorruptError,
    StartError,
    TransactionMarker,
    read_transaction_marker,
)
from kfmt_cli.core.codecs.checksum import CRC32C_POLYNOMIAL, compute_crc
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import Table
from kfmt_cli.formats.control import ABORT
from kfmt_cli.formats.snapshot import PRODUCER_SNAPSHOT, PRODUCER_STATE
from kfmt_cli.log.block import Block

NO_VALUE = -1
PRODUCER_BATCH_COLUMNS = (
    *("producer_id", "producer_epoch", "last_sequence", "base_offset", "last_offset"),
    *("max_timestamp", "transactional", "position", "control", "start", "end"),
)


class ProducerBatch(NamedTuple):
    """A batch of a producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int
    """The largest timestamp of the batch, or the timestamp of the marker."""
    transactional: int
    position: int
    control_type: int | None = None
    """The marker's type, None for records."""
    coordinator_epoch: int = NO_VALUE
    """The marker's coordinator epoch."""

    def with_marker(self, marker: TransactionMarker) -> ProducerBatch:
        """The same batch with the contents of its marker."""
        return self._replace(
            timestamp=marker.timestamp,
            control_type=marker.control_type,
            coordinator_epoch=marker.coordinator_epoch,
        )


@dataclass(slots=True)
class ProducerStateEntry:
    """A producer's state, as in `formats/snapshot.py`."""

    producer_epoch: int = NO_VALUE
    last_sequence: int = NO_VALUE
    last_offset: int = NO_VALUE
    offset_delta: int = 0
    timestamp: int = NO_VALUE
    coordinator_epoch: int = NO_VALUE
    current_txn_first_offset: int = NO_VALUE

    def update_epoch(self, epoch: int) -> None:
        """Begin an epoch; a new one discards the batches of the old one."""
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.last_sequence = self.last_offset = NO_VALUE
            self.offset_delta = 0


@dataclass(slots=True)
class ProducerStateManager:
    """All producers of a partition."""

    is_complete: bool = True
    """Whether nothing before the first batch can be missing."""
    map_end_offset: int = 0
    """The offset after the last batch applied."""
    entry_by_producer_id: dict[int, ProducerStateEntry] = field(default_factory=dict)
    # A heap of first offsets and producer ids, including some transactions that have ended.
    _open_transaction_heap: list[tuple[int, int]] = field(default_factory=list)

    def apply_block(self, block: Block, n_batches: int) -> list[dict[str, int]]:
        """Apply the first n batches of a block; returns the aborted transactions that end there."""
        batches = block.batches.select_rows(slice(0, n_batches))
        self.map_end_offset = int(batches.last_offset[-1]) + 1
        producer_rows = np.flatnonzero((batches.is_v2 == 1) & (batches.producer_id >= 0))
        applied_block = Block(block.file_name, block.data, block.data_position, batches)
        batch_results = (
            self.apply_batch(batch) for batch in iter_producer_batches(applied_block, producer_rows)
        )
        return [
            aborted_transaction
            for aborted_transaction in batch_results
            if aborted_transaction is not None
        ]

    def apply_batch(self, batch: ProducerBatch) -> dict[str, int] | None:
        """Apply a producer's next batch; returns the aborted transaction that it ends."""
        if batch.control_type is not None:
            return self._apply_marker(batch)
        producer = self.entry_by_producer_id.setdefault(
            batch.producer_id, ProducerStateEntry(batch.producer_epoch)
        )
        producer.update_epoch(batch.producer_epoch)
        producer.last_sequence = batch.last_sequence
        producer.last_offset = batch.last_offset
        producer.offset_delta = batch.last_offset - batch.base_offset
        producer.timestamp = batch.timestamp
        if producer.current_txn_first_offset == NO_VALUE and batch.transactional:
            producer.current_txn_first_offset = batch.base_offset
            heappush(self._open_transaction_heap, (batch.base_offset, batch.producer_id))
        return None

    def _apply_marker(self, batch: ProducerBatch) -> dict[str, int] | None:
        producer = self.entry_by_producer_id.setdefault(
            batch.producer_id, ProducerStateEntry(batch.producer_epoch)
        )
        first_offset = producer.current_txn_first_offset
        producer.update_epoch(batch.producer_epoch)
        producer.current_txn_first_offset = NO_VALUE
        producer.coordinator_epoch = batch.coordinator_epoch
        producer.timestamp = batch.timestamp
        if first_offset == NO_VALUE or batch.control_type != ABORT:
            return None
        marker_offset = batch.base_offset
        return {
            "version": 0,
            "producer_id": batch.producer_id,
            "first_offset": first_offset,
            "last_offset": marker_offset,
            "last_stable_offset": self._first_unstable_offset(marker_offset + 1),
        }

    def _first_unstable_offset(self, default_offset: int) -> int:
        """The first offset of the oldest open transaction."""
        while self._open_transaction_heap:
            first_offset, producer_id = self._open_transaction_heap[0]
            producer = self.entry_by_producer_id.get(producer_id)
            if producer is not None and producer.current_txn_first_offset == first_offset:
                return first_offset
            heappop(self._open_transaction_heap)
        return default_offset

    def expire_producers(self, expired_up_to_ms: int) -> None:
        """Expire producers whose last batch is no newer than a time in ms and that have no open
        transaction, as a broker does with producer.id.expiration.ms when it reads a snapshot.
        Source: `ProducerStateManager.isProducerExpired`."""
        self.entry_by_producer_id = {
            producer_id: producer
            for producer_id, producer in self.entry_by_producer_id.items()
            if producer.timestamp > expired_up_to_ms
            or producer.current_txn_first_offset != NO_VALUE
        }

    def load_snapshot(self, snapshot_rows: Table, end_offset: int) -> None:
        """Load the state before offset `end_offset` from a snapshot's rows."""
        self.entry_by_producer_id = {}
        self.map_end_offset = end_offset
        field_names = [field.name for field in PRODUCER_STATE.fields]
        for row_values in zip(
            *(snapshot_rows[field_name].tolist() for field_name in field_names), strict=True
        ):
            value_by_field = dict(zip(field_names, row_values, strict=True))
            producer_id = value_by_field.pop("producer_id")
            self.entry_by_producer_id[producer_id] = ProducerStateEntry(**value_by_field)
        self._rebuild_open_transactions()

    def copy_entries(self) -> dict[int, ProducerStateEntry]:
        """A copy of the producers' current state."""
        return {
            producer_id: replace(producer)
            for producer_id, producer in self.entry_by_producer_id.items()
        }

    def restore_entries(self, saved_entries: dict[int, ProducerStateEntry]) -> None:
        """Restore producers from a copy."""
        self.entry_by_producer_id = {
            producer_id: replace(producer) for producer_id, producer in saved_entries.items()
        }
        self._rebuild_open_transactions()

    def _rebuild_open_transactions(self) -> None:
        """Rebuild the heap of open transactions."""
        heap_entries = (
            (producer.current_txn_first_offset, producer_id)
            for producer_id, producer in self.entry_by_producer_id.items()
        )
        self._open_transaction_heap = [
            heap_entry for heap_entry in heap_entries if heap_entry[0] != NO_VALUE
        ]
        heapify(self._open_transaction_heap)

    def encode_snapshot(self) -> bytes:
        """The content of `.snapshot`, with its producers in the order of Java's hash map."""
        encoded_states = b"".join(
            PRODUCER_STATE.encode_row(
                {
                    "producer_id": producer_id,
                    **_entry_fields(self.entry_by_producer_id[producer_id]),
                }
            )
            for producer_id in _sort_in_hash_map_order(list(self.entry_by_producer_id))
        )
        header = {"version": 1, "crc": 0, "producers_count": len(self.entry_by_producer_id)}
        crc_covered_header = PRODUCER_SNAPSHOT.encode_row(header)[
            PRODUCER_SNAPSHOT.field_start("producers_count") :
        ]
        crc = compute_crc(CRC32C_POLYNOMIAL, crc_covered_header + encoded_states)
        return PRODUCER_SNAPSHOT.encode_row({**header, "crc": crc}) + encoded_states


def iter_producer_batches(block: Block, rows: IntArray) -> Iterator[ProducerBatch]:
    """The producer batches in the selected rows of a block, in order, without markers that the
    cleaner has emptied or that a broker cannot read."""
    batches = block.batches
    columns = (batches[column_name][rows].tolist() for column_name in PRODUCER_BATCH_COLUMNS)
    for *batch_values, is_control, batch_start, batch_end in zip(*columns, strict=True):
        batch = ProducerBatch(*batch_values)
        if is_control:
            location = f"{block.file_name} byte {batch.position}"
            try:
                marker = read_transaction_marker(block.data[batch_start:batch_end], location)
            except (CorruptError, StartError):
                continue
            if marker is None:
                continue
            batch = batch.with_marker(marker)
        yield batch


def _entry_fields(producer: ProducerStateEntry) -> dict[str, int]:
    return {name: getattr(producer, name) for name in ProducerStateEntry.__slots__}


def _sort_in_hash_map_order(producer_ids: list[int]) -> list[int]:
    """Keys in the iteration order of a `java.util.HashMap<Long, …>` that grew to contain them."""
    n_buckets = 16
    while len(producer_ids) > n_buckets * 3 // 4:
        n_buckets *= 2

    def bucket_index(producer_id: int) -> int:
        hash_value = (producer_id ^ (producer_id >> 32)) & 0xFFFFFFFF
        return (hash_value ^ (hash_value >> 16)) & (n_buckets - 1)

    return sorted(producer_ids, key=bucket_index)
