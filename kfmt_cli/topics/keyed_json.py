"""Topics whose keys identify a record in text, and whose values are JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kfmt_cli.topics.decoder import Decoded, Decoder
from kfmt_cli.topics.payloads import read_plain_json


@dataclass(frozen=True, slots=True)
class Said:
    """The content of a key."""

    name: str
    """The kind of record."""
    data: dict[str, Any]
    """The subject of the record."""


def json_payload(data: bytes) -> Any:
    """A JSON value, without the schema that some converters include; raises ValueError."""
    value = read_plain_json(data)
    if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
        return value["payload"]
    return value


@dataclass(frozen=True, slots=True)
class JsonDecoder(Decoder):
    """Decodes a topic with such keys and JSON values."""

    of_key: Callable[[bytes], Said | None]
    """Returns the content of a key, None if it does not belong to the topic."""

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
