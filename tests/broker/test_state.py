"""`kfmt state`: the state that internal topics hold, at the end and at other offsets."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.broker.partitioners import compute_coordinator_partition, java_string_hash
from kfmt_cli.broker.state.cluster import ClusterReplay
from kfmt_cli.broker.state.shares import _update_snapshot
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.topics import topic_message_types
from tests.support.samples import Row, kfmt
from tests.support.segments import positions, write
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
METADATA = BROKER / "__cluster_metadata-0"
OFFSETS = BROKER / "__consumer_offsets-1"
TIERED = SAMPLES / "kafka-3.9.1-tiered"


def state(*arguments: str | Path) -> list[Row]:
    result = kfmt("state", *arguments, "--json")
    assert result.code == 0, result.err
    return result.rows


def of(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["type"] == kind]


def built(directory: Path, records: list[dict[str, Any]]) -> Path:
    """Build a partition with these records."""
    lines = directory.with_name(f"{directory.name}.jsonl")
    lines.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = kfmt("build", lines, directory)
    assert result.code == 0, result.err
    return directory


def message(
    topic: str, type_id: int, key_or_value: str, version: int, values: dict[str, Any]
) -> str:
    """The key or value of a record in a coordinator's topic, in hex."""
    message_type = next(
        message for message in topic_message_types(topic) if message.type_id == type_id
    )
    layout = message_type.key_layout if key_or_value == "key" else message_type.value_layout
    assert layout is not None
    prefix = type_id if key_or_value == "key" else version
    return (prefix.to_bytes(2, "big") + layout_at_version(layout, version).encode_row(values)).hex()


def record(offset: int, key: str, value: str | None, **extra: Any) -> dict[str, Any]:
    encoding = {} if value is None else {"value_encoding": "hex"}
    return {
        "type": "record",
        "offset": offset,
        "timestamp": 1,
        "key": key,
        "key_encoding": "hex",
        "value": value,
        **encoding,
        **extra,
    }


def commit(offset: int, committed_offset: int | None, **extra: Any) -> dict[str, Any]:
    """A commit of group g on t-0; None is a tombstone."""
    topic = "__consumer_offsets"
    key = message(topic, 1, "key", 0, {"group": "g", "topic": "t", "partition": 0})
    value = {"offset": committed_offset, "leader_epoch": 0, "metadata": "", "commit_timestamp": 5}
    text = None if committed_offset is None else message(topic, 1, "value", 3, value)
    return record(offset, key, text, **extra)


def test_groups_and_their_offsets_with_the_lag() -> None:
    rows = state(OFFSETS)
    assert [row["type"] for row in rows] == ["group", "committed_offset", "committed_offset"]
    assert list(rows[0])[:7] == [
        *("type", "file", "group", "state", "protocol_type", "generation", "members")
    ]
    assert rows[0]["members"] == 0
    assert list(rows[1])[2:] == [
        *("group", "topic", "partition", "offset", "leader_epoch", "metadata"),
        *("commit_timestamp", "log_end_offset", "lag", "log_start_offset", "range"),
    ]
    lags = {(row["topic"], row["offset"], row["log_end_offset"], row["lag"]) for row in rows[1:]}
    assert lags == {("orders", 480, 1500, 1020), ("codec-lz4", 1048, 1200, 152)}


def test_without_the_logs_there_is_no_lag(tmp_path: Path) -> None:
    log = tmp_path / "__consumer_offsets-1" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes((OFFSETS / log.name).read_bytes())
    for path in (log, log.parent):
        rows = of(state(path), "committed_offset")
        assert {(row["log_end_offset"], row["lag"]) for row in rows} == {(None, None)}


def test_the_last_value_counts_and_a_tombstone_takes_away(tmp_path: Path) -> None:
    directory = built(
        tmp_path / "__consumer_offsets-0", [commit(0, 10), commit(1, 20), commit(2, None)]
    )
    rows_by_offset = {
        n: of(state(directory, "--at-offset", str(n)), "committed_offset") for n in range(3)
    }
    assert [[row["offset"] for row in rows_by_offset[n]] for n in range(3)] == [[10], [20], []]
    assert of(state(directory, "--at-offset", "1"), "group") == [
        {
            "type": "group",
            "file": str(directory),
            "group": "g",
            "state": "Empty",
            "protocol_type": None,
            "generation": None,
            "members": 0,
            "group_type": "classic",
            "protocol": None,
            "leader": None,
            "load_error": None,
        }
    ]
    changes = state(directory, "--since-offset", "0", "--at-offset", "1")
    assert [(change["offset"], change["change"]) for change in changes] == [(20, "changed")]
    assert changes[0]["before"] == {"offset": 10}
    changes = state(directory, "--since-offset", "1")
    assert {(change["type"], change["change"]) for change in changes} == {
        ("committed_offset", "removed"),
        ("group", "removed"),
    }


@pytest.mark.parametrize(("marker", "offset"), [("COMMIT", 30), ("ABORT", 10)])
def test_commits_of_a_transaction_count_when_it_is_committed(
    marker: str, offset: int, tmp_path: Path
) -> None:
    producer_fields = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    control_record = {"type": "record", "offset": 2, "timestamp": 1, "control": {"type": marker}}
    directory = built(
        tmp_path / "__consumer_offsets-0",
        [commit(0, 10), commit(1, 30, **producer_fields), {**control_record, "producer_id": 7}],
    )
    for end_offset, expected in ((1, 10), (2, offset)):
        (row,) = of(state(directory, "--at-offset", str(end_offset)), "committed_offset")
        assert row["offset"] == expected


def test_transactional_ids() -> None:
    rows = state(BROKER / "__transaction_state-0")
    assert {(row["transactional_id"], row["producer_id"], row["state"]) for row in rows} == {
        ("payments-0", 0, "CompleteCommit"),
        ("payments-2", 1, "CompleteCommit"),
        ("payments-hang", 2, "CompleteAbort"),
    }
    earlier = state(BROKER / "__transaction_state-0", "--at-offset", "184")
    hanging = next(row for row in earlier if row["transactional_id"] == "payments-hang")
    assert hanging["state"] == "PrepareAbort"
    assert hanging["partitions"] == [{"topic": "txn", "partition": 0}]


def test_the_clusters_metadata_is_the_same_with_and_without_snapshots(tmp_path: Path) -> None:
    directory = tmp_path / METADATA.name
    directory.mkdir()
    for log in METADATA.glob("*.log"):
        (directory / log.name).write_bytes(log.read_bytes())
    replayed = [{**row, "file": ""} for row in state(directory)]
    assert replayed == [{**row, "file": ""} for row in state(METADATA)]
    kinds = {row["type"] for row in replayed}
    assert kinds >= {"broker", "controller", "topic", "partition", "config", "feature"}
    (orders,) = [row for row in of(replayed, "topic") if row["topic"] == "orders"]
    assert orders["topic_id"] == "WNfP4a0oQMKl7dpbxVNwOA"
    metadata = json.loads(
        kfmt("dump", BROKER / "orders-0/partition.metadata", "--json").out.splitlines()[0]
    )
    assert metadata["topic_id"] == orders["topic_id"]


def test_a_change_of_the_leader_begins_the_next_leader_epoch() -> None:
    """The broker that led orders-0 was stopped after the newest snapshot."""
    snapshot = METADATA / f"{559:020}-{1:010}.checkpoint"
    names = ("leader", "leader_epoch", "partition_epoch")
    partitions = [
        [row[name] for name in names]
        for path in (snapshot, METADATA)
        for row in of(state(path), "partition")
        if row["topic"] == "orders"
    ]
    assert partitions == [[1, 0, 0], [-1, 1, 1]]


def test_a_damaged_snapshot_is_passed_over(tmp_path: Path) -> None:
    directory = tmp_path / METADATA.name
    directory.mkdir()
    for path in METADATA.iterdir():
        if path.suffix in (".log", ".checkpoint"):
            (directory / path.name).write_bytes(path.read_bytes())
    newest = directory / "00000000000000000559-0000000001.checkpoint"
    newest.write_bytes(newest.read_bytes()[:-75])
    result = kfmt("state", directory, "--json")
    assert result.code == 1
    rows = [{**row, "file": ""} for row in result.rows if row["type"] != "finding"]
    assert rows == [{**row, "file": ""} for row in state(METADATA)]
    assert result.codes == ["snapshot-footer-missing"]


def test_a_state_before_the_oldest_snapshot_is_not_known(tmp_path: Path) -> None:
    """A broker deletes the segments that a snapshot covers."""
    directory = tmp_path / METADATA.name
    data = (METADATA / f"{0:020}.log").read_bytes()
    for position in positions(data):
        if struct.unpack_from(">q", data, position)[0] >= 400:
            break
    base_offset = struct.unpack_from(">q", data, position)[0]
    write(directory, data[position:], f"{base_offset:020}.log")
    newest = "00000000000000000559-0000000001.checkpoint"
    shutil.copy(METADATA / newest, directory)
    assert state(directory)
    for option in ("--at-offset", "--since-offset"):
        result = kfmt("state", directory, option, "500", "--json")
        assert (result.code, result.out) == (3, "")
        assert f"and the log begins at offset {base_offset}" in result.err
    (directory / newest).unlink()
    shutil.copy(METADATA / "00000000000000000282-0000000001.checkpoint", directory)
    data = (directory / "00000000000000000282-0000000001.checkpoint").read_bytes()
    (directory / "00000000000000000282-0000000001.checkpoint").write_bytes(data[:-75])
    result = kfmt("state", directory, "--json")
    assert result.code == 3
    assert "the state at the end: there is no undamaged snapshot" in result.err


def test_a_damaged_snapshot_by_itself_is_reported(tmp_path: Path) -> None:
    snapshot = "00000000000000000282-0000000001.checkpoint"
    data = (METADATA / snapshot).read_bytes()
    (tmp_path / snapshot).write_bytes(data[:-75])
    result = kfmt("state", tmp_path / snapshot, "--json")
    assert (result.code, result.codes) == (1, ["snapshot-footer-missing"])
    assert kfmt("state", METADATA / snapshot, "--at-offset", "5").code == 0


def test_a_snapshot_by_itself_is_a_state() -> None:
    snapshot = METADATA / "00000000000000000282-0000000001.checkpoint"
    rows = [{**row, "file": ""} for row in state(snapshot)]
    assert rows == [{**row, "file": ""} for row in state(METADATA, "--at-offset", "281")]


def test_only_a_topic_or_a_group() -> None:
    rows = state(BROKER, "--topic", "orders")
    assert {row["type"] for row in rows} == {"topic", "partition", "config", "committed_offset"}
    assert {row.get("topic", row.get("resource")) for row in rows} == {"orders"}
    rows = state(BROKER, "--group", "billing")
    assert {row["type"] for row in rows} == {"group", "committed_offset"}
    for option, message in (
        ("--group", "group 'nobody' is not"),
        ("--topic", "topic 'nobody' is not"),
    ):
        result = kfmt("state", BROKER, option, "nobody")
        assert result.code == 1
        assert message in result.err
    assert "it is in __consumer_offsets-45" in kfmt("state", BROKER, "--group", "nobody").err


def test_remote_segments_are_those_that_the_bucket_holds() -> None:
    rows = of(state(TIERED / "broker"), "remote_segment")
    finished_ids = {row["segment_id"] for row in rows if row["state"] == "COPY_SEGMENT_FINISHED"}
    bucket_ids = {path.stem.split("-", 1)[1] for path in (TIERED / "remote").rglob("*.log")}
    assert finished_ids == bucket_ids
    assert len(bucket_ids) > 10


def test_updates_of_a_share_partition_are_laid_over_its_snapshot() -> None:
    def batch(first: int, last: int, state: int, count: int) -> FieldDict:
        return FieldDict(
            first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
        )

    snapshot = FieldDict(
        start_offset=0, leader_epoch=0, snapshot_epoch=1, state_batches=[batch(0, 99, 1, 1)]
    )
    update = FieldDict(start_offset=-1, leader_epoch=-1, snapshot_epoch=1)
    _update_snapshot(snapshot, FieldDict(update, state_batches=[batch(10, 19, 2, 1)]))
    assert snapshot["state_batches"] == [
        batch(0, 9, 1, 1),
        batch(10, 19, 2, 1),
        batch(20, 99, 1, 1),
    ]
    _update_snapshot(snapshot, FieldDict(update, state_batches=[batch(0, 9, 2, 1)]))
    assert snapshot["state_batches"] == [batch(0, 19, 2, 1), batch(20, 99, 1, 1)]
    _update_snapshot(snapshot, FieldDict(update, start_offset=15, state_batches=[]))
    assert (snapshot["start_offset"], snapshot["state_batches"][0]) == (15, batch(15, 19, 2, 1))


def test_a_share_partition_of_records(tmp_path: Path) -> None:
    topic = "__share_group_state"
    key_fields = {"group_id": "g", "topic_id": "WNfP4a0oQMKl7dpbxVNwOA", "partition": 3}
    snapshot = {"snapshot_epoch": 0, "state_epoch": 0, "leader_epoch": 0, "start_offset": 4}
    batches = [{"first_offset": 4, "last_offset": 9, "delivery_state": 2, "delivery_count": 1}]
    extra = {"delivery_complete_count": 1, "create_timestamp": 1, "write_timestamp": 1}
    names = {
        field.name
        for field in layout_at_version(topic_message_types(topic)[0].value_layout, 0).fields
    }
    values = {k: v for k, v in {**snapshot, **extra}.items() if k in names}
    directory = built(
        tmp_path / f"{topic}-0",
        [
            record(
                0,
                message(topic, 0, "key", 0, key_fields),
                message(topic, 0, "value", 0, {**values, "state_batches": batches}),
            )
        ],
    )
    (row,) = state(directory)
    assert (row["group"], row["partition"], row["start_offset"]) == ("g", 3, 4)
    assert row["state_batches"][0]["delivery_state_name"] == "Acknowledged"


SHARED = "__share_group_state"
ORDERS_ID = "WNfP4a0oQMKl7dpbxVNwOA"


def share_snapshot(partition: int, start_offset: int, complete_count: int) -> dict[str, Any]:
    """A record with the delivery state of a partition of ORDERS_ID, as Kafka 4.2 writes it."""
    values = {
        "snapshot_epoch": 0,
        "state_epoch": 0,
        "leader_epoch": 0,
        "start_offset": start_offset,
        "create_timestamp": 1,
        "write_timestamp": 1,
        "state_batches": [],
        "delivery_complete_count": complete_count,
    }
    key_fields = {"group_id": "g", "topic_id": ORDERS_ID, "partition": partition}
    value = message(SHARED, 0, "value", 0, values)
    return record(partition, message(SHARED, 0, "key", 0, key_fields), value)


def test_the_lag_of_a_share_group(tmp_path: Path) -> None:
    directory = built(
        tmp_path / f"{SHARED}-0",
        [share_snapshot(0, 2, 1), share_snapshot(1, -1, -1), share_snapshot(2, 2, -1)],
    )
    for partition in range(3):
        orders = built(tmp_path / f"orders-{partition}", [record(i, "00", "00") for i in range(7)])
        (orders / "partition.metadata").write_text(f"version: 0\ntopic_id: {ORDERS_ID}")
    rows = [
        (row["topic"], row["start_offset"], row["log_end_offset"], row["lag"])
        for row in state(directory)
    ]
    # The end offset, less the start offset, less deliveries after it; null if one is unknown.
    assert rows == [("orders", 2, 7, 4), ("orders", -1, 7, None), ("orders", 2, 7, None)]


def test_the_lag_of_a_share_group_without_its_topic(tmp_path: Path) -> None:
    (row,) = state(built(tmp_path / f"{SHARED}-0", [share_snapshot(0, 2, 0)]))
    assert (row["topic"], row["log_end_offset"], row["lag"]) == (None, None, None)


def test_a_broker_that_stopped_and_is_fenced_is_fenced() -> None:
    cluster = ClusterReplay()
    cluster._apply_data_record(
        0,
        "RegisterBrokerRecord",
        FieldDict(broker_id=1, broker_epoch=1, fenced=False, end_points=[]),
    )
    states = [next(cluster.iter_rows())[1]["state"]]
    cluster._apply_data_record(
        0,
        "BrokerRegistrationChangeRecord",
        FieldDict(broker_id=1, broker_epoch=1, in_controlled_shutdown=1),
    )
    states.append(next(cluster.iter_rows())[1]["state"])
    cluster._apply_data_record(
        0, "BrokerRegistrationChangeRecord", FieldDict(broker_id=1, broker_epoch=1, fenced=1)
    )
    states.append(next(cluster.iter_rows())[1]["state"])
    assert states == ["active", "in-controlled-shutdown", "fenced"]


def test_unknown_and_malformed_records_are_reported(tmp_path: Path) -> None:
    unknown_record = record(1, "0063", "0000")
    directory = built(tmp_path / "__consumer_offsets-0", [commit(0, 10), unknown_record])
    result = kfmt("state", directory)
    assert result.code == 0
    assert "1 record of an unknown type or version was skipped" in result.err
    truncated_commit = commit(1, 20)
    truncated_commit["value"] = truncated_commit["value"][:-4]
    directory = built(tmp_path / "__consumer_offsets-1", [commit(0, 10), truncated_commit])
    result = kfmt("state", directory, "--json")
    assert (result.code, result.codes) == (1, ["payload-malformed"])
    assert result.of("finding")[0]["offset"] == 1
    assert kfmt("state", directory).out.endswith(
        "from 2 records; 1 finding, its records not included\n"
    )


def test_a_transaction_does_not_undo_what_came_after_its_records(tmp_path: Path) -> None:
    def producer_fields(producer_id: int) -> dict[str, Any]:
        return {"producer_id": producer_id, "producer_epoch": 0, "transactional": True}

    def commit_marker(offset: int, producer: int) -> dict[str, Any]:
        marker = {"type": "record", "timestamp": 1, "control": {"type": "COMMIT"}}
        return {**marker, "offset": offset, "producer_id": producer}

    for partition, (records, expected) in enumerate(
        [
            (
                [
                    commit(0, 10),
                    commit(1, 20, **producer_fields(7)),
                    commit(2, 15),
                    commit_marker(3, 7),
                ],
                [15],
            ),
            (
                [
                    commit(0, 20, **producer_fields(7)),
                    commit(1, 21, **producer_fields(8)),
                    commit_marker(2, 8),
                    commit_marker(3, 7),
                ],
                [21],
            ),
            ([commit(0, 1, **producer_fields(7)), commit(1, None), commit_marker(2, 7)], []),
        ]
    ):
        directory = built(tmp_path / f"__consumer_offsets-{partition}", records)
        rows = of(state(directory), "committed_offset")
        assert [row["offset"] for row in rows] == expected


def test_wrong_usage(tmp_path: Path) -> None:
    assert kfmt("state", tmp_path).code == 3
    assert kfmt("state", BROKER / "orders-0").code == 3
    missing = kfmt("state", tmp_path / "nothing")
    assert missing.code == 3
    assert "No such file" in missing.err
    assert kfmt("state", BROKER, "--at-offset", "5").code == 2
    too_late = kfmt("state", OFFSETS, "--since-offset", "100")
    assert "is after the last record, at 7" in too_late.err
    assert len(state(OFFSETS, OFFSETS)) == len(state(OFFSETS))
    assert kfmt("state", OFFSETS, "--at-offset", "1", "--since-offset", "2").code == 2
    assert kfmt("state", OFFSETS, "--as-topic", "orders").code == 2
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes((OFFSETS / log.name).read_bytes())
    assert kfmt("state", log).code == 3
    assert state(log, "--as-topic", "__consumer_offsets")


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    types_by_name = {
        message.value_layout.name: message for message in topic_message_types("__cluster_metadata")
    }

    def encode_message(name: str, values: dict[str, Any]) -> str:
        message_type = types_by_name[name]
        return (
            bytes([1, message_type.type_id, 0])
            + layout_at_version(message_type.value_layout, 0).encode_row(values)
        ).hex()

    credential = {
        "name": "alice",
        "mechanism": 1,
        "salt": b"SALT",
        "stored_key": b"STORED",
        "server_key": b"SERVER",
        "iterations": 4096,
    }
    config = {"resource_type": 4, "resource_name": "1", "name": "listener.name.x.ssl.key.password"}
    values = [
        encode_message("UserScramCredentialRecord", credential),
        encode_message("ConfigRecord", {**config, "value": "hush"}),
    ]
    records = [
        {"type": "record", "offset": n, "timestamp": 1, "value": value, "value_encoding": "hex"}
        for n, value in enumerate(values)
    ]
    rows = state(built(tmp_path / "__cluster_metadata-0", records))
    assert of(rows, "scram_user")[0]["iterations"] == 4096
    (hidden,) = of(rows, "config")
    assert (hidden["value"], hidden["hidden"]) == (None, True)
    assert not any(
        name in json.dumps(rows) for name in ("SALT", "STORED", "SERVER", "hush", "U0FM")
    )


# Java's string hash assigns ids to the partitions of coordinators.


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(1 << 31)), ("😀", 1772899)],
)
def test_the_hash_is_javas(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_ids_are_where_real_brokers_keep_them() -> None:
    for broker in ("kafka-3.9.1-broker1", "kafka-3.9.1-broker2", "kafka-2.8.2"):
        for directory in (SAMPLES / broker).glob("__*-*"):
            topic, _, partition = directory.name.rpartition("-")
            for row in kfmt("state", directory, "--json").rows if "metadata" not in topic else []:
                if row["type"] == "group":
                    n_partitions = 2 if broker == "kafka-2.8.2" else 4
                    assert compute_coordinator_partition(row["group"], n_partitions) == int(
                        partition
                    )
                elif row["type"] == "transactional_id":
                    assert compute_coordinator_partition(row["transactional_id"], 2) == int(
                        partition
                    )
    assert compute_coordinator_partition("polygenelubricants", 50) == 0
