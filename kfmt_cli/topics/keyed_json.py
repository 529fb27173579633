"""Topics whose keys identify a record as text, and whose values are JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from kfmt_cli.topics.decoder import DecodedPayload, Decoder
from kfmt_cli.topics.payloads import read_encodable_json

MAGIC_MEMBER = "magic"  # a version of the keys of a schema registry, which it does not compare


@dataclass(frozen=True, slots=True)
class KeyContent:
    """The content of a key."""

    record_type: str
    subject: dict[str, Any]
    """What the record is about, such as a connector and a task, by name."""


def parse_json_payload(data: bytes) -> Any:
    """Parse a JSON value, without the schema that some converters add; raises ValueError."""
    json_value = read_encodable_json(data)
    if isinstance(json_value, dict) and json_value.keys() == {"schema", "payload"}:
        return json_value["payload"]
    return json_value


@dataclass(frozen=True, slots=True)
class JsonDecoder(Decoder):
    """Decodes the records of a topic with text keys and JSON values."""

    parse_key: Callable[[bytes], KeyContent | None]
    """Returns the content of a key; None if it does not belong to the topic."""

    def logical_key(self, key: bytes) -> Hashable:
        """The parsed content: programs write the same JSON with its members in another order.

        Source: `org.apache.kafka.connect.storage.KafkaOffsetBackingStore`, connectorPartitions.
        """
        key_content = self.parse_key(key)
        if key_content is None:
            return key
        identifying_members = {
            name: member for name, member in key_content.subject.items() if name != MAGIC_MEMBER
        }
        return key_content.record_type, json.dumps(identifying_members, sort_keys=True)

    def decode_key(self, key: bytes) -> DecodedPayload | None:
        key_content = self.parse_key(key)
        return (
            None
            if key_content is None
            else DecodedPayload(
                {"name": key_content.record_type, "data": key_content.subject}, key_content.subject
            )
        )

    def decode_value(self, key: bytes | None, value: bytes | None) -> DecodedPayload | None:
        key_content = None if key is None else self.parse_key(key)
        if key_content is None:
            return None
        json_values = {"name": key_content.record_type, "data": None}
        if value is None:
            subject_text = ", ".join(
                f"{name} {value}" for name, value in key_content.subject.items()
            )
            return DecodedPayload(
                json_values
                | {
                    "deletes": f"{key_content.record_type}: {subject_text}"
                    if subject_text
                    else key_content.record_type
                }
            )
        try:
            decoded_members = parse_json_payload(value)
        except ValueError as error:
            error_note = f"not JSON: {error}"
            return DecodedPayload(json_values | {"note": error_note}, error=error_note)
        if decoded_members is not None and not isinstance(decoded_members, dict):
            error_note = "JSON, but not an object"
            return DecodedPayload(json_values | {"note": error_note}, error=error_note)
        return DecodedPayload(json_values | {"data": decoded_members}, decoded_members or {})
