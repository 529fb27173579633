"""Format strings for records, in kcat's style: which parts of a record go where in a line."""

from __future__ import annotations

import base64
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from kfmt_cli.core.json_text import json_text
from kfmt_cli.errors import UsageError
from kfmt_cli.render.style import safe


@dataclass(frozen=True, slots=True)
class Shown:
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


Write = Callable[[Shown], bytes]


def visible(shown: Shown) -> Shown:
    """A record safe for a terminal: control characters are escaped, except line ends."""
    return replace(
        shown,
        topic=safe(shown.topic),
        key=_visible(shown.key),
        value=_visible(shown.value),
        headers=[(_visible(name) or b"", _visible(value)) for name, value in shown.headers],
    )


def _visible(data: bytes | None) -> bytes | None:
    if data is None:
        return None
    lines = data.decode("utf-8", "backslashreplace").split("\n")
    return "\n".join("\t".join(map(safe, line.split("\t"))) for line in lines).encode()


TOKENS = {
    "s": "the value",
    "S": "value size in bytes, -1 for null",
    "R": "value size as a big-endian int32",
    "k": "the key",
    "K": "key size in bytes, -1 for null",
    "T": "timestamp in milliseconds, -1 if none",
    "h": "headers as NAME=VALUE, separated by commas",
    "t": "the topic",
    "p": "the partition",
    "o": "the offset",
    "%": "a percent sign",
}
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}


def writer(form: str, null: bytes) -> Write:
    """Compile a format into a function that writes a record; raises UsageError. null: written for
    null."""

    def of(name: str) -> Write:
        return _token(name, null)

    parts: list[Write | bytes] = []
    at = 0
    while at < len(form):
        char = form[at]
        following = form[at + 1 : at + 2]
        if char == "%":
            if following not in TOKENS or not following:
                raise UsageError(f"-f: unknown %{following}; choose from {' '.join(_names())}")
            parts.append(b"%" if following == "%" else of(following))
            at += 2
        elif char == "\\" and following == "x":
            try:
                parts.append(bytes([int(form[at + 2 : at + 4], 16)]))
            except ValueError:
                raise UsageError(
                    f"-f: {form[at : at + 4]!r} is not a byte escape such as \\x1f"
                ) from None
            at += 4
        elif char == "\\" and following in _ESCAPES:
            parts.append(_ESCAPES[following])
            at += 2
        else:
            parts.append(os.fsencode(char))
            at += 1
    return _joined(_merged(parts))


def kcat_json(shown: Shown) -> bytes:
    """A record as `kcat -J` writes it. Bytes that are not valid UTF-8 become base64, marked as
    such."""
    row: dict[str, object] = {
        "topic": shown.topic,
        "partition": shown.partition,
        "offset": shown.offset,
        "tstype": _TIMESTAMP_TYPES.get(shown.timestamp_type, "unknown"),
        "ts": shown.timestamp,
        "broker": -1,
    }
    if shown.headers:
        texts = [_text(part) for header in shown.headers for part in header]
        row["headers"] = [text for text, _ in texts]
        if any(encoding is not None for _, encoding in texts):
            row["headers_encoding"] = [encoding for _, encoding in texts]
    for name, data in (("key", shown.key), ("payload", shown.value)):
        row[name], encoding = _text(data)
        if encoding is not None:
            row[f"{name}_encoding"] = encoding
    return json_text(row).encode() + b"\n"


_TIMESTAMP_TYPES = {0: "create", 1: "logappend"}


def _text(data: bytes | None) -> tuple[str | None, str | None]:
    """Bytes as text, and the name of the encoding if they are not valid UTF-8."""
    if data is None:
        return None, None
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"


def _names() -> list[str]:
    return [f"%{token}" for token in TOKENS]


def _merged(parts: list[Write | bytes]) -> list[Write | bytes]:
    """Join adjacent constant parts."""
    found: list[Write | bytes] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, bytes) and isinstance(last, bytes):
            found[-1] = last + part
        else:
            found.append(part)
    return found


def _joined(parts: list[Write | bytes]) -> Write:
    def write(record: Shown) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record) for part in parts)

    return write


def _token(name: str, null: bytes) -> Write:
    def headers(shown: Shown) -> bytes:
        pairs = (key + b"=" + (null if value is None else value) for key, value in shown.headers)
        return b",".join(pairs)

    tokens: dict[str, Write] = {
        "s": lambda shown: null if shown.value is None else shown.value,
        "S": lambda shown: str(shown.value_size).encode(),
        "R": lambda shown: struct.pack(">i", shown.value_size),
        "k": lambda shown: null if shown.key is None else shown.key,
        "K": lambda shown: str(shown.key_size).encode(),
        "T": lambda shown: str(shown.timestamp).encode(),
        "h": headers,
        "t": lambda shown: shown.topic.encode(),
        "p": lambda shown: str(shown.partition).encode(),
        "o": lambda shown: str(shown.offset).encode(),
    }
    return tokens[name]
