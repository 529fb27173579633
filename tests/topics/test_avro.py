"""Avro values: what is read, what is bounded, and what is said of values that are not whole."""

from __future__ import annotations

import json
from io import BytesIO
from math import isinf
from typing import Any

import pytest

fastavro = pytest.importorskip("fastavro", reason="the extra schema is not installed")

from kfmt_cli.topics.avro import _max_values, avro_schema_reader  # noqa: E402

ROW: dict[str, Any] = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}],
}
TREE: dict[str, Any] = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "n", "type": "int"}, {"name": "below", "type": ["null", "Tree"]}],
}
TWICE: dict[str, Any] = {
    "type": "record",
    "name": "Twice",
    "fields": [{"name": "one", "type": ROW}, {"name": "other", "type": "Row"}],
}
READ: list[tuple[Any, Any, Any]] = [
    ("null", None, None),
    *(("boolean", True, True), ("int", -5, -5), ("long", 1 << 40, 1 << 40), ("string", "é", "é")),
    *(("double", 0.5, 0.5), ("float", 0.25, 0.25), ("bytes", b"\0\xff", "00ff")),
    ({"type": "fixed", "name": "F", "size": 2}, b"ab", "6162"),
    ({"type": "enum", "name": "E", "symbols": ["x", "y"]}, "y", "y"),
    *((["null", "long"], None, None), (["null", "long"], 3, 3)),
    ({"type": "array", "items": "int"}, [1, 2, 3], [1, 2, 3]),
    ({"type": "map", "values": "bytes"}, {"k": b"\1"}, {"k": "01"}),
    (ROW, {"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
    (TWICE, {"one": {"a": 1, "b": "x"}, "other": {"a": 2, "b": "y"}}, None),
    (TREE, {"n": 1, "below": {"n": 2, "below": None}}, None),
    ({"type": "array", "items": ROW}, [{"a": 1, "b": ""}] * 3, None),
]


def written(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@pytest.mark.parametrize(("schema", "value", "shown"), READ)
def test_a_value_is_read_whole(schema: Any, value: Any, shown: Any) -> None:
    read = avro_schema_reader("schema", json.dumps(schema))
    data = written(schema, value)
    assert read(data) == (value if shown is None else shown)
    with pytest.raises(ValueError, match=r"^1 trailing bytes after the Avro value$"):
        read(data + b"\0")
    for size in range(len(data)):
        with pytest.raises(ValueError, match=r"."):
            read(data[:size])


def record_of(type_: Any) -> Any:
    """A record R with one field."""
    return {"type": "record", "name": "R", "fields": [{"name": "x", "type": type_}]}


INTS, MAP = {"type": "array", "items": "int"}, {"type": "map", "values": "int"}


@pytest.mark.parametrize(
    ("schema", "is_unbounded"),
    [
        *(("int", False), (["null", "string"], False), (INTS, True), (MAP, True)),
        *((["null", MAP], True), (ROW, False), (TWICE, False), (TREE, True)),
        ({"type": "array", "items": ROW}, True),
        *((record_of("int"), False), (record_of(["null", TREE]), True)),
        *((record_of("Held"), True), (record_of(["null", "Held"]), True)),
        *((record_of(["null", "R"]), True), (record_of(["null", "Row"]), False)),
    ],
)
def test_a_schema_is_bounded_if_no_value_of_it_repeats_or_nests(
    schema: Any, is_unbounded: bool
) -> None:
    names = {"Row": ROW, "Tree": TREE, "Held": {"type": "array", "items": "int"}}
    assert isinf(_max_values(schema, names, {})) == is_unbounded


@pytest.mark.parametrize(
    ("schema", "data", "words"),
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
    schema: Any, data: bytes, words: str
) -> None:
    unbounded = {"type": "array", "items": schema}
    with pytest.raises(ValueError, match=r".") as refused:
        avro_schema_reader("schema", json.dumps(unbounded))(b"\x02" + data)
    assert words.replace("byte 1", "byte 2").replace("byte 0", "byte 1") in str(refused.value)
