"""Format strings for records, in kcat's style: which parts of a record go where in a line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from struct import pack

from kfmt_cli.core.json_text import json_text
from kfmt_cli.errors import UsageError
from kfmt_cli.render.style import safe
from kfmt_cli.rows.section import as_text


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


def _headers(shown: Shown, null: bytes) -> bytes:
    pairs = (key + b"=" + (null if value is None else value) for key, value in shown.headers)
    return b",".join(pairs)


# What each token stands for, in words and as bytes.
TOKENS: dict[str, tuple[str, Callable[[Shown, bytes], bytes]]] = {
    "s": ("the value", lambda shown, null: null if shown.value is None else shown.value),
    "S": ("value size in bytes, -1 for null", lambda shown, _: b"%d" % shown.value_size),
    "R": ("value size as a big-endian int32", lambda shown, _: pack(">i", shown.value_size)),
    "k": ("the key", lambda shown, null: null if shown.key is None else shown.key),
    "K": ("key size in bytes, -1 for null", lambda shown, _: b"%d" % shown.key_size),
    "T": ("timestamp in milliseconds, -1 if none", lambda shown, _: b"%d" % shown.timestamp),
    "h": ("headers as NAME=VALUE, separated by commas", _headers),
    "t": ("the topic", lambda shown, _: shown.topic.encode()),
    "p": ("the partition", lambda shown, _: b"%d" % shown.partition),
    "o": ("the offset", lambda shown, _: b"%d" % shown.offset),
    "%": ("a percent sign", lambda _shown, _null: b"%"),
}
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}
_PART = re.compile(
    r"%(?P<token>.?)|\\x(?P<byte>.{0,2})|\\(?P<escape>[nrt\\0])|(?P<words>[^%\\]+|.)", re.DOTALL
)


def writer(form: str, null: bytes) -> Write:
    """Compile a format into a function that writes a record; raises UsageError. null: written for
    null."""
    parts: list[Callable[[Shown, bytes], bytes] | bytes] = []
    for part in _PART.finditer(form):
        kind = part.lastgroup or ""
        words = part[kind]
        if kind == "token":
            if words not in TOKENS:
                names = " ".join(f"%{token}" for token in TOKENS)
                raise UsageError(f"-f: unknown %{words}; choose from {names}")
            parts.append(TOKENS[words][1])
        elif kind == "byte":
            try:
                parts.append(bytes([int(words, 16)]))
            except ValueError:
                raise UsageError(f"-f: {part[0]!r} is not a byte escape such as \\x1f") from None
        else:
            parts.append(_ESCAPES[words] if kind == "escape" else os.fsencode(words))

    def write(record: Shown) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record, null) for part in parts)

    return write


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
    text, encoding = (None, None) if data is None else as_text(data, "auto")
    return text, encoding or None
