"""The topic of a schema registry, and a folder of schemas in its place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import kfmt_cli
from tests.broker.test_state import built, of, state
from tests.support.samples import Row, kfmt

ORDER_SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}
LINE_SCHEMA = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "order", "type": "Order"}, {"name": "text", "type": "string"}],
}


def schema_record(offset: int, subject: str, schema_id: int, schema: object, **extra: Any) -> Row:
    """A record of a registry."""
    key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
    value = {
        "subject": subject,
        "version": 1,
        "id": schema_id,
        "schema": json.dumps(schema),
        **extra,
    }
    return {"offset": offset, "key": json.dumps(key), "value": json.dumps(value)}


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """A log directory with a registry's topic and a partition that needs it."""
    order_reference = {"name": "Order", "subject": "order", "version": 1}
    missing_reference = {"name": "Lost", "subject": "lost", "version": 1}
    records = [
        schema_record(0, "order", 1, ORDER_SCHEMA),
        schema_record(1, "line", 2, LINE_SCHEMA, references=[order_reference]),
        schema_record(2, "json", 3, {}, schemaType="JSON"),
        schema_record(3, "proto", 4, "syntax", schemaType="PROTOBUF"),
        schema_record(4, "broken", 5, LINE_SCHEMA, references=[missing_reference]),
        {"offset": 5, "key": '{"keytype":"NOOP","magic":0}', "value": None},
        # The subject is deleted: older payloads still need its schema.
        {**schema_record(6, "order", 1, ORDER_SCHEMA), "value": None},
    ]
    built(tmp_path / "_schemas-0", records)
    payloads = {1: b"\x06", 2: b"\x06\x04hi", 3: b'{"a":1}', 4: b"\x00", 5: b"\x06", 6: b"\x06"}
    values = [
        bytes([0]) + schema_id.to_bytes(4, "big") + payload
        for schema_id, payload in payloads.items()
    ]
    built(
        tmp_path / "orders-0",
        [
            {"offset": i, "value": value.hex(), "value_encoding": "hex"}
            for i, value in enumerate(values)
        ],
    )
    return tmp_path


@pytest.mark.parametrize("location", ["beside", "directory", "partition"])
def test_the_topic_of_a_registry_is_a_registry(location: str, registry: Path) -> None:
    pytest.importorskip("fastavro")
    options: dict[str, list[str | Path]] = {
        "beside": [],
        "directory": ["--schemas", registry],
        "partition": ["--schemas", registry / "_schemas-0"],
    }
    log = registry / "orders-0" / "00000000000000000000.log"
    result = kfmt(
        "dump", "--records", "--json", "--value-format", "confluent", *options[location], log
    )
    values = [row["decoded_value"] for row in of(result.rows, "record")]
    assert [item.get("value") for item in values[:3]] == [
        {"n": 3},
        {"order": {"n": 3}, "text": "hi"},
        {"a": 1},
    ]
    assert "is PROTOBUF, which must be compiled" in values[3]["note"]
    assert "version 1 of lost" in values[4]["note"]
    assert "no schema 6 in the topic _schemas" in values[5]["note"]


def test_a_folder_of_schemas_is_used_in_place_of_the_topic_beside(registry: Path) -> None:
    pytest.importorskip("fastavro")
    (registry / "given").mkdir()
    other_schema = {**ORDER_SCHEMA, "fields": [{"name": "renamed", "type": "int"}]}
    (registry / "given/1.avsc").write_text(json.dumps(other_schema))
    options = ("--value-format", "confluent", "--schemas", registry / "given")
    result = kfmt("dump", "--records", "--json", *options, registry / "orders-0")
    first, second, *_ = [row["decoded_value"] for row in of(result.rows, "record")]
    assert first["value"] == {"renamed": 3}
    assert second["note"].endswith(f"no schema 2 in {registry / 'given'}")


def decoded_values(directory: Path) -> list[Any]:
    """The decoded values of a partition."""
    result = kfmt("dump", "--records", "--json", "--value-format", "confluent", directory)
    return [row["decoded_value"].get("value") for row in of(result.rows, "record")]


def test_plain_bytes_have_no_length_in_a_registrys_frame(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    built(
        tmp_path / "_schemas-0",
        [schema_record(0, "s", 1, "bytes"), schema_record(1, "t", 2, "string")],
    )
    (tmp_path / "given").mkdir()
    (tmp_path / "given/3.avsc").write_text('{"type": "bytes"}')
    values = ("000000000104dead", "0000000001deadbeef", "0000000001", "0000000002046869")
    records = [
        {"offset": i, "value": value, "value_encoding": "hex"} for i, value in enumerate(values)
    ]
    assert decoded_values(built(tmp_path / "orders-0", records)) == ["04dead", "deadbeef", "", "hi"]
    records = [{"offset": 0, "value": "0000000003deadbeef", "value_encoding": "hex"}]
    directory = built(tmp_path / "more-0", records)
    options = ("--value-format", "confluent", "--schemas", tmp_path / "given", "-f", "%s\\n")
    assert kfmt("cat", directory, *options).out == "deadbeef\n"


def test_an_id_of_another_context_replaces_none(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    context_schema = schema_record(1, ":.ctx:s", 3, "bytes")
    built(tmp_path / "_schemas-0", [schema_record(0, "s", 3, "string"), context_schema])
    value = {"offset": 0, "value": "0000000003046869", "value_encoding": "hex"}
    assert decoded_values(built(tmp_path / "orders-0", [value])) == ["hi"]


def test_a_registry_that_has_grown_is_read_again(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    value = {"offset": 0, "value": "0000000002046869", "value_encoding": "hex"}
    directory = built(tmp_path / "orders-0", [value])
    first, second = schema_record(0, "a", 1, "string"), schema_record(1, "b", 2, "string")
    values = []
    for records in ([first], [first, second]):
        shutil.rmtree(tmp_path / "_schemas-0", ignore_errors=True)
        built(tmp_path / "_schemas-0", records)
        rows = kfmt_cli.read_records(directory, value_format="confluent").objects()
        values += [row["decoded_value"].get("value") for row in rows]
    assert values == [None, "hi"]


def test_the_schemas_of_a_registry(registry: Path) -> None:
    rows = state(registry / "_schemas-0")
    assert [(row["subject"], row["schema_id"], row["schema_type"]) for row in rows] == [
        ("broken", 5, "AVRO"),
        ("json", 3, "JSON"),
        ("line", 2, "AVRO"),
        ("proto", 4, "PROTOBUF"),
    ]
    assert json.loads(rows[2]["schema"]) == LINE_SCHEMA


def test_a_missing_registry_is_reported(tmp_path: Path) -> None:
    directory = built(tmp_path / "orders-0", [{"value": "x"}])
    result = kfmt("dump", "--records", "--value-format", "confluent", directory)
    assert result.code == 2
    assert "keep the _schemas topic" in result.err


def test_a_folder_of_schemas_that_is_not_there_is_named(registry: Path) -> None:
    pytest.importorskip("fastavro")
    log = registry / "orders-0" / "00000000000000000000.log"
    options = ("--value-format", "confluent", "--schemas", registry / "typo")
    result = kfmt("dump", "--records", "--json", *options, log)
    notes = {row["decoded_value"]["note"] for row in of(result.rows, "record")}
    assert all("typo" in note for note in notes)


def test_an_export_of_the_registry_is_read(registry: Path, tmp_path: Path) -> None:
    answer = [
        {"subject": "order", "version": 1, "id": 1, "schema": json.dumps(ORDER_SCHEMA)},
        {
            "subject": "line",
            "version": 1,
            "id": 2,
            "schema": json.dumps(LINE_SCHEMA),
            "references": [{"name": "Order", "subject": "order", "version": 1}],
        },
    ]
    export = tmp_path / "schemas.json"
    export.write_text(json.dumps(answer))
    options = ("--records", "--json", "--value-format", "confluent", "--schemas")
    by_topic = kfmt("dump", registry / "orders-0", *options, registry / "_schemas-0")
    by_export = kfmt("dump", registry / "orders-0", *options, export)
    decoded = [row.get("decoded_value") for row in by_export.of("record")][:2]
    assert decoded == [row.get("decoded_value") for row in by_topic.of("record")][:2]
    assert all(decoded)
    directory = tmp_path / "answers"  # to GET /subjects/SUBJECT/versions/VERSION
    directory.mkdir()
    for schema in answer:
        (directory / f"{schema['subject']}.json").write_text(json.dumps(schema))
    by_directory = kfmt("dump", registry / "orders-0", *options, directory)
    assert by_directory.of("record") == by_export.of("record")
    export.write_text('{"schema": "{}"}')
    done = kfmt("dump", registry / "orders-0", *options, export)
    assert (done.code, "such as to GET /schemas" in done.err) == (3, True)


def test_a_registry_is_not_asked(registry: Path) -> None:
    options = ("--records", "--value-format", "confluent", "--schemas", "http://registry:8081")
    done = kfmt("dump", registry / "orders-0", *options)
    assert (done.code, "kfmt asks no registry; save its answer" in done.err) == (2, True)


@pytest.mark.parametrize("part", ["key", "value"])
def test_framed_payloads_get_the_options_that_decode_them(part: str, tmp_path: Path) -> None:
    framed = (bytes(4) + b"\x07\x06").decode()
    other = {"key": "k", "value": "v"}
    built(tmp_path / "orders-0", [{"offset": n, **other, part: framed} for n in range(3)])
    hint = f"{part}s look like schema id 7: --{part}-format confluent --schemas DIR\n"
    directory = tmp_path / "orders-0"
    assert hint in kfmt("dump", "--records", directory).out
    assert kfmt("cat", directory).err == f"kfmt: {hint}"
    for arguments in (
        ("dump", "--records", "--json"),
        ("cat", "--json"),
        ("cat", "-f", "%s"),
        ("cat", f"--{part}-format", "hex"),
    ):
        done = kfmt(*arguments, directory)
        assert "look like" not in done.out + done.err


@pytest.mark.parametrize(
    "text", ["\0" * 8, "\0\0\0\1\0\0\0\1", "text", "\0\0\0\0\0abc", "\0\0\0\7"]
)
def test_other_payloads_get_no_hint(text: str, tmp_path: Path) -> None:
    built(tmp_path / "orders-0", [{"offset": n, "key": None, "value": text} for n in range(3)])
    assert "look like" not in kfmt("dump", "--records", tmp_path).out
    assert kfmt("cat", tmp_path / "orders-0").err == ""


def test_an_export_that_is_nested_too_deeply(tmp_path: Path) -> None:
    (tmp_path / "schemas.json").write_text("[" * 100_000)
    built(tmp_path / "orders-0", [{"offset": 0, "key": None, "value": "v"}])
    options = ("--value-format", "confluent", "--schemas", tmp_path / "schemas.json")
    assert kfmt("cat", tmp_path / "orders-0", *options).code == 3


def test_sql_decodes_values_by_the_registry(registry: Path) -> None:
    pytest.importorskip("duckdb")
    query = "select value_json->>'n' as n from orders where \"offset\" = 0"
    for options in (("--schemas", registry / "_schemas-0"), ()):  # or next to the partition
        done = kfmt("sql", query, registry, "--value-format", "confluent", *options, "--json")
        assert done.rows == [{"type": "row", "n": "3"}]
