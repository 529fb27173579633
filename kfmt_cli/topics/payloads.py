"""Formats that applications use for keys and values: a registry by name.

To add one, write a function from bytes to a value for JSON and add a line to `PAYLOAD_FORMATS`;
formats with schemas are in `schemas.py`. The function raises ValueError for bytes that are not in
its format.
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
from kfmt_cli.core.lazy import import_object
from kfmt_cli.topics.decoder import DecodedPayload, Decoder
from kfmt_cli.topics.payload_budget import MIN_VALUE_BUDGET, PayloadBudget

PayloadReader = Callable[[bytes], Any]
MAX_JSON_DEPTH = 200
# Strings may contain brackets and commas.
_JSON_TOKEN_REGEX = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{},]', re.DOTALL)


SubjectVersion = tuple[str, int]
CONTEXT_PREFIX = ":."  # begins a subject that has a context


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema from a registry."""

    type: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    references: tuple[SubjectVersion, ...] = ()
    """The schemas that it refers to directly."""


@dataclass(slots=True)
class SchemaRegistry:
    """The schemas of a registry, by id and by subject and version."""

    schema_by_id: dict[int, RegisteredSchema] = field(default_factory=dict)
    schema_by_subject_version: dict[SubjectVersion, RegisteredSchema] = field(default_factory=dict)

    def add_schema(
        self, schema_id: int, subject_version: SubjectVersion, schema: RegisteredSchema
    ) -> None:
        """Add a schema of the registry, or one that it has deleted."""
        self.schema_by_subject_version[subject_version] = schema
        # Ids belong to a context. That of subjects without one, the default, has priority.
        if subject_version[0].startswith(CONTEXT_PREFIX):
            self.schema_by_id.setdefault(schema_id, schema)
        else:
            self.schema_by_id[schema_id] = schema


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """The source of a format's schemas."""

    file: Path | None = None
    """A file with an Avro schema or Protobuf descriptors."""
    message_name: str = ""
    """The full name of a Protobuf message."""
    directory: Path | None = None
    """A directory of schemas, named by id."""
    registry: SchemaRegistry | None = None
    """The schemas from a registry's topic."""


@dataclass(frozen=True, slots=True)
class PayloadFormat:
    """A format of keys or values."""

    name: str
    doc: str
    """Its help text."""
    read_payload: PayloadReader | None = None
    reader_target: str = ""
    """For a format with schemas, the function that creates its reader from a `SchemaSource`, as
    `module:name`."""

    def create_reader(self, schema_source: SchemaSource) -> PayloadReader:
        """A function that reads the format; raises UsageError if the schema it needs is missing."""
        if self.read_payload is not None:
            return self.read_payload
        reader_factory: Callable[[SchemaSource], PayloadReader] = import_object(self.reader_target)
        return reader_factory(schema_source)


def _create_fixed_size_reader(struct_format: str, type_name: str) -> PayloadReader:
    n_bytes = struct.calcsize(struct_format)

    def read_number(data: bytes) -> Any:
        if len(data) != n_bytes:
            raise ValueError(f"{len(data)} bytes instead of the {n_bytes} of type {type_name}")
        return struct.unpack(struct_format, data)[0]

    return read_number


def _read_uuid(data: bytes) -> str:
    if len(data) != 16:
        raise ValueError(f"{len(data)} bytes instead of the 16 of a UUID")
    return str(uuid.UUID(bytes=data))


def read_json(data: bytes) -> Any:
    """Parse a JSON value; raises ValueError, also if it exceeds the budget."""
    if len(data) > MIN_VALUE_BUDGET or data.count(b"[") + data.count(b"{") > MAX_JSON_DEPTH:
        _require_json_limits(data)
    return json.loads(data.decode(), parse_constant=_reject_json_constant, parse_float=_parse_float)


def read_encodable_json(data: bytes) -> Any:
    """Parse a JSON value, with lone surrogates escaped so that its text can be encoded; raises
    ValueError."""
    json_value = read_json(data)
    return _escape_surrogates(json_value) if _SURROGATE_REGEX.search(data) else json_value


def _escape_surrogates(json_value: Any) -> Any:
    """A value with the lone surrogates in its text escaped."""
    if isinstance(json_value, str):
        return json_value.encode("utf-8", "backslashreplace").decode()
    if isinstance(json_value, dict):
        return {
            _escape_surrogates(member_name): _escape_surrogates(member)
            for member_name, member in json_value.items()
        }
    return (
        [_escape_surrogates(member) for member in json_value]
        if isinstance(json_value, list)
        else json_value
    )


def _parse_float(text: str) -> float:
    parsed_float = float(text)
    if math.isinf(parsed_float):
        raise ValueError(f"{text[:20]} is out of range")
    return parsed_float


def _require_json_limits(data: bytes) -> None:
    """Raise ValueError for JSON that is too large, or nested too deeply."""
    budget = PayloadBudget(data)
    n_opening_brackets = data.count(b"[") + data.count(b"{")
    if (
        n_opening_brackets <= MAX_JSON_DEPTH
        and n_opening_brackets + data.count(b",") <= MIN_VALUE_BUDGET
    ):
        return
    nesting_depth = 0
    for token_match in _JSON_TOKEN_REGEX.finditer(data):
        token = token_match[0]
        if token in b"[{":
            budget.spend_values()
            nesting_depth += 1
            if nesting_depth > MAX_JSON_DEPTH:
                raise ValueError(f"it is nested more than {MAX_JSON_DEPTH} levels deep")
        elif token == b",":
            budget.spend_values()
        elif token in b"]}":
            nesting_depth -= 1


def _reject_json_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not valid JSON")


_SURROGATE_REGEX = re.compile(rb"\\u[dD][89a-fA-F]")
_SCHEMAS_MODULE = "kfmt_cli.topics.schemas"
PAYLOAD_FORMATS = {
    payload.name: payload
    for payload in (
        PayloadFormat("text", "UTF-8", bytes.decode),
        PayloadFormat("json", "JSON", read_json),
        PayloadFormat("hex", "the bytes in hexadecimal", bytes.hex),
        PayloadFormat("int", "4 bytes, big-endian", _create_fixed_size_reader(">i", "int")),
        PayloadFormat("long", "8 bytes, big-endian", _create_fixed_size_reader(">q", "long")),
        PayloadFormat("double", "8 bytes, IEEE 754", _create_fixed_size_reader(">d", "double")),
        PayloadFormat("uuid", "16 bytes", _read_uuid),
        PayloadFormat(
            "avro", "Avro, by a schema file", reader_target=f"{_SCHEMAS_MODULE}:create_avro_reader"
        ),
        PayloadFormat(
            "protobuf",
            "Protobuf, by a descriptor file",
            reader_target=f"{_SCHEMAS_MODULE}:create_protobuf_reader",
        ),
        PayloadFormat(
            "confluent",
            "a schema registry's framing",
            reader_target=f"{_SCHEMAS_MODULE}:create_confluent_reader",
        ),
    )
}


def format_decoded_value(value: Any) -> str:
    """A decoded value as text: strings unchanged, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json_text(value)


@dataclass(frozen=True, slots=True)
class PayloadDeclaration:
    """The declared format of a key or value, in a form that can be pickled."""

    format_name: str
    """A key of `PAYLOAD_FORMATS`."""
    schema_source: SchemaSource = field(default_factory=SchemaSource)

    @property
    def name_and_reader(self) -> tuple[str, PayloadReader]:
        """The name of the format, and its reader; raises UsageError, InputError."""
        return self.format_name, PAYLOAD_FORMATS[self.format_name].create_reader(self.schema_source)


@dataclass(frozen=True)
class PayloadDeclarations:
    """The declared formats of keys and values, in a form that can be pickled.

    Each process creates the readers only once, because that parses schemas.
    """

    key: PayloadDeclaration | None = None
    value: PayloadDeclaration | None = None

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None

    def __reduce__(
        self,
    ) -> tuple[
        type[PayloadDeclarations], tuple[PayloadDeclaration | None, PayloadDeclaration | None]
    ]:
        return PayloadDeclarations, (self.key, self.value)

    @cached_property
    def readers(self) -> tuple[tuple[str, PayloadReader] | None, tuple[str, PayloadReader] | None]:
        """The readers of keys and of values, each with the name of its format; None without a
        declared format. Raises UsageError, InputError."""
        key_reader = None if self.key is None else self.key.name_and_reader
        return key_reader, None if self.value is None else self.value.name_and_reader

    @property
    def decoder(self) -> Decoder | None:
        """The decoder of keys and values; None without a declared format. Raises UsageError,
        InputError."""
        return PayloadDecoder(*self.readers) if self else None


NO_DECLARATIONS = PayloadDeclarations()


@dataclass(frozen=True, slots=True)
class PayloadDecoder(Decoder):
    """Decodes keys and values in the declared formats."""

    key_reader: tuple[str, PayloadReader] | None = None
    value_reader: tuple[str, PayloadReader] | None = None

    def decode_key(self, key: bytes) -> DecodedPayload | None:
        return _decode_payload(self.key_reader, key)

    def decode_value(self, key: bytes | None, value: bytes | None) -> DecodedPayload | None:
        del key
        return None if value is None else _decode_payload(self.value_reader, value)


def _decode_payload(
    name_and_reader: tuple[str, PayloadReader] | None, data: bytes
) -> DecodedPayload | None:
    if name_and_reader is None:
        return None
    format_name, read_payload = name_and_reader
    try:
        return DecodedPayload({"format": format_name, "value": read_payload(data)})
    except ValueError as error:
        return DecodedPayload({"format": format_name, "note": f"cannot be decoded: {error}"})
