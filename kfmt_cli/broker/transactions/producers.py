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

from kfmt_cli.core.codecs.checksum import CRC32C, crc_of
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import Table
from kfmt_cli.formats.batch import RECORD
from kfmt_cli.formats.control import ABORT, END_TXN_MARKER
from kfmt_cli.formats.snapshot import PRODUCER_SNAPSHOT, PRODUCER_STATE
from kfmt_cli.log.block import HEADER_SIZE, Block
from kfmt_cli.log.control import MARKER_SIZE, MARKERS, name_control_batches

NONE = -1
COLUMNS = (
    *("producer_id", "producer_epoch", "last_sequence", "base_offset", "last_offset"),
    *("max_timestamp", "transactional", "position", "control", "control_type", "records_count"),
)


class Event(NamedTuple):
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
    coordinator_epoch: int = NONE
    """The marker's coordinator epoch."""


@dataclass(slots=True)
class Producer:
    """A producer's state, as in `formats/snapshot.py`."""

    producer_epoch: int = NONE
    last_sequence: int = NONE
    last_offset: int = NONE
    offset_delta: int = 0
    timestamp: int = NONE
    coordinator_epoch: int = NONE
    current_txn_first_offset: int = NONE

    def move_to(self, epoch: int) -> None:
        """Enter an epoch; a new one forgets the batches of the old one."""
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.last_sequence = self.last_offset = NONE
            self.offset_delta = 0


@dataclass(slots=True)
class Producers:
    """All producers of a partition."""

    known: bool = True
    """Whether nothing before the first batch can be missing."""
    end: int = 0
    """The offset after the last batch applied."""
    of: dict[int, Producer] = field(default_factory=dict)
    _begun: list[tuple[int, int]] = field(default_factory=list)  # a heap, with some that have ended

    def take(self, block: Block, n: int) -> list[dict[str, int]]:
        """Apply the first n batches of a block; returns the aborted transactions that end there."""
        batches = block.batches.select(slice(0, n))
        self.end = int(batches.last_offset[-1]) + 1
        chosen = np.flatnonzero((batches.is_v2 == 1) & (batches.producer_id >= 0))
        part = Block(block.name, block.data, block.position, batches)
        done = (self.apply(event) for event in events_of(part, chosen))
        return [aborted for aborted in done if aborted is not None]

    def apply(self, event: Event) -> dict[str, int] | None:
        """Apply a producer's next batch; returns the aborted transaction that it ends."""
        if event.control_type is not None:
            return self._marker(event)
        producer = self.of.setdefault(event.producer_id, Producer(event.producer_epoch))
        producer.move_to(event.producer_epoch)
        producer.last_sequence = event.last_sequence
        producer.last_offset = event.last_offset
        producer.offset_delta = event.last_offset - event.base_offset
        producer.timestamp = event.timestamp
        if producer.current_txn_first_offset == NONE and event.transactional:
            producer.current_txn_first_offset = event.base_offset
            heappush(self._begun, (event.base_offset, event.producer_id))
        return None

    def _marker(self, event: Event) -> dict[str, int] | None:
        producer = self.of.setdefault(event.producer_id, Producer(event.producer_epoch))
        first = producer.current_txn_first_offset
        producer.move_to(event.producer_epoch)
        producer.current_txn_first_offset = NONE
        producer.coordinator_epoch = event.coordinator_epoch
        producer.timestamp = event.timestamp
        if first == NONE or event.control_type != ABORT:
            return None
        marker = event.base_offset
        return {
            "version": 0,
            "producer_id": event.producer_id,
            "first_offset": first,
            "last_offset": marker,
            "last_stable_offset": self._first_open(marker + 1),
        }

    def _first_open(self, default: int) -> int:
        """The first offset of the oldest open transaction."""
        while self._begun:
            first, producer_id = self._begun[0]
            producer = self.of.get(producer_id)
            if producer is not None and producer.current_txn_first_offset == first:
                return first
            heappop(self._begun)
        return default

    def expire(self, before: int) -> None:
        """Expire producers whose last batch is no newer than a time in ms and that have no open
        transaction, as a broker does with producer.id.expiration.ms when it reads a snapshot.
        Source: `ProducerStateManager.isProducerExpired`."""
        self.of = {
            producer_id: producer
            for producer_id, producer in self.of.items()
            if producer.timestamp > before or producer.current_txn_first_offset != NONE
        }

    def load(self, rows: Table, end: int) -> None:
        """Load the state before offset `end` from a snapshot's rows."""
        self.of = {}
        self.end = end
        names = [field.name for field in PRODUCER_STATE.fields]
        for values in zip(*(rows[name].tolist() for name in names), strict=True):
            row = dict(zip(names, values, strict=True))
            producer_id = row.pop("producer_id")
            self.of[producer_id] = Producer(**row)
        self._begin()

    def copied(self) -> dict[int, Producer]:
        """A copy of the producers' current state."""
        return {producer_id: replace(producer) for producer_id, producer in self.of.items()}

    def restore(self, of: dict[int, Producer]) -> None:
        """Restore producers from a copy."""
        self.of = {producer_id: replace(producer) for producer_id, producer in of.items()}
        self._begin()

    def _begin(self) -> None:
        """Rebuild the heap of open transactions."""
        opened = (
            (producer.current_txn_first_offset, producer_id)
            for producer_id, producer in self.of.items()
        )
        self._begun = [begun for begun in opened if begun[0] != NONE]
        heapify(self._begun)

    def snapshot(self) -> bytes:
        """The content of `.snapshot`, with its producers in the order of Java's hash map."""
        states = b"".join(
            PRODUCER_STATE.write({"producer_id": producer_id, **_values(self.of[producer_id])})
            for producer_id in _in_map_order(list(self.of))
        )
        front = {"version": 1, "crc": 0, "producers_count": len(self.of)}
        checked = PRODUCER_SNAPSHOT.write(front)[PRODUCER_SNAPSHOT.offset_of("producers_count") :]
        crc = crc_of(CRC32C, checked + states)
        return PRODUCER_SNAPSHOT.write({**front, "crc": crc}) + states


def events_of(block: Block, chosen: IntArray) -> Iterator[Event]:
    """The events of the chosen batches of a block, in order."""
    if not len(chosen):
        return
    batches = block.batches
    name_control_batches(block)
    columns = (batches[name][chosen].tolist() for name in COLUMNS)
    for i, *values, control, control_type, count in zip(chosen.tolist(), *columns, strict=True):
        if not control:
            yield Event(*values)
        elif control_type in MARKERS and count >= 1:  # else emptied by the cleaner
            read = _read_marker(block, i)
            if read is None:
                continue
            coordinator_epoch, timestamp = read
            yield Event(*values)._replace(
                timestamp=timestamp, control_type=control_type, coordinator_epoch=coordinator_epoch
            )


def _values(producer: Producer) -> dict[str, int]:
    return {name: getattr(producer, name) for name in Producer.__slots__}


def _read_marker(block: Block, i: int) -> tuple[int, int] | None:
    """The coordinator epoch and the timestamp of a transaction marker, or None."""
    batches = block.batches
    start, end = int(batches.start[i]) + HEADER_SIZE, int(batches.end[i])
    starts, ends = np.array([start]), np.array([end])
    record = RECORD.columns(block.data, starts, ends, 1)
    value = record.value[:1]
    if not len(value) or record.value_size[0] < MARKER_SIZE:
        return None
    marker = END_TXN_MARKER.columns(block.data, value, value + END_TXN_MARKER.dtype.itemsize, 1)
    delta = int(record.timestamp_delta[0])
    return int(marker.coordinator_epoch[0]), int(batches.base_timestamp[i]) + delta


def _in_map_order(ids: list[int]) -> list[int]:
    """Keys in the iteration order of a `java.util.HashMap<Long, …>` that grew to contain them."""
    room = 16
    while len(ids) > room * 3 // 4:
        room *= 2

    def bucket(key: int) -> int:
        folded = (key ^ (key >> 32)) & 0xFFFFFFFF
        return (folded ^ (folded >> 16)) & (room - 1)

    return sorted(ids, key=bucket)
