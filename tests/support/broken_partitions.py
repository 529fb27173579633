"""Real partitions, each with one damage and its position: brokers are started on them."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.rebuild import control_batch, with_crc
from tests.support.segments import int32, positions, with_bytes
from tools.kafka import SAMPLES
from tools.observe import Files, partition_files

ORDERS = SAMPLES / "kafka-3.9.1-broker1/orders-0"
TXN = SAMPLES / "kafka-3.9.1-broker1/txn-0"
V0 = SAMPLES / "kafka-0.8.2.2/real08-none-0"
V1 = SAMPLES / "kafka-2.8.2/v1-none-0"
V1_GZIP = SAMPLES / "kafka-2.8.2/v1-gzip-0"
CLOSED, LAST = 240, 1440  # base offsets of segments of orders-0
BATCH_INDEX = 5  # of the closed segment: offsets 340–359


@dataclass(frozen=True)
class DamagedPartition:
    """A damaged partition."""

    sample: Path
    """The undamaged one."""
    files: Files
    base: int
    """Base offset of the damaged segment."""
    position: int
    """Position of the damage in the segment's log."""
    offset: int
    """The first damaged one."""

    @property
    def log(self) -> str:
        """The name of the damaged log."""
        return name(self.base)

    def names_with_suffix(self, suffix: str) -> list[str]:
        """The names of the files of one kind."""
        return [file for file in self.files if file.endswith(suffix)]

    @property
    def log_end(self) -> int:
        """The log end offset of the undamaged partition."""
        return {ORDERS: 1500, TXN: 736, V0: 900}.get(self.sample, 500)


def name(base: int, suffix: str = ".log") -> str:
    """The name of a segment's file."""
    return f"{base:020}{suffix}"


@cache
def sample(partition: Path) -> Files:
    """The files of a sample, to be copied before they are changed."""
    return partition_files(partition)


def with_log(
    partition: Path, base: int, position: int, offset: int, log: bytes
) -> DamagedPartition:
    """A sample with another log; index entries after the change move with their batches."""
    files = {**sample(partition), name(base): log}
    shift = len(log) - len(sample(partition)[name(base)])
    entries = struct.iter_unpack(">ii", files[name(base, ".index")])
    files[name(base, ".index")] = b"".join(
        struct.pack(
            ">ii",
            relative_offset,
            entry_position + shift if entry_position > position else entry_position,
        )
        for relative_offset, entry_position in entries
    )
    return DamagedPartition(partition, files, base, position, offset)


Change = Callable[[bytes], bytes]
"""Maps an undamaged batch to the bytes that replace it."""


def batch(change: Change, base: int = CLOSED, batch_index: int = BATCH_INDEX) -> DamagedPartition:
    """A batch of orders-0 changed."""
    data = sample(ORDERS)[name(base)]
    starts = positions(data)
    start, end = starts[batch_index], starts[batch_index + 1]
    log = data[:start] + change(data[start:end]) + data[end:]
    return with_log(ORDERS, base, start, base + 20 * batch_index, log)


def overwrite(position: int, new: bytes) -> Change:
    """A change of the bytes at a position of the batch."""
    return lambda data: with_bytes(data, position, new)


def overwrite_with_crc(position: int, new: bytes) -> Change:
    """A change of bytes that also updates the checksum."""
    return lambda data: with_crc(with_bytes(data, position, new))


def flipped(batch: bytes) -> bytes:
    """The batch with a flipped bit in a record."""
    return with_bytes(batch, 100, bytes([batch[100] ^ 1]))


def longer(n_bytes: int) -> Change:
    """A change that increases the length field by so many bytes."""
    return lambda data: with_bytes(data, 8, int32(len(data) - 12 + n_bytes))


def truncated(base: int) -> DamagedPartition:
    """The last batch of a segment of orders-0 is truncated."""
    data = sample(ORDERS)[name(base)]
    start = positions(data)[-2]
    offset = base + 20 * (len(positions(data)) - 2)
    return with_log(ORDERS, base, start, offset, data[: start + 100])


def appended(base: int, tail: bytes) -> DamagedPartition:
    """Bytes after the last batch of a segment of orders-0."""
    data = sample(ORDERS)[name(base)]
    offset = 480 if base == CLOSED else 1500
    return with_log(ORDERS, base, len(data), offset, data + tail)


def rearranged(base: int, order: list[int]) -> bytes:
    """The batches of a segment of orders-0 in another order."""
    data = sample(ORDERS)[name(base)]
    starts = positions(data)
    return b"".join(data[starts[i] : starts[i + 1]] for i in order)


def zero_hole() -> DamagedPartition:
    """Two batches are zeros."""
    data = sample(ORDERS)[name(CLOSED)]
    starts = positions(data)
    start, end = starts[BATCH_INDEX], starts[BATCH_INDEX + 2]
    return with_log(ORDERS, CLOSED, start, 340, with_bytes(data, start, bytes(end - start)))


def varint(data: bytes, position: int) -> tuple[int, int]:
    """A zigzag varint and its size."""
    value = shift = size = 0
    while True:
        byte = data[position + size]
        value |= (byte & 127) << shift
        shift += 7
        size += 1
        if byte < 128:
            return (value >> 1) ^ -(value & 1), size


def record_malformed(batch: bytes) -> bytes:
    """The batch with a third record whose length field is too small."""
    position = record_positions(batch)[2]
    return with_crc(with_bytes(batch, position, b"\x02"))


def record_positions(batch: bytes) -> list[int]:
    """The position of each record of a batch, and the batch's end."""
    starts = [61]
    while starts[-1] < len(batch):
        size, n = varint(batch, starts[-1])
        starts.append(starts[-1] + n + size)
    return starts


def offset_delta_position(batch: bytes, record_index: int) -> int:
    """The position of a record's offset delta, after its length, attributes and timestamp delta."""
    position = record_positions(batch)[record_index]
    position += varint(batch, position)[1] + 1
    return position + varint(batch, position)[1]


def offset_delta(record_index: int, delta: int) -> Change:
    """A change of a record's offset; the varint keeps its size of one byte."""
    return lambda data: with_crc(
        with_bytes(data, offset_delta_position(data, record_index), bytes([delta * 2]))
    )


def renamed(base: int, new_base: int) -> DamagedPartition:
    """A segment of orders-0 and its indexes under another name."""
    files = {
        (name(new_base, Path(file).suffix) if file.startswith(name(base, "")) else file): content
        for file, content in sample(ORDERS).items()
        if not file.endswith(".snapshot")
    }
    return DamagedPartition(ORDERS, files, new_base, 0, base)


def control(control_index: int, key: bytes, value: bytes) -> DamagedPartition:
    """A control batch of the last segment of txn-0 with another key and value."""
    data = sample(TXN)[name(635)]
    starts = positions(data)
    control_starts = [start for start in starts[:-1] if data[start + 22] & 0x20]
    start = control_starts[control_index]
    end = starts[starts.index(start) + 1]
    old = data[start:end]
    new = control_batch(key, value)
    header = old[:8] + new[8:12] + old[12:43] + old[43:57] + old[57:61]
    log = data[:start] + with_crc(header + new[61:]) + data[end:]
    return with_log(TXN, 635, start, struct.unpack_from(">q", data, start)[0], log)


def with_crc32(message: bytes) -> bytes:
    """A message of magic 0 or 1, with its offset and size before it, with a valid checksum."""
    return with_bytes(message, 12, struct.pack(">I", zlib.crc32(message[16:])))


def message(change: Change, message_index: int = 5) -> DamagedPartition:
    """A message of magic 1 changed in segment 240 of v1-none-0."""
    data = sample(V1)[name(240)]
    starts = positions(data)
    start, end = starts[message_index], starts[message_index + 1]
    log = data[:start] + change(data[start:end]) + data[end:]
    return with_log(V1, 240, start, 240 + message_index, log)


InnerChange = Callable[[bytes], bytes]


def wrapper(inner: InnerChange, wrapper_index: int = 2, shift: int = 0) -> DamagedPartition:
    """A wrapper of v1-gzip-0 with another message set inside."""
    data = sample(V1_GZIP)[name(0)]
    starts = positions(data)
    start, end = starts[wrapper_index], starts[wrapper_index + 1]
    old = data[start:end]
    compressed = gzip.compress(inner(gzip.decompress(old[34:])))
    body = old[16:30] + int32(len(compressed)) + compressed
    last_offset = struct.unpack_from(">q", old)[0]
    first_offset = struct.unpack_from(">q", data, starts[wrapper_index - 1])[0] + 1
    header = struct.pack(">q", last_offset + shift) + int32(len(body) + 4)
    new = with_crc32(header + bytes(4) + body)
    return with_log(V1_GZIP, 0, start, first_offset, data[:start] + new + data[end:])


def inner_flipped(data: bytes) -> bytes:
    """The checksum of the third inner message is wrong."""
    position = positions(data)[2]
    return with_bytes(data, position + 12, bytes(4))
