"""Real partitions with one thing broken each, and where: what brokers are started on."""

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
BATCH = 5  # of the closed segment: offsets 340–359


@dataclass(frozen=True)
class Broken:
    """A damaged partition."""

    sample: Path
    """What it was."""
    files: Files
    base: int
    """Of the damaged segment."""
    position: int
    """Of the damage in its log."""
    offset: int
    """The first one that is damaged."""

    @property
    def log(self) -> str:
        """The name of the damaged log."""
        return name(self.base)

    def files_of(self, suffix: str) -> list[str]:
        """The names of the files of one kind."""
        return [file for file in self.files if file.endswith(suffix)]

    @property
    def log_end(self) -> int:
        """The log end offset of the partition as it was."""
        return {ORDERS: 1500, TXN: 736, V0: 900}.get(self.sample, 500)


def name(base: int, suffix: str = ".log") -> str:
    """The name of a segment's file."""
    return f"{base:020}{suffix}"


@cache
def sample(partition: Path) -> Files:
    """The files of a sample, to be copied before they are changed."""
    return partition_files(partition)


def changed(partition: Path, base: int, position: int, offset: int, log: bytes) -> Broken:
    """A sample with another log; index entries after the change are moved with their batches."""
    files = {**sample(partition), name(base): log}
    moved = len(log) - len(sample(partition)[name(base)])
    entries = struct.iter_unpack(">ii", files[name(base, ".index")])
    files[name(base, ".index")] = b"".join(
        struct.pack(">ii", item, at + moved if at > position else at) for item, at in entries
    )
    return Broken(partition, files, base, position, offset)


Change = Callable[[bytes], bytes]
"""A batch as it should be to what takes its place."""


def batch(change: Change, base: int = CLOSED, number: int = BATCH) -> Broken:
    """A batch of orders-0 changed."""
    data = sample(ORDERS)[name(base)]
    places = positions(data)
    at, end = places[number], places[number + 1]
    log = data[:at] + change(data[at:end]) + data[end:]
    return changed(ORDERS, base, at, base + 20 * number, log)


def put(at: int, new: bytes) -> Change:
    """Other bytes at a place of the batch."""
    return lambda data: with_bytes(data, at, new)


def put_valid(at: int, new: bytes) -> Change:
    """Other bytes, and the checksum that fits them."""
    return lambda data: with_crc(with_bytes(data, at, new))


def flipped(batch: bytes) -> bytes:
    """A bit of a record is another one."""
    return with_bytes(batch, 100, bytes([batch[100] ^ 1]))


def longer(by: int) -> Change:
    """The length field says more than there is."""
    return lambda data: with_bytes(data, 8, int32(len(data) - 12 + by))


def cut_short(base: int) -> Broken:
    """The last batch of a segment of orders-0 ends before its end."""
    data = sample(ORDERS)[name(base)]
    at = positions(data)[-2]
    offset = base + 20 * (len(positions(data)) - 2)
    return changed(ORDERS, base, at, offset, data[: at + 100])


def appended(base: int, tail: bytes) -> Broken:
    """Bytes after the last batch of a segment of orders-0."""
    data = sample(ORDERS)[name(base)]
    offset = 480 if base == CLOSED else 1500
    return changed(ORDERS, base, len(data), offset, data + tail)


def rearranged(base: int, order: list[int]) -> bytes:
    """The batches of a segment of orders-0 in another order."""
    data = sample(ORDERS)[name(base)]
    places = positions(data)
    return b"".join(data[places[i] : places[i + 1]] for i in order)


def zero_hole() -> Broken:
    """Two batches are zeros."""
    data = sample(ORDERS)[name(CLOSED)]
    places = positions(data)
    at, end = places[BATCH], places[BATCH + 2]
    return changed(ORDERS, CLOSED, at, 340, with_bytes(data, at, bytes(end - at)))


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint and its size."""
    value = shift = n = 0
    while True:
        byte = data[at + n]
        value |= (byte & 127) << shift
        shift += 7
        n += 1
        if byte < 128:
            return (value >> 1) ^ -(value & 1), n


def record_malformed(batch: bytes) -> bytes:
    """The third record says that it is shorter than it is."""
    at = record_positions(batch)[2]
    return with_crc(with_bytes(batch, at, b"\x02"))


def record_positions(batch: bytes) -> list[int]:
    """Where each record of a batch begins."""
    found = [61]
    while found[-1] < len(batch):
        size, n = varint(batch, found[-1])
        found.append(found[-1] + n + size)
    return found


def delta_at(batch: bytes, number: int) -> int:
    """Where the offset delta of a record is: after its length, attributes and timestamp delta."""
    at = record_positions(batch)[number]
    at += varint(batch, at)[1] + 1
    return at + varint(batch, at)[1]


def offset_delta(number: int, delta: int) -> Change:
    """A record whose offset is another one; the varint keeps its size of one byte."""
    return lambda data: with_crc(with_bytes(data, delta_at(data, number), bytes([delta * 2])))


def renamed(base: int, to: int) -> Broken:
    """A segment of orders-0 and its indexes under another name."""
    files = {
        (name(to, Path(text).suffix) if text.startswith(name(base, "")) else text): content
        for text, content in sample(ORDERS).items()
        if not text.endswith(".snapshot")
    }
    return Broken(ORDERS, files, to, 0, base)


def control(number_of: int, key: bytes, value: bytes) -> Broken:
    """A control batch of the last segment of txn-0 with another key and value."""
    data = sample(TXN)[name(635)]
    places = positions(data)
    controls = [at for at in places[:-1] if data[at + 22] & 0x20]
    at = controls[number_of]
    end = places[places.index(at) + 1]
    old = data[at:end]
    new = control_batch(key, value)
    head = old[:8] + new[8:12] + old[12:43] + old[43:57] + old[57:61]
    log = data[:at] + with_crc(head + new[61:]) + data[end:]
    return changed(TXN, 635, at, struct.unpack_from(">q", data, at)[0], log)


def with_crc32(message: bytes) -> bytes:
    """A message of magic 0 or 1, its offset and size before it, with the checksum that fits."""
    return with_bytes(message, 12, struct.pack(">I", zlib.crc32(message[16:])))


def message(change: Change, number: int = 5) -> Broken:
    """A message of magic 1 in the segment 240 of v1-none-0 changed, and its checksum with it."""
    data = sample(V1)[name(240)]
    places = positions(data)
    at, end = places[number], places[number + 1]
    log = data[:at] + change(data[at:end]) + data[end:]
    return changed(V1, 240, at, 240 + number, log)


Inner = Callable[[bytes], bytes]


def wrapper(inner: Inner, number: int = 2, shift: int = 0) -> Broken:
    """A wrapper of v1-gzip-0 with another message set inside."""
    data = sample(V1_GZIP)[name(0)]
    places = positions(data)
    at, end = places[number], places[number + 1]
    old = data[at:end]
    blob = gzip.compress(inner(gzip.decompress(old[34:])))
    body = old[16:30] + int32(len(blob)) + blob
    last = struct.unpack_from(">q", old)[0]
    first = struct.unpack_from(">q", data, places[number - 1])[0] + 1
    head = struct.pack(">q", last + shift) + int32(len(body) + 4)
    new = with_crc32(head + bytes(4) + body)
    return changed(V1_GZIP, 0, at, first, data[:at] + new + data[end:])


def inner_flipped(data: bytes) -> bytes:
    """The checksum of the third inner message is wrong."""
    at = positions(data)[2]
    return with_bytes(data, at + 12, bytes(4))
