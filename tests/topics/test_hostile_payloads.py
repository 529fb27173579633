"""Payloads and schemas that are made to break a decoder are a note on the record, or one line."""

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
    """An Avro long."""
    raw = (value << 1 ^ value >> 63) & (1 << 64) - 1
    found = b""
    while raw >= 0x80:
        found += bytes([raw & 0x7F | 0x80])
        raw >>= 7
    return found + bytes([raw])


LIST = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
SELF = {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}
NULLS = {"type": "array", "items": "null"}
INNER = {"type": "record", "name": "I", "fields": [{"name": "nulls", "type": NULLS}]}
NAMED = {
    "type": "record",
    "name": "O",
    "fields": [{"name": "first", "type": INNER}, {"name": "more", "type": ["null", "I"]}],
}
DEEP, MANY, CUT = "is nested more than 100 levels deep", "too many values", "EOFError"
AVRO = {
    "a list without end": (LIST, b"\x02" * 200_000 + b"\0", DEEP),
    "a record in itself": (SELF, b"", DEEP),
    "2^63 nulls": (NULLS, long_varint(2**63 - 1), MANY),
    "nulls in five bytes": (NULLS, b"\x80\x80\x80\x80\x20", MANY),
    "nulls in a named type": (NAMED, b"\0\x02" + long_varint(2**20) + b"\0", MANY),
    "nulls in an unnamed type": (NAMED, long_varint(2**20) + b"\0\0", MANY),
    "a count below zero": (NULLS, b"\xff" * 9 + b"\x01\x02", MANY),
    "2^62 texts": ({"type": "array", "items": "string"}, long_varint(2**62) + b"\x02a", MANY),
    "a map of nulls": ({"type": "map", "values": "null"}, long_varint(2**40), MANY),
    "no branch": (LIST, b"\x04", "a union has no branch 2"),
    "bytes of 2^40": ("bytes", long_varint(2**40) + b"x", CUT),
    "bytes of -5": ("bytes", long_varint(-5) + b"x", CUT),
    "no UTF-8": ("string", b"\x04\xff\xff", "UnicodeDecodeError"),
    "a date too late": ({"type": "int", "logicalType": "date"}, long_varint(2**31 - 1), "Overflow"),
    "no UUID": ({"type": "string", "logicalType": "uuid"}, b"\x06abc", "UUID"),
    "no symbol": ({"type": "enum", "name": "E", "symbols": ["A"]}, long_varint(9), "IndexError"),
    "bytes behind it": ("int", b"\x02\x04\x06", "2 trailing bytes after the Avro value"),
}


@pytest.mark.parametrize("what", AVRO)
def test_avro_payloads_that_do_not_decode_are_a_note(what: str, tmp_path: Path) -> None:
    schema, value, words = AVRO[what]
    (tmp_path / "schema.avsc").write_text(json.dumps(schema))
    folder = partition(tmp_path, batch_of(record(b"k", value), 0, 1))
    options = ("--value-format", "avro", "--value-schema", tmp_path / "schema.avsc")
    done = run_kfmt("dump", folder, "--records", "--json", *options)
    (row,) = done.of("record")
    note = row["decoded_value"]["note"]
    assert note.startswith("cannot be decoded: ")
    assert words in note
    assert done.code == 0
    assert "cannot be decoded as avro" in run_kfmt("cat", folder, *options).err


def test_avro_values_that_nest_within_the_limits_are_read(tmp_path: Path) -> None:
    nested: object = None
    for _ in range(31):
        nested = {"next": nested}
    lists = {"first": {"nulls": [None] * 3}, "more": {"nulls": [None]}}
    for number, (schema, value, expected) in enumerate(
        [(LIST, b"\x02" * 30 + b"\0", nested), (NAMED, b"\x06\0\x02\x02\0", lists)]
    ):
        (tmp_path / "schema.avsc").write_text(json.dumps(schema))
        folder = partition(tmp_path / str(number), batch_of(record(b"k", value), 0, 1))
        options = ("--value-format", "avro", "--value-schema", tmp_path / "schema.avsc")
        (row,) = kfmt("dump", folder, "--records", "--json", *options).of("record")
        assert row["decoded_value"]["value"] == expected


def test_types_of_another_schema_have_the_same_limits() -> None:
    schema = {"type": "record", "name": "Outer", "fields": [{"name": "inner", "type": "I"}]}
    read = avro_schema_reader("Outer", json.dumps(schema), [json.dumps(INNER)])
    assert read(b"\x06\0") == {"inner": {"nulls": [None] * 3}}
    with pytest.raises(ValueError, match=MANY):
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
def test_a_schema_that_does_not_build_is_said(schema: str, tmp_path: Path) -> None:
    (tmp_path / "schema.avsc").write_text(schema)
    folder = partition(tmp_path, batch_of(record(b"k", b"v"), 0, 1))
    path = tmp_path / "schema.avsc"
    done = run_kfmt("cat", folder, "--value-format", "avro", "--value-schema", path)
    assert done.code == 2
    assert "not an Avro schema" in done.err


def descriptors(kind: str) -> bytes:
    """Descriptors of Protobuf with a fault."""
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
def test_descriptors_that_do_not_build_are_said(kind: str, tmp_path: Path) -> None:
    (tmp_path / "7.desc").write_bytes(descriptors(kind))
    folder = partition(tmp_path, batch_of(record(b"k", b"\0\0\0\0\x07\0abc"), 0, 1))
    path = f"{tmp_path / '7.desc'}:p.M"
    assert run_kfmt("cat", folder, "--value-format", "protobuf", "--value-schema", path).code == 2
    done = run_kfmt("cat", folder, "--value-format", "confluent", "--schemas", tmp_path)
    assert done.code == 0
    assert "cannot be decoded as confluent" in done.err


TOO_DEEP = "it is nested more than 200 levels deep"
# Bytes, and what they are as JSON, or else why they are not.
JSONS: dict[str, tuple[bytes, object, str]] = {
    "deep": (b"[" * 100_000 + b"]" * 100_000, None, TOO_DEEP),
    "deep objects": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, None, TOO_DEEP),
    "half a pair": (b'"\\ud800"', "\ud800", ""),
    "half a pair as a name": (b'{"\\udfff":1}', {"\udfff": 1}, ""),
    "no number": (b"NaN", None, "NaN is not valid JSON"),
    "no numbers": (b"[Infinity,-Infinity,1e999]", None, "Infinity is not valid JSON"),
    "digits": (b"1" * 5000, None, "4300 digits"),
    "an escape": (b'"\\u001b[31m\\u202e"', "\x1b[31m\u202e", ""),
    "brackets in text": (b'"' + b"[" * 500 + b'"', "[" * 500, ""),
    "right to left": ("\u202e".encode(), None, "Expecting value"),
}


@pytest.mark.parametrize("what", JSONS)
def test_json_payloads(what: str, tmp_path: Path) -> None:
    payload, value, words = JSONS[what]
    folder = partition(tmp_path, batch_of(record(b"k", payload), 0, 1))
    for command in (
        "dump --records",
        "dump --records --json",
        "dump --records --format csv",
        "cat",
    ):
        name, *options = command.split()
        assert run_kfmt(name, folder, *options).code == 0
        assert run_kfmt(name, folder, *options, "--value-format", "json").code == 0
    (row,) = kfmt("dump", folder, "--records", "--json", "--value-format", "json").of("record")
    assert row["value"] == payload.decode()
    if words:
        assert row["decoded_value"]["note"].startswith("cannot be decoded: ")
        assert words in row["decoded_value"]["note"]
    else:
        assert row["decoded_value"] == {"format": "json", "value": value}


def test_numbers_that_json_has_not_are_text(tmp_path: Path) -> None:
    folder = partition(tmp_path, batch_of(record(b"k", struct.pack(">d", float("-inf"))), 0, 1))
    done = run_kfmt("dump", folder, "--records", "--json", "--value-format", "double")
    assert done.of("record")[0]["decoded_value"]["value"] == "-Infinity"
