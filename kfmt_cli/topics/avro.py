"""Avro payloads: a bounds check, then decoding by fastavro.

The library trusts its input: a value nested in itself ends the process, and five bytes can declare
items without end; a few records that name each other twice are made of 2^40 empty values. Values of
a schema that allows any of these are therefore walked first, as the Avro specification defines
them, and refused beyond the budget.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from math import inf
from pathlib import Path
from typing import Any

from kfmt_cli.core.layout.varint import VarintError, decode, unzigzag
from kfmt_cli.errors import UsageError
from kfmt_cli.topics.budget import FREE_VALUES, MOST_NAMES, PayloadBudget

MOST_DECIMAL = 1 << 12  # bytes: the time to make one grows with their square
_FIXED = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINTS = frozenset({"int", "long"})
_SIZED = frozenset({"bytes", "string"})
_RECORDS = frozenset({"record", "error", "request"})


def avro_reader(path: Path, *, is_framed: bool = False) -> Callable[[bytes], Any]:
    """A function that reads values of the schema in a file, see `reader_of`; raises UsageError."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not an Avro schema: {error}") from error
    return reader_of(str(path), text, is_framed=is_framed)


def reader_of(
    name: str, text: str, references: Sequence[str] = (), *, is_framed: bool = False
) -> Callable[[bytes], Any]:
    """A function that reads values of a schema; raises UsageError.

    name: the schema's name, for messages. references: the schemas it refers to, each before those
    that refer to it. is_framed: values follow a registry's frame, where bytes alone have no length:
    they are all that follows. Source: `AbstractKafkaAvroDeserializer`.
    """
    try:
        import fastavro
    except ImportError:
        raise UsageError("reading Avro needs fastavro: pip install 'kfmt-cli[schema]'") from None
    names: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(json.loads(reference), named_schemas=names)
        parsed = fastavro.parse_schema(json.loads(text), named_schemas=names)
        n_values, n_text = _n_values(parsed, names, {}), len(text) + sum(map(len, references))
        is_large = n_values > FREE_VALUES or n_values * n_text > MOST_NAMES
        is_rest = is_framed and json.loads(text) in ("bytes", {"type": "bytes"})
    except Exception as error:  # the library may raise anything
        raise UsageError(f"{name}: not an Avro schema: {_words(error)}") from error

    if is_rest:
        return _plain

    def read(data: bytes) -> Any:
        budget = PayloadBudget(data)
        if is_large:
            _AvroBounds(names, data, budget).check(parsed)
        stream = BytesIO(data)
        try:
            value = fastavro.schemaless_reader(stream, parsed, None)
        except Exception as error:  # the library may raise anything
            raise ValueError(f"does not match the Avro schema: {error!r}") from error
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} trailing bytes after the Avro value")
        return _plain(value)

    return read


def _words(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error) or type(error).__name__


def _n_values(schema: Any, names: dict[str, Any], known: dict[str, float]) -> float:
    """The most values that a value of a schema is made of; infinite with arrays, maps, decimals,
    and records in themselves.

    known: the numbers of named schemas, infinite while one is counted.
    """
    if isinstance(schema, list):
        return 1 + max((_n_values(branch, names, known) for branch in schema), default=0)
    if isinstance(schema, str):
        if schema in names and schema not in known:
            known[schema] = inf
            known[schema] = _n_values(names[schema], names, known)
        return known.get(schema, 1)
    kind = schema["type"]
    if kind in ("array", "map") or _is_decimal(schema):
        return inf
    if kind not in _RECORDS:
        return 1 if isinstance(kind, str) else _n_values(kind, names, known)
    name = schema["name"]
    known[name] = inf
    known[name] = 1 + sum(_n_values(field["type"], names, known) for field in schema["fields"])
    return known[name]


def _is_decimal(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("logicalType") == "decimal"


class _AvroBounds:
    """Walks a value to check its bounds. names: the named schemas."""

    def __init__(self, names: dict[str, Any], data: bytes, budget: PayloadBudget) -> None:
        self._names = names
        self._data = data
        self._at = 0
        self._budget = budget

    def check(self, schema: Any, depth: int = 0) -> None:
        """Raise ValueError for a value that is truncated or beyond the limits."""
        self._budget.check_depth(depth)
        self._budget.spend()
        if isinstance(schema, list):
            branch = self._long()
            if not 0 <= branch < len(schema):
                raise ValueError(f"a union has no branch {branch}")
            self.check(schema[branch], depth + 1)
            return
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind in _FIXED:
            self._skip(_FIXED[kind])
        elif kind in _VARINTS:
            self._long()
        elif kind == "enum":
            symbols, number = schema["symbols"], self._long()
            self._budget.repeat(symbols[number] if 0 <= number < len(symbols) else "")
        elif kind in _SIZED or kind == "fixed":
            size = schema["size"] if kind == "fixed" else self._long()
            if size > MOST_DECIMAL and _is_decimal(schema):
                raise ValueError(f"has a decimal of {size} bytes, more than {MOST_DECIMAL}")
            self._skip(size)
        elif kind in _RECORDS:
            for field in schema["fields"]:
                self._budget.repeat(field["name"])
                self.check(field["type"], depth + 1)
        elif kind in ("array", "map"):
            self._blocks(schema, kind == "map", depth)
        else:
            self.check(self._names[kind] if isinstance(kind, str) else kind, depth + 1)

    def _blocks(self, schema: Any, is_map: bool, depth: int) -> None:
        """Walk the blocks of an array or a map; after a negative count comes the block's size."""
        inside = schema["values"] if is_map else schema["items"]
        while count := self._long():
            if count < 0:
                self._long()
                count = -count
            self._budget.check(count)
            for _ in range(count):
                if is_map:
                    self._skip(self._long())
                self.check(inside, depth + 1)

    def _long(self) -> int:
        try:
            raw, self._at = decode(self._data, self._at, len(self._data), 64)
        except VarintError as error:
            raise ValueError(str(error)) from error
        return unzigzag(raw)

    def _skip(self, n: int) -> None:
        if not 0 <= n <= len(self._data) - self._at:
            left = len(self._data) - self._at
            raise ValueError(f"{n} bytes declared at byte {self._at}, but only {left} left")
        self._at += n


def _plain(value: Any) -> Any:
    """An Avro value as JSON; bytes in hexadecimal."""
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
