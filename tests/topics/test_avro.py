"""Avro values: decoding, limits, and errors of truncated values."""

from __future__ import annotations

import json
from io import BytesIO
from math import isinf
from typing import Any

import pytest

fastavro = pytest.importorskip("fastavro", reason="the extra schema is not installed")

from kfmt_cli.topics.avro import _compute_max_value_count, avro_schema_reader  # noqa: E402

ROW_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}],
}
TREE_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "n", "type": "int"}, {"name": "below", "type": ["null", "Tree"]}],
}
REPEATED_TYPE_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Twice",
    "fields": [{"name": "one", "type": ROW_SCHEMA}, {"name": "other", "type": "Row"}],
}
VALUES: list[tuple[Any, Any, Any]] = [
    ("null", None, None),
    *(("boolean", True, True), ("int", -5, -5), ("long", 1 << 40, 1 << 40), ("string", "é", "é")),
    *(("double", 0.5, 0.5), ("float", 0.25, 0.25), ("bytes", b"\0\xff", "00ff")),
    ({"type": "fixed", "name": "F", "size": 2}, b"ab", "6162"),
    ({"type": "enum", "name": "E", "symbols": ["x", "y"]}, "y", "y"),
    *((["null", "long"], None, None), (["null", "long"], 3, 3)),
    ({"type": "array", "items": "int"}, [1, 2, 3], [1, 2, 3]),
    ({"type": "map", "values": "bytes"}, {"k": b"\1"}, {"k": "01"}),
    (ROW_SCHEMA, {"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
    (REPEATED_TYPE_SCHEMA, {"one": {"a": 1, "b": "x"}, "other": {"a": 2, "b": "y"}}, None),
    (TREE_SCHEMA, {"n": 1, "below": {"n": 2, "below": None}}, None),
    ({"type": "array", "items": ROW_SCHEMA}, [{"a": 1, "b": ""}] * 3, None),
]


def encode_value(schema: Any, value: Any) -> bytes:
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return buffer.getvalue()


@pytest.mark.parametrize(("schema", "value", "expected"), VALUES)
def test_a_value_is_read_whole(schema: Any, value: Any, expected: Any) -> None:
    read = avro_schema_reader("schema", json.dumps(schema))
    data = encode_value(schema, value)
    assert read(data) == (value if expected is None else expected)
    with pytest.raises(ValueError, match=r"^1 trailing bytes after the Avro value$"):
        read(data + b"\0")
    for size in range(len(data)):
        with pytest.raises(ValueError, match=r"."):
            read(data[:size])


def one_field_record(type_: Any) -> Any:
    """A record R with one field."""
    return {"type": "record", "name": "R", "fields": [{"name": "x", "type": type_}]}


INTS_SCHEMA, MAP_SCHEMA = {"type": "array", "items": "int"}, {"type": "map", "values": "int"}


@pytest.mark.parametrize(
    ("schema", "is_unbounded"),
    [
        *(("int", False), (["null", "string"], False), (INTS_SCHEMA, True), (MAP_SCHEMA, True)),
        *(
            (["null", MAP_SCHEMA], True),
            (ROW_SCHEMA, False),
            (REPEATED_TYPE_SCHEMA, False),
            (TREE_SCHEMA, True),
        ),
        ({"type": "array", "items": ROW_SCHEMA}, True),
        *((one_field_record("int"), False), (one_field_record(["null", TREE_SCHEMA]), True)),
        *((one_field_record("Held"), True), (one_field_record(["null", "Held"]), True)),
        *((one_field_record(["null", "R"]), True), (one_field_record(["null", "Row"]), False)),
    ],
)
def test_a_schema_is_bounded_if_no_value_of_it_repeats_or_nests(
    schema: Any, is_unbounded: bool
) -> None:
    names = {"Row": ROW_SCHEMA, "Tree": TREE_SCHEMA, "Held": {"type": "array", "items": "int"}}
    assert isinf(_compute_max_value_count(schema, names, {})) == is_unbounded


@pytest.mark.parametrize(
    ("schema", "data", "expected_text"),
    [
        (["null", "long"], b"\x04", "a union has no branch 2"),
        (["null", "long"], b"\x01", "a union has no branch -1"),
        ("string", b"\x08abc", "4 bytes declared at byte 1, but only 3 left"),
        ("string", b"\x01", "-1 bytes declared at byte 1, but only 0 left"),
        ("double", bytes(7), "8 bytes declared at byte 0, but only 7 left"),
        (
            {"type": "array", "items": "null"},
            b"\x80\x80\x80\x80\x10\0",
            "too many values",
        ),
    ],
)
def test_a_value_that_is_not_of_its_schema_is_refused_with_the_reason(
    schema: Any, data: bytes, expected_text: str
) -> None:
    array_schema = {"type": "array", "items": schema}
    with pytest.raises(ValueError, match=r".") as raised:
        avro_schema_reader("schema", json.dumps(array_schema))(b"\x02" + data)
    assert expected_text.replace("byte 1", "byte 2").replace("byte 0", "byte 1") in str(
        raised.value
    )
