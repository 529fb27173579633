"""An encoder of magic 2 batches, as authors of clients write one, with one mistake at a time.

`encode_batch` writes every field by a function of its right value; a mistake replaces the function
of one field. Without one, Kafka reads the batch.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

from kfmt_cli.core.layout.varint import encode_uvarint, zigzag_encode

Encode = Callable[[int], bytes]
BASE_TIMESTAMP = 1_700_000_000_000
RECORDS = (  # timestamp delta, key, value, headers
    (0, b"k-0", b"first value", ((b"trace", b"a1"),)),
    (5, b"k-1", b"second", ((b"trace", None), (b"n", b""))),
    (9, None, b"third", ()),
)


def zigzag(value: int) -> bytes:
    """A varint as Kafka writes it."""
    return encode_uvarint(zigzag_encode(value, 64))


def plain_varint(value: int) -> bytes:
    """A varint without zigzag; -1 takes ten bytes."""
    return encode_uvarint(value & 0xFFFFFFFFFFFFFFFF)


def high_group_first(value: int) -> bytes:
    """A zigzag varint with its groups in the wrong order."""
    groups = [group & 0x7F for group in zigzag(value)][::-1]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def int8(value: int) -> bytes:
    return struct.pack(">b", value)


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def nothing(_value: int) -> bytes:
    """A field that is left out."""
    return b""


RECORD_FIELDS: dict[str, Encode] = {
    "length": zigzag,
    "attributes": int8,
    "timestamp_delta": zigzag,
    "offset_delta": zigzag,
    "key_length": zigzag,
    "value_length": zigzag,
    "headers_count": zigzag,
    "header_key_length": zigzag,
    "header_value_length": zigzag,
}
VARINT_FIELDS = tuple(name for name, encode in RECORD_FIELDS.items() if encode is zigzag)
BATCH_FIELDS: dict[str, Encode] = {
    "base_offset": int64,
    "batch_length": int32,
    "partition_leader_epoch": int32,
    "magic": int8,
    "crc": lambda crc: struct.pack(">I", crc),
    "attributes": int16,
    "last_offset_delta": int32,
    "base_timestamp": int64,
    "max_timestamp": int64,
    "producer_id": int64,
    "producer_epoch": int16,
    "base_sequence": int32,
    "records_count": int32,
}


@dataclass(frozen=True)
class Mistakes:
    """How an encoder differs from Kafka's."""

    batch: dict[str, Encode] = field(default_factory=dict)
    record: dict[str, Encode] = field(default_factory=dict)
    compress: Callable[[bytes], bytes] | None = None
    codec: int = 0
    crc: Callable[[bytes], int] | None = None
    """The checksum of the whole batch; by default Kafka's."""
    records: Sequence[tuple[int, bytes | None, bytes | None, tuple]] = RECORDS  # type: ignore[type-arg]


def _encode_record(index: int, fields: dict[str, Encode], record: tuple) -> bytes:  # type: ignore[type-arg]
    timestamp_delta, key, value, headers = record
    body = fields["attributes"](0) + fields["timestamp_delta"](timestamp_delta)
    body += fields["offset_delta"](index)
    for name, payload in (("key_length", key), ("value_length", value)):
        body += fields[name](-1 if payload is None else len(payload)) + (payload or b"")
    body += fields["headers_count"](len(headers))
    for header_key, header_value in headers:
        body += fields["header_key_length"](len(header_key)) + header_key
        body += fields["header_value_length"](-1 if header_value is None else len(header_value))
        body += header_value or b""
    return fields["length"](len(body)) + body


def encode_batch(mistakes: Mistakes | None = None) -> bytes:
    """A batch of `RECORDS` with these mistakes; its length and checksum match its bytes, unless
    they are the mistake."""
    mistakes = mistakes or Mistakes()
    fields = BATCH_FIELDS | mistakes.batch
    record_fields = RECORD_FIELDS | mistakes.record
    body = b"".join(
        _encode_record(index, record_fields, record)
        for index, record in enumerate(mistakes.records)
    )
    if mistakes.compress is not None:
        body = mistakes.compress(body)
    values = {
        "attributes": mistakes.codec,
        "last_offset_delta": len(mistakes.records) - 1,
        "base_timestamp": BASE_TIMESTAMP,
        "max_timestamp": BASE_TIMESTAMP + max(record[0] for record in mistakes.records),
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "records_count": len(mistakes.records),
    }
    checksummed = b"".join(fields[name](value) for name, value in values.items()) + body
    after_length = fields["partition_leader_epoch"](0) + fields["magic"](2)
    length = len(after_length) + 4 + len(checksummed)
    front = fields["base_offset"](0) + fields["batch_length"](length) + after_length
    crc = crc32c(checksummed)
    if mistakes.crc is not None:
        crc = mistakes.crc(front + bytes(4) + checksummed)
    return front + fields["crc"](crc) + checksummed


def swapped(size: int) -> Encode:
    """A little-endian number of `size` bytes."""
    return lambda value: (value % (1 << 8 * size)).to_bytes(size, "little")


def raw_deflate(data: bytes) -> bytes:
    """zlib's format in place of gzip's."""
    return zlib.compress(data)


def gzip_bytes(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)
