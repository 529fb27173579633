"""Topics of Kafka Connect, MirrorMaker and Kafka Streams, and logical keys.

The sample was written by workers of Kafka 3.9.1 with MirrorMaker's connectors; tests/kept has what
their REST interface said just before they were stopped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfmt_cli.broker.state import REPLAYS, create_replay
from kfmt_cli.log.record_stream import StreamedRecord
from kfmt_cli.topics import DECODED_TOPICS, find_decoder, find_known_topic
from tests.broker.test_state import built, of, state
from tests.support.samples import Row, kfmt
from tools.kafka import KEPT, SAMPLES

CONNECT = SAMPLES / "kafka-3.9.1-connect"
REST_ANSWERS = json.loads((KEPT / "connect-rest-api.json").read_text())
HIDDEN_SETTING = "source.cluster.sasl.jaas.config"


def without_secret(config: Row) -> Row:
    """A config as in the saved answer of the REST interface, which omits the secret."""
    return {name: None if name == HIDDEN_SETTING else value for name, value in config.items()}


def test_connectors_and_their_tasks_are_those_of_the_rest_interface() -> None:
    assert "kfmt-secret" not in json.dumps(state(CONNECT / "connect-configs-0"))
    rows = state(CONNECT / "connect-configs-0", "--show-values")
    connectors = {row["connector"]: row for row in of(rows, "connector")}
    assert connectors.keys() == REST_ANSWERS["connectors"].keys()  # "gone" has been deleted
    for name, row in connectors.items():
        answer = REST_ANSWERS["connectors"][name]
        assert without_secret(row["config"]) == without_secret(answer["info"]["config"])
        assert row["tasks"] == len(answer["info"]["tasks"])
        is_paused = answer["status"]["connector"]["state"] == "PAUSED"
        assert row["target_state"] == ("PAUSED" if is_paused else "STARTED")
    tasks = {
        (row["connector"], row["task"]): without_secret(row["config"])
        for row in of(rows, "connector_task")
    }
    assert tasks == {
        (name, item["id"]["task"]): without_secret(item["config"])
        for name, items in REST_ANSWERS["tasks"].items()
        for item in items
    }


def test_states_are_those_of_the_rest_interface() -> None:
    path = CONNECT / "connect-status-0"
    # Stopping the workers wrote more states; the last are UNASSIGNED.
    last_rows = state(path)
    assert {row["state"] for row in of(last_rows, "connector_status")} == {"UNASSIGNED"}
    records = kfmt("dump", "--records", "--json", path / "00000000000000000000.log").rows
    offsets = [row["offset"] for row in of(records, "record")]
    expected = {
        (name, item["id"]): (item["state"], item.get("trace"))
        for name, answer in REST_ANSWERS["connectors"].items()
        for item in answer["status"]["tasks"]
    }
    for offset in reversed(offsets):
        rows = of(state(path, "--at-offset", str(offset)), "task_status")
        states = {(row["connector"], row["task"]): (row["state"], row["trace"]) for row in rows}
        if states == expected:
            break
    else:
        raise AssertionError("at no offset is the state what the workers said")
    assert expected["broken", 0][0] == "FAILED"
    assert "\n\tat org.apache.kafka" in (expected["broken", 0][1] or "")
    assert "5 task statuses" in kfmt("state", path).out
    topics = {(row["connector"], row["topic"]) for row in of(last_rows, "connector_topic")}
    assert ("mirror-source", "west.orders") in topics


def test_source_offsets_are_those_of_the_rest_interface() -> None:
    rows = state(CONNECT / "connect-offsets-0")
    offsets = {
        (row["connector"], json.dumps(row["source_partition"], sort_keys=True)): row[
            "source_offset"
        ]
        for row in rows
    }
    assert {key: value for key, value in offsets.items() if key[0] != "gone"} == {
        (name, json.dumps(item["partition"], sort_keys=True)): item["offset"]
        for name, answer in REST_ANSWERS["offsets"].items()
        for item in answer["offsets"]
    }


def test_how_far_each_mirror_is() -> None:
    syncs = state(CONNECT / "mm2-offset-syncs.east.internal-0")
    sync_values = [tuple(sync.values())[2:] for sync in syncs]
    assert sync_values == [
        ("orders", 0, 132, 133, 133, 0, 0, "in range"),
        ("orders", 1, 116, 117, 117, 0, 0, "in range"),
    ]
    checkpoints = state(CONNECT / "west.checkpoints.internal-0")
    committed = of(
        state(CONNECT / "__consumer_offsets-0", "--group", "billing"), "committed_offset"
    )
    assert [
        (checkpoint["topic"], checkpoint["upstream_offset"], checkpoint["offset"])
        for checkpoint in checkpoints
    ] == [(f"west.{row['topic']}", row["offset"], row["offset"]) for row in committed]
    heartbeats = state(CONNECT / "heartbeats-0")
    assert [(heartbeat["source"], heartbeat["target"]) for heartbeat in heartbeats] == [
        ("south", "east"),
        ("west", "east"),
    ]
    assert all(heartbeat["timestamp"] > 1_700_000_000_000 for heartbeat in heartbeats)


def test_the_times_that_streams_keeps_with_its_offsets() -> None:
    rows = of(state(CONNECT / "__consumer_offsets-0"), "committed_offset")
    assert {row["group"] for row in rows if "stream_time" in row} == {"shop"}
    order_rows = kfmt("dump", "--records", "--json", CONNECT / "orders-0").rows
    max_timestamp = max(row["timestamp"] for row in of(order_rows, "record"))
    shop_rows = [row for row in rows if row["group"] == "shop" and row["topic"] == "orders"]
    assert {row["stream_time"] for row in shop_rows if row["partition"] == 0} == {max_timestamp}


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("west.checkpoints.internal-0", "CheckpointKey"),
        ("mm2-offset-syncs.east.internal-0", "OffsetSyncKey"),
        ("heartbeats-0", "HeartbeatKey"),
    ],
)
def test_records_of_mirrors_are_decoded_and_their_bytes_shown(topic: str, name: str) -> None:
    log = CONNECT / topic / "00000000000000000000.log"
    rows = of(kfmt("dump", "--records", "--json", log).rows, "record")
    records = [row for row in rows if "control" not in row]
    assert {record["decoded_key"]["name"] for record in records} == {name}
    assert all(record["decoded_value"]["data"] for record in records)
    output = kfmt("hex", log, "--offset", str(records[0]["offset"])).out
    assert name in output
    assert "upstream_offset" in output or "timestamp" in output


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("docker-connect-offsets", "connect-offsets"),
        ("_connect_configs", "connect-configs"),
        ("connect-cluster-status", "connect-status"),
        ("mm2-configs.east.internal", "connect-configs"),
        ("mirrormaker2-cluster-offsets", "connect-offsets"),
        ("mm2-offset-syncs.a.internal", "mm2-offset-syncs"),
        ("a.b.checkpoints.internal", "checkpoints"),
        ("mm2-offset-syncs-a-internal", "mm2-offset-syncs"),  # another separator
        ("a_checkpoints_internal", "checkpoints"),
        ("a_checkpoints.internal", None),
        ("west.heartbeats", "heartbeats"),
        ("_confluent-ksql-default__command_topic", "ksqlDB's commands"),
        ("shop-store-changelog", "Streams' changelog"),
        ("_confluent-telemetry-metrics", "Confluent's metrics"),
        ("_confluent_balancer_api_state", "Self-Balancing"),
        ("orders", None),
        ("connections", None),
        ("disconnect", None),
    ],
)
def test_names_of_topics(name: str, expected: str | None) -> None:
    topic = find_known_topic(name)
    assert (None if topic is None else topic.name) == expected


def test_a_topic_that_is_not_replayed_is_named(tmp_path: Path) -> None:
    directory = built(tmp_path / "_confluent-ksql-a__command_topic-0", [{"value": "{}"}])
    result = kfmt("state", directory)
    assert result.code == 3
    assert "ksqlDB: its statements" in result.err


# An unrelated topic of such a name is not decoded.


def test_a_tombstone_of_a_mirror_has_no_version(tmp_path: Path) -> None:
    """Its keys have no version, either."""
    (log,) = (CONNECT / "heartbeats-0").glob("*.log")
    (record, *_) = kfmt("dump", log, "--records", "--json", "--bytes", "hex").of("record")
    tombstone = {"offset": 0, "key": record["key"], "key_encoding": "hex", "value": None}
    directory = built(tmp_path / "heartbeats-0", [tombstone])
    (row,) = kfmt("dump", directory, "--records", "--json").of("record")
    assert row["decoded_value"] == {
        "name": "HeartbeatValue",
        "data": None,
        "deletes": row["decoded_value"]["deletes"],
    }


@pytest.mark.parametrize("topic", ["heartbeats", "my-connect-offsets", "_schemas"])
def test_records_of_other_topics_of_such_a_name_are_shown_as_they_are(
    topic: str, tmp_path: Path
) -> None:
    directory = built(tmp_path / f"{topic}-0", [{"key": "user-1", "value": "hello"}])
    result = kfmt("dump", "--records", "--json", directory)
    assert result.code == 0
    assert "decoded" not in json.dumps([row for row in result.rows if row.get("decoded_key")])
    assert not kfmt("state", directory, "--json").rows


@given(
    st.sampled_from(sorted(set(DECODED_TOPICS) & set(REPLAYS))),
    st.lists(st.tuples(st.binary(max_size=40) | st.just(b"connector-a"), st.binary(max_size=60))),
)
def test_no_bytes_end_a_replay(topic: str, records: list[tuple[bytes, bytes]]) -> None:
    replay = create_replay(topic)
    for offset, (key, value) in enumerate(records):
        replay.apply_record(StreamedRecord(offset, key, value))
    replay.sorted_rows()
    decoder = find_decoder(topic)
    assert decoder is not None
    for key, value in records:
        decoder.identify_value(key, value, 0, len(value))


def config_record(offset: int, key: str, value: dict[str, Any] | None, **extra: Any) -> Row:
    text = None if value is None else json.dumps(value)
    return {"type": "record", "offset": offset, "key": key, "value": text, **extra}


def test_configurations_of_tasks_count_once_they_are_committed(tmp_path: Path) -> None:
    records = [
        config_record(0, "connector-a", {"properties": {"x": "1"}}),
        config_record(1, "task-a-0", {"properties": {"t": "0"}}),
        config_record(2, "commit-a", {"tasks": 1}),
        config_record(3, "task-a-0", {"properties": {"t": "changed"}}),
        config_record(4, "task-a-b", {"properties": {}}),
        config_record(5, "connector-a", None),
    ]
    directory = built(tmp_path / "connect-configs-0", records)
    counts = [
        len(of(state(directory, "--at-offset", str(offset)), "connector_task"))
        for offset in range(6)
    ]
    assert counts == [0, 0, 1, 1, 1, 0]
    (task,) = of(state(directory, "--at-offset", "3", "--show-values"), "connector_task")
    assert task["config"] == {"t": "0"}


def test_keys_in_quotation_marks_are_the_text_inside(tmp_path: Path) -> None:
    """JSON converters write keys like this."""
    records = [
        config_record(0, "connector-a", {"properties": {"x": "1"}}),
        config_record(1, "task-a-0", {"properties": {"t": "0"}}),
        config_record(2, "commit-a", {"tasks": 1}),
        config_record(3, "target-state-a", {"state": "PAUSED"}),
        config_record(4, 'connector-say "hi"', {"properties": {}}),
    ]
    quoted = [{**line, "key": json.dumps(line["key"])} for line in records]
    # A single quotation mark, or invalid JSON between two, is no key of Connect.
    invalid = [
        config_record(5 + i, key, {}) for i, key in enumerate(('"connector-b', '"x" "connector-c"'))
    ]
    rows = state(built(tmp_path / "plain-connect-configs-0", records))
    directory = built(tmp_path / "quoted-connect-configs-0", [*quoted, *invalid])
    assert [row | {"file": ""} for row in state(directory)] == [row | {"file": ""} for row in rows]
    assert [(row["connector"], row["type"]) for row in rows] == [
        ("a", "connector"),
        ('say "hi"', "connector"),
        ("a", "connector_task"),
    ]
    dumped = of(kfmt("dump", "--records", "--json", directory).rows, "record")
    names = [row["decoded_key"]["name"] for row in dumped if "decoded_key" in row]
    expected_names = [
        "ConnectorConfig",
        "TaskConfig",
        "TasksCommit",
        "TargetState",
        "ConnectorConfig",
    ]
    assert names == expected_names


def test_uncommitted_records_do_not_change_the_state(tmp_path: Path) -> None:
    transaction = {"producer_id": 7, "transactional": True}
    abort_marker = {"type": "record", "producer_id": 7, "control": {"type": "ABORT"}}
    directory = built(
        tmp_path / "connect-configs-0",
        [
            config_record(0, "connector-a", {"properties": {}}, **transaction),
            config_record(1, "connector-b", {"properties": {}}),
            {**abort_marker, "offset": 2},
        ],
    )
    assert not state(directory, "--at-offset", "1")
    assert [row["connector"] for row in state(directory)] == ["b"]


def test_a_connectors_own_json_is_shown_whole(tmp_path: Path) -> None:
    record = {
        "key": json.dumps(["jdbc", {"server": "a"}]),
        "value": json.dumps({"table": 1, "table_name": "orders"}),
    }
    directory = tmp_path / "connect-offsets-0"
    assert kfmt("build", "-", directory, stdin=json.dumps(record).encode()).code == 0
    output = kfmt("dump", "--records", directory).out
    assert "table=1 table_name=orders" in output


ORDERS_KEYS = (
    '{"subject":"orders","version":1,"magic":1,"keytype":"SCHEMA"}',
    '{"keytype":"SCHEMA","subject":"orders","version":1,"magic":0}',
)
PARTITION_KEYS = ('["c",{"a":1,"b":2}]', '["c",{"b":2,"a":1}]')
LOGICAL_KEYS = [
    ("_schemas-0", ORDERS_KEYS, '{"subject":"orders","version":1,"id":1,"schema":"x"}'),
    ("connect-offsets-3", PARTITION_KEYS, '{"p":1}'),
]


@pytest.mark.parametrize(("name", "keys", "value"), LOGICAL_KEYS)
def test_a_tombstone_of_the_same_key_in_another_form_deletes(
    name: str, keys: tuple[str, str], value: str, tmp_path: Path
) -> None:
    # Connect 3.9.1 and 4.4.0: connectorPartitions() is empty, and the data has the first form.
    def build(*items: tuple[str, str | None]) -> Path:
        records = [
            {"type": "record", "offset": i, "timestamp": 1, "key": key, "value": item_value}
            for i, (key, item_value) in enumerate(items)
        ]
        lines = tmp_path / "lines.jsonl"
        lines.write_text("".join(json.dumps(item) + "\n" for item in records))
        assert kfmt("build", lines, tmp_path / name, "--force").code == 0
        return tmp_path / name

    old, new = keys
    directory = build((old, value), (new, value), (new, None))
    result = kfmt("state", directory, "--json")
    assert (result.code, result.rows) == (0, [])
    assert "offset 0 has the key of the tombstone at offset 2 in another form" in result.err
    assert result.err.endswith(f"exactly this key: {old}\n")

    result = kfmt("compaction", directory, "--cleanup-policy", "compact", "--key", new, "--json")
    assert [row["offset"] for row in result.rows] == [1, 2]
    assert f"{old}, its latest record is at offset 0\n" in result.err
    result = kfmt("compaction", directory, "--cleanup-policy", "compact", "--key", old, "--json")
    assert f"{new}, its latest tombstone is at offset 2\n" in result.err

    (row,) = state(build((old, value), (new, None), (new, value)))
    assert row.get("key", new) == new
    assert row.get("partition", 3) == 3
    result = kfmt("state", build((old, value), (new, value), (old, None), (new, None)), "--json")
    assert (result.code, result.rows, result.err) == (0, [], "")
