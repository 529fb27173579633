"""`kfmt find`: positions by offset, time, key and producer, by undamaged indexes."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, Row, kfmt
from tests.support.timestamp_cases import LATE_MS, timestamp_cases
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
PARTITIONS = [
    BROKER / "orders-0",
    BROKER / "codec-zstd-0",
    BROKER / "compacted-0",
    BROKER / "weird-times-0",
    SAMPLES / "kafka-2.8.2/v1-lz4-0",
    SAMPLES / "kafka-2.8.2/upgraded-0",
]


def find(*arguments: str | Path) -> list[Row]:
    result = kfmt("find", *arguments, "--json")
    rows = result.of("found")
    assert result.code == (0 if rows else 1), result.err
    return rows


def dump_records(partition: Path) -> list[Row]:
    return kfmt("dump", partition, "--records", "--json").of("record")


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda item: item.name)
def test_an_offset_is_where_dump_shows_it(partition: Path) -> None:
    records = dump_records(partition)
    for record in random.Random(2).sample(records, min(6, len(records))):
        (row,) = find(partition, "--offset", str(record["offset"]))
        assert row["file"] == record["file"]
        names = {"offset": "offset", "position": "batch_position", "record_position": "position"}
        assert {name: row[name] for name in names} == {
            name: record[column] for name, column in names.items()
        }
    last = max(record["offset"] for record in records)
    assert find(partition, "--offset", str(last + 100_000)) == []


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda item: item.name)
def test_a_time_is_found_at_the_first_record_that_is_not_older(partition: Path) -> None:
    records = [row for row in dump_records(partition) if row["timestamp"] is not None]
    times = sorted({record["timestamp"] for record in records})
    for time in [times[0], times[len(times) // 2], times[-1], times[-1] + 1, times[0] - 5]:
        expected = next(
            (record["offset"] for record in records if record["timestamp"] >= time), None
        )
        rows = find(partition, "--timestamp", str(time))
        assert [row["offset"] for row in rows] == ([] if expected is None else [expected])


def test_a_time_may_be_written_out() -> None:
    rows = [
        find(BROKER / "orders-0", "--timestamp", name)
        for name in ("2023-11-14T22:20", "2023-11-14T22:20:00Z", "2023-11-14T23:20+01:00")
    ]
    assert rows[0] == rows[1] == rows[2]
    assert kfmt("find", BROKER, "--timestamp", "yesterday").code == 2


def test_every_record_of_a_key_is_found() -> None:
    records = [row for row in dump_records(BROKER / "orders-0") if row["key"] == "customer-7"]
    for key in ("customer-7", "hex:" + b"customer-7".hex(), "base64:Y3VzdG9tZXItNw=="):
        rows = find(BROKER / "orders-0", "--key", key)
        assert [(row["file"], row["offset"]) for row in rows] == [
            (record["file"], record["offset"]) for record in records
        ]
    assert len(records) > 5
    assert len(find(BROKER / "orders-0", "--key", "customer-7", "--limit", "4")) == 4
    assert find(BROKER / "orders-0", "--key", "customer") == []
    assert "not found" in kfmt("find", BROKER / "orders-0", "--key", "customer").out


def test_every_batch_of_a_producer_is_found() -> None:
    batches = kfmt("dump", BROKER / "txn-0", "--json").of("batch")
    rows = find(BROKER / "txn-0", "--producer-id", "1000")
    expected = [batch["position"] for batch in batches if batch["producer_id"] == 1000]
    assert [row["position"] for row in rows] == expected
    assert len(expected) > 20


@pytest.mark.parametrize("damage", ["missing", "misplaced", "empty"])
def test_an_index_that_is_not_sound_is_not_used(damage: str, tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    shutil.copytree(ORDERS.parent, directory)
    index = directory / "00000000000000000480.index"
    data = bytearray(index.read_bytes())
    if damage == "missing":
        index.unlink()
    elif damage == "misplaced":
        for position in range(7, len(data), 8):
            data[position] ^= 5
        index.write_bytes(data)
    else:
        index.write_bytes(b"")
    result = kfmt("find", directory, "--offset", "700", "--json")
    (row,) = result.of("found")
    assert (row["offset"], row["position"]) == (700, 28548)
    assert row["via"] == ("index" if damage == "empty" else "scan")
    assert ("scanned from the start" in result.err) == (damage != "empty")
    (undamaged_row,) = find(ORDERS.parent, "--offset", "700")
    assert undamaged_row["via"] == "index"


def test_an_offset_that_compaction_took_is_not_found() -> None:
    records = {row["offset"] for row in dump_records(BROKER / "compacted-0")}
    batches = kfmt("dump", BROKER / "compacted-0", "--json").of("batch")
    removed_offset = next(
        offset
        for batch in batches
        for offset in range(batch["base_offset"], batch["last_offset"] + 1)
        if offset not in records
    )
    (row,) = find(BROKER / "compacted-0", "--offset", str(removed_offset))
    assert row["offset"] is None
    assert row["base_offset"] <= removed_offset <= row["last_offset"]


def test_wrong_usage(tmp_path: Path) -> None:
    assert kfmt("find", BROKER).code == 2
    assert kfmt("find", BROKER, "--offset", "1", "--key", "a").code == 2
    assert kfmt("find", BROKER, "--key", "hex:zz").code == 2
    assert kfmt("find", tmp_path / "nothing", "--offset", "1").code == 3
    assert kfmt("find", tmp_path, "--offset", "1").code == 3


def test_a_base_offset_that_is_wrong_hides_no_other_batch(tmp_path: Path) -> None:
    data = bytearray(ORDERS.read_bytes())
    data[2575 + 3] ^= 0x10
    file = tmp_path / "jump-0" / ORDERS.name
    file.parent.mkdir()
    file.write_bytes(data)
    result = kfmt("find", file.parent, "--offset", "100", "--json")
    (row,) = result.of("found")
    assert row["offset"] == 100


def test_a_time_index_that_ends_early_hides_nothing(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "orders-0")
    index = min((tmp_path / "orders-0").glob("*.timeindex"))
    index.write_bytes(index.read_bytes()[:12])
    options = ("--timestamp", "2023-11-14T22:17:00")
    (row,) = find(tmp_path / "orders-0", *options)
    assert [row["offset"]] == [row["offset"] for row in find(BROKER / "orders-0", *options)]


def test_names_are_shown_without_what_moves_a_terminal(tmp_path: Path) -> None:
    directory = tmp_path / "esc\x1b[31mX-0"
    directory.mkdir()
    shutil.copy(ORDERS, directory)
    assert "\x1b" not in kfmt("find", directory, "--offset", "5").err


def test_standard_input_is_not_taken() -> None:
    assert kfmt("find", "-", "--offset", "5").code == 2


def test_what_is_around_an_offset_that_is_not_there() -> None:
    broker = SAMPLES / "kafka-3.9.1-broker1"
    for name, offset, message in (
        ("compacted-0", 3, "the next batch starts at offset 560"),
        ("orders-0", 99999, "the segment ends before offset 1500"),
        ("empty-0", 0, "it is empty"),
    ):
        result = kfmt("find", broker / name, "--offset", str(offset))
        assert result.code == 1
        assert message in result.err


@pytest.mark.parametrize(
    ("description", "timestamp", "answer"),
    [
        ("empty, of segment 480, an old file", 1700000600000, "offset 720"),
        ("undamaged", 1700000600000, None),
    ],
)
def test_another_answer_of_a_broker_is_said(
    description: str, timestamp: int, answer: str | None, tmp_path: Path
) -> None:
    (case,) = (case for case in timestamp_cases() if case.description == description)
    partition = tmp_path / "t-0"
    partition.mkdir()
    for file, content in case.files.items():
        (partition / file).write_bytes(content)
        modified_s = case.modified.get(file, LATE_MS) / 1000
        os.utime(partition / file, (modified_s, modified_s))
    result = kfmt("find", partition, "--timestamp", str(timestamp))
    assert result.code == 0
    assert ("a broker returns" in result.err) == (answer is not None)
    assert answer is None or f"a broker returns {answer} for this timestamp" in result.err


def test_a_damaged_header_does_not_answer_for_other_offsets(tmp_path: Path) -> None:
    data = bytearray(ORDERS.read_bytes())
    data[23] = 0x40  # the last offset delta of the first batch
    log = tmp_path / "orders-0" / ORDERS.name
    log.parent.mkdir()
    log.write_bytes(data)
    row_by_offset = {
        offset: kfmt("find", log.parent, "--offset", offset, "--json").of("found")[0]
        for offset in ("200", "5")
    }
    assert row_by_offset["200"]["position"] > 0
    assert row_by_offset["5"]["position"] == 0
