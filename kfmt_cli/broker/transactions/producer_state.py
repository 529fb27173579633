"""The state of a partition's producers, as a broker replays and stores it.

Source: `org.apache.kafka.storage.internals.log.ProducerStateManager`, `ProducerAppendInfo`,
`LogSegment.recover`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from kfmt_cli.broker.log_reading.stored_batches import (
    CorruptError,
    LogBytes,
    StartError,
    StoredBatch,
    TransactionMarker,
    read_transaction_marker,
    wrap_int64,
)
from kfmt_cli.core.codecs.checksum import CRC32C_POLYNOMIAL, compute_crc
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import Table
from kfmt_cli.disk.kinds.fixed_size_rows import PRODUCER_SNAPSHOT_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import WrongFileKindError
from kfmt_cli.formats import batch_header_readers as header
from kfmt_cli.formats.batch import MAX_SEQUENCE, NO_SEQUENCE
from kfmt_cli.formats.control import ABORT
from kfmt_cli.formats.snapshot import PRODUCER_SNAPSHOT, PRODUCER_STATE
from kfmt_cli.log.block import BATCH_HEADER_BYTES, Block

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


class ProducerStateEntry(NamedTuple):
    """A producer's state, as in `formats/snapshot.py`."""

    producer_epoch: int = NO_VALUE
    last_sequence: int = NO_VALUE
    last_offset: int = NO_VALUE
    offset_delta: int = 0
    timestamp: int = NO_VALUE
    coordinator_epoch: int = NO_VALUE
    current_txn_first_offset: int = NO_VALUE


@dataclass(slots=True)
class ProducerStateManager:
    """All producers of a partition, and its snapshots of them."""

    is_complete: bool = True
    """Whether nothing before the first batch can be missing."""
    map_end_offset: int = 0
    """The offset after the last batch applied."""
    expired_up_to_ms: int | None = None
    """As for `expire_producers`, which then applies to each snapshot that is loaded."""
    entry_by_producer_id: dict[int, ProducerStateEntry] = field(default_factory=dict)
    snapshot_by_offset: dict[int, InputFile | None] = field(default_factory=dict)
    """The snapshot files by offset, None for a snapshot that this start has written."""
    before_write: Callable[[int], None] | None = None
    """Called with the offset of each snapshot before it is written; may raise StartError."""
    _entries_by_snapshot_offset: dict[int, dict[int, ProducerStateEntry]] = field(
        default_factory=dict
    )
    """The producers in each snapshot that this start has written."""
    _last_snapshot_offset: int = 0
    # A heap of first offsets and producer ids, including some transactions that have ended.
    _open_transaction_heap: list[tuple[int, int]] = field(default_factory=list)
    _ongoing_first_offsets: set[int] = field(default_factory=set)
    _unreplicated_first_offsets: set[int] = field(default_factory=set)
    """The first offsets of transactions that have ended since the newest snapshot."""
    _pending_first_offsets: list[int] = field(default_factory=list)
    _pending_ends: list[tuple[int, str]] = field(default_factory=list)

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
        previous_entry = self.entry_by_producer_id.get(batch.producer_id, ProducerStateEntry())
        first_offset = previous_entry.current_txn_first_offset
        if first_offset < 0 and batch.transactional:
            first_offset = batch.base_offset
            heappush(self._open_transaction_heap, (first_offset, batch.producer_id))
        self.entry_by_producer_id[batch.producer_id] = ProducerStateEntry(
            batch.producer_epoch,
            batch.last_sequence,
            batch.last_offset,
            batch.last_offset - batch.base_offset,
            batch.timestamp,
            previous_entry.coordinator_epoch,
            first_offset,
        )
        return None

    def _apply_marker(self, batch: ProducerBatch) -> dict[str, int] | None:
        entry = self.entry_by_producer_id.get(batch.producer_id, ProducerStateEntry())
        first_offset = entry.current_txn_first_offset
        if entry.producer_epoch != batch.producer_epoch:  # a new epoch discards earlier batches
            entry = ProducerStateEntry(batch.producer_epoch)
        self.entry_by_producer_id[batch.producer_id] = entry._replace(
            timestamp=batch.timestamp,
            coordinator_epoch=batch.coordinator_epoch,
            current_txn_first_offset=NO_VALUE,
        )
        if first_offset < 0 or batch.control_type != ABORT:
            return None
        return {
            "version": 0,
            "producer_id": batch.producer_id,
            "first_offset": first_offset,
            "last_offset": batch.base_offset,
            "last_stable_offset": self._last_stable_offset(batch.base_offset + 1),
        }

    def _last_stable_offset(self, default_offset: int) -> int:
        """The first offset of the oldest open transaction."""
        while self._open_transaction_heap:
            first_offset, producer_id = self._open_transaction_heap[0]
            entry = self.entry_by_producer_id.get(producer_id)
            if entry is not None and entry.current_txn_first_offset == first_offset:
                return first_offset
            heappop(self._open_transaction_heap)
        return default_offset

    def process_batch(self, log: LogBytes, batch: StoredBatch) -> dict[str, int] | None:
        """Apply the next batch as a starting broker does, after which its transaction is pending;
        returns the aborted transaction that it ends. Raises CorruptError, StartError."""
        aborted_transaction = None
        if batch.producer_id >= 0:
            location = f"{log.name} byte {batch.position}"
            producer_batch = _read_producer_batch(log, batch, location)
            entry = self.entry_by_producer_id.get(batch.producer_id, ProducerStateEntry())
            first_offset = entry.current_txn_first_offset
            if batch.is_control:
                if producer_batch is not None and first_offset >= 0:
                    self._pending_ends.append((first_offset, location))
            elif batch.is_transactional:
                if first_offset < 0:
                    self._pending_first_offsets.append(batch.base_offset)
            elif first_offset >= 0:
                raise StartError(
                    f"{location}: non-transactional batch inside a transaction of producer "
                    f"{batch.producer_id}"
                )
            if producer_batch is not None:
                aborted_transaction = self.apply_batch(producer_batch)
        self.map_end_offset = wrap_int64(batch.last_offset + 1)
        return aborted_transaction

    def apply_pending_transactions(self) -> None:
        """Begin and end the transactions of the processed batches; raises StartError. A broker
        does so after each batch in log recovery, but once per segment when it loads one."""
        self._ongoing_first_offsets.update(self._pending_first_offsets)
        for first_offset, location in self._pending_ends:
            if first_offset not in self._ongoing_first_offsets:
                raise StartError(
                    f"{location}: marker of a transaction whose first offset {first_offset} is "
                    "also another transaction's"
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

    @property
    def first_ongoing_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None without one."""
        return min(self._ongoing_first_offsets, default=None)

    def expire_producers(self, expired_up_to_ms: int) -> None:
        """Expire producers whose last batch is no newer than a time in ms and that have no open
        transaction, as a broker does with producer.id.expiration.ms when it reads a snapshot.
        Source: `ProducerStateManager.isProducerExpired`."""
        self.entry_by_producer_id = {
            producer_id: entry
            for producer_id, entry in self.entry_by_producer_id.items()
            if entry.timestamp > expired_up_to_ms or entry.current_txn_first_offset >= 0
        }

    def reset(self, snapshot_by_offset: Mapping[int, InputFile | None]) -> None:
        """Begin with these snapshots and without producers."""
        self.snapshot_by_offset = dict(snapshot_by_offset)
        self.map_end_offset = self._last_snapshot_offset = 0
        self._set_entries({})

    def _set_entries(self, entry_by_producer_id: dict[int, ProducerStateEntry]) -> None:
        self.entry_by_producer_id = entry_by_producer_id
        self._open_transaction_heap = [
            (entry.current_txn_first_offset, producer_id)
            for producer_id, entry in entry_by_producer_id.items()
            if entry.current_txn_first_offset >= 0
        ]
        heapify(self._open_transaction_heap)
        self._ongoing_first_offsets = {offset for offset, _ in self._open_transaction_heap}
        self._unreplicated_first_offsets.clear()

    def load_snapshot(self, snapshot_rows: Table, end_offset: int) -> None:
        """Load the state before offset `end_offset` from a snapshot's rows."""
        columns = (
            snapshot_rows[name].tolist() for name in ("producer_id", *ProducerStateEntry._fields)
        )
        self._set_entries(
            {
                producer_id: ProducerStateEntry(*values)
                for producer_id, *values in zip(*columns, strict=True)
            }
        )
        self.map_end_offset = end_offset

    def load_newest_snapshot(self, log_start_offset: int) -> None:
        """Load the newest snapshot and forget later ones, which are damaged; without one, begin at
        the log start offset. Raises InputError."""
        self._set_entries({})
        self.map_end_offset = log_start_offset
        while self.snapshot_by_offset:
            newest_offset = max(self.snapshot_by_offset)
            file = self.snapshot_by_offset[newest_offset]
            if file is None:
                self._set_entries(dict(self._entries_by_snapshot_offset[newest_offset]))
                self.map_end_offset = newest_offset
            elif (snapshot_rows := _read_undamaged_snapshot(file)) is not None:
                self.load_snapshot(snapshot_rows, newest_offset)
            else:
                del self.snapshot_by_offset[newest_offset]
                continue
            if self.expired_up_to_ms is not None:
                self.expire_producers(self.expired_up_to_ms)
            break
        self._last_snapshot_offset = self.map_end_offset

    def take_snapshot(self) -> None:
        """Write a snapshot if the state has advanced; raises what `before_write` raises."""
        if self.map_end_offset > self._last_snapshot_offset:
            if self.before_write is not None:
                self.before_write(self.map_end_offset)
            self.snapshot_by_offset[self.map_end_offset] = None
            self._entries_by_snapshot_offset[self.map_end_offset] = dict(self.entry_by_producer_id)
            self._last_snapshot_offset = self.map_end_offset

    def remove_stray_snapshots(self, segment_bases: list[int]) -> None:
        """Remove snapshots between segments, except the newest one after the last segment."""
        stray_offset = None
        for offset in sorted(self.snapshot_by_offset):
            if offset not in segment_bases:
                if stray_offset is not None:
                    del self.snapshot_by_offset[stray_offset]
                stray_offset = offset
        if stray_offset is not None and segment_bases and stray_offset < max(segment_bases):
            del self.snapshot_by_offset[stray_offset]

    def encode_written_snapshots(self) -> dict[int, bytes]:
        """The contents of the snapshots that this start has written, by offset."""
        return {
            offset: _encode_snapshot(self._entries_by_snapshot_offset[offset])
            for offset, file in self.snapshot_by_offset.items()
            if file is None
        }

    def encode_snapshot(self) -> bytes:
        """The content of a `.snapshot` with the current state."""
        return _encode_snapshot(self.entry_by_producer_id)


def _encode_snapshot(entry_by_producer_id: dict[int, ProducerStateEntry]) -> bytes:
    """The content of `.snapshot`, with its producers in the order of Java's hash map."""
    encoded_states = b"".join(
        PRODUCER_STATE.encode_row(
            {"producer_id": producer_id, **entry_by_producer_id[producer_id]._asdict()}
        )
        for producer_id in _sort_in_hash_map_order(list(entry_by_producer_id))
    )
    snapshot_header = {"version": 1, "crc": 0, "producers_count": len(entry_by_producer_id)}
    crc_covered_header = PRODUCER_SNAPSHOT.encode_row(snapshot_header)[
        PRODUCER_SNAPSHOT.field_start("producers_count") :
    ]
    crc = compute_crc(CRC32C_POLYNOMIAL, crc_covered_header + encoded_states)
    return PRODUCER_SNAPSHOT.encode_row({**snapshot_header, "crc": crc}) + encoded_states


def _read_undamaged_snapshot(file: InputFile) -> Table | None:
    """The rows of a snapshot; None if it is damaged. Raises InputError if it cannot be read."""
    try:
        snapshot_contents = file.read_contents()
    except WrongFileKindError:
        return None
    return None if snapshot_contents.findings else snapshot_contents.table


def is_producer_snapshot(file_name: str) -> bool:
    """Whether a broker treats a file as a snapshot."""
    return file_name.endswith(PRODUCER_SNAPSHOT_KIND.suffix)


def _read_producer_batch(log: LogBytes, batch: StoredBatch, location: str) -> ProducerBatch | None:
    """The effect of a batch on its producer; None for a marker that the cleaner has emptied."""
    header_bytes = log.read_bytes(batch.position, BATCH_HEADER_BYTES)
    base_sequence = header.base_sequence(header_bytes)
    last_sequence = base_sequence
    if base_sequence != NO_SEQUENCE:
        last_sequence += header.last_offset_delta(header_bytes)
    producer_batch = ProducerBatch(
        batch.producer_id,
        header.producer_epoch(header_bytes),
        last_sequence & MAX_SEQUENCE if base_sequence >= 0 else last_sequence,
        batch.base_offset,
        batch.last_offset,
        batch.max_timestamp,
        int(batch.is_transactional),
        batch.position,
    )
    if not batch.is_control:
        return producer_batch
    marker = read_transaction_marker(log.read_batch(batch), location)
    return None if marker is None else producer_batch.with_marker(marker)


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


def _sort_in_hash_map_order(producer_ids: list[int]) -> list[int]:
    """Keys in the iteration order of a `java.util.HashMap<Long, …>` that grew to contain them."""
    n_buckets = 16
    while len(producer_ids) > n_buckets * 3 // 4:
        n_buckets *= 2

    def bucket_index(producer_id: int) -> int:
        hash_value = (producer_id ^ (producer_id >> 32)) & 0xFFFFFFFF
        return (hash_value ^ (hash_value >> 16)) & (n_buckets - 1)

    return sorted(producer_ids, key=bucket_index)
