"""Tagged fields: the last part of a message in a flexible version. Source: KIP-482."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.wire_types import (
    Buffer,
    UVarint32,
    Value,
    WireError,
    format_remaining_bytes,
)

UNKNOWN_TAGS = "unknown_tagged_fields"


@dataclass(frozen=True, slots=True)
class TaggedFields:
    """The last part of a flexible message: a count, then the tag, size and bytes of each field."""

    field_by_tag: Mapping[int, Field] = field(default_factory=dict)
    """The known fields. A missing one gets no value; the bytes of unknown ones are stored by tag
    under `UNKNOWN_TAGS`."""

    def read(self, data: Buffer, position: int, end: int) -> tuple[dict[str, Value], int]:
        """Read the values by field name; also returns the position after them. Raises WireError."""
        n_fields, next_position = UVarint32.read(data, position, end)
        value_by_name: dict[str, Value] = {}
        unknown_bytes_by_tag: dict[str, Value] = {}
        for _ in range(n_fields):
            field_start = next_position
            tag, next_position = UVarint32.read(data, next_position, end)
            value_size, next_position = UVarint32.read(data, next_position, end)
            if value_size > end - next_position:
                message = (
                    f"tagged field of {value_size} bytes, but "
                    f"{format_remaining_bytes(end - next_position)}"
                )
                raise WireError(message, field_start, "LENGTH_TOO_BIG")
            definition = self.field_by_tag.get(tag)
            if definition is None:
                unknown_bytes_by_tag[str(tag)] = bytes(
                    data[next_position : next_position + value_size]
                )
            else:
                value_by_name[definition.name] = self._read_value(
                    definition, data, next_position, next_position + value_size
                )
            next_position += value_size
        if unknown_bytes_by_tag:
            value_by_name[UNKNOWN_TAGS] = unknown_bytes_by_tag
        return value_by_name, next_position

    @staticmethod
    def _read_value(definition: Field, data: Buffer, position: int, end: int) -> Value:
        try:
            value, next_position = definition.type.read(data, position, end)
        except WireError as error:
            raise error.prepend_field(definition.name) from None
        if next_position != end:
            message = f"{end - position} bytes declared, {next_position - position} used"
            raise WireError(message, position, "FRAME_NOT_FILLED").prepend_field(definition.name)
        return value

    def encode_fields(self, value_by_name: Mapping[str, Value]) -> bytes:
        """Encode the tagged fields among a message's values, in tag order."""
        unknown_bytes_by_tag = value_by_name.get(UNKNOWN_TAGS) or {}
        assert isinstance(unknown_bytes_by_tag, dict)
        encoded_by_tag = {
            int(tag): field_bytes
            for tag, field_bytes in unknown_bytes_by_tag.items()
            if isinstance(field_bytes, bytes)
        }
        for tag, definition in self.field_by_tag.items():
            if definition.name in value_by_name:
                encoded_by_tag[tag] = definition.type.encode(value_by_name[definition.name])
        encoded = UVarint32.encode(len(encoded_by_tag))
        for tag in sorted(encoded_by_tag):
            encoded += (
                UVarint32.encode(tag)
                + UVarint32.encode(len(encoded_by_tag[tag]))
                + encoded_by_tag[tag]
            )
        return encoded
