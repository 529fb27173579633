"""Topics whose keys are text that says what a record is, and whose values are JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kfmt_cli.topics.decoder import Decoded, Decoder
from kfmt_cli.topics.payloads import read_json


@dataclass(frozen=True, slots=True)
class Said:
    """What a key says."""

    name: str
    """The kind of record."""
    data: dict[str, Any]
    """What the record is about."""


def json_payload(data: bytes) -> Any:
    """A JSON value, without the schema that some converters send along; raises ValueError."""
    value = read_json(data)
    if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
        return value["payload"]
    return value


@dataclass(frozen=True, slots=True)
class JsonDecoder(Decoder):
    """Decodes such a topic."""

    of_key: Callable[[bytes], Said | None]
    """What a key says, None for one that is not of the topic's."""

    def key(self, key: bytes) -> Decoded | None:
        said = self.of_key(key)
        return None if said is None else Decoded({"name": said.name, "data": said.data}, said.data)

    def value(self, key: bytes | None, value: bytes | None) -> Decoded | None:
        said = None if key is None else self.of_key(key)
        if said is None:
            return None
        values = {"name": said.name, "data": None}
        if value is None:
            about = ", ".join(f"{name} {value}" for name, value in said.data.items())
            return Decoded(values | {"deletes": f"{said.name}: {about}" if about else said.name})
        try:
            data = json_payload(value)
        except ValueError as error:
            words = f"not JSON: {error}"
            return Decoded(values | {"note": words}, fault=words)
        if data is not None and not isinstance(data, dict):
            words = "JSON, but not an object"
            return Decoded(values | {"note": words}, fault=words)
        return Decoded(values | {"data": data}, data or {})
