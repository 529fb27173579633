"""The formats of keys and values, and decoded messages as text."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.topics import find_decoder
from kfmt_cli.topics.decoder import DecodedPayload
from kfmt_cli.topics.message_text import format_message
from kfmt_cli.topics.payloads import PAYLOAD_FORMATS, SchemaSource, read_json
from kfmt_cli.topics.schemas import create_confluent_reader

VALUES_BY_FORMAT: dict[str, list[tuple[bytes, Any]]] = {
    "text": [(b"", ""), ("é".encode(), "é"), (b"\xff", ValueError)],
    "json": [(b"[1]", [1]), (b"", ValueError), (b"NaN", ValueError), (b"{", ValueError)],
    "hex": [(b"", ""), (b"\x00\xff", "00ff")],
    "int": [
        *((b"\x00\x00\x00\x07", 7), (b"\xff\xff\xff\xff", -1), (b"", ValueError)),
        *((bytes(3), ValueError), (bytes(5), ValueError)),
    ],
    "long": [(struct.pack(">q", -(1 << 63)), -(1 << 63)), (bytes(4), ValueError)],
    "double": [(struct.pack(">d", 0.5), 0.5), (bytes(9), ValueError)],
    "uuid": [
        (bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        *((bytes(15), ValueError), (bytes(17), ValueError)),
    ],
}


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [(name, *case) for name in VALUES_BY_FORMAT for case in VALUES_BY_FORMAT[name]],
)
def test_bytes_are_read_in_their_format_or_refused(name: str, data: bytes, value: Any) -> None:
    read = PAYLOAD_FORMATS[name].create_reader(SchemaSource())
    if value is ValueError:
        with pytest.raises(ValueError, match=r"."):
            read(data)
    else:
        assert read(data) == value


@pytest.mark.parametrize(
    ("data", "is_read"),
    [
        (b"[" * 200 + b"]" * 200, True),
        (b"[" * 201 + b"]" * 201, False),
        (b'{"a":' * 200 + b"1" + b"}" * 200, True),
        (b'{"a":' * 201 + b"1" + b"}" * 201, False),
        # Only brackets that are open at the same time count.
        (b"[" + b",".join([b"[[]]"] * 500) + b"]", True),
        (b"[" + b"[],{}," * 300 + b"[" * 199 + b"]" * 199 + b"]", True),
        (b"[" + b"[],{}," * 300 + b"[" * 200 + b"]" * 200 + b"]", False),
        (b"[" * 200 + b'"]]]]"' + b"]" * 200, True),
        (b"[" * 200 + b'"[\\"["' + b"]" * 200, True),
    ],
)
def test_json_may_be_nested_two_hundred_levels_deep(data: bytes, is_read: bool) -> None:
    if is_read:
        assert isinstance(read_json(data), list | dict)
    else:
        with pytest.raises(ValueError, match=r"^it is nested more than 200 levels deep$"):
            read_json(data)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"name": None, "data": None}, ""),
        ({"name": "OffsetCommitKey", "data": {"group": "a"}}, "OffsetCommit group=a"),
        ({"name": "TransactionLogValue", "data": None}, "TransactionLog"),
        ({"name": "RecordKeyed", "data": {}}, "RecordKeyed"),
        ({"name": "A", "data": {"n": 3, "n_name": "three", "m": 4}}, "A n=three m=4"),
        ({"name": "A", "data": {"in": {"n": 3, "n_name": "x"}}}, "A in={n=x}"),
        (
            {"name": "A", "data": {"list": [1, {"b": None}], "t": True}},
            "A list=[1, {b=null}] t=true",
        ),
        (
            {"name": "A", "data": {"text": "a b", "empty": "", "x": 'q"', "y": 'x" b=\\"y'}},
            r'A text="a b" empty="" x="q\"" y="x\" b=\\\"y"',
        ),
        ({"name": "A", "data": {"line": "a\nb", "brace": "{"}}, 'A line="a\nb" brace="{"'),
        ({"name": "A", "data": {"a": 1}, "note": "odd"}, "A a=1 (odd)"),
        ({"name": "A", "data": None, "deletes": "K x"}, "deletes K x"),
        ({"value": "text", "data": None}, "text"),
        ({"value": {"a": [1, 2]}}, '{"a":[1,2]}'),
        ({"value": "\ud800"}, "\\ud800"),
    ],
)
def test_a_decoded_message_as_text(values: dict[str, Any], text: str) -> None:
    assert format_message(DecodedPayload(values, has_symbols=True)) == text


def test_a_member_of_foreign_json_is_no_symbol_of_another() -> None:
    values = {"name": "SourceOffset", "data": {"table": 1, "table_name": "orders"}}
    payload = DecodedPayload(values)
    assert format_message(payload) == "SourceOffset table=1 table_name=orders"


@pytest.mark.parametrize(
    ("trailing", "error"),
    [
        (b"", None),
        (b"\x00", "byte 4: 1 trailing byte"),
        (b"\x00\x00", "byte 4: 2 trailing bytes"),
    ],
)
def test_trailing_bytes_after_a_metadata_record_are_an_error(
    trailing: bytes, error: str | None
) -> None:
    decoder = find_decoder("__cluster_metadata")
    assert decoder is not None
    no_op = b"\x01\x14\x00\x00"  # frame, type, version, no tagged fields
    message = decoder.decode_value(None, no_op + trailing)
    assert message is not None
    assert (message.message_name, message.json_values["data"]) == ("NoOpRecord", {})
    assert (message.error, message.json_values.get("note")) == (error, error)


def test_a_key_of_a_group_may_have_more_after_it() -> None:
    """A broker ignores what follows the fields that it knows."""
    decoder = find_decoder("__consumer_offsets")
    assert decoder is not None
    key = struct.pack(">hh3sh1si", 1, 3, b"one", 1, b"t", 5)
    for trailing in (b"", b"\x00"):
        message = decoder.decode_key(key + trailing)
        assert message is not None
        assert message.error is None
        assert message.json_values["data"] == {"group": "one", "topic": "t", "partition": 5}


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"0," * 1_100_000 + b"0]",
        b"[" + b"[]," * 1_100_000 + b"0]",
        b"[" + b"{}" * 1_100_000 + b"]",
        b'{"a":0' + b',"":0' * 1_100_000 + b"}",
    ],
    ids=["numbers", "arrays", "objects", "members"],
)
def test_json_of_too_many_values_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="at most 1048576 are decoded"):
        read_json(data)


def test_json_of_too_many_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 16777216 are decoded"):
        read_json(b'"' + b"a" * (16 << 20) + b'"')
    text = '\\" ,[' * 3_000_000
    assert read_json(f'"{text}"'.encode()) == text.replace("\\", "")


@pytest.mark.parametrize("number", ["1e999", "-1e400"])
def test_a_number_that_no_float_can_hold_is_an_error(number: str) -> None:
    with pytest.raises(ValueError, match=f"^{number} is out of range$"):
        read_json(number.encode())
    assert read_json(b"1e308") == 1e308


def test_ids_without_a_schema_are_not_kept(tmp_path: Path) -> None:
    """Values without a frame may contain any number of ids."""
    (tmp_path / "7.json").write_text("{}")
    (tmp_path / "07.avsc").write_text("no schema")
    (tmp_path / "x.avsc").write_text("no schema")
    read = create_confluent_reader(SchemaSource(directory=tmp_path))
    assert read(b"\0" + (7).to_bytes(4, "big") + b"[1]") == [1]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "exists", pytest.fail)
        for schema_id in range(1000, 1100):
            with pytest.raises(ValueError, match=f"no schema {schema_id} in {tmp_path}"):
                read(b"\0" + schema_id.to_bytes(4, "big") + b"[1]")
