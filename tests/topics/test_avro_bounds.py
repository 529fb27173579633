"""Small schemas with large values."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kfmt_cli.topics.avro import avro_schema_reader

pytest.importorskip("fastavro")


def record(name: str, *types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{i}", "type": type_} for i, type_ in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def doubling_records(depth: int, leaf: Any) -> Any:
    """Records that each contain the next one twice."""
    schema = record(f"r{depth}", leaf)
    for level in reversed(range(depth)):
        schema = record(f"r{level}", schema, f"r{level + 1}")
    return schema


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubling_records(40, "null"), b""),
        ({"type": "array", "items": doubling_records(24, "null")}, b"\x04\x00"),
        ({"type": "map", "values": doubling_records(30, "null")}, b"\x02\x00\x00"),
        (["null", doubling_records(60, "null")], b"\x02"),
    ],
)
def test_a_value_of_too_many_values_is_refused(schema: Any, value: bytes) -> None:
    start_seconds = time.process_time()
    with pytest.raises(ValueError, match="too many values"):
        avro_schema_reader("a", json.dumps(schema))(value)
    assert time.process_time() - start_seconds < 20


def test_a_schema_that_is_shared_is_read() -> None:
    read = avro_schema_reader("a", json.dumps(doubling_records(6, "int")))
    value = read(bytes(range(0, 128, 2)))
    for _ in range(6):
        value = value["f1"]
    assert value == {"f0": 63}


def test_records_in_themselves_end_at_the_limit_of_depth() -> None:
    schema = record("r", ["null", "r"])
    assert avro_schema_reader("a", json.dumps(schema))(b"\x02\x02\x00") == {
        "f0": {"f0": {"f0": None}}
    }
    with pytest.raises(ValueError, match="nested more than"):
        avro_schema_reader("a", json.dumps(schema))(b"\x02" * 1000 + b"\x00")


def test_names_of_the_schema_are_repeated_within_a_limit() -> None:
    enum = {"type": "enum", "name": "e", "symbols": ["s" * 100_000]}
    for items in (record("r" * 9, "boolean"), enum):
        text = json.dumps({"type": "array", "items": items}).replace("f0", "f" * 100_000)
        read = avro_schema_reader("a", text)
        assert len(read(b"\x14" + bytes(11))) == 10
        with pytest.raises(ValueError, match="repeats names"):
            read(b"\xa0\x1f" + bytes(2001))


def test_a_value_of_too_many_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 16777216 are decoded"):
        avro_schema_reader("a", '"bytes"')(bytes((16 << 20) + 1))


@pytest.mark.parametrize("type_name", ["bytes", "fixed"])
def test_a_decimal_of_many_digits_is_refused(type_name: str) -> None:
    decimal = {"type": type_name, "logicalType": "decimal", "precision": 9, "scale": 2}
    size = 1 << 20
    schema = decimal | ({"name": "f", "size": size} if type_name == "fixed" else {})
    length_prefix = b"\x80\x80\x80\x01" if type_name == "bytes" else b""
    with pytest.raises(ValueError, match="decimal of 1048576 bytes"):
        avro_schema_reader("a", json.dumps(schema))(length_prefix + b"\x7f" * size)
    assert (
        avro_schema_reader("a", json.dumps(decimal | {"type": "bytes"}))(b"\x04\x01\x00") == "2.56"
    )
