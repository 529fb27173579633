"""Tagged fields: the last part of a message in a flexible version. Source: KIP-482."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.wire import Buffer, UVarint32, Value, WireError, left_words

UNKNOWN_TAGS = "unknown_tagged_fields"


@dataclass(frozen=True, slots=True)
class TaggedFields:
    """The last part of a flexible message: a count, then tag, size and bytes of each field."""

    known: Mapping[int, Field] = field(default_factory=dict)
    """The fields by tag. A missing field has no value; an unknown one is kept as bytes under
    `UNKNOWN_TAGS`."""

    def read(self, data: Buffer, at: int, end: int) -> tuple[dict[str, Value], int]:
        """The values by field name and the byte after them; raises WireError."""
        count, after = UVarint32.read(data, at, end)
        values: dict[str, Value] = {}
        unknown: dict[str, Value] = {}
        for _ in range(count):
            start = after
            tag, after = UVarint32.read(data, after, end)
            size, after = UVarint32.read(data, after, end)
            if size > end - after:
                words = f"tagged field of {size} bytes, but {left_words(end - after)}"
                raise WireError(words, start, "LENGTH_TOO_BIG")
            known = self.known.get(tag)
            if known is None:
                unknown[str(tag)] = bytes(data[after : after + size])
            else:
                values[known.name] = self._value(known, data, after, after + size)
            after += size
        if unknown:
            values[UNKNOWN_TAGS] = unknown
        return values, after

    @staticmethod
    def _value(known: Field, data: Buffer, at: int, end: int) -> Value:
        try:
            value, after = known.type.read(data, at, end)
        except WireError as error:
            raise error.below(known.name) from None
        if after != end:
            words = f"{end - at} bytes declared, {after - at} used"
            raise WireError(words, at, "FRAME_NOT_FILLED").below(known.name)
        return value

    def write(self, values: Mapping[str, Value]) -> bytes:
        """Encode the tagged fields among a message's values, in tag order."""
        unknown = values.get(UNKNOWN_TAGS) or {}
        assert isinstance(unknown, dict)
        parts = {int(tag): data for tag, data in unknown.items() if isinstance(data, bytes)}
        for tag, known in self.known.items():
            if known.name in values:
                parts[tag] = known.type.write(values[known.name])
        done = UVarint32.write(len(parts))
        for tag in sorted(parts):
            done += UVarint32.write(tag) + UVarint32.write(len(parts[tag])) + parts[tag]
        return done
