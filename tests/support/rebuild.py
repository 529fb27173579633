"""Batches built by hand, for data that no real broker writes."""

from __future__ import annotations

import struct

from crc32c import crc32c

from kfmt_cli.formats.batch import RECORD, RECORD_BATCH
from tests.support.segments import with_bytes


def with_crc(batch: bytes) -> bytes:
    """The batch with a valid checksum."""
    return with_bytes(batch, 17, struct.pack(">I", crc32c(batch[21:])))


def batch_of(records: bytes, attributes: int, count: int, base_offset: int = 0) -> bytes:
    """A batch of magic 2 with these bytes as its records."""
    header = RECORD_BATCH.encode_row(
        {
            "base_offset": base_offset,
            "batch_length": 49 + len(records),
            "partition_leader_epoch": 0,
            "magic": 2,
            "crc": 0,
            "attributes": attributes,
            "last_offset_delta": max(count - 1, 0),
            "base_timestamp": 1000,
            "max_timestamp": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "records_count": count,
        }
    )
    return with_crc(header + records)


def compressed_batch(codec: int, compressed: bytes, count: int, base_offset: int = 0) -> bytes:
    """A batch with these bytes as its compressed records."""
    return batch_of(compressed, codec, count, base_offset)


def record(key: bytes | None, value: bytes | None, offset_delta: int = 0) -> bytes:
    """A record without headers."""
    return RECORD.encode_row(
        {
            "attributes": 0,
            "timestamp_delta": 0,
            "offset_delta": offset_delta,
            "key": key,
            "value": value,
            "headers": [],
        }
    )


def control_batch(key: bytes, value: bytes, base_offset: int = 0) -> bytes:
    """A control batch with one record."""
    return batch_of(record(key, value), 0x30, 1, base_offset)
