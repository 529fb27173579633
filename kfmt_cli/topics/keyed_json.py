"""Topics whose keys identify a record as text, and whose values are JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kfmt_cli.topics.decoder import DecodedPayload, Decoder
from kfmt_cli.topics.payloads import read_encodable_json


@dataclass(frozen=True, slots=True)
class KeyContent:
    """The content of a key."""

    record_type: str
    subject: dict[str, Any]
    """What the record is about, such as a connector and a task, by name."""


def parse_json_payload(data: bytes) -> Any:
    """Parse a JSON value, without the schema that some converters add; raises ValueError."""
    value = read_encodable_json(data)
    if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
        return value["payload"]
    return value


@dataclass(frozen=True, slots=True)
class JsonDecoder(Decoder):
    """Decodes the records of a topic with text keys and JSON values."""

    parse_key: Callable[[bytes], KeyContent | None]
    """Returns the content of a key; None if it does not belong to the topic."""

    def decode_key(self, key: bytes) -> DecodedPayload | None:
        content = self.parse_key(key)
        return (
            None
            if content is None
            else DecodedPayload(
                {"name": content.record_type, "data": content.subject}, content.subject
            )
        )

    def decode_value(self, key: bytes | None, value: bytes | None) -> DecodedPayload | None:
        content = None if key is None else self.parse_key(key)
        if content is None:
            return None
        values = {"name": content.record_type, "data": None}
        if value is None:
            subject_text = ", ".join(f"{name} {value}" for name, value in content.subject.items())
            return DecodedPayload(
                values
                | {
                    "deletes": f"{content.record_type}: {subject_text}"
                    if subject_text
                    else content.record_type
                }
            )
        try:
            data = parse_json_payload(value)
        except ValueError as error:
            message = f"not JSON: {error}"
            return DecodedPayload(values | {"note": message}, error=message)
        if data is not None and not isinstance(data, dict):
            message = "JSON, but not an object"
            return DecodedPayload(values | {"note": message}, error=message)
        return DecodedPayload(values | {"data": data}, data or {})
