"""The state of producers, replayed from the batches of a log as a broker does.

Source: `org.apache.kafka.storage.internals.log.ProducerStateManager`, `ProducerAppendInfo`,
`LogSegment.recover`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.checksum import CRC32C, RunningCrc
from kfmt_cli.core.table import Table
from kfmt_cli.files.block import HEADER_SIZE, Block
from kfmt_cli.files.control import MARKERS, name_control_batches
from kfmt_cli.formats.batch import RECORD
from kfmt_cli.formats.control import CONTROL_TYPES, END_TXN_MARKER
from kfmt_cli.formats.snapshot import PRODUCER_SNAPSHOT, PRODUCER_STATE

ABORT = CONTROL_TYPES.index("ABORT")
NONE = -1
COLUMNS = (
    *("producer_id", "producer_epoch", "base_sequence", "last_sequence", "base_offset"),
    *("last_offset", "max_timestamp", "transactional", "control", "control_type", "records_count"),
)


@dataclass(slots=True)
class Producer:
    """What a broker keeps of a producer, as in `formats/snapshot.py`."""

    producer_epoch: int = NONE
    last_sequence: int = NONE
    last_offset: int = NONE
    offset_delta: int = 0
    timestamp: int = NONE
    coordinator_epoch: int = NONE
    current_txn_first_offset: int = NONE

    def move_to(self, epoch: int) -> None:
        """A new epoch forgets the batches of the old one."""
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.last_sequence = self.last_offset = NONE
            self.offset_delta = 0


@dataclass(slots=True)
class Producers:
    """All producers of a partition. end: the offset up to which batches were taken.

    known: whether nothing before the first batch can be missing.
    """

    known: bool = True
    end: int = 0
    of: dict[int, Producer] = field(default_factory=dict)

    def take(self, block: Block, n: int) -> list[dict[str, int]]:
        """The first n batches of the next block; the aborted transactions that end in them."""
        batches = block.batches.select(slice(0, n))
        self.end = int(batches["last_offset"][-1]) + 1
        v2 = batches["is_v2"] == 1
        aborted: list[dict[str, int]] = []
        chosen = np.flatnonzero(v2 & (batches["producer_id"] >= 0))
        if len(chosen):
            part = Block(block.name, block.data, block.position, batches)
            name_control_batches(part)
            for row in zip(chosen.tolist(), *_columns(batches, chosen), strict=True):
                done = self._batch(part, row[0], dict(zip(COLUMNS, row[1:], strict=True)))
                if done is not None:
                    aborted.append(done)
        return aborted

    def _batch(self, block: Block, i: int, batch: dict[str, int]) -> dict[str, int] | None:
        """One batch of a producer; the aborted transaction that it ends."""
        if batch["control"]:
            if batch["control_type"] not in MARKERS or batch["records_count"] < 1:
                return None  # emptied by the cleaner
            return self._marker(block, i, batch)
        producer = self.of.setdefault(batch["producer_id"], Producer(batch["producer_epoch"]))
        producer.move_to(batch["producer_epoch"])
        producer.last_sequence = batch["last_sequence"]
        producer.last_offset = batch["last_offset"]
        producer.offset_delta = batch["last_offset"] - batch["base_offset"]
        producer.timestamp = batch["max_timestamp"]
        if producer.current_txn_first_offset == NONE and batch["transactional"]:
            producer.current_txn_first_offset = batch["base_offset"]
        return None

    def _marker(self, block: Block, i: int, batch: dict[str, int]) -> dict[str, int] | None:
        coordinator_epoch, timestamp = _read_marker(block, i)
        producer = self.of.setdefault(batch["producer_id"], Producer(batch["producer_epoch"]))
        first = producer.current_txn_first_offset
        producer.move_to(batch["producer_epoch"])
        producer.current_txn_first_offset = NONE
        producer.coordinator_epoch = coordinator_epoch
        producer.timestamp = timestamp
        if first == NONE or batch["control_type"] != ABORT:
            return None
        open_ = [it.current_txn_first_offset for it in self.of.values()]
        still_open = [it for it in open_ if it != NONE]
        marker = batch["base_offset"]
        return {
            "version": 0,
            "producer_id": batch["producer_id"],
            "first_offset": first,
            "last_offset": marker,
            "last_stable_offset": min(still_open, default=marker + 1),
        }

    def load(self, rows: Table, end: int) -> None:
        """The state in a snapshot's rows, which is that before offset `end`."""
        self.of = {}
        self.end = end
        names = [it.name for it in PRODUCER_STATE.fields]
        for values in zip(*(rows[name].tolist() for name in names), strict=True):
            row = dict(zip(names, values, strict=True))
            producer_id = row.pop("producer_id")
            self.of[producer_id] = Producer(**row)

    def snapshot(self) -> bytes:
        """The content of `.snapshot`, its producers in the order of Java's hash map."""
        states = b"".join(
            PRODUCER_STATE.write({"producer_id": it, **_values(self.of[it])})
            for it in _in_map_order(list(self.of))
        )
        front = {"version": 1, "crc": 0, "producers_count": len(self.of)}
        checked = PRODUCER_SNAPSHOT.write(front)[PRODUCER_SNAPSHOT.offset_of("producers_count") :]
        crc = RunningCrc(CRC32C)
        crc.update(checked + states)
        return PRODUCER_SNAPSHOT.write({**front, "crc": crc.value}) + states


def _columns(batches: Table, chosen: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[list[int]]:
    return [batches[name][chosen].tolist() for name in COLUMNS]


def _values(producer: Producer) -> dict[str, int]:
    return {name: getattr(producer, name) for name in Producer.__slots__}


def _read_marker(block: Block, i: int) -> tuple[int, int]:
    """The coordinator's epoch and the timestamp of an end-transaction marker."""
    batches = block.batches
    start, end = int(batches["start"][i]) + HEADER_SIZE, int(batches["end"][i])
    starts, ends = np.array([start]), np.array([end])
    record = RECORD.columns(block.data, starts, ends, 1)
    value = record["value"][:1]
    marker = END_TXN_MARKER.columns(block.data, value, value + END_TXN_MARKER.dtype.itemsize, 1)
    delta = int(record["timestamp_delta"][0])
    return int(marker["coordinator_epoch"][0]), int(batches["base_timestamp"][i]) + delta


def _in_map_order(ids: list[int]) -> list[int]:
    """Keys in the order in which a `java.util.HashMap<Long, …>` that grew by them gives them."""
    room = 16
    while len(ids) > room * 3 // 4:
        room *= 2

    def bucket(key: int) -> int:
        folded = (key ^ (key >> 32)) & 0xFFFFFFFF
        return (folded ^ (folded >> 16)) & (room - 1)

    return sorted(ids, key=bucket)
