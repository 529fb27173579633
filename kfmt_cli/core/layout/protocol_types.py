"""Wire types that protocol messages have in addition to logs: text, UUIDs, booleans, floats, lists.

Types with a length have two forms: classic, with a fixed-size length, and compact, in flexible
versions, with a length that is stored plus one as an unsigned varint (0 is null).
Source: KIP-482, `org.apache.kafka.common.protocol.types.Type`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kfmt_cli.core.layout.wire_types import (
    COMPACT,
    Buffer,
    BytesWireType,
    Int8,
    Int16,
    Int32,
    IntegerWireType,
    LengthType,
    UVarint32,
    Value,
    WireError,
    WireType,
    read_consecutive_values,
    read_length,
    require_remaining_bytes,
)
from kfmt_cli.core.uuids import format_uuid, parse_uuid

if TYPE_CHECKING:
    from kfmt_cli.core.layout.layout import Layout


@dataclass(frozen=True, slots=True)
class BoolOrFloatWireType:
    """A boolean (0 is false, any other byte true) or an IEEE 754 floating-point number.

    struct_format: its format in the module `struct`.
    """

    name: str
    size: int
    struct_format: str

    def read(self, data: Buffer, position: int, end: int) -> tuple[Value, int]:
        require_remaining_bytes(self.size, position, end)
        (value,) = struct.unpack_from(self.struct_format, data, position)
        return value, position + self.size

    def encode(self, value: Value) -> bytes:
        return struct.pack(self.struct_format, value)


@dataclass(frozen=True, slots=True)
class UuidWireType:
    """16 bytes, whose value is Kafka's text form: URL-safe base64 without padding."""

    name: str = "uuid"
    size: int = 16

    def read(self, data: Buffer, position: int, end: int) -> tuple[str, int]:
        require_remaining_bytes(self.size, position, end)
        return format_uuid(bytes(data[position : position + self.size])), position + self.size

    def encode(self, value: Value) -> bytes:
        assert isinstance(value, str)
        if len(value) == 36:  # with hyphens
            import uuid

            return uuid.UUID(value).bytes
        return parse_uuid(value)


@dataclass(frozen=True, slots=True)
class TextWireType:
    """A length and that many bytes of UTF-8; a length of -1 is null."""

    length_type: LengthType
    nullable: bool = False
    size: None = None

    @property
    def name(self) -> str:
        return f"{'nullable ' if self.nullable else ''}string, length as {self.length_type.name}"

    def read(self, data: Buffer, position: int, end: int) -> tuple[str | None, int]:
        length, text_start = read_length(self.length_type, -int(self.nullable), data, position, end)
        if length < 0:
            return None, text_start
        try:
            return bytes(data[text_start : text_start + length]).decode(), text_start + length
        except UnicodeDecodeError as error:
            raise WireError(
                f"not UTF-8: {error.reason}", text_start + error.start, "NOT_TEXT"
            ) from None

    def encode(self, value: Value) -> bytes:
        if value is None:
            return self.length_type.encode(-1)
        assert isinstance(value, str)
        encoded_text = value.encode()
        return self.length_type.encode(len(encoded_text)) + encoded_text


@dataclass(frozen=True, slots=True)
class ListWireType:
    """A count and that many values of a type; a count of -1 is null."""

    count_type: LengthType
    element_type: WireType
    nullable: bool = False
    size: None = None

    @property
    def name(self) -> str:
        return f"{'nullable ' if self.nullable else ''}list of {self.element_type.name}"

    def read(self, data: Buffer, position: int, end: int) -> tuple[list[Value] | None, int]:
        count, elements_start = read_length(
            self.count_type, -int(self.nullable), data, position, end
        )
        if count < 0:
            return None, elements_start
        return read_consecutive_values(self.element_type.read, count, data, elements_start, end)

    def encode(self, value: Value) -> bytes:
        if value is None:
            return self.count_type.encode(-1)
        assert isinstance(value, list)
        return self.count_type.encode(len(value)) + b"".join(
            self.element_type.encode(element) for element in value
        )


@dataclass(frozen=True, slots=True)
class StructWireType:
    """A structure inside another."""

    layout: Layout
    nullable: bool = False
    """Whether a presence marker precedes it: in tagged fields an unsigned varint, 0 for null,
    elsewhere a byte, -1 for null (KIP-893)."""
    is_tagged: bool = False
    size: None = None

    @property
    def name(self) -> str:
        return f"{'nullable ' if self.nullable else ''}{self.layout.name}"

    def read_presence(self, data: Buffer, position: int, end: int) -> tuple[bool, int]:
        """Whether a nullable structure is present, and the byte after its marker."""
        if self.is_tagged:
            varint_marker, next_position = UVarint32.read(data, position, end)
            return varint_marker > 0, next_position
        byte_marker, next_position = Int8.read(data, position, end)
        return byte_marker >= 0, next_position

    def read(self, data: Buffer, position: int, end: int) -> tuple[dict[str, Value] | None, int]:
        if self.nullable:
            is_present, position = self.read_presence(data, position, end)
            if not is_present:
                return None, position
        return self.layout.read_values(data, position, end)

    def encode(self, value: Value) -> bytes:
        if value is None:
            return UVarint32.encode(0) if self.is_tagged else Int8.encode(-1)
        assert isinstance(value, dict)
        return (Int8.encode(1) if self.nullable else b"") + self.layout.encode_row(value)


class DeclaredType:
    """A type as a definition names it, before a version decides its encoding."""

    __slots__ = ()
    size = None

    def read(self, data: Buffer, position: int, end: int) -> tuple[Value, int]:
        """Raise TypeError: `core/layout/versions.py` must first resolve it to a wire type."""
        raise TypeError(
            f"{self!r} has no version, bytes {position} to {end} of {len(data)} are not read"
        )

    def encode(self, value: Value) -> bytes:
        """Raise TypeError, as `read` does."""
        raise TypeError(f"{self!r} has no version, {value!r} is not written")


@dataclass(frozen=True, slots=True)
class DeclaredLengthType(DeclaredType):
    """Declares text or bytes."""

    name: str

    def to_wire_type(self, is_flexible: bool, is_nullable: bool) -> WireType:
        """The wire type in a version, which is flexible or not."""
        if self is String:
            return TextWireType(COMPACT if is_flexible else Int16, is_nullable)
        return BytesWireType(COMPACT if is_flexible else Int32, is_nullable)


@dataclass(frozen=True, slots=True)
class DeclaredListType(DeclaredType):
    """Declares a list of another type, or of structures."""

    element_type: WireType | Layout

    @property
    def name(self) -> str:
        return f"list of {self.element_type.name}"


String = DeclaredLengthType("string")
DeclaredBytes = DeclaredLengthType("bytes")
Bool = BoolOrFloatWireType("boolean", 1, ">?")
Float64 = BoolOrFloatWireType("float64", 8, ">d")
UuidType = UuidWireType()
UInt16 = IntegerWireType("uint16", 2, signed=False)
