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
        count, next_position = UVarint32.read(data, position, end)
        values: dict[str, Value] = {}
        unknown_by_tag: dict[str, Value] = {}
        for _ in range(count):
            start = next_position
            tag, next_position = UVarint32.read(data, next_position, end)
            size, next_position = UVarint32.read(data, next_position, end)
            if size > end - next_position:
                message = (
                    f"tagged field of {size} bytes, but "
                    f"{format_remaining_bytes(end - next_position)}"
                )
                raise WireError(message, start, "LENGTH_TOO_BIG")
            definition = self.field_by_tag.get(tag)
            if definition is None:
                unknown_by_tag[str(tag)] = bytes(data[next_position : next_position + size])
            else:
                values[definition.name] = self._read_value(
                    definition, data, next_position, next_position + size
                )
            next_position += size
        if unknown_by_tag:
            values[UNKNOWN_TAGS] = unknown_by_tag
        return values, next_position

    @staticmethod
    def _read_value(definition: Field, data: Buffer, position: int, end: int) -> Value:
        try:
            value, next_position = definition.type.read(data, position, end)
        except WireError as error:
            raise error.prefix_path(definition.name) from None
        if next_position != end:
            message = f"{end - position} bytes declared, {next_position - position} used"
            raise WireError(message, position, "FRAME_NOT_FILLED").prefix_path(definition.name)
        return value

    def write(self, values: Mapping[str, Value]) -> bytes:
        """Encode the tagged fields among a message's values, in tag order."""
        unknown_by_tag = values.get(UNKNOWN_TAGS) or {}
        assert isinstance(unknown_by_tag, dict)
        encoded_by_tag = {
            int(tag): data for tag, data in unknown_by_tag.items() if isinstance(data, bytes)
        }
        for tag, definition in self.field_by_tag.items():
            if definition.name in values:
                encoded_by_tag[tag] = definition.type.write(values[definition.name])
        encoded = UVarint32.write(len(encoded_by_tag))
        for tag in sorted(encoded_by_tag):
            encoded += (
                UVarint32.write(tag)
                + UVarint32.write(len(encoded_by_tag[tag]))
                + encoded_by_tag[tag]
            )
        return encoded
