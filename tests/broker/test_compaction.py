"""compaction: its counts and offsets; a small offset map; one key."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfmt_cli.broker.log_reading.offset_map import OffsetMap, hash_keys
from tests.support.compaction_cases import LARGEST_RECORDS, limited_case
from tests.support.samples import kfmt
from tools.kafka import SAMPLES

ORDERS = SAMPLES / "kafka-3.9.1-broker1/orders-0"
TXN = SAMPLES / "kafka-3.9.1-broker1/txn-0"


def retained_offsets(partition: Path, end: int) -> set[int]:
    """The offsets of non-transactional records that the cleaner retains, by a dictionary."""
    rows = kfmt("dump", partition, "--records", "--json").of("record")
    latest = {row["key"]: row["offset"] for row in rows if row["offset"] < end}
    return {
        row["offset"]
        for row in rows
        if row["offset"] >= end or (row["key"] is not None and latest[row["key"]] == row["offset"])
    }


def remaining(*arguments: str | Path) -> tuple[dict[str, object], set[int]]:
    """The row of a partition, and its remaining offsets."""
    options = ("--offsets", "--json", "--cleanup-policy", "compact")
    (row,) = kfmt("compaction", *arguments, *options).of("compaction")
    ranges = row["remaining_offsets"]
    return row, {offset for first, last in ranges for offset in range(first, last + 1)}


def test_the_latest_of_each_key_stays() -> None:
    row, retained = remaining(ORDERS)
    assert retained == retained_offsets(ORDERS, 1440)
    assert row["records_kept"] == len(retained)
    assert row["records_removed"] == 1500 - len(retained)
    assert (row["first_dirty_offset"], row["first_uncleanable_offset"]) == (0, 1440)
    assert (row["dirty_ratio"], row["picked"], row["passes"]) == (1.0, True, 1)
    (row,) = kfmt("compaction", ORDERS, "--json").of("compaction")
    assert row["remaining_offsets"] is None


def test_several_passes_keep_the_same() -> None:
    row, retained = remaining(ORDERS, "--dedupe-buffer-bytes", "600")
    assert int(str(row["passes"])) > 1
    assert retained == remaining(ORDERS)[1]


def test_a_buffer_without_room_for_a_key_keeps_everything() -> None:
    options = ("--dedupe-buffer-bytes", "47", "--cleanup-policy", "compact", "--json")
    (row,) = kfmt("compaction", ORDERS, *options).of("compaction")
    assert (row["passes"], row["records_kept"], row["records_removed"]) == (1, 1500, 0)


def test_a_checkpoint_and_lags(tmp_path: Path) -> None:
    shutil.copytree(ORDERS, tmp_path / "orders-0")
    checkpoint = tmp_path / "cleaner-offset-checkpoint"
    checkpoint.write_text("0\n1\norders 0 720\n")
    row, _ = remaining(tmp_path / "orders-0")
    assert row["first_dirty_offset"] == 720
    assert 0 < float(str(row["dirty_ratio"])) < 1
    row, retained = remaining(tmp_path / "orders-0", "--min-cleanable-ratio", "0.9")
    assert (row["picked"], len(retained)) == (False, 1500)
    row, retained = remaining(tmp_path / "orders-0", "--min-compaction-lag-ms", str(10**15))
    assert (row["dirty_bytes"], len(retained)) == (0, 1500)
    assert row["held_by"] == "records newer than min.compaction.lag.ms"
    checkpoint.write_text("0\n1\norders 0 99999\n")
    assert remaining(tmp_path / "orders-0")[0]["first_dirty_offset"] == 0


def test_aborted_records_go_and_markers_stay() -> None:
    row, retained = remaining(TXN)
    aborted = {
        offset
        for row in kfmt("txn", TXN, "--json").of("transaction")
        if row["outcome"] == "aborted" and row["last_offset"] < 635
        for offset in range(row["first_offset"], row["last_offset"] + 1)
    }
    assert aborted
    assert not aborted & retained
    assert row["of_aborted_transactions"] == len(aborted)
    markers = {row["marker_offset"] for row in kfmt("txn", TXN, "--json").of("transaction")}
    assert {marker for marker in markers if marker < 635} <= retained


def test_one_key() -> None:
    options = ("--cleanup-policy", "compact")
    rows = kfmt("compaction", ORDERS, "--key", "customer-7", *options, "--json").of("key")
    assert len(rows) == 23
    assert [row["stays"] for row in rows] == [False] * 21 + [True] * 2
    assert "which is not cleanable yet" in rows[-2]["why"]
    assert rows[-1]["value_size"] == -1
    table = kfmt("compaction", ORDERS, "--key", f"hex:{b'customer-7'.hex()}")
    assert "23 records" in table.out


def test_a_key_of_a_topic_that_is_not_compacted_stays() -> None:
    rows = kfmt("compaction", ORDERS, "--key", "customer-7", "--json").of("key")
    assert [row["stays"] for row in rows] == [True] * 23
    (partition_row,) = kfmt("compaction", ORDERS, "--json").of("compaction")
    assert {row["why"] for row in rows} == {partition_row["never_because"]}
    result = kfmt("compaction", ORDERS, "--key", "customer-7")
    assert "removed" not in result.out + result.err
    assert "the cleaner ignores this partition" in result.out


def test_a_key_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    result = kfmt("compaction", ORDERS.parent / "compacted-0", "--key", "nobody")
    assert (result.code, result.out, result.err) == (1, "not found\n", "")
    result = kfmt("compaction", ORDERS.parent / "compacted-0", "--key", "nobody", "--json")
    assert (result.code, result.out) == (1, "")
    assert kfmt("compaction", tmp_path, "--key", "nobody").code == 3
    assert "int:" in kfmt("compaction", "--help").out
    line = b'{"key":"AAAABQ==","key_encoding":"base64","value":"x"}\n'
    assert kfmt("build", "-", tmp_path / "t-0", stdin=line).code == 0
    assert "1 record\n" in kfmt("compaction", tmp_path / "t-0", "--key", "int:5").out


def test_an_empty_value_is_no_tombstone_and_an_empty_key_is_a_key(tmp_path: Path) -> None:
    records = [("a", ""), ("b", None), ("", "x"), (None, "y")]
    closed_lines = [{"file": f"{0:020}.log", "key": key, "value": value} for key, value in records]
    lines = [*closed_lines, {"file": f"{4:020}.log", "key": "c", "value": None}]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert kfmt("build", "-", tmp_path / "t-0", stdin=data).code == 0
    latest = "latest record for its key"
    for key, offset, size, reason in (
        ("a", 0, 0, latest),
        ("b", 1, -1, f"{latest}: a tombstone, removed at its delete horizon"),
        ("", 2, 1, latest),
        ("c", 4, -1, latest),  # the cleaner does not come there yet
    ):
        options = ("--cleanup-policy", "compact", "--json")
        (row,) = kfmt("compaction", tmp_path / "t-0", "--key", key, *options).of("key")
        assert (row["offset"], row["value_size"], row["stays"]) == (offset, size, True)
        assert row["why"] == reason


@given(st.lists(st.integers(0, 300), max_size=600), st.integers(1, 400))
def test_the_map_is_a_dictionary_up_to_its_capacity(keys: list[int], capacity: int) -> None:
    data = b"".join(key.to_bytes(4, "big") for key in keys)
    starts = np.arange(len(keys), dtype=np.int64) * 4
    hashes = hash_keys(data, starts, np.full(len(keys), 4))
    map_ = OffsetMap(1)
    map_.capacity = capacity
    n_added = map_.add_keys(hashes, np.arange(len(keys), dtype=np.int64))
    latest: dict[int, int] = {}
    expected = 0
    for offset, key in enumerate(keys):
        if len(latest) >= capacity:
            break
        latest[key] = offset
        expected += 1
    assert (n_added, len(map_)) == (expected, len(latest))
    assert map_.find_latest_offsets(hashes).tolist() == [latest.get(key, -1) for key in keys]


def test_a_topic_that_is_not_compacted_is_never_cleaned(tmp_path: Path) -> None:
    broker = tmp_path / "broker"
    for name in ("__cluster_metadata-0", "orders-0", "compacted-0"):
        shutil.copytree(SAMPLES / "kafka-3.9.1-broker1" / name, broker / name)
    (row,) = kfmt("compaction", broker / "orders-0", "--json").of("compaction")
    assert not row["picked"]
    assert row["records_removed"] == 0
    assert "cleanup.policy is delete (Kafka's default)" in row["never_because"]
    compact_result = kfmt(
        "compaction", broker / "orders-0", "--cleanup-policy", "compact", "--json"
    )
    (row,) = compact_result.of("compaction")
    assert row["never_because"] is None
    assert row["records_removed"] > 0
    (row,) = kfmt("compaction", broker / "compacted-0", "--json").of("compaction")
    assert row["never_because"] is None
    (row,) = kfmt("compaction", broker / "__cluster_metadata-0", "--json").of("compaction")
    assert "metadata log" in row["never_because"]


def test_a_damaged_log_is_not_cleaned(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1/orders-0", directory)
    log = directory / f"{240:020}.log"
    data = bytearray(log.read_bytes())
    data[13500] ^= 1
    log.write_bytes(bytes(data))
    (row,) = kfmt("compaction", directory, "--json").of("compaction")
    assert (row["picked"], row["records_removed"]) == (False, 0)
    assert "uncleanable" in row["never_because"]


def test_each_setting_says_where_it_comes_from() -> None:
    broker = SAMPLES / "kafka-3.9.1-broker1"
    (row,) = kfmt(
        "compaction", broker / "compacted-0", "--json", "--min-cleanable-ratio", "0.9"
    ).of("compaction")
    sources = {name: setting["source"] for name, setting in row["settings"].items()}
    assert sources["cleanup.policy"] == "metadata log"
    assert sources["min.cleanable.dirty.ratio"] == "option"
    assert sources["min.compaction.lag.ms"] == "Kafka's default"


@pytest.mark.parametrize("directory", list(LARGEST_RECORDS))
@pytest.mark.parametrize("excess", [0, 1])
def test_no_record_is_larger_than_the_limit(directory: str, excess: int, tmp_path: Path) -> None:
    size = LARGEST_RECORDS[directory]
    case = limited_case(directory, size - excess)
    (tmp_path / "given-0").mkdir()
    for file, content in case.files.items():
        (tmp_path / "given-0" / file).write_bytes(content)
    (tmp_path / "topic").write_text("\n".join(f"{k}={v}" for k, v in case.settings.items()))
    row, _ = remaining(tmp_path / "given-0", "--config", tmp_path / "topic")
    if not excess:
        assert row["never_because"] is None
        assert row["records_removed"] != 0
        return
    assert row["records_removed"] == 0
    assert row["never_because"] == (
        f"max.decompressed.message.bytes is {size - 1} and the record at offset 249 has {size} "
        "bytes: since Kafka 4.4, the cleaner fails and removes nothing"
    )


def test_records_outside_compressed_batches_have_no_limit(tmp_path: Path) -> None:
    (tmp_path / "topic").write_text("max.decompressed.message.bytes=10")
    row, _ = remaining(ORDERS, "--config", tmp_path / "topic")
    assert row["never_because"] is None
