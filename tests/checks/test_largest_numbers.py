"""Numbers at the ends of their ranges, in batches with valid checksums."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.support.samples import kfmt
from tests.support.segments import positions, write
from tools.kafka import SAMPLES

LARGEST = (1 << 63) - 1


def batch(fields: dict[int, bytes]) -> bytes:
    """A batch of 20 records with other bytes at some places of its header."""
    (log,) = (SAMPLES / "kafka-3.9.1-broker1" / "orders-0").glob(f"{0:020}.log")
    data = log.read_bytes()
    made = bytearray(data[: positions(data)[1]])
    for at, value in fields.items():
        made[at : at + len(value)] = value
    struct.pack_into(">I", made, 17, crc32c(bytes(made[21:])))
    return bytes(made)


def test_a_last_offset_that_overflows_is_before_its_base_offset(tmp_path: Path) -> None:
    log = write(tmp_path / "t-0", batch({0: struct.pack(">q", LARGEST - 3)}))
    found = kfmt("verify-crc", log, "--json")
    assert (found.code, found.codes) == (1, ["offsets-backwards"])
    assert f"before its base offset {LARGEST - 3}" in found.of("finding")[0]["message"]


def test_the_largest_producer_id(tmp_path: Path) -> None:
    producer = struct.pack(">qhi", LARGEST, 0, 0)
    later = batch({0: struct.pack(">q", 20), 43: struct.pack(">qhi", LARGEST, 0, 7)})
    write(tmp_path / "t-0", batch({43: producer}) + later)
    found = kfmt("check", tmp_path / "t-0", "--json")
    assert "producer-sequence-repeated" in found.codes
    assert found.err == ""


@pytest.mark.parametrize("offset", [LARGEST, LARGEST - 19, -LARGEST - 1])
@pytest.mark.parametrize("command", [("check",), ("dump", "--records"), ("salvage",), ("txn",)])
def test_offsets_at_their_ends(command: tuple[str, ...], offset: int, tmp_path: Path) -> None:
    of_producer = {43: struct.pack(">qhi", 7, 0, 0)}
    there = {0: struct.pack(">q", offset), **of_producer}
    write(tmp_path / "t-0", batch(there) + batch(there) + batch(of_producer))
    to = [tmp_path / "to"] if command == ("salvage",) else []
    done = kfmt(*command, tmp_path / "t-0", *to, "--json")
    assert done.code == 1
    assert done.err == ""


def test_a_transaction_that_takes_longer_than_there_is_time(tmp_path: Path) -> None:
    """From the lowest timestamp to the largest are 2^64 milliseconds."""
    begins = {22: b"\x10", 27: struct.pack(">qqqhi", -LARGEST - 1, LARGEST, 7, 0, 0)}
    later = {
        0: struct.pack(">q", 20),
        22: b"\x10",
        27: struct.pack(">qqqhi", LARGEST, LARGEST, 8, 0, 0),
    }
    write(tmp_path / "t-0", batch(begins) + batch(later))
    done = kfmt("txn", tmp_path / "t-0", "--json")
    assert [row["open_for_ms"] for row in done.of("transaction")] == [None, 0]


def test_a_negative_sequence_that_is_not_that_of_no_producer(tmp_path: Path) -> None:
    """As `DefaultRecordBatch.lastSequence` and `DefaultRecord.readFrom` have it."""
    log = write(tmp_path / "t-0", batch({53: struct.pack(">i", -7)}))
    done = kfmt("dump", log, "--records", "--json")
    (row,) = done.of("batch")
    assert (row["base_sequence"], row["last_sequence"]) == (-7, 12)
    assert {record["sequence"] for record in done.of("record")} == {-1}
