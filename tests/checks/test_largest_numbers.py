"""Numbers at the ends of their ranges, in batches with valid checksums."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.support.samples import kfmt
from tests.support.segments import positions, write
from tools.kafka import SAMPLES

MAX_INT64 = (1 << 63) - 1


def batch(fields: dict[int, bytes]) -> bytes:
    """A batch of 20 records with other bytes at some positions of its header."""
    (log,) = (SAMPLES / "kafka-3.9.1-broker1" / "orders-0").glob(f"{0:020}.log")
    data = log.read_bytes()
    patched = bytearray(data[: positions(data)[1]])
    for position, value in fields.items():
        patched[position : position + len(value)] = value
    struct.pack_into(">I", patched, 17, crc32c(bytes(patched[21:])))
    return bytes(patched)


def test_a_last_offset_that_overflows_is_before_its_base_offset(tmp_path: Path) -> None:
    log = write(tmp_path / "t-0", batch({0: struct.pack(">q", MAX_INT64 - 3)}))
    result = kfmt("verify-crc", log, "--json")
    assert (result.code, result.codes) == (1, ["offsets-backwards"])
    assert f"before its base offset {MAX_INT64 - 3}" in result.of("finding")[0]["message"]


def test_the_largest_producer_id(tmp_path: Path) -> None:
    producer = struct.pack(">qhi", MAX_INT64, 0, 0)
    later = batch({0: struct.pack(">q", 20), 43: struct.pack(">qhi", MAX_INT64, 0, 7)})
    write(tmp_path / "t-0", batch({43: producer}) + later)
    result = kfmt("check", tmp_path / "t-0", "--json")
    assert "producer-sequence-repeated" in result.codes
    assert result.err == ""


@pytest.mark.parametrize("offset", [MAX_INT64, MAX_INT64 - 19, -MAX_INT64 - 1])
@pytest.mark.parametrize("command", [("check",), ("dump", "--records"), ("salvage",), ("txn",)])
def test_offsets_at_their_limits(command: tuple[str, ...], offset: int, tmp_path: Path) -> None:
    producer_fields = {43: struct.pack(">qhi", 7, 0, 0)}
    fields = {0: struct.pack(">q", offset), **producer_fields}
    write(tmp_path / "t-0", batch(fields) + batch(fields) + batch(producer_fields))
    destination = [tmp_path / "to"] if command == ("salvage",) else []
    result = kfmt(*command, tmp_path / "t-0", *destination, "--json")
    assert result.code == 1
    assert result.err == ""


def test_a_transaction_that_takes_longer_than_there_is_time(tmp_path: Path) -> None:
    """From the lowest timestamp to the largest are 2^64 milliseconds."""
    earliest = {22: b"\x10", 27: struct.pack(">qqqhi", -MAX_INT64 - 1, MAX_INT64, 7, 0, 0)}
    latest = {
        0: struct.pack(">q", 20),
        22: b"\x10",
        27: struct.pack(">qqqhi", MAX_INT64, MAX_INT64, 8, 0, 0),
    }
    write(tmp_path / "t-0", batch(earliest) + batch(latest))
    result = kfmt("txn", tmp_path / "t-0", "--json")
    assert [row["open_for_ms"] for row in result.of("transaction")] == [None, 0]


def test_a_negative_sequence_that_is_not_that_of_no_producer(tmp_path: Path) -> None:
    """As `DefaultRecordBatch.lastSequence` and `DefaultRecord.readFrom` compute it."""
    log = write(tmp_path / "t-0", batch({53: struct.pack(">i", -7)}))
    result = kfmt("dump", log, "--records", "--json")
    (row,) = result.of("batch")
    assert (row["base_sequence"], row["last_sequence"]) == (-7, 12)
    assert {record["sequence"] for record in result.of("record")} == {-1}
