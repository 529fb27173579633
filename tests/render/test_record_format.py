"""The text that cat writes for a record: by a format, and like kcat -J."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kfmt_cli.commands.cat.record_format import OutputRecord, compile_format, format_kcat_json
from kfmt_cli.errors import UsageError

HEADERS = [(b"a", b"1"), (b"b", None), (b"", b"")]


def output_record(**changes: Any) -> OutputRecord:
    values: dict[str, Any] = {
        "topic": "t",
        "partition": 3,
        "offset": 17,
        "timestamp": 5,
        "key": b"k",
        "value": b"v\xff",
        "key_size": 1,
        "value_size": 2,
        "headers": HEADERS,
        "timestamp_type": 0,
    }
    return OutputRecord(**values | changes)


@pytest.mark.parametrize(
    ("format_text", "expected"),
    [
        *(("", b""), ("plain é", "plain é".encode()), ("%%", b"%"), ("100%%!", b"100%!")),
        *(("%t-%p@%o", b"t-3@17"), ("%k %K", b"k 1"), ("%s|%S", b"v\xff|2"), ("%T", b"5")),
        *(("%R%s", b"\0\0\0\2v\xff"), ("%h", b"a=1,b=NULL,="), ("%h;", b"a=1,b=NULL,=;")),
        *(
            (r"\n\t\r\\\0", b"\n\t\r\\\0"),
            (r"a\x1fb\x00", b"a\x1fb\0"),
            (r"\q", rb"\q"),
            ("\\", b"\\"),
        ),
        (r"%o\n%o\n", b"17\n17\n"),
    ],
)
def test_a_format_is_written(format_text: str, expected: bytes) -> None:
    assert compile_format(format_text, b"NULL")(output_record()) == expected


def test_null_is_written_as_asked() -> None:
    null_record = output_record(key=None, value=None, key_size=-1, value_size=-1, headers=[])
    assert compile_format("%k|%s|%K|%S|%h|", b"-")(null_record) == b"-|-|-1|-1||"
    assert compile_format("%R", b"-")(null_record) == b"\xff\xff\xff\xff"
    assert compile_format("%k", b"")(null_record) == b""


@pytest.mark.parametrize(
    ("format_text", "message"),
    [
        ("%", "unknown %"),
        ("a%x", "unknown %x"),
        (r"\xzz", r"'\\xzz' is not a byte"),
        (r"\x", "is not"),
    ],
)
def test_a_format_that_means_nothing_is_refused(format_text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        compile_format(format_text, b"")
    assert message in str(raised.value)


COMMON_FIELDS = {
    "topic": "t",
    "partition": 3,
    "offset": 17,
    "tstype": "create",
    "ts": 5,
    "broker": -1,
}


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        (
            {"headers": [], "value": b"v"},
            {**COMMON_FIELDS, "key": "k", "payload": "v"},
        ),
        (
            {},
            {
                **COMMON_FIELDS,
                "headers": ["a", "1", "b", None, "", ""],
                "key": "k",
                "payload": "dv8=",
                "payload_encoding": "base64",
            },
        ),
        (
            {"headers": [(b"\xff", b"x")], "key": b"\xfe", "value": None, "timestamp_type": 1},
            {
                **COMMON_FIELDS,
                "tstype": "logappend",
                "headers": ["/w==", "x"],
                "headers_encoding": ["base64", None],
                "key": "/g==",
                "key_encoding": "base64",
                "payload": None,
            },
        ),
        (
            {"headers": [], "key": None, "value": b"", "timestamp_type": -1},
            {**COMMON_FIELDS, "tstype": "unknown", "key": None, "payload": ""},
        ),
    ],
)
def test_a_record_as_kcat_writes_it(changes: dict[str, Any], row: dict[str, Any]) -> None:
    line = format_kcat_json(output_record(**changes))
    assert line.endswith(b"\n")
    assert json.loads(line) == row
    assert list(json.loads(line))[:6] == list(COMMON_FIELDS)
