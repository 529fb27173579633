"""`kfmt txn`: the transactions that producers wrote."""

from __future__ import annotations

import json
import shutil
import struct
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from crc32c import crc32c

from kfmt_cli.broker.transactions.coordinator_log import TRANSACTION_STATE_TOPIC
from kfmt_cli.core.times import format_time
from tests.broker.test_state import built, message, record
from tests.support.samples import ORDERS, Row, kfmt
from tests.support.segments import positions, with_broken_checksums, write
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
LIVE = SAMPLES / "kafka-3.9.1-live"


def transactions(*arguments: str | Path) -> tuple[list[Row], list[Row]]:
    result = kfmt("txn", *arguments, "--json")
    assert result.code == 0, result.err
    return result.of("transaction"), result.of("transactions")


@pytest.mark.parametrize(
    ("partition", "end_offset"),
    [(BROKER / "txn-0", 736), (SAMPLES / "kafka-3.9.1-broker2/txn-1", 730)],
)
def test_three_producers_committed_twenty_and_aborted_ten_each(
    partition: Path, end_offset: int
) -> None:
    rows, (summary,) = transactions(partition)
    counts = Counter((row["producer_id"], row["outcome"]) for row in rows)
    for producer in (0, 1, 1000):
        assert counts[producer, "committed"] == 20
        assert counts[producer, "aborted"] == 10
    assert (summary["open"], summary["committed"]) == (0, 60)
    assert summary["last_stable_offset"] == summary["log_end_offset"] == end_offset
    for row in rows:
        assert row["first_offset"] <= row["last_offset"] < row["marker_offset"]
        assert row["duration_ms"] == row["end_timestamp"] - row["start_timestamp"]
        assert row["hanging"] is None


def test_transactional_ids_come_from_what_lies_beside() -> None:
    rows, _ = transactions(BROKER / "txn-0")
    ids = {(row["producer_id"], row["transactional_id"]) for row in rows}
    assert ids == {(0, "payments-0"), (1, "payments-2"), (2, "payments-hang"), (1000, None)}
    (timed_out,) = [row for row in rows if row["producer_id"] == 2]
    assert (timed_out["outcome"], timed_out["marker_offset"]) == ("aborted", 735)


def test_an_open_transaction_comes_first_and_holds_the_last_stable_offset() -> None:
    rows, (summary,) = transactions(LIVE / "txn-0")
    first = rows[0]
    assert (first["outcome"], first["producer_id"], first["first_offset"]) == ("open", 2, 630)
    assert first["holds_last_stable_offset"]
    assert not any(row["holds_last_stable_offset"] for row in rows[1:])
    assert (first["marker_offset"], first["records"]) == (None, 5)
    assert (summary["open"], summary["last_stable_offset"]) == (1, 630)
    open_rows, _ = transactions(LIVE, "--open")
    assert open_rows == [first]


def test_a_transaction_that_the_coordinator_has_ended_hangs(tmp_path: Path) -> None:
    shutil.copytree(LIVE / "txn-0", tmp_path / "txn-0")
    shutil.copytree(BROKER / "__transaction_state-0", tmp_path / "__transaction_state-0")
    rows, _ = transactions(tmp_path, "--open")
    assert [(row["transactional_id"], row["hanging"]) for row in rows] == [("payments-hang", True)]


@pytest.mark.parametrize(
    ("status", "partition", "hanging"),
    [
        *(
            (1, "txn-0", False),
            (2, "txn-0", False),
            (3, "txn-0", False),
        ),  # the coordinator will end it
        *((0, "txn-0", True), (4, "txn-0", True), (5, "txn-0", True), (6, "txn-0", True)),
        *((1, "txn-1", True), (1, "orders-0", True)),
    ],
)
def test_a_transaction_goes_on_while_its_coordinator_means_to_end_it_here(
    status: int, partition: str, hanging: bool, tmp_path: Path
) -> None:
    shutil.copytree(LIVE / "txn-0", tmp_path / "txn-0")
    topic, _, partition_id = partition.rpartition("-")
    value = {
        "producer_id": 2,
        "producer_epoch": 0,
        "transaction_timeout_ms": 60_000,
        "transaction_status": status,
        "transaction_partitions": [{"topic": topic, "partition_ids": [int(partition_id)]}],
        "transaction_last_update_timestamp_ms": 1,
        "transaction_start_timestamp_ms": 1,
    }
    key = message(TRANSACTION_STATE_TOPIC, 0, "key", 0, {"transactional_id": "t"})
    text = message(TRANSACTION_STATE_TOPIC, 0, "value", 0, value)
    built(tmp_path / f"{TRANSACTION_STATE_TOPIC}-0", [record(0, key, text)])
    rows, _ = transactions(tmp_path, "--open")
    assert [(row["transactional_id"], row["hanging"]) for row in rows] == [("t", hanging)]
    names = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
    assert rows[0]["coordinator_state"] == (*names, "Dead")[status]
    assert {row["coordinator_state"] for row in transactions(BROKER / "txn-0")[0]} == {None}


def test_partitions_without_transactions_are_skipped_in_a_directory() -> None:
    assert "orders-0" not in kfmt("txn", BROKER).out
    assert (
        "0 committed, 0 aborted, 0 open"
        in kfmt("txn", BROKER / "empty-0/00000000000000000000.log").out
    )
    assert kfmt("txn", SAMPLES / "nothing").code == 3


def test_the_absence_of_transactions_is_reported() -> None:
    result = kfmt("txn", BROKER / "orders-0")
    assert (result.code, result.out, result.err) == (0, "no transactions\n", "")
    result = kfmt("txn", BROKER, "--open")
    assert (result.code, result.out) == (0, "no open transactions\n")


def test_only_partitions_with_open_transactions_are_listed(tmp_path: Path) -> None:
    shutil.copytree(LIVE / "txn-0", tmp_path / "txn-0")
    shutil.copytree(BROKER / "txn-0", tmp_path / "ended-0")
    output = kfmt("txn", tmp_path, "--open").out
    assert "ended-0" not in output
    assert "1 open; " in output
    batches = kfmt("dump", LIVE / "txn-0", "--json").of("batch")
    newest = max(row["max_timestamp"] for row in batches)
    assert (
        f"open times are measured up to the partition's newest record, {format_time(newest)}\n"
        in output
    )


@pytest.mark.parametrize("suffix", ["delete", "stray", "future"])
def test_ids_do_not_come_from_a_directory_that_no_broker_serves(
    suffix: str, tmp_path: Path
) -> None:
    shutil.copytree(BROKER / "txn-0", tmp_path / "txn-0")
    coordinator = tmp_path / f"{TRANSACTION_STATE_TOPIC}-0.{'0' * 32}-{suffix}"
    shutil.copytree(BROKER / f"{TRANSACTION_STATE_TOPIC}-0", coordinator)
    rows, _ = transactions(tmp_path / "txn-0")
    assert {row["transactional_id"] for row in rows} == {None}


def test_damage_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "txn-0/00000000000000000000.log"
    log.parent.mkdir()
    data = bytearray((BROKER / "txn-0" / log.name).read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    result = kfmt("txn", log.parent, "--json")
    assert (result.code, result.codes) == (1, ["crc-mismatch"])
    rows = result.of("transaction")
    assert rows[0]["first_offset"] is None or rows[0]["first_offset"] > 0


def test_logs_that_are_given_one_by_one_are_one_partition() -> None:
    partition = SAMPLES / "kafka-3.9.1-live/txn-0"
    expected = kfmt("txn", partition, "--json").of("transaction")
    logs = sorted(partition.glob("*.log"))
    rows = kfmt("txn", *logs, "--json").of("transaction")
    names = set(expected[0]) - {"file"}
    assert [{name: row[name] for name in names} for row in rows] == [
        {name: row[name] for name in names} for row in expected
    ]


def test_a_log_with_one_behind_it_does_not_say_what_hangs() -> None:
    logs = sorted((SAMPLES / "kafka-3.9.1-broker1/txn-0").glob("*.log"))
    rows = [
        row for log in logs[:-1] for row in kfmt("txn", log, "--open", "--json").of("transaction")
    ]
    assert rows
    assert {row["hanging"] for row in rows} == {None}


def test_standard_input_is_not_taken() -> None:
    assert kfmt("txn", "-").code == 2


MINUTES = 60_000


def append_batch(log: Path, batch: bytes, later_ms: int) -> None:
    """Append a batch to a log, with timestamps later_ms after those of its last batch."""
    data = log.read_bytes()
    *_, last_position, _ = positions(data)
    base_offset = struct.unpack_from(">q", data, last_position)[0]
    delta = struct.unpack_from(">i", data, last_position + 23)
    newest = struct.unpack_from(">q", data, last_position + 35)[0]
    appended_batch = bytearray(batch)
    struct.pack_into(">q", appended_batch, 0, base_offset + delta[0] + 1)
    struct.pack_into(">qq", appended_batch, 27, newest + later_ms, newest + later_ms)
    struct.pack_into(">I", appended_batch, 17, crc32c(bytes(appended_batch[21:])))
    log.write_bytes(data + bytes(appended_batch))


def first_batch(file: Path, *, control: bool) -> bytes:
    data = file.read_bytes()
    for start, end in pairwise(positions(data)):
        if bool(data[start + 22] & 0x20) is control:
            return data[start:end]
    raise AssertionError


def hanging_values(directory: Path) -> list[object]:
    rows = kfmt("txn", directory, "--open", "--json").of("transaction")
    return [row["hanging"] for row in rows]


def test_only_a_brokers_clock_shows_that_a_transaction_hangs(tmp_path: Path) -> None:
    directory = tmp_path / "txn-0"
    shutil.copytree(LIVE / "txn-0", directory)
    log = max(directory.glob("*.log"))
    marker = first_batch(LIVE / "txn-0" / f"{0:020}.log", control=True)
    append_batch(log, first_batch(ORDERS, control=False), 20 * MINUTES)
    assert hanging_values(directory) == [None]  # the clock of a producer
    append_batch(log, marker, 0)
    assert hanging_values(directory) == [None]  # it was open then, but since when?
    append_batch(log, marker, 20 * MINUTES)
    assert hanging_values(directory) == [True]


def test_a_transaction_hangs_once_it_is_open_for_longer_than_the_longest_timeout(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "txn-0"
    shutil.copytree(LIVE / "txn-0", directory)
    log = max(directory.glob("*.log"))
    marker = first_batch(LIVE / "txn-0" / f"{0:020}.log", control=True)
    append_batch(log, marker, 0)
    append_batch(log, marker, 15 * MINUTES)
    assert hanging_values(directory) == [None]
    append_batch(log, marker, 1)
    assert hanging_values(directory) == [True]


def test_check_calls_a_transaction_hanging_after_the_longest_timeout(tmp_path: Path) -> None:
    def findings(open_for_ms: int) -> list[tuple[str, str]]:
        lines = [
            {"type": "batch", "base_offset": 0, "producer_id": 7, "producer_epoch": 0}
            | {"base_sequence": 0, "attributes": {"transactional": True}},
            {"type": "record", "offset": 0, "timestamp": 1000, "value": "a"},
            {"type": "batch", "base_offset": 1},
            {"type": "record", "offset": 1, "timestamp": 1000 + open_for_ms, "value": "b"},
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        directory = tmp_path / "t-0"
        built = kfmt("build", "-", directory, "--force", stdin=text.encode())
        assert built.code == 0, built.err
        rows = kfmt("check", directory, "--json").of("finding")
        return [(row["code"], row["message"].split(", ")[-1]) for row in rows]

    assert findings(15 * MINUTES) == [("transaction-open", "900 s later")]
    assert findings(15 * MINUTES + 1) == [("transaction-hanging", "900 s later")]
    assert findings(-5) == [("transaction-open", "0 s later")]


def test_a_damaged_timestamp_is_no_time(tmp_path: Path) -> None:
    directory = tmp_path / "txn-0"
    shutil.copytree(LIVE / "txn-0", directory)
    (undamaged_row,) = kfmt("txn", directory, "--open", "--json").of("transaction")
    log = max(directory.glob("*.log"))
    data = bytearray(log.read_bytes())
    data[40] ^= 0x10  # in the first batch's largest timestamp
    log.write_bytes(data)
    (row,) = kfmt("txn", directory, "--open", "--json").of("transaction")
    assert row["hanging"] is None
    assert row["open_for_ms"] <= undamaged_row["open_for_ms"]


def test_damaged_coordinator_state_proves_nothing(tmp_path: Path) -> None:
    shutil.copytree(LIVE / "txn-0", tmp_path / "txn-0")
    shutil.copytree(
        BROKER / f"{TRANSACTION_STATE_TOPIC}-0", tmp_path / f"{TRANSACTION_STATE_TOPIC}-0"
    )
    log = tmp_path / f"{TRANSACTION_STATE_TOPIC}-0/{0:020}.log"
    data = bytearray(log.read_bytes())
    data[positions(bytes(data))[-2] + 70] ^= 1
    log.write_bytes(data)
    for path in (tmp_path / "txn-0", tmp_path):
        result = kfmt("txn", path, "--open", "--json")
        assert (result.code, result.codes) == (1, ["crc-mismatch"])
        assert [row["hanging"] for row in result.of("transaction")] == [None]


def test_a_future_replica_is_judged_like_its_partition(tmp_path: Path) -> None:
    shutil.copytree(
        BROKER / f"{TRANSACTION_STATE_TOPIC}-0", tmp_path / f"{TRANSACTION_STATE_TOPIC}-0"
    )
    data = (tmp_path / f"{TRANSACTION_STATE_TOPIC}-0/{0:020}.log").read_bytes()
    (tmp_path / f"{TRANSACTION_STATE_TOPIC}-0/{0:020}.log").write_bytes(data[:24076])
    expected = None
    for name in ("txn-0", f"txn-0.{'0' * 32}-future"):
        shutil.copytree(LIVE / "txn-0", tmp_path / name)
        values = hanging_values(tmp_path / name)
        expected = expected or values
        assert values == expected == [False]


def test_suppressed_findings_are_counted_per_file(tmp_path: Path) -> None:
    shutil.copytree(LIVE / "txn-0", tmp_path / "txn-0")
    data = (BROKER / f"{TRANSACTION_STATE_TOPIC}-0/{0:020}.log").read_bytes()
    for i in range(2):
        write(tmp_path / f"{TRANSACTION_STATE_TOPIC}-{i}", with_broken_checksums(data))
    result = kfmt("txn", tmp_path / "txn-0", "--json")
    suppressed = [(Path(row["file"]).name, row["count"]) for row in result.of("findings_left_out")]
    per_file = len(positions(data)) - 1 - result.codes.count("crc-mismatch") // 2
    assert suppressed == [
        (f"{TRANSACTION_STATE_TOPIC}-0", per_file),
        (f"{TRANSACTION_STATE_TOPIC}-1", per_file),
    ]
