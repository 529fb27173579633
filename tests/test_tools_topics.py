"""Topics of Kafka Connect, MirrorMaker, Kafka Streams and schema registries.

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

from kfmt_cli.broker.state import REPLAYS, replay_of
from kfmt_cli.log.stream import Record
from kfmt_cli.topics import TOPICS, decoder_for, known_topic
from tests.support.samples import Row, kfmt
from tests.test_state import built, of, state
from tools.kafka import KEPT, SAMPLES

CONNECT = SAMPLES / "kafka-3.9.1-connect"
SAID = json.loads((KEPT / "connect-rest-api.json").read_text())
HIDDEN = "source.cluster.sasl.jaas.config"


def test_connectors_and_their_tasks_are_those_of_the_rest_interface() -> None:
    rows = state(CONNECT / "connect-configs-0")
    connectors = {it["connector"]: it for it in of(rows, "connector")}
    assert connectors.keys() == SAID["connectors"].keys()  # "gone" has been deleted
    for name, row in connectors.items():
        said = SAID["connectors"][name]
        wanted = said["info"]["config"] | ({HIDDEN: None} if name == "broken" else {})
        assert row["config"] == wanted
        assert row["tasks"] == len(said["info"]["tasks"])
        paused = said["status"]["connector"]["state"] == "PAUSED"
        assert row["target_state"] == ("PAUSED" if paused else "STARTED")
    tasks = {(it["connector"], it["task"]): it["config"] for it in of(rows, "connector_task")}
    assert tasks == {
        (name, it["id"]["task"]): it["config"] | ({HIDDEN: None} if name == "broken" else {})
        for name, of_connector in SAID["tasks"].items()
        for it in of_connector
    }
    assert "kfmt-secret" not in json.dumps(rows)


def test_states_are_those_of_the_rest_interface() -> None:
    path = CONNECT / "connect-status-0"
    # Stopping the workers wrote states of its own; the last that it wrote were UNASSIGNED.
    stopped = state(path)
    assert {it["state"] for it in of(stopped, "connector_status")} == {"UNASSIGNED"}
    records = kfmt("dump", "--records", "--json", path / "00000000000000000000.log").rows
    offsets = [it["offset"] for it in of(records, "record")]
    wanted = {
        (name, it["id"]): (it["state"], it.get("trace"))
        for name, said in SAID["connectors"].items()
        for it in said["status"]["tasks"]
    }
    for offset in reversed(offsets):
        rows = of(state(path, "--at-offset", str(offset)), "task_status")
        found = {(it["connector"], it["task"]): (it["state"], it["trace"]) for it in rows}
        if found == wanted:
            break
    else:
        raise AssertionError("at no offset is the state what the workers said")
    assert wanted["broken", 0][0] == "FAILED"
    assert "\n\tat org.apache.kafka" in (wanted["broken", 0][1] or "")
    assert "5 task statuses" in kfmt("state", path).out
    topics = {(it["connector"], it["topic"]) for it in of(stopped, "connector_topic")}
    assert ("mirror-source", "west.orders") in topics


def test_source_offsets_are_those_of_the_rest_interface() -> None:
    rows = state(CONNECT / "connect-offsets-0")
    found = {
        (it["connector"], json.dumps(it["source_partition"], sort_keys=True)): it["source_offset"]
        for it in rows
    }
    assert {key: it for key, it in found.items() if key[0] != "gone"} == {
        (name, json.dumps(it["partition"], sort_keys=True)): it["offset"]
        for name, said in SAID["offsets"].items()
        for it in said["offsets"]
    }


def test_how_far_each_mirror_is() -> None:
    syncs = state(CONNECT / "mm2-offset-syncs.east.internal-0")
    found = [tuple(it.values())[2:] for it in syncs]
    assert found == [("orders", 0, 132, 133, 133, 0), ("orders", 1, 116, 117, 117, 0)]
    checkpoints = state(CONNECT / "west.checkpoints.internal-0")
    committed = of(
        state(CONNECT / "__consumer_offsets-0", "--group", "billing"), "committed_offset"
    )
    assert [(it["topic"], it["upstream_offset"], it["offset"]) for it in checkpoints] == [
        (f"west.{it['topic']}", it["offset"], it["offset"]) for it in committed
    ]
    beats = state(CONNECT / "heartbeats-0")
    assert [(it["source"], it["target"]) for it in beats] == [("south", "east"), ("west", "east")]
    assert all(it["timestamp"] > 1_700_000_000_000 for it in beats)


def test_the_times_that_streams_keeps_with_its_offsets() -> None:
    rows = of(state(CONNECT / "__consumer_offsets-0"), "committed_offset")
    assert {it["group"] for it in rows if "stream_time" in it} == {"shop"}
    dumped = kfmt("dump", "--records", "--json", CONNECT / "orders-0").rows
    newest = max(it["timestamp"] for it in of(dumped, "record"))
    of_shop = [it for it in rows if it["group"] == "shop" and it["topic"] == "orders"]
    assert {it["stream_time"] for it in of_shop if it["partition"] == 0} == {newest}


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
    records = [it for it in rows if "control" not in it]
    assert {it["decoded_key"]["name"] for it in records} == {name}
    assert all(it["decoded_value"]["data"] for it in records)
    shown = kfmt("hex", log, "--offset", str(records[0]["offset"])).out
    assert name in shown
    assert "upstream_offset" in shown or "timestamp" in shown


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("docker-connect-offsets", "connect-offsets"),
        ("_connect_configs", "connect-configs"),
        ("connect-cluster-status", "connect-status"),
        ("mm2-configs.east.internal", "connect-configs"),
        ("mirrormaker2-cluster-offsets", "connect-offsets"),
        ("mm2-offset-syncs.a.internal", "mm2-offset-syncs"),
        ("a.b.checkpoints.internal", "checkpoints"),
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
def test_names_of_topics(name: str, known: str | None) -> None:
    found = known_topic(name)
    assert (None if found is None else found.name) == known


def test_a_topic_that_is_not_replayed_is_named(tmp_path: Path) -> None:
    folder = built(tmp_path / "_confluent-ksql-a__command_topic-0", [{"value": "{}"}])
    done = kfmt("state", folder)
    assert done.code == 3
    assert "ksqlDB: its statements" in done.err


# A topic of the same name that is somebody else's is left as it is.


@pytest.mark.parametrize("topic", ["heartbeats", "my-connect-offsets", "_schemas"])
def test_records_of_other_topics_of_such_a_name_are_shown_as_they_are(
    topic: str, tmp_path: Path
) -> None:
    folder = built(tmp_path / f"{topic}-0", [{"key": "user-1", "value": "hello"}])
    done = kfmt("dump", "--records", "--json", folder)
    assert done.code == 0
    assert "decoded" not in json.dumps([it for it in done.rows if it.get("decoded_key")])
    assert not kfmt("state", folder, "--json").rows


@given(
    st.sampled_from(sorted(set(TOPICS) & set(REPLAYS))),
    st.lists(st.tuples(st.binary(max_size=40) | st.just(b"connector-a"), st.binary(max_size=60))),
)
def test_no_bytes_end_a_replay(topic: str, records: list[tuple[bytes, bytes]]) -> None:
    replay = replay_of(topic)
    for offset, (key, value) in enumerate(records):
        replay.take(Record(offset, key, value))
    replay.state()
    decoder = decoder_for(topic)
    assert decoder is not None
    for key, value in records:
        decoder.framed_value(key, value, 0, len(value))


def config(offset: int, key: str, value: dict[str, Any] | None, **more: Any) -> Row:
    text = None if value is None else json.dumps(value)
    return {"type": "record", "offset": offset, "key": key, "value": text, **more}


def test_configurations_of_tasks_count_once_they_are_committed(tmp_path: Path) -> None:
    written = [
        config(0, "connector-a", {"properties": {"x": "1"}}),
        config(1, "task-a-0", {"properties": {"t": "0"}}),
        config(2, "commit-a", {"tasks": 1}),
        config(3, "task-a-0", {"properties": {"t": "changed"}}),
        config(4, "task-a-b", {"properties": {}}),
        config(5, "connector-a", None),
    ]
    folder = built(tmp_path / "connect-configs-0", written)
    counts = [len(of(state(folder, "--at-offset", str(n)), "connector_task")) for n in range(6)]
    assert counts == [0, 0, 1, 1, 1, 0]
    (task,) = of(state(folder, "--at-offset", "3"), "connector_task")
    assert task["config"] == {"t": "0"}


def test_what_no_transaction_has_committed_waits(tmp_path: Path) -> None:
    open_ = {"producer_id": 7, "transactional": True}
    end = {"type": "record", "producer_id": 7, "control": {"type": "ABORT"}}
    folder = built(
        tmp_path / "connect-configs-0",
        [
            config(0, "connector-a", {"properties": {}}, **open_),
            config(1, "connector-b", {"properties": {}}),
            {**end, "offset": 2},
        ],
    )
    assert not state(folder, "--at-offset", "1")
    assert [it["connector"] for it in state(folder)] == ["b"]


# Schema registries.

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}
LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "order", "type": "Order"}, {"name": "text", "type": "string"}],
}


def schema(offset: int, subject: str, number: int, text: object, **more: Any) -> Row:
    """A record of a registry."""
    key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
    value = {"subject": subject, "version": 1, "id": number, "schema": json.dumps(text), **more}
    return {"offset": offset, "key": json.dumps(key), "value": json.dumps(value)}


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """A log directory with a registry's topic and a partition that needs it."""
    order = {"name": "Order", "subject": "order", "version": 1}
    lost = {"name": "Lost", "subject": "lost", "version": 1}
    records = [
        schema(0, "order", 1, AVRO),
        schema(1, "line", 2, LINE, references=[order]),
        schema(2, "json", 3, {}, schemaType="JSON"),
        schema(3, "proto", 4, "syntax", schemaType="PROTOBUF"),
        schema(4, "broken", 5, LINE, references=[lost]),
        {"offset": 5, "key": '{"keytype":"NOOP","magic":0}', "value": None},
        # The subject is deleted: payloads that were written before still need its schema.
        {**schema(6, "order", 1, AVRO), "value": None},
    ]
    built(tmp_path / "_schemas-0", records)
    payloads = {1: b"\x06", 2: b"\x06\x04hi", 3: b'{"a":1}', 4: b"\x00", 5: b"\x06", 6: b"\x06"}
    values = [bytes([0]) + number.to_bytes(4, "big") + it for number, it in payloads.items()]
    built(
        tmp_path / "orders-0",
        [{"offset": i, "value": it.hex(), "value_encoding": "hex"} for i, it in enumerate(values)],
    )
    return tmp_path


@pytest.mark.parametrize("given", ["beside", "directory", "partition"])
def test_the_topic_of_a_registry_is_a_registry(given: str, registry: Path) -> None:
    pytest.importorskip("fastavro")
    options: dict[str, list[str | Path]] = {
        "beside": [],
        "directory": ["--schemas", registry],
        "partition": ["--schemas", registry / "_schemas-0"],
    }
    log = registry / "orders-0" / "00000000000000000000.log"
    done = kfmt("dump", "--records", "--json", "--value-format", "confluent", *options[given], log)
    said = [it["decoded_value"] for it in of(done.rows, "record")]
    assert [it.get("value") for it in said[:3]] == [
        {"n": 3},
        {"order": {"n": 3}, "text": "hi"},
        {"a": 1},
    ]
    assert "type PROTOBUF" in said[3]["note"]
    assert "version 1 of lost" in said[4]["note"]
    assert "no schema 6 in the topic _schemas" in said[5]["note"]


def test_the_schemas_of_a_registry(registry: Path) -> None:
    rows = state(registry / "_schemas-0")
    assert [(it["subject"], it["schema_id"], it["schema_type"]) for it in rows] == [
        ("broken", 5, "AVRO"),
        ("json", 3, "JSON"),
        ("line", 2, "AVRO"),
        ("proto", 4, "PROTOBUF"),
    ]
    assert json.loads(rows[2]["schema"]) == LINE


def test_without_a_registry_it_is_said_what_is_missing(tmp_path: Path) -> None:
    folder = built(tmp_path / "orders-0", [{"value": "x"}])
    done = kfmt("dump", "--records", "--value-format", "confluent", folder)
    assert done.code == 2
    assert "a topic _schemas" in done.err


def test_a_folder_of_schemas_that_is_not_there_is_named(registry: Path) -> None:
    pytest.importorskip("fastavro")
    log = registry / "orders-0" / "00000000000000000000.log"
    options = ("--value-format", "confluent", "--schemas", registry / "typo")
    done = kfmt("dump", "--records", "--json", *options, log)
    notes = {it["decoded_value"]["note"] for it in of(done.rows, "record")}
    assert all("typo" in it for it in notes)
