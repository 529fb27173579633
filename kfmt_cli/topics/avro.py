"""Avro payloads: a bounds check, then decoding by fastavro.

The library trusts its input. A value nested in itself crashes the process, five bytes can declare
endless items, and a few records that refer to each other twice consist of 2^40 empty values.
Therefore, values of a schema that allows any of these are first walked, as the Avro specification
defines them, and rejected if they exceed the budget.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from math import inf
from pathlib import Path
from typing import Any

from kfmt_cli.core.layout.varint import VarintError, decode_uvarint, zigzag_decode
from kfmt_cli.errors import UsageError
from kfmt_cli.topics.payload_budget import MAX_NAME_CHARACTERS, MIN_VALUE_BUDGET, PayloadBudget

MAX_DECIMAL_BYTES = 1 << 12  # decoding takes quadratic time
_FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINT_TYPES = frozenset({"int", "long"})
_LENGTH_PREFIXED_TYPES = frozenset({"bytes", "string"})
_RECORD_TYPES = frozenset({"record", "error", "request"})


def avro_file_reader(path: Path, *, is_framed: bool = False) -> Callable[[bytes], Any]:
    """A function that reads values of the schema in a file; see `avro_schema_reader`. Raises
    UsageError."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not an Avro schema: {error}") from error
    return avro_schema_reader(str(path), text, is_framed=is_framed)


def avro_schema_reader(
    name: str, text: str, references: Sequence[str] = (), *, is_framed: bool = False
) -> Callable[[bytes], Any]:
    """A function that reads values of a schema, and raises ValueError for other bytes; raises
    UsageError if the schema is invalid.

    name: the schema's name, for messages. references: the schemas it refers to, each before the
    ones that refer to it. is_framed: whether values follow a registry's frame, in which a value of
    the schema "bytes" has no length and is the rest of the payload. Source:
    `AbstractKafkaAvroDeserializer`.
    """
    try:
        import fastavro
    except ImportError:
        raise UsageError("reading Avro needs fastavro: pip install 'kfmt-cli[schema]'") from None
    schema_by_name: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(json.loads(reference), named_schemas=schema_by_name)
        parsed_schema = fastavro.parse_schema(json.loads(text), named_schemas=schema_by_name)
        max_value_count = _max_value_count(parsed_schema, schema_by_name, {})
        n_characters = len(text) + sum(map(len, references))
        needs_bounds_check = (
            max_value_count > MIN_VALUE_BUDGET
            or max_value_count * n_characters > MAX_NAME_CHARACTERS
        )
        is_raw_bytes = is_framed and json.loads(text) in ("bytes", {"type": "bytes"})
    except Exception as error:  # the library may raise anything
        raise UsageError(f"{name}: not an Avro schema: {_error_text(error)}") from error

    if is_raw_bytes:
        return _to_json_value

    def read(data: bytes) -> Any:
        budget = PayloadBudget(data)
        if needs_bounds_check:
            _AvroBoundsCheck(schema_by_name, data, budget).check(parsed_schema)
        stream = BytesIO(data)
        try:
            value = fastavro.schemaless_reader(stream, parsed_schema, None)
        except Exception as error:  # the library may raise anything
            raise ValueError(f"does not match the Avro schema: {error!r}") from error
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} trailing bytes after the Avro value")
        return _to_json_value(value)

    return read


def _error_text(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error) or type(error).__name__


def _max_value_count(
    schema: Any, schema_by_name: dict[str, Any], count_by_name: dict[str, float]
) -> float:
    """The maximum number of values in a value of a schema; infinite for arrays, maps, decimals and
    recursive records.

    count_by_name: the counts of named schemas, infinite while one is being counted.
    """
    if isinstance(schema, list):
        return 1 + max(
            (_max_value_count(branch, schema_by_name, count_by_name) for branch in schema),
            default=0,
        )
    if isinstance(schema, str):
        if schema in schema_by_name and schema not in count_by_name:
            count_by_name[schema] = inf
            count_by_name[schema] = _max_value_count(
                schema_by_name[schema], schema_by_name, count_by_name
            )
        return count_by_name.get(schema, 1)
    avro_type = schema["type"]
    if avro_type in ("array", "map") or _is_decimal(schema):
        return inf
    if avro_type not in _RECORD_TYPES:
        return (
            1
            if isinstance(avro_type, str)
            else _max_value_count(avro_type, schema_by_name, count_by_name)
        )
    name = schema["name"]
    count_by_name[name] = inf
    count_by_name[name] = 1 + sum(
        _max_value_count(field["type"], schema_by_name, count_by_name) for field in schema["fields"]
    )
    return count_by_name[name]


def _is_decimal(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("logicalType") == "decimal"


class _AvroBoundsCheck:
    """Walks a value to check its bounds. names: the named schemas, by name."""

    def __init__(self, schema_by_name: dict[str, Any], data: bytes, budget: PayloadBudget) -> None:
        self._schema_by_name = schema_by_name
        self._data = data
        self._position = 0
        self._budget = budget

    def check(self, schema: Any, depth: int = 0) -> None:
        """Walk the next value; raises ValueError if it is truncated or exceeds the budget."""
        self._budget.check_depth(depth)
        self._budget.spend_values()
        if isinstance(schema, list):
            branch_index = self._read_long()
            if not 0 <= branch_index < len(schema):
                raise ValueError(f"a union has no branch {branch_index}")
            self.check(schema[branch_index], depth + 1)
            return
        avro_type = schema if isinstance(schema, str) else schema["type"]
        if avro_type in _FIXED_SIZES:
            self._skip(_FIXED_SIZES[avro_type])
        elif avro_type in _VARINT_TYPES:
            self._read_long()
        elif avro_type == "enum":
            symbols, symbol_index = schema["symbols"], self._read_long()
            self._budget.spend_name(
                symbols[symbol_index] if 0 <= symbol_index < len(symbols) else ""
            )
        elif avro_type in _LENGTH_PREFIXED_TYPES or avro_type == "fixed":
            size = schema["size"] if avro_type == "fixed" else self._read_long()
            if size > MAX_DECIMAL_BYTES and _is_decimal(schema):
                raise ValueError(f"has a decimal of {size} bytes, more than {MAX_DECIMAL_BYTES}")
            self._skip(size)
        elif avro_type in _RECORD_TYPES:
            for field in schema["fields"]:
                self._budget.spend_name(field["name"])
                self.check(field["type"], depth + 1)
        elif avro_type in ("array", "map"):
            self._check_blocks(schema, avro_type == "map", depth)
        else:
            self.check(
                self._schema_by_name[avro_type] if isinstance(avro_type, str) else avro_type,
                depth + 1,
            )

    def _check_blocks(self, schema: Any, is_map: bool, depth: int) -> None:
        """Walk the blocks of an array or map; a negative count is followed by the block's size."""
        element_schema = schema["values"] if is_map else schema["items"]
        while count := self._read_long():
            if count < 0:
                self._read_long()
                count = -count
            self._budget.check_values(count)
            for _ in range(count):
                if is_map:
                    self._skip(self._read_long())
                self.check(element_schema, depth + 1)

    def _read_long(self) -> int:
        try:
            raw, self._position = decode_uvarint(self._data, self._position, len(self._data), 64)
        except VarintError as error:
            raise ValueError(str(error)) from error
        return zigzag_decode(raw)

    def _skip(self, n_bytes: int) -> None:
        if not 0 <= n_bytes <= len(self._data) - self._position:
            remaining = len(self._data) - self._position
            raise ValueError(
                f"{n_bytes} bytes declared at byte {self._position}, but only {remaining} left"
            )
        self._position += n_bytes


def _to_json_value(value: Any) -> Any:
    """Convert an Avro value for JSON, with bytes in hexadecimal."""
    if isinstance(value, dict):
        return {key: _to_json_value(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(element) for element in value]
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
