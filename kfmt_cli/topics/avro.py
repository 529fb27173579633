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
from kfmt_cli.core.regular_files import read_regular_file
from kfmt_cli.errors import UsageError
from kfmt_cli.topics.payload_budget import MAX_NAME_CHARACTERS, MIN_VALUE_BUDGET, PayloadBudget

MAX_DECIMAL_BYTES = 1 << 12  # decoding takes quadratic time
_SIZE_BY_FIXED_TYPE = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINT_TYPES = frozenset({"int", "long"})
_LENGTH_PREFIXED_TYPES = frozenset({"bytes", "string"})
_RECORD_TYPES = frozenset({"record", "error", "request"})


def avro_file_reader(path: Path, *, is_framed: bool = False) -> Callable[[bytes], Any]:
    """A function that reads values of the schema in a file; see `avro_schema_reader`. Raises
    UsageError."""
    try:
        schema_text = read_regular_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not an Avro schema: {error}") from error
    return avro_schema_reader(str(path), schema_text, is_framed=is_framed)


def avro_schema_reader(
    schema_name: str,
    schema_text: str,
    referenced_schemas: Sequence[str] = (),
    *,
    is_framed: bool = False,
) -> Callable[[bytes], Any]:
    """A function that reads values of a schema, and raises ValueError for other bytes; raises
    UsageError if the schema is invalid.

    schema_name: the schema's name, for messages. referenced_schemas: the schemas it refers to, each
    before the ones that refer to it. is_framed: whether values follow a registry's frame, in which
    a value of the schema "bytes" has no length and is the rest of the payload. Source:
    `AbstractKafkaAvroDeserializer`.
    """
    try:
        import fastavro
    except ImportError:
        raise UsageError("reading Avro needs fastavro: pip install 'kfmt-cli[schema]'") from None
    schema_by_name: dict[str, Any] = {}
    try:
        for referenced_schema in referenced_schemas:
            fastavro.parse_schema(json.loads(referenced_schema), named_schemas=schema_by_name)
        parsed_schema = fastavro.parse_schema(json.loads(schema_text), named_schemas=schema_by_name)
        max_value_count = _compute_max_value_count(parsed_schema, schema_by_name, {})
        n_schema_characters = len(schema_text) + sum(map(len, referenced_schemas))
        needs_bounds_check = (
            max_value_count > MIN_VALUE_BUDGET
            or max_value_count * n_schema_characters > MAX_NAME_CHARACTERS
        )
        has_raw_values = is_framed and json.loads(schema_text) in ("bytes", {"type": "bytes"})
    except Exception as error:  # the library may raise anything
        raise UsageError(f"{schema_name}: not an Avro schema: {_format_error(error)}") from error

    if has_raw_values:
        return _to_json_value

    def read_value(data: bytes) -> Any:
        budget = PayloadBudget(data)
        if needs_bounds_check:
            _AvroBoundsCheck(schema_by_name, data, budget).check_value(parsed_schema)
        value_stream = BytesIO(data)
        try:
            value = fastavro.schemaless_reader(value_stream, parsed_schema, None)
        except Exception as error:  # the library may raise anything
            raise ValueError(f"does not match the Avro schema: {error!r}") from error
        if value_stream.tell() != len(data):
            raise ValueError(
                f"{len(data) - value_stream.tell()} trailing bytes after the Avro value"
            )
        return _to_json_value(value)

    return read_value


def _format_error(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error) or type(error).__name__


def _compute_max_value_count(
    schema: Any, schema_by_name: dict[str, Any], count_by_name: dict[str, float]
) -> float:
    """The maximum number of values in a value of a schema; infinite for arrays, maps, decimals and
    recursive records.

    count_by_name: the counts of named schemas, infinite while one is being counted.
    """
    if isinstance(schema, list):
        return 1 + max(
            (
                _compute_max_value_count(union_branch, schema_by_name, count_by_name)
                for union_branch in schema
            ),
            default=0,
        )
    if isinstance(schema, str):
        if schema in schema_by_name and schema not in count_by_name:
            count_by_name[schema] = inf
            count_by_name[schema] = _compute_max_value_count(
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
            else _compute_max_value_count(avro_type, schema_by_name, count_by_name)
        )
    record_name = schema["name"]
    count_by_name[record_name] = inf
    count_by_name[record_name] = 1 + sum(
        _compute_max_value_count(field["type"], schema_by_name, count_by_name)
        for field in schema["fields"]
    )
    return count_by_name[record_name]


def _is_decimal(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("logicalType") == "decimal"


class _AvroBoundsCheck:
    """Walks a value to check its bounds. names: the named schemas, by name."""

    def __init__(self, schema_by_name: dict[str, Any], data: bytes, budget: PayloadBudget) -> None:
        self._schema_by_name = schema_by_name
        self._data = data
        self._position = 0
        self._budget = budget

    def check_value(self, schema: Any, depth: int = 0) -> None:
        """Walk the next value; raises ValueError if it is truncated or exceeds the budget."""
        self._budget.require_valid_depth(depth)
        self._budget.spend_values()
        if isinstance(schema, list):
            branch_index = self._read_long()
            if not 0 <= branch_index < len(schema):
                raise ValueError(f"a union has no branch {branch_index}")
            self.check_value(schema[branch_index], depth + 1)
            return
        avro_type = schema if isinstance(schema, str) else schema["type"]
        if avro_type in _SIZE_BY_FIXED_TYPE:
            self._skip_bytes(_SIZE_BY_FIXED_TYPE[avro_type])
        elif avro_type in _VARINT_TYPES:
            self._read_long()
        elif avro_type == "enum":
            symbols, symbol_index = schema["symbols"], self._read_long()
            self._budget.spend_name(
                symbols[symbol_index] if 0 <= symbol_index < len(symbols) else ""
            )
        elif avro_type in _LENGTH_PREFIXED_TYPES or avro_type == "fixed":
            value_bytes = schema["size"] if avro_type == "fixed" else self._read_long()
            if value_bytes > MAX_DECIMAL_BYTES and _is_decimal(schema):
                raise ValueError(
                    f"has a decimal of {value_bytes} bytes, more than {MAX_DECIMAL_BYTES}"
                )
            self._skip_bytes(value_bytes)
        elif avro_type in _RECORD_TYPES:
            for field in schema["fields"]:
                self._budget.spend_name(field["name"])
                self.check_value(field["type"], depth + 1)
        elif avro_type in ("array", "map"):
            self._check_collection_blocks(schema, avro_type == "map", depth)
        else:
            self.check_value(
                self._schema_by_name[avro_type] if isinstance(avro_type, str) else avro_type,
                depth + 1,
            )

    def _check_collection_blocks(self, schema: Any, is_map: bool, depth: int) -> None:
        """Walk the blocks of an array or map; a negative count is followed by the block's size."""
        element_schema = schema["values"] if is_map else schema["items"]
        while n_elements := self._read_long():
            if n_elements < 0:
                self._read_long()
                n_elements = -n_elements
            self._budget.require_value_budget(n_elements)
            for _ in range(n_elements):
                if is_map:
                    self._skip_bytes(self._read_long())
                self.check_value(element_schema, depth + 1)

    def _read_long(self) -> int:
        try:
            encoded_long, self._position = decode_uvarint(
                self._data, self._position, len(self._data), 64
            )
        except VarintError as error:
            raise ValueError(str(error)) from error
        return zigzag_decode(encoded_long)

    def _skip_bytes(self, n_bytes: int) -> None:
        if not 0 <= n_bytes <= len(self._data) - self._position:
            n_remaining_bytes = len(self._data) - self._position
            raise ValueError(
                f"{n_bytes} bytes declared at byte {self._position}, but only "
                f"{n_remaining_bytes} left"
            )
        self._position += n_bytes


def _to_json_value(avro_value: Any) -> Any:
    """Convert an Avro value for JSON, with bytes in hexadecimal."""
    if isinstance(avro_value, dict):
        return {key: _to_json_value(member) for key, member in avro_value.items()}
    if isinstance(avro_value, list | tuple):
        return [_to_json_value(element) for element in avro_value]
    if isinstance(avro_value, bytes):
        return avro_value.hex()
    if avro_value is None or isinstance(avro_value, bool | int | float | str):
        return avro_value
    return str(avro_value)
