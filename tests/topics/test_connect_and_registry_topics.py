"""Topics of Kafka Connect, MirrorMaker, Kafka Streams and schema registries.

The sample was written by workers of Kafka 3.9.1 with MirrorMaker's connectors; tests/kept has what
their REST interface said just before they were stopped.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kfmt_cli
from kfmt_cli.broker.state import REPLAYS, create_replay
from kfmt_cli.log.record_stream import Record
from kfmt_cli.topics import DECODED_TOPICS, find_decoder, find_known_topic
from tests.broker.test_state import built, of, state
from tests.support.samples import Row, kfmt
from tools.kafka import KEPT, SAMPLES

CONNECT = SAMPLES / "kafka-3.9.1-connect"
SAID = json.loads((KEPT / "connect-rest-api.json").read_text())
HIDDEN = "source.cluster.sasl.jaas.config"


def without_secret(config: Row) -> Row:
    """What the kept answer of the REST interface has, without the value that it leaves out."""
    return {name: None if name == HIDDEN else value for name, value in config.items()}


def test_connectors_and_their_tasks_are_those_of_the_rest_interface() -> None:
    assert "kfmt-secret" not in json.dumps(state(CONNECT / "connect-configs-0"))
    rows = state(CONNECT / "connect-configs-0", "--show-values")
    connectors = {row["connector"]: row for row in of(rows, "connector")}
    assert connectors.keys() == SAID["connectors"].keys()  # "gone" has been deleted
    for name, row in connectors.items():
        said = SAID["connectors"][name]
        assert without_secret(row["config"]) == without_secret(said["info"]["config"])
        assert row["tasks"] == len(said["info"]["tasks"])
        paused = said["status"]["connector"]["state"] == "PAUSED"
        assert row["target_state"] == ("PAUSED" if paused else "STARTED")
    tasks = {
        (row["connector"], row["task"]): without_secret(row["config"])
        for row in of(rows, "connector_task")
    }
    assert tasks == {
        (name, item["id"]["task"]): without_secret(item["config"])
        for name, of_connector in SAID["tasks"].items()
        for item in of_connector
    }


def test_states_are_those_of_the_rest_interface() -> None:
    path = CONNECT / "connect-status-0"
    # Stopping the workers wrote states of its own; the last that it wrote were UNASSIGNED.
    stopped = state(path)
    assert {row["state"] for row in of(stopped, "connector_status")} == {"UNASSIGNED"}
    records = kfmt("dump", "--records", "--json", path / "00000000000000000000.log").rows
    offsets = [row["offset"] for row in of(records, "record")]
    wanted = {
        (name, item["id"]): (item["state"], item.get("trace"))
        for name, said in SAID["connectors"].items()
        for item in said["status"]["tasks"]
    }
    for offset in reversed(offsets):
        rows = of(state(path, "--at-offset", str(offset)), "task_status")
        found = {(row["connector"], row["task"]): (row["state"], row["trace"]) for row in rows}
        if found == wanted:
            break
    else:
        raise AssertionError("at no offset is the state what the workers said")
    assert wanted["broken", 0][0] == "FAILED"
    assert "\n\tat org.apache.kafka" in (wanted["broken", 0][1] or "")
    assert "5 task statuses" in kfmt("state", path).out
    topics = {(row["connector"], row["topic"]) for row in of(stopped, "connector_topic")}
    assert ("mirror-source", "west.orders") in topics


def test_source_offsets_are_those_of_the_rest_interface() -> None:
    rows = state(CONNECT / "connect-offsets-0")
    found = {
        (row["connector"], json.dumps(row["source_partition"], sort_keys=True)): row[
            "source_offset"
        ]
        for row in rows
    }
    assert {key: value for key, value in found.items() if key[0] != "gone"} == {
        (name, json.dumps(item["partition"], sort_keys=True)): item["offset"]
        for name, said in SAID["offsets"].items()
        for item in said["offsets"]
    }


def test_how_far_each_mirror_is() -> None:
    syncs = state(CONNECT / "mm2-offset-syncs.east.internal-0")
    found = [tuple(sync.values())[2:] for sync in syncs]
    assert found == [("orders", 0, 132, 133, 133, 0), ("orders", 1, 116, 117, 117, 0)]
    checkpoints = state(CONNECT / "west.checkpoints.internal-0")
    committed = of(
        state(CONNECT / "__consumer_offsets-0", "--group", "billing"), "committed_offset"
    )
    assert [
        (checkpoint["topic"], checkpoint["upstream_offset"], checkpoint["offset"])
        for checkpoint in checkpoints
    ] == [(f"west.{row['topic']}", row["offset"], row["offset"]) for row in committed]
    beats = state(CONNECT / "heartbeats-0")
    assert [(beat["source"], beat["target"]) for beat in beats] == [
        ("south", "east"),
        ("west", "east"),
    ]
    assert all(beat["timestamp"] > 1_700_000_000_000 for beat in beats)


def test_the_times_that_streams_keeps_with_its_offsets() -> None:
    rows = of(state(CONNECT / "__consumer_offsets-0"), "committed_offset")
    assert {row["group"] for row in rows if "stream_time" in row} == {"shop"}
    dumped = kfmt("dump", "--records", "--json", CONNECT / "orders-0").rows
    newest = max(row["timestamp"] for row in of(dumped, "record"))
    of_shop = [row for row in rows if row["group"] == "shop" and row["topic"] == "orders"]
    assert {row["stream_time"] for row in of_shop if row["partition"] == 0} == {newest}


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
    found = find_known_topic(name)
    assert (None if found is None else found.name) == known


def test_a_topic_that_is_not_replayed_is_named(tmp_path: Path) -> None:
    folder = built(tmp_path / "_confluent-ksql-a__command_topic-0", [{"value": "{}"}])
    done = kfmt("state", folder)
    assert done.code == 3
    assert "ksqlDB: its statements" in done.err


# A topic of the same name that is somebody else's is left as it is.


def test_a_tombstone_of_a_mirror_has_no_version(tmp_path: Path) -> None:
    """Its keys have none, either."""
    (log,) = (CONNECT / "heartbeats-0").glob("*.log")
    (record, *_) = kfmt("dump", log, "--records", "--json", "--bytes", "hex").of("record")
    written = {"offset": 0, "key": record["key"], "key_encoding": "hex", "value": None}
    folder = built(tmp_path / "heartbeats-0", [written])
    (found,) = kfmt("dump", folder, "--records", "--json").of("record")
    assert found["decoded_value"] == {
        "name": "HeartbeatValue",
        "data": None,
        "deletes": found["decoded_value"]["deletes"],
    }


@pytest.mark.parametrize("topic", ["heartbeats", "my-connect-offsets", "_schemas"])
def test_records_of_other_topics_of_such_a_name_are_shown_as_they_are(
    topic: str, tmp_path: Path
) -> None:
    folder = built(tmp_path / f"{topic}-0", [{"key": "user-1", "value": "hello"}])
    done = kfmt("dump", "--records", "--json", folder)
    assert done.code == 0
    assert "decoded" not in json.dumps([row for row in done.rows if row.get("decoded_key")])
    assert not kfmt("state", folder, "--json").rows


@given(
    st.sampled_from(sorted(set(DECODED_TOPICS) & set(REPLAYS))),
    st.lists(st.tuples(st.binary(max_size=40) | st.just(b"connector-a"), st.binary(max_size=60))),
)
def test_no_bytes_end_a_replay(topic: str, records: list[tuple[bytes, bytes]]) -> None:
    replay = create_replay(topic)
    for offset, (key, value) in enumerate(records):
        replay.apply_record(Record(offset, key, value))
    replay.sorted_rows()
    decoder = find_decoder(topic)
    assert decoder is not None
    for key, value in records:
        decoder.identify_value(key, value, 0, len(value))


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
    (task,) = of(state(folder, "--at-offset", "3", "--show-values"), "connector_task")
    assert task["config"] == {"t": "0"}


def test_keys_in_quotation_marks_are_the_text_inside(tmp_path: Path) -> None:
    """As converters that send JSON write them."""
    written = [
        config(0, "connector-a", {"properties": {"x": "1"}}),
        config(1, "task-a-0", {"properties": {"t": "0"}}),
        config(2, "commit-a", {"tasks": 1}),
        config(3, "target-state-a", {"state": "PAUSED"}),
        config(4, 'connector-say "hi"', {"properties": {}}),
    ]
    quoted = [{**line, "key": json.dumps(line["key"])} for line in written]
    # A single mark, and what is no JSON between two, is no key of Connect's.
    odd = [config(5 + i, key, {}) for i, key in enumerate(('"connector-b', '"x" "connector-c"'))]
    rows = state(built(tmp_path / "plain-connect-configs-0", written))
    folder = built(tmp_path / "quoted-connect-configs-0", [*quoted, *odd])
    assert [row | {"file": ""} for row in state(folder)] == [row | {"file": ""} for row in rows]
    assert [(row["connector"], row["type"]) for row in rows] == [
        ("a", "connector"),
        ('say "hi"', "connector"),
        ("a", "connector_task"),
    ]
    shown = of(kfmt("dump", "--records", "--json", folder).rows, "record")
    names = [row["decoded_key"]["name"] for row in shown if "decoded_key" in row]
    about = ["ConnectorConfig", "TaskConfig", "TasksCommit", "TargetState", "ConnectorConfig"]
    assert names == about


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
    assert [row["connector"] for row in state(folder)] == ["b"]


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
    values = [
        bytes([0]) + number.to_bytes(4, "big") + payload for number, payload in payloads.items()
    ]
    built(
        tmp_path / "orders-0",
        [
            {"offset": i, "value": value.hex(), "value_encoding": "hex"}
            for i, value in enumerate(values)
        ],
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
    said = [row["decoded_value"] for row in of(done.rows, "record")]
    assert [item.get("value") for item in said[:3]] == [
        {"n": 3},
        {"order": {"n": 3}, "text": "hi"},
        {"a": 1},
    ]
    assert "is PROTOBUF, which must be compiled" in said[3]["note"]
    assert "version 1 of lost" in said[4]["note"]
    assert "no schema 6 in the topic _schemas" in said[5]["note"]


def test_a_folder_of_schemas_is_used_in_place_of_the_topic_beside(registry: Path) -> None:
    pytest.importorskip("fastavro")
    (registry / "given").mkdir()
    renamed = {**AVRO, "fields": [{"name": "renamed", "type": "int"}]}
    (registry / "given/1.avsc").write_text(json.dumps(renamed))
    options = ("--value-format", "confluent", "--schemas", registry / "given")
    done = kfmt("dump", "--records", "--json", *options, registry / "orders-0")
    first, second, *_ = [row["decoded_value"] for row in of(done.rows, "record")]
    assert first["value"] == {"renamed": 3}
    assert second["note"].endswith(f"no schema 2 in {registry / 'given'}")


def decoded(folder: Path) -> list[Any]:
    """The decoded values of a partition."""
    done = kfmt("dump", "--records", "--json", "--value-format", "confluent", folder)
    return [row["decoded_value"].get("value") for row in of(done.rows, "record")]


def test_plain_bytes_have_no_length_in_a_registrys_frame(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    built(tmp_path / "_schemas-0", [schema(0, "s", 1, "bytes"), schema(1, "t", 2, "string")])
    (tmp_path / "given").mkdir()
    (tmp_path / "given/3.avsc").write_text('{"type": "bytes"}')
    values = ("000000000104dead", "0000000001deadbeef", "0000000001", "0000000002046869")
    records = [
        {"offset": i, "value": value, "value_encoding": "hex"} for i, value in enumerate(values)
    ]
    assert decoded(built(tmp_path / "orders-0", records)) == ["04dead", "deadbeef", "", "hi"]
    records = [{"offset": 0, "value": "0000000003deadbeef", "value_encoding": "hex"}]
    folder = built(tmp_path / "more-0", records)
    words = ("--value-format", "confluent", "--schemas", tmp_path / "given", "-f", "%s\\n")
    assert kfmt("cat", folder, *words).out == "deadbeef\n"


def test_an_id_of_another_context_replaces_none(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    of_context = schema(1, ":.ctx:s", 3, "bytes")
    built(tmp_path / "_schemas-0", [schema(0, "s", 3, "string"), of_context])
    value = {"offset": 0, "value": "0000000003046869", "value_encoding": "hex"}
    assert decoded(built(tmp_path / "orders-0", [value])) == ["hi"]


def test_a_registry_that_has_grown_is_read_again(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    value = {"offset": 0, "value": "0000000002046869", "value_encoding": "hex"}
    folder = built(tmp_path / "orders-0", [value])
    first, second = schema(0, "a", 1, "string"), schema(1, "b", 2, "string")
    seen = []
    for records in ([first], [first, second]):
        shutil.rmtree(tmp_path / "_schemas-0", ignore_errors=True)
        built(tmp_path / "_schemas-0", records)
        rows = kfmt_cli.read_records(folder, value_format="confluent").objects()
        seen += [row["decoded_value"].get("value") for row in rows]
    assert seen == [None, "hi"]


def test_the_schemas_of_a_registry(registry: Path) -> None:
    rows = state(registry / "_schemas-0")
    assert [(row["subject"], row["schema_id"], row["schema_type"]) for row in rows] == [
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
    assert "keep the _schemas topic" in done.err


def test_a_folder_of_schemas_that_is_not_there_is_named(registry: Path) -> None:
    pytest.importorskip("fastavro")
    log = registry / "orders-0" / "00000000000000000000.log"
    options = ("--value-format", "confluent", "--schemas", registry / "typo")
    done = kfmt("dump", "--records", "--json", *options, log)
    notes = {row["decoded_value"]["note"] for row in of(done.rows, "record")}
    assert all("typo" in note for note in notes)
