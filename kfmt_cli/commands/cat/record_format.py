"""Format strings for records, in kcat's style: which parts of a record go where in a line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from struct import pack

from kfmt_cli.core.json_text import json_text
from kfmt_cli.errors import UsageError
from kfmt_cli.render.style import escape_unprintable
from kfmt_cli.rows.columnar_rows import text_and_encoding


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A record to write."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    """The key as bytes, None for null."""
    value: bytes | None
    """The value as bytes, None for null."""
    key_size: int
    value_size: int
    headers: list[tuple[bytes, bytes | None]]
    timestamp_type: int = 0
    """0 for CreateTime, 1 for LogAppendTime, others for none."""


RecordFormatter = Callable[[OutputRecord], bytes]


def escape_record(record: OutputRecord) -> OutputRecord:
    """A record safe for a terminal: control characters are escaped, except line ends."""
    return replace(
        record,
        topic=escape_unprintable(record.topic),
        key=_escape_payload(record.key),
        value=_escape_payload(record.value),
        headers=[
            (_escape_payload(name) or b"", _escape_payload(value)) for name, value in record.headers
        ],
    )


def _escape_payload(payload: bytes | None) -> bytes | None:
    if payload is None:
        return None
    lines = payload.decode("utf-8", "backslashreplace").split("\n")
    return "\n".join(
        "\t".join(map(escape_unprintable, line.split("\t"))) for line in lines
    ).encode()


def _format_headers(record: OutputRecord, null_bytes: bytes) -> bytes:
    pairs = (key + b"=" + (null_bytes if value is None else value) for key, value in record.headers)
    return b",".join(pairs)


# The description of each token, and its bytes for a record.
FORMAT_TOKENS: dict[str, tuple[str, Callable[[OutputRecord, bytes], bytes]]] = {
    "s": ("the value", lambda record, null: null if record.value is None else record.value),
    "S": ("value size in bytes, -1 for null", lambda record, _: b"%d" % record.value_size),
    "R": ("value size as a big-endian int32", lambda record, _: pack(">i", record.value_size)),
    "k": ("the key", lambda record, null: null if record.key is None else record.key),
    "K": ("key size in bytes, -1 for null", lambda record, _: b"%d" % record.key_size),
    "T": ("timestamp in milliseconds, -1 if none", lambda record, _: b"%d" % record.timestamp),
    "h": ("headers as NAME=VALUE, separated by commas", _format_headers),
    "t": ("the topic", lambda record, _: record.topic.encode()),
    "p": ("the partition", lambda record, _: b"%d" % record.partition),
    "o": ("the offset", lambda record, _: b"%d" % record.offset),
    "%": ("a percent sign", lambda _record, _null: b"%"),
}
_BYTES_BY_ESCAPE = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}
_FORMAT_PART = re.compile(
    r"%(?P<token>.?)|\\x(?P<byte>.{0,2})|\\(?P<escape>[nrt\\0])|(?P<words>[^%\\]+|.)", re.DOTALL
)


def compile_format(format_string: str, null_bytes: bytes) -> RecordFormatter:
    """Compile a format string into a function that formats a record; raises UsageError. null_bytes:
    the bytes to write for null."""
    formatters: list[Callable[[OutputRecord, bytes], bytes] | bytes] = []
    for match in _FORMAT_PART.finditer(format_string):
        group_name = match.lastgroup or ""
        part_text = match[group_name]
        if group_name == "token":
            if part_text not in FORMAT_TOKENS:
                choices = " ".join(f"%{token}" for token in FORMAT_TOKENS)
                raise UsageError(f"-f: unknown %{part_text}; choose from {choices}")
            formatters.append(FORMAT_TOKENS[part_text][1])
        elif group_name == "byte":
            try:
                formatters.append(bytes([int(part_text, 16)]))
            except ValueError:
                raise UsageError(f"-f: {match[0]!r} is not a byte escape such as \\x1f") from None
        else:
            formatters.append(
                _BYTES_BY_ESCAPE[part_text] if group_name == "escape" else os.fsencode(part_text)
            )

    def format_record(record: OutputRecord) -> bytes:
        return b"".join(
            formatter if isinstance(formatter, bytes) else formatter(record, null_bytes)
            for formatter in formatters
        )

    return format_record


def format_kcat_json(record: OutputRecord) -> bytes:
    """A record as `kcat -J` writes it. Bytes that are not valid UTF-8 become base64, marked as
    such."""
    row: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "tstype": _TIMESTAMP_TYPES.get(record.timestamp_type, "unknown"),
        "ts": record.timestamp,
        "broker": -1,
    }
    if record.headers:
        encoded_headers = [_encode_payload(data) for header in record.headers for data in header]
        row["headers"] = [text for text, _ in encoded_headers]
        if any(encoding is not None for _, encoding in encoded_headers):
            row["headers_encoding"] = [encoding for _, encoding in encoded_headers]
    for member_name, payload in (("key", record.key), ("payload", record.value)):
        row[member_name], encoding = _encode_payload(payload)
        if encoding is not None:
            row[f"{member_name}_encoding"] = encoding
    return json_text(row).encode() + b"\n"


_TIMESTAMP_TYPES = {0: "create", 1: "logappend"}


def _encode_payload(payload: bytes | None) -> tuple[str | None, str | None]:
    """Bytes as text, and the name of the encoding if they are not valid UTF-8."""
    text, encoding = (None, None) if payload is None else text_and_encoding(payload, "auto")
    return text, encoding or None
