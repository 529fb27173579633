"""Wire types that Kafka's protocol messages add to the ones in logs: text, uuids, flags, floats and
lists.

Types with a length have two forms: classic, with a fixed-size length, and compact, in flexible
versions, whose length is stored plus one as an unsigned varint (0 is null).
Source: KIP-482, `org.apache.kafka.common.protocol.types.Type`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kfmt_cli.core.layout.wire import (
    COMPACT,
    Buffer,
    Bytes,
    Int8,
    Int16,
    Int32,
    Integer,
    Length,
    UVarint32,
    Value,
    WireError,
    WireType,
    need,
    read_each,
    read_length,
)
from kfmt_cli.core.uuids import uuid_bytes, uuid_text

if TYPE_CHECKING:
    from kfmt_cli.core.layout.layout import Layout


@dataclass(frozen=True, slots=True)
class Packed:
    """A flag, of which 0 is false and anything else true, or an IEEE 754 floating-point number.
    code: the format that `struct` has for it."""

    name: str
    size: int
    code: str

    def read(self, data: Buffer, at: int, end: int) -> tuple[Value, int]:
        need(self.size, at, end)
        (value,) = struct.unpack_from(self.code, data, at)
        return value, at + self.size

    def write(self, value: Value) -> bytes:
        return struct.pack(self.code, value)


@dataclass(frozen=True, slots=True)
class Uuid:
    """16 bytes; a value is Kafka's text form: URL-safe base64 without padding."""

    name: str = "uuid"
    size: int = 16

    def read(self, data: Buffer, at: int, end: int) -> tuple[str, int]:
        need(self.size, at, end)
        return uuid_text(bytes(data[at : at + self.size])), at + self.size

    def write(self, value: Value) -> bytes:
        assert isinstance(value, str)
        return uuid_bytes(value)


@dataclass(frozen=True, slots=True)
class Text:
    """A length and that many bytes of UTF-8; a length of -1 is null."""

    length: Length
    nullable: bool = False
    size: None = None

    @property
    def name(self) -> str:
        return f"{'nullable ' if self.nullable else ''}string, length as {self.length.name}"

    def read(self, data: Buffer, at: int, end: int) -> tuple[str | None, int]:
        length, start = read_length(self.length, -int(self.nullable), data, at, end)
        if length < 0:
            return None, start
        try:
            return bytes(data[start : start + length]).decode(), start + length
        except UnicodeDecodeError as error:
            raise WireError(f"not UTF-8: {error.reason}", start + error.start, "NOT_TEXT") from None

    def write(self, value: Value) -> bytes:
        if value is None:
            return self.length.write(-1)
        assert isinstance(value, str)
        data = value.encode()
        return self.length.write(len(data)) + data


@dataclass(frozen=True, slots=True)
class List:
    """A count and that many values of a type; a count of -1 is null."""

    count: Length
    of: WireType
    nullable: bool = False
    size: None = None

    @property
    def name(self) -> str:
        return f"{'nullable ' if self.nullable else ''}list of {self.of.name}"

    def read(self, data: Buffer, at: int, end: int) -> tuple[list[Value] | None, int]:
        count, after = read_length(self.count, -int(self.nullable), data, at, end)
        if count < 0:
            return None, after
        return read_each(self.of.read, count, data, after, end)

    def write(self, value: Value) -> bytes:
        if value is None:
            return self.count.write(-1)
        assert isinstance(value, list)
        return self.count.write(len(value)) + b"".join(self.of.write(element) for element in value)


@dataclass(frozen=True, slots=True)
class Struct:
    """A structure as a value in another."""

    of: Layout
    nullable: bool = False
    """A presence marker precedes it: in tagged fields an unsigned varint, 0 for null, elsewhere a
    byte, -1 for null (KIP-893)."""
    in_tag: bool = False
    size: None = None

    @property
    def name(self) -> str:
        return f"{'nullable ' if self.nullable else ''}{self.of.name}"

    def read_presence(self, data: Buffer, at: int, end: int) -> tuple[bool, int]:
        """Whether a nullable structure is present, and the byte after its marker."""
        if self.in_tag:
            count, after = UVarint32.read(data, at, end)
            return count > 0, after
        sign, after = Int8.read(data, at, end)
        return sign >= 0, after

    def read(self, data: Buffer, at: int, end: int) -> tuple[dict[str, Value] | None, int]:
        if self.nullable:
            present, at = self.read_presence(data, at, end)
            if not present:
                return None, at
        return self.of.read_values(data, at, end)

    def write(self, value: Value) -> bytes:
        if value is None:
            return UVarint32.write(0) if self.in_tag else Int8.write(-1)
        assert isinstance(value, dict)
        return (Int8.write(1) if self.nullable else b"") + self.of.write(value)


class Unlaid:
    """A type as a definition names it, before a version decides its encoding."""

    __slots__ = ()
    size = None

    def read(self, data: Buffer, at: int, end: int) -> tuple[Value, int]:
        """Raise TypeError: `core/layout/versions.py` turns it into a readable type."""
        raise TypeError(f"{self!r} has no version, bytes {at} to {end} of {len(data)} are not read")

    def write(self, value: Value) -> bytes:
        """Raise TypeError, as `read` does."""
        raise TypeError(f"{self!r} has no version, {value!r} is not written")


@dataclass(frozen=True, slots=True)
class Stated(Unlaid):
    """Text or bytes."""

    name: str

    def laid_down(self, flexible: bool, nullable: bool) -> WireType:
        """The wire type in a version."""
        if self is String:
            return Text(COMPACT if flexible else Int16, nullable)
        return Bytes(COMPACT if flexible else Int32, nullable)


@dataclass(frozen=True, slots=True)
class ListOf(Unlaid):
    """A list of another type, or of structures."""

    of: WireType | Layout

    @property
    def name(self) -> str:
        return f"list of {self.of.name}"


String = Stated("string")
Blob = Stated("bytes")
Bool = Packed("boolean", 1, ">?")
Float64 = Packed("float64", 8, ">d")
UuidType = Uuid()
UInt16 = Integer("uint16", 2, signed=False)
