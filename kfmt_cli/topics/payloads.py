"""Formats that applications use for keys and values: a registry by name.

To add one, write a function from bytes to a plain value and add a line to `FORMATS`; those with
schemas are in `schemas.py`. The function raises ValueError for bytes that are not in its format.
"""

from __future__ import annotations

import json
import math
import re
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.lazy import load
from kfmt_cli.topics.budget import FREE_VALUES, PayloadBudget
from kfmt_cli.topics.decoder import Decoded, Decoder

Read = Callable[[bytes], Any]
MOST_DEPTH = 200
# Strings may contain brackets and commas.
_MARKS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{},]', re.DOTALL)


Version = tuple[str, int]  # a subject and its version
CONTEXT = ":."  # before the name of a context, in a subject


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema from a registry."""

    type: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    references: tuple[Version, ...] = ()
    """The schemas that it refers to."""


@dataclass(slots=True)
class SchemaRegistry:
    """The schemas of a registry, by id and by subject and version."""

    by_id: dict[int, Registered] = field(default_factory=dict)
    by_version: dict[Version, Registered] = field(default_factory=dict)

    def add(self, number: int, version: Version, schema: Registered) -> None:
        """Add a schema that the registry has or had."""
        self.by_version[version] = schema
        if version[0].startswith(CONTEXT):  # an id is of its context; others are the default one
            self.by_id.setdefault(number, schema)
        else:
            self.by_id[number] = schema


@dataclass(frozen=True, slots=True)
class Schema:
    """The source of schemas."""

    file: Path | None = None
    """A file with an Avro schema or Protobuf descriptors."""
    message: str = ""
    """The full name of a Protobuf message."""
    folder: Path | None = None
    """A folder of schemas, named by id."""
    registry: SchemaRegistry | None = None
    """The schemas from a registry's topic."""


@dataclass(frozen=True, slots=True)
class PayloadFormat:
    """A format."""

    name: str
    doc: str
    """Its help text."""
    read: Read | None = None
    target: str = ""
    """For a format with schemas, the function that makes its reader from a `Schema`."""

    def reader(self, schema: Schema) -> Read:
        """A function that reads the format; raises UsageError if the schema it needs is missing."""
        if self.read is not None:
            return self.read
        make: Callable[[Schema], Read] = load(self.target)
        return make(schema)


def _fixed(form: str, name: str) -> Read:
    size = struct.calcsize(form)

    def read(data: bytes) -> Any:
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes instead of the {size} of type {name}")
        return struct.unpack(form, data)[0]

    return read


def _uuid(data: bytes) -> str:
    if len(data) != 16:
        raise ValueError(f"{len(data)} bytes instead of the 16 of a UUID")
    return str(uuid.UUID(bytes=data))


def read_json(data: bytes) -> Any:
    """A JSON value; raises ValueError, also if it is beyond the budget."""
    if len(data) > FREE_VALUES or data.count(b"[") + data.count(b"{") > MOST_DEPTH:
        _check_shape(data)
    return json.loads(data.decode(), parse_constant=_no_constant, parse_float=_float)


def read_plain_json(data: bytes) -> Any:
    """The same, with text that can be encoded: half a surrogate pair is its escape."""
    value = read_json(data)
    return _as_text(value) if _SURROGATE.search(data) else value


def _as_text(value: Any) -> Any:
    """The same value with text that can be encoded."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_as_text(name): _as_text(item) for name, item in value.items()}
    return [_as_text(item) for item in value] if isinstance(value, list) else value


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is out of range")
    return number


def _check_shape(data: bytes) -> None:
    """Raise ValueError for JSON that is too large, or nested too deeply."""
    budget = PayloadBudget(data)
    opened = data.count(b"[") + data.count(b"{")
    if opened <= MOST_DEPTH and opened + data.count(b",") <= FREE_VALUES:
        return
    depth = 0
    for found in _MARKS.finditer(data):
        mark = found[0]
        if mark in b"[{":
            budget.spend()
            depth += 1
            if depth > MOST_DEPTH:
                raise ValueError(f"it is nested more than {MOST_DEPTH} levels deep")
        elif mark == b",":
            budget.spend()
        elif mark in b"]}":
            depth -= 1


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not valid JSON")


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_SCHEMAS = "kfmt_cli.topics.schemas"
FORMATS = {
    payload.name: payload
    for payload in (
        PayloadFormat("text", "UTF-8", bytes.decode),
        PayloadFormat("json", "JSON", read_json),
        PayloadFormat("hex", "the bytes in hexadecimal", bytes.hex),
        PayloadFormat("int", "4 bytes, big-endian", _fixed(">i", "int")),
        PayloadFormat("long", "8 bytes, big-endian", _fixed(">q", "long")),
        PayloadFormat("double", "8 bytes, IEEE 754", _fixed(">d", "double")),
        PayloadFormat("uuid", "16 bytes", _uuid),
        PayloadFormat("avro", "Avro, by a schema file", target=f"{_SCHEMAS}:avro"),
        PayloadFormat("protobuf", "Protobuf, by a descriptor file", target=f"{_SCHEMAS}:protobuf"),
        PayloadFormat("confluent", "a schema registry's framing", target=f"{_SCHEMAS}:confluent"),
    )
}


def text_of(value: Any) -> str:
    """A decoded value on one line: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json_text(value)


@dataclass(frozen=True, slots=True)
class Payload:
    """The declared format of a key or value, in a form that can be pickled."""

    format: str
    """A name of `FORMATS`."""
    schema: Schema = field(default_factory=Schema)

    @property
    def reader(self) -> tuple[str, Read]:
        """The name of the format, and its reader; raises UsageError, InputError."""
        return self.format, FORMATS[self.format].reader(self.schema)


@dataclass(frozen=True)
class Payloads:
    """The declared formats of keys and values, in a form that can be pickled.

    Each process creates the readers once, as that parses schemas.
    """

    key: Payload | None = None
    value: Payload | None = None

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None

    def __reduce__(self) -> tuple[type[Payloads], tuple[Payload | None, Payload | None]]:
        return Payloads, (self.key, self.value)

    @cached_property
    def readers(self) -> tuple[tuple[str, Read] | None, tuple[str, Read] | None]:
        """The readers of keys and of values, each with the name of its format; None if none was
        declared. Raises UsageError, InputError."""
        of_key = None if self.key is None else self.key.reader
        return of_key, None if self.value is None else self.value.reader

    @property
    def decoder(self) -> Decoder | None:
        """The decoder of both; None if no format was declared. Raises UsageError, InputError."""
        return PayloadDecoder(*self.readers) if self else None


NOTHING_SAID = Payloads()


@dataclass(frozen=True, slots=True)
class PayloadDecoder(Decoder):
    """Decodes keys and values in the declared formats."""

    key_format: tuple[str, Read] | None = None
    value_format: tuple[str, Read] | None = None

    def key(self, key: bytes) -> Decoded | None:
        return _decoded(self.key_format, key)

    def value(self, key: bytes | None, value: bytes | None) -> Decoded | None:
        del key
        return None if value is None else _decoded(self.value_format, value)


def _decoded(format_: tuple[str, Read] | None, data: bytes) -> Decoded | None:
    if format_ is None:
        return None
    name, read = format_
    try:
        return Decoded({"format": name, "value": read(data)})
    except ValueError as error:
        return Decoded({"format": name, "note": f"cannot be decoded: {error}"})
