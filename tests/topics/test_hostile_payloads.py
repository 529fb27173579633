"""Hostile payloads and schemas give a note on the record or one line of error."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from kfmt_cli.topics.avro import avro_schema_reader
from tests.support.hostile import partition, run_kfmt
from tests.support.rebuild import batch_of, record
from tests.support.samples import kfmt


def long_varint(value: int) -> bytes:
    """A number as an Avro long."""
    raw = (value << 1 ^ value >> 63) & (1 << 64) - 1
    encoded = b""
    while raw >= 0x80:
        encoded += bytes([raw & 0x7F | 0x80])
        raw >>= 7
    return encoded + bytes([raw])


LINKED_LIST_SCHEMA = {
    "type": "record",
    "name": "N",
    "fields": [{"name": "next", "type": ["null", "N"]}],
}
RECURSIVE_SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}
NULLS_SCHEMA = {"type": "array", "items": "null"}
INNER_SCHEMA = {"type": "record", "name": "I", "fields": [{"name": "nulls", "type": NULLS_SCHEMA}]}
NAMED_TYPES_SCHEMA = {
    "type": "record",
    "name": "O",
    "fields": [{"name": "first", "type": INNER_SCHEMA}, {"name": "more", "type": ["null", "I"]}],
}
NESTED_TOO_DEEPLY = "is nested more than 100 levels deep"
TOO_MANY_VALUES = "too many values"
TRUNCATED = "EOFError"
AVRO_PAYLOADS = {
    "a list without end": (LINKED_LIST_SCHEMA, b"\x02" * 200_000 + b"\0", NESTED_TOO_DEEPLY),
    "a record in itself": (RECURSIVE_SCHEMA, b"", NESTED_TOO_DEEPLY),
    "2^63 nulls": (NULLS_SCHEMA, long_varint(2**63 - 1), TOO_MANY_VALUES),
    "nulls in five bytes": (NULLS_SCHEMA, b"\x80\x80\x80\x80\x20", TOO_MANY_VALUES),
    "nulls in a named type": (
        NAMED_TYPES_SCHEMA,
        b"\0\x02" + long_varint(2**20) + b"\0",
        TOO_MANY_VALUES,
    ),
    "nulls in an unnamed type": (NAMED_TYPES_SCHEMA, long_varint(2**20) + b"\0\0", TOO_MANY_VALUES),
    "a count below zero": (NULLS_SCHEMA, b"\xff" * 9 + b"\x01\x02", TOO_MANY_VALUES),
    "2^62 texts": (
        {"type": "array", "items": "string"},
        long_varint(2**62) + b"\x02a",
        TOO_MANY_VALUES,
    ),
    "a map of nulls": ({"type": "map", "values": "null"}, long_varint(2**40), TOO_MANY_VALUES),
    "no branch": (LINKED_LIST_SCHEMA, b"\x04", "a union has no branch 2"),
    "bytes of 2^40": ("bytes", long_varint(2**40) + b"x", TRUNCATED),
    "bytes of -5": ("bytes", long_varint(-5) + b"x", TRUNCATED),
    "no UTF-8": ("string", b"\x04\xff\xff", "UnicodeDecodeError"),
    "a date too late": ({"type": "int", "logicalType": "date"}, long_varint(2**31 - 1), "Overflow"),
    "no UUID": ({"type": "string", "logicalType": "uuid"}, b"\x06abc", "UUID"),
    "no symbol": ({"type": "enum", "name": "E", "symbols": ["A"]}, long_varint(9), "IndexError"),
    "bytes behind it": ("int", b"\x02\x04\x06", "2 trailing bytes after the Avro value"),
}


@pytest.mark.parametrize("case", AVRO_PAYLOADS)
def test_avro_payloads_that_do_not_decode_are_a_note(case: str, tmp_path: Path) -> None:
    schema, value, expected_text = AVRO_PAYLOADS[case]
    (tmp_path / "schema.avsc").write_text(json.dumps(schema))
    directory = partition(tmp_path, batch_of(record(b"k", value), 0, 1))
    options = ("--value-format", "avro", "--value-schema", tmp_path / "schema.avsc")
    result = run_kfmt("dump", directory, "--records", "--json", *options)
    (row,) = result.of("record")
    note = row["decoded_value"]["note"]
    assert note.startswith("cannot be decoded: ")
    assert expected_text in note
    assert result.code == 0
    assert "cannot be decoded as avro" in run_kfmt("cat", directory, *options).err


def test_avro_values_that_nest_within_the_limits_are_read(tmp_path: Path) -> None:
    nested_value: object = None
    for _ in range(31):
        nested_value = {"next": nested_value}
    list_values = {"first": {"nulls": [None] * 3}, "more": {"nulls": [None]}}
    for i, (schema, value, expected) in enumerate(
        [
            (LINKED_LIST_SCHEMA, b"\x02" * 30 + b"\0", nested_value),
            (NAMED_TYPES_SCHEMA, b"\x06\0\x02\x02\0", list_values),
        ]
    ):
        (tmp_path / "schema.avsc").write_text(json.dumps(schema))
        directory = partition(tmp_path / str(i), batch_of(record(b"k", value), 0, 1))
        options = ("--value-format", "avro", "--value-schema", tmp_path / "schema.avsc")
        (row,) = kfmt("dump", directory, "--records", "--json", *options).of("record")
        assert row["decoded_value"]["value"] == expected


def test_types_of_another_schema_have_the_same_limits() -> None:
    schema = {"type": "record", "name": "Outer", "fields": [{"name": "inner", "type": "I"}]}
    read = avro_schema_reader("Outer", json.dumps(schema), [json.dumps(INNER_SCHEMA)])
    assert read(b"\x06\0") == {"inner": {"nulls": [None] * 3}}
    with pytest.raises(ValueError, match=TOO_MANY_VALUES):
        read(long_varint(2**20) + b"\0")


@pytest.mark.parametrize(
    "schema",
    [
        *("", "{", "null", "[1,2]", '{"type":"record"}', '{"type":"nosuch"}', "[" * 100_000),
        '{"type":"record","name":"a","fields":5}',
        '{"type":"array","items":' * 5000 + '"int"' + "}" * 5000,
    ],
    ids=range(9),
)
def test_an_invalid_schema_is_reported(schema: str, tmp_path: Path) -> None:
    (tmp_path / "schema.avsc").write_text(schema)
    directory = partition(tmp_path, batch_of(record(b"k", b"v"), 0, 1))
    path = tmp_path / "schema.avsc"
    result = run_kfmt("cat", directory, "--value-format", "avro", "--value-schema", path)
    assert result.code == 2
    assert "not an Avro schema" in result.err


def descriptors(kind: str) -> bytes:
    """Invalid descriptors of Protobuf."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="p", syntax="proto3")
    message = file.message_type.add(name="bad name!" if kind == "name" else "M")
    if kind == "dependency":
        file.dependency.append("nosuch.proto")
    elif kind == "type":
        message.field.add(name="x", number=1, label=1, type=11, type_name=".q.X")
    elif kind == "syntax":
        file.syntax = "proto9"
    files = descriptor_pb2.FileDescriptorSet()
    files.file.extend([] if kind == "empty" else [file])
    return files.SerializeToString()


@pytest.mark.parametrize("kind", ["name", "dependency", "type", "syntax", "empty"])
def test_invalid_descriptors_are_reported(kind: str, tmp_path: Path) -> None:
    (tmp_path / "7.desc").write_bytes(descriptors(kind))
    directory = partition(tmp_path, batch_of(record(b"k", b"\0\0\0\0\x07\0abc"), 0, 1))
    path = f"{tmp_path / '7.desc'}:p.M"
    assert (
        run_kfmt("cat", directory, "--value-format", "protobuf", "--value-schema", path).code == 2
    )
    result = run_kfmt("cat", directory, "--value-format", "confluent", "--schemas", tmp_path)
    assert result.code == 0
    assert "cannot be decoded as confluent" in result.err


JSON_TOO_DEEP = "it is nested more than 200 levels deep"
# Bytes, their JSON value, or the error.
JSON_PAYLOADS: dict[str, tuple[bytes, object, str]] = {
    "deep": (b"[" * 100_000 + b"]" * 100_000, None, JSON_TOO_DEEP),
    "deep objects": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, None, JSON_TOO_DEEP),
    "half a pair": (b'"\\ud800"', "\ud800", ""),
    "half a pair as a name": (b'{"\\udfff":1}', {"\udfff": 1}, ""),
    "no number": (b"NaN", None, "NaN is not valid JSON"),
    "no numbers": (b"[Infinity,-Infinity,1e999]", None, "Infinity is not valid JSON"),
    "digits": (b"1" * 5000, None, "4300 digits"),
    "an escape": (b'"\\u001b[31m\\u202e"', "\x1b[31m\u202e", ""),
    "brackets in text": (b'"' + b"[" * 500 + b'"', "[" * 500, ""),
    "right to left": ("\u202e".encode(), None, "Expecting value"),
}


@pytest.mark.parametrize("case", JSON_PAYLOADS)
def test_json_payloads(case: str, tmp_path: Path) -> None:
    payload, value, expected_text = JSON_PAYLOADS[case]
    directory = partition(tmp_path, batch_of(record(b"k", payload), 0, 1))
    for command in (
        "dump --records",
        "dump --records --json",
        "dump --records --format csv",
        "cat",
    ):
        name, *options = command.split()
        assert run_kfmt(name, directory, *options).code == 0
        assert run_kfmt(name, directory, *options, "--value-format", "json").code == 0
    (row,) = kfmt("dump", directory, "--records", "--json", "--value-format", "json").of("record")
    assert row["value"] == payload.decode()
    if expected_text:
        assert row["decoded_value"]["note"].startswith("cannot be decoded: ")
        assert expected_text in row["decoded_value"]["note"]
    else:
        assert row["decoded_value"] == {"format": "json", "value": value}


def test_numbers_that_json_has_not_are_text(tmp_path: Path) -> None:
    directory = partition(tmp_path, batch_of(record(b"k", struct.pack(">d", float("-inf"))), 0, 1))
    result = run_kfmt("dump", directory, "--records", "--json", "--value-format", "double")
    assert result.of("record")[0]["decoded_value"]["value"] == "-Infinity"
