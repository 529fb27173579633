"""`kfmt txn`: transactions as the producers made them."""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from crc32c import crc32c

from kfmt_cli.commands.txn.command import TRANSACTION_STATE_TOPIC
from kfmt_cli.core.times import format_time
from tests.broker.test_state import built, message, record
from tests.support.samples import ORDERS, Row, kfmt
from tests.support.segments import positions, with_broken_checksums, write
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
LIVE = SAMPLES / "kafka-3.9.1-live"


def transactions(*arguments: str | Path) -> tuple[list[Row], list[Row]]:
    done = kfmt("txn", *arguments, "--json")
    assert done.code == 0, done.err
    return done.of("transaction"), done.of("transactions")


@pytest.mark.parametrize(
    ("partition", "last"), [(BROKER / "txn-0", 736), (SAMPLES / "kafka-3.9.1-broker2/txn-1", 730)]
)
def test_three_producers_committed_twenty_and_aborted_ten_each(partition: Path, last: int) -> None:
    rows, (summary,) = transactions(partition)
    by_producer = Counter((row["producer_id"], row["outcome"]) for row in rows)
    for producer in (0, 1, 1000):
        assert by_producer[producer, "committed"] == 20
        assert by_producer[producer, "aborted"] == 10
    assert (summary["open"], summary["committed"]) == (0, 60)
    assert summary["last_stable_offset"] == summary["log_end_offset"] == last
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
    only, _ = transactions(LIVE, "--open")
    assert only == [first]


def test_a_transaction_that_the_coordinator_has_ended_hangs(tmp_path: Path) -> None:
    shutil.copytree(LIVE / "txn-0", tmp_path / "txn-0")
    shutil.copytree(BROKER / "__transaction_state-0", tmp_path / "__transaction_state-0")
    rows, _ = transactions(tmp_path, "--open")
    assert [(row["transactional_id"], row["hanging"]) for row in rows] == [("payments-hang", True)]


@pytest.mark.parametrize(
    ("status", "partition", "hanging"),
    [
        *((1, "txn-0", False), (2, "txn-0", False), (3, "txn-0", False)),  # it will be ended
        *((0, "txn-0", True), (4, "txn-0", True), (5, "txn-0", True), (6, "txn-0", True)),
        *((1, "txn-1", True), (1, "orders-0", True)),
    ],
)
def test_a_transaction_goes_on_while_its_coordinator_means_to_end_it_here(
    status: int, partition: str, hanging: bool, tmp_path: Path
) -> None:
    shutil.copytree(LIVE / "txn-0", tmp_path / "txn-0")
    topic, _, number = partition.rpartition("-")
    value = {
        "producer_id": 2,
        "producer_epoch": 0,
        "transaction_timeout_ms": 60_000,
        "transaction_status": status,
        "transaction_partitions": [{"topic": topic, "partition_ids": [int(number)]}],
        "transaction_last_update_timestamp_ms": 1,
        "transaction_start_timestamp_ms": 1,
    }
    key = message(TRANSACTION_STATE_TOPIC, 0, "key", 0, {"transactional_id": "t"})
    text = message(TRANSACTION_STATE_TOPIC, 0, "value", 0, value)
    built(tmp_path / f"{TRANSACTION_STATE_TOPIC}-0", [record(0, key, text)])
    rows, _ = transactions(tmp_path, "--open")
    assert [(row["transactional_id"], row["hanging"]) for row in rows] == [("t", hanging)]


def test_what_has_no_transaction_is_passed_over_in_a_directory() -> None:
    assert "orders-0" not in kfmt("txn", BROKER).out
    assert (
        "0 committed, 0 aborted, 0 open"
        in kfmt("txn", BROKER / "empty-0/00000000000000000000.log").out
    )
    assert kfmt("txn", SAMPLES / "nothing").code == 3


def test_no_transactions_are_said_to_be_none() -> None:
    done = kfmt("txn", BROKER / "orders-0")
    assert (done.code, done.out, done.err) == (0, "no transactions\n", "")
    done = kfmt("txn", BROKER, "--open")
    assert (done.code, done.out) == (0, "no open transactions\n")


def test_only_partitions_with_open_transactions_are_listed(tmp_path: Path) -> None:
    shutil.copytree(LIVE / "txn-0", tmp_path / "txn-0")
    shutil.copytree(BROKER / "txn-0", tmp_path / "ended-0")
    shown = kfmt("txn", tmp_path, "--open").out
    assert "ended-0" not in shown
    assert "1 open; " in shown
    batches = kfmt("dump", LIVE / "txn-0", "--json").of("batch")
    newest = max(row["max_timestamp"] for row in batches)
    assert (
        f"open times are measured up to the partition's newest record, {format_time(newest)}\n"
        in shown
    )


@pytest.mark.parametrize("mark", ["delete", "stray", "future"])
def test_ids_do_not_come_from_a_directory_that_no_broker_serves(mark: str, tmp_path: Path) -> None:
    shutil.copytree(BROKER / "txn-0", tmp_path / "txn-0")
    coordinator = tmp_path / f"{TRANSACTION_STATE_TOPIC}-0.{'0' * 32}-{mark}"
    shutil.copytree(BROKER / f"{TRANSACTION_STATE_TOPIC}-0", coordinator)
    rows, _ = transactions(tmp_path / "txn-0")
    assert {row["transactional_id"] for row in rows} == {None}


def test_damage_is_said(tmp_path: Path) -> None:
    log = tmp_path / "txn-0/00000000000000000000.log"
    log.parent.mkdir()
    data = bytearray((BROKER / "txn-0" / log.name).read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    done = kfmt("txn", log.parent, "--json")
    assert (done.code, done.codes) == (1, ["crc-mismatch"])
    rows = done.of("transaction")
    assert rows[0]["first_offset"] is None or rows[0]["first_offset"] > 0


def test_logs_that_are_given_one_by_one_are_one_partition() -> None:
    partition = SAMPLES / "kafka-3.9.1-live/txn-0"
    whole = kfmt("txn", partition, "--json").of("transaction")
    logs = sorted(partition.glob("*.log"))
    rows = kfmt("txn", *logs, "--json").of("transaction")
    names = set(whole[0]) - {"file"}
    assert [{name: row[name] for name in names} for row in rows] == [
        {name: row[name] for name in names} for row in whole
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


def appended(log: Path, batch: bytes, later_ms: int) -> None:
    """Append a batch to a log as its next one, with timestamps that much later."""
    data = log.read_bytes()
    *_, last, _ = positions(data)
    base, delta = struct.unpack_from(">q", data, last)[0], struct.unpack_from(">i", data, last + 23)
    newest = struct.unpack_from(">q", data, last + 35)[0]
    made = bytearray(batch)
    struct.pack_into(">q", made, 0, base + delta[0] + 1)
    struct.pack_into(">qq", made, 27, newest + later_ms, newest + later_ms)
    struct.pack_into(">I", made, 17, crc32c(bytes(made[21:])))
    log.write_bytes(data + bytes(made))


def first_batch(file: Path, *, control: bool) -> bytes:
    data = file.read_bytes()
    for at, end in pairwise(positions(data)):
        if bool(data[at + 22] & 0x20) is control:
            return data[at:end]
    raise AssertionError


def hanging(folder: Path) -> list[object]:
    rows = kfmt("txn", folder, "--open", "--json").of("transaction")
    return [row["hanging"] for row in rows]


def test_only_a_brokers_clock_shows_that_a_transaction_hangs(tmp_path: Path) -> None:
    folder = tmp_path / "txn-0"
    shutil.copytree(LIVE / "txn-0", folder)
    log = max(folder.glob("*.log"))
    marker = first_batch(LIVE / "txn-0" / f"{0:020}.log", control=True)
    appended(log, first_batch(ORDERS, control=False), 20 * MINUTES)
    assert hanging(folder) == [None]  # the clock of a producer
    appended(log, marker, 0)
    assert hanging(folder) == [None]  # it was open then, but since when?
    appended(log, marker, 20 * MINUTES)
    assert hanging(folder) == [True]


def test_a_damaged_timestamp_is_no_time(tmp_path: Path) -> None:
    folder = tmp_path / "txn-0"
    shutil.copytree(LIVE / "txn-0", folder)
    (before,) = kfmt("txn", folder, "--open", "--json").of("transaction")
    log = max(folder.glob("*.log"))
    data = bytearray(log.read_bytes())
    data[40] ^= 0x10  # of the first batch's largest timestamp
    log.write_bytes(data)
    (row,) = kfmt("txn", folder, "--open", "--json").of("transaction")
    assert row["hanging"] is None
    assert row["open_for_ms"] <= before["open_for_ms"]


def test_damaged_coordinator_state_proves_nothing(tmp_path: Path) -> None:
    shutil.copytree(LIVE / "txn-0", tmp_path / "txn-0")
    shutil.copytree(
        BROKER / f"{TRANSACTION_STATE_TOPIC}-0", tmp_path / f"{TRANSACTION_STATE_TOPIC}-0"
    )
    log = tmp_path / f"{TRANSACTION_STATE_TOPIC}-0/{0:020}.log"
    data = bytearray(log.read_bytes())
    data[positions(bytes(data))[-2] + 70] ^= 1
    log.write_bytes(data)
    for given in (tmp_path / "txn-0", tmp_path):
        done = kfmt("txn", given, "--open", "--json")
        assert (done.code, done.codes) == (1, ["crc-mismatch"])
        assert [row["hanging"] for row in done.of("transaction")] == [None]


def test_a_replica_on_its_way_has_the_place_of_its_partition(tmp_path: Path) -> None:
    shutil.copytree(
        BROKER / f"{TRANSACTION_STATE_TOPIC}-0", tmp_path / f"{TRANSACTION_STATE_TOPIC}-0"
    )
    data = (tmp_path / f"{TRANSACTION_STATE_TOPIC}-0/{0:020}.log").read_bytes()
    (tmp_path / f"{TRANSACTION_STATE_TOPIC}-0/{0:020}.log").write_bytes(data[:24076])
    expected = None
    for name in ("txn-0", f"txn-0.{'0' * 32}-future"):
        shutil.copytree(LIVE / "txn-0", tmp_path / name)
        found = hanging(tmp_path / name)
        expected = expected or found
        assert found == expected == [False]


def test_findings_that_are_left_out_are_counted_where_they_are(tmp_path: Path) -> None:
    shutil.copytree(LIVE / "txn-0", tmp_path / "txn-0")
    data = (BROKER / f"{TRANSACTION_STATE_TOPIC}-0/{0:020}.log").read_bytes()
    for i in range(2):
        write(tmp_path / f"{TRANSACTION_STATE_TOPIC}-{i}", with_broken_checksums(data))
    done = kfmt("txn", tmp_path / "txn-0", "--json")
    left = [(Path(row["file"]).name, row["count"]) for row in done.of("findings_left_out")]
    per_file = len(positions(data)) - 1 - done.codes.count("crc-mismatch") // 2
    assert left == [
        (f"{TRANSACTION_STATE_TOPIC}-0", per_file),
        (f"{TRANSACTION_STATE_TOPIC}-1", per_file),
    ]
