"""Partitions and settings for which kfmt predicts a cleaning."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tests.support.broken_partitions import ORDERS, TXN, V1, name, sample
from tests.support.rebuild import with_crc
from tests.support.segments import positions, with_bytes
from tools.kafka import SAMPLES
from tools.observe import Files, partition_files

DAY = 24 * 3600 * 1000


@dataclass(frozen=True)
class Case:
    """A partition, settings of the topic and the broker, and the cleaner's checkpoint."""

    description: str
    files: Files
    log_end: int
    settings: dict[str, str] = field(default_factory=dict)
    server: dict[str, str] = field(default_factory=dict)
    cleaned_to: int | None = None
    buffer_bytes: int | None = None


def sample_case(directory: str, log_end: int, what: str = "", **settings: str) -> Case:
    """A case of an unchanged sample."""
    files = partition_files(SAMPLES / directory)
    return Case(
        what or directory, files, log_end, {k.replace("_", "."): v for k, v in settings.items()}
    )


def with_horizon(horizon_ms: int) -> Files:
    """orders-0 with delete horizons in the batches of its second segment."""
    files = dict(sample(ORDERS))
    data = files[name(240)]
    batches = []
    for start, end in pairwise(positions(data)):
        batch = data[start:end]
        attributes = int.from_bytes(batch[21:23], "big") | 0x40
        batch = with_bytes(batch, 21, attributes.to_bytes(2, "big"))
        batches.append(with_crc(with_bytes(batch, 27, struct.pack(">q", horizon_ms))))
    files[name(240)] = b"".join(batches)
    return files


def with_open_transaction() -> Files:
    """txn-0 with a transaction in its middle whose marker is another producer's."""
    files = dict(sample(TXN))
    data = files[name(357)]
    ranges = list(pairwise(positions(data)))
    start, end = next(start_end for start_end in ranges if data[start_end[0] + 22] & 0x20)
    marker = with_crc(with_bytes(data[start:end], 43, (999_999).to_bytes(8, "big")))
    files[name(357)] = data[:start] + marker + data[end:]
    return {name: content for name, content in files.items() if not name.endswith(".snapshot")}


def cases() -> Iterator[Case]:
    """Every case."""
    orders, txn, v1 = dict(sample(ORDERS)), dict(sample(TXN)), dict(sample(V1))
    yield Case("keys, null keys, tombstones", orders, 1500)
    yield Case("a checkpoint in the middle", orders, 1500, cleaned_to=720)
    yield Case("a checkpoint inside a segment", orders, 1500, cleaned_to=777)
    yield Case("a checkpoint after the end", orders, 1500, cleaned_to=99999)
    yield Case("nothing is dirty", orders, 1500, cleaned_to=1440)
    yield Case("horizons that have passed", with_horizon(1000), 1500)
    yield Case("horizons to come", with_horizon(1 << 45), 1500)
    yield Case("transactions", txn, 736)
    yield Case("an open transaction", with_open_transaction(), 736)
    yield Case("magic 1", v1, 500)
    yield sample_case("kafka-2.8.2/v1-gzip-0", 500)
    yield sample_case("kafka-2.8.2/v0-none-0", 500)
    yield sample_case("kafka-2.8.2/v2-lz4-0", 500)
    yield sample_case("kafka-3.9.1-broker1/compacted-0", 3200)
    yield sample_case("kafka-3.9.1-broker1/replicated-0", 4000)
    yield sample_case("kafka-3.9.1-broker1/appendtime-0", 600)
    lag_settings = {"min.compaction.lag.ms": str(10**12 // 2)}
    yield Case("a lag that holds everything", orders, 1500, {"min.compaction.lag.ms": str(10**15)})
    yield Case(
        "a lag that holds nothing", orders, 1500, lag_settings | {"min.compaction.lag.ms": str(DAY)}
    )
    yield Case(
        "a ratio that is not reached",
        orders,
        1500,
        {"min.cleanable.dirty.ratio": "0.9"},
        cleaned_to=720,
    )
    # Capacity for 50 keys: a thousandth of 50 000.
    small = {
        "log.cleaner.dedupe.buffer.size": "1200000",
        "log.cleaner.io.buffer.load.factor": "0.001",
    }
    yield Case("a small map, several passes", orders, 1500, server=small, buffer_bytes=1344)


LARGEST_RECORDS = {
    "kafka-2.8.2/v0-snappy-0": 141,
    "kafka-2.8.2/v1-gzip-0": 149,
    "kafka-2.8.2/v2-lz4-0": 135,
}
"""The largest record of compressed logs, as max.decompressed.message.bytes counts."""


def limited_case(directory: str, limit: int) -> Case:
    """A sample that is not the active segment, whose records are limited to so many bytes."""
    case = sample_case(directory, 500, max_decompressed_message_bytes=str(limit))
    return replace(case, files={**case.files, name(500): b""})
