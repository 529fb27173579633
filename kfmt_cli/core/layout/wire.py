"""Wire types: how one value is encoded in bytes, for the slow reader, the writer and the kernel.

All numbers are big-endian two's complement, as in Kafka's protocol guide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kfmt_cli.core.layout import varint
from kfmt_cli.core.native.kernel import OPS

if TYPE_CHECKING:
    from kfmt_cli.core.layout.layout import Layout

Buffer = bytes | memoryview
Value = int | float | str | bytes | list["Value"] | dict[str, "Value"] | None


class WireError(ValueError):
    """Bytes that are not a value of the type. at: the byte. status: the kernel's name for it."""

    def __init__(self, reason: str, at: int, status: str) -> None:
        super().__init__(reason)
        self.at = at
        self.status = status
        self.path: tuple[str, ...] = ()

    def below(self, name: str) -> WireError:
        """This error, with `name` added to the front of its path."""
        self.path = (name, *self.path)
        return self


class WireType(Protocol):
    """The interface of a Field's type.

    name: for people. size: bytes of a value, None if it varies.
    """

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int | None: ...

    def read(self, data: Buffer, at: int, end: int) -> tuple[Value, int]:
        """The value at `at` and the byte after it; raises WireError."""

    def write(self, value: Value) -> bytes:
        """The inverse of `read`."""


def left_words(left: int) -> str:
    """Text for the bytes left when a length or a count needs more."""
    return (
        f"only {left} byte{' is' if left == 1 else 's are'} left" if left else "no bytes are left"
    )


def left_over_words(left: int) -> str:
    """Text for bytes that follow the end."""
    return f"{left} trailing byte{'s' * (left != 1)}"


def need(size: int, at: int, end: int) -> None:
    """Raise WireError unless `size` bytes are left."""
    if size > end - at:
        needed = f"{size} byte{'s' * (size != 1)} needed"
        raise WireError(f"{needed}, {end - at} left", at, "EXHAUSTED")


def read_each(
    read: Callable[[Buffer, int, int], tuple[Value, int]],
    count: int,
    data: Buffer,
    at: int,
    end: int,
) -> tuple[list[Value], int]:
    """Read `count` consecutive values; returns them and the byte after. Raises WireError."""
    values: list[Value] = []
    for i in range(count):
        try:
            value, at = read(data, at, end)
        except WireError as error:
            raise error.below(str(i)) from None
        values.append(value)
    return values, at


@dataclass(frozen=True, slots=True)
class Integer:
    """A fixed-size integer."""

    name: str
    size: int
    signed: bool = True
    columns: int = 1

    @property
    def instruction(self) -> tuple[int, int]:
        return OPS["INT" if self.signed else "UINT"], self.size

    @property
    def dtype(self) -> str:
        """NumPy's name for it."""
        return f">{'i' if self.signed else 'u'}{self.size}"

    def read(self, data: Buffer, at: int, end: int) -> tuple[int, int]:
        need(self.size, at, end)
        return int.from_bytes(data[at : at + self.size], "big", signed=self.signed), at + self.size

    def write(self, value: Value) -> bytes:
        assert isinstance(value, int)
        return value.to_bytes(self.size, "big", signed=self.signed)


@dataclass(frozen=True, slots=True)
class Varint:
    """A variable-size integer of 32 or 64 bits, ZigZag-encoded when signed."""

    name: str
    bits: int
    signed: bool = True
    size: None = None
    columns: int = 1

    @property
    def instruction(self) -> tuple[int, int]:
        return OPS["ZIGZAG" if self.signed else "UVARINT"], self.bits

    def read(self, data: Buffer, at: int, end: int) -> tuple[int, int]:
        try:
            raw, after = varint.decode(data, at, end, self.bits)
        except varint.VarintError as error:
            raise WireError(str(error), at, error.status) from None
        return varint.unzigzag(raw) if self.signed else raw, after

    def write(self, value: Value) -> bytes:
        assert isinstance(value, int)
        return varint.encode(varint.zigzag(value, self.bits) if self.signed else value)


@dataclass(frozen=True, slots=True)
class CompactLength:
    """A length stored plus one as an unsigned varint; 0 means -1, which is null."""

    name: str = "compact length"
    size: None = None

    def read(self, data: Buffer, at: int, end: int) -> tuple[int, int]:
        """The length and the byte after it; raises WireError."""
        raw, after = UVarint32.read(data, at, end)
        return raw - 1, after

    def write(self, value: int) -> bytes:
        """The inverse of `read`."""
        return UVarint32.write(value + 1)


Length = Integer | Varint | CompactLength
LOWEST = -(1 << 63)  # of all lengths


def read_length(length: Length, least: int, data: Buffer, at: int, end: int) -> tuple[int, int]:
    """A length of at least `least`, checked against the bytes left, and its end; a negative one is
    null. Raises WireError."""
    value, start = length.read(data, at, end)
    if value < least:
        raise WireError(f"length {value}, but null is not allowed here", at, "LENGTH_NEGATIVE")
    if value > end - start:
        raise WireError(f"length {value}, but {left_words(end - start)}", at, "LENGTH_TOO_BIG")
    return value, start


@dataclass(frozen=True, slots=True)
class Bytes:
    """A length and that many bytes; a negative length is null."""

    length: Length
    nullable: bool = True
    size: None = None
    columns: int = 2

    @property
    def name(self) -> str:
        return f"{'nullable ' if self.nullable else ''}bytes, length as {self.length.name}"

    @property
    def instruction(self) -> tuple[int, int]:
        if isinstance(self.length, Varint):
            return OPS["ZIGZAG_BYTES"], int(self.nullable)
        if isinstance(self.length, Integer):
            return OPS["BYTES"], self.length.size
        raise TypeError("the bulk kernel runs no bytes with a compact length")

    def read(self, data: Buffer, at: int, end: int) -> tuple[bytes | None, int]:
        least = LOWEST if self.nullable else 0
        length, start = read_length(self.length, least, data, at, end)
        if length < 0:
            return None, start
        return bytes(data[start : start + length]), start + length

    def write(self, value: Value) -> bytes:
        if value is None:
            return self.length.write(-1)
        assert isinstance(value, bytes)
        return self.length.write(len(value)) + value


@dataclass(frozen=True, slots=True)
class Array:
    """A zigzag count and that many rows of a structure."""

    count: Varint
    of: Layout
    size: None = None
    columns: int = 2

    @property
    def name(self) -> str:
        return f"array of {self.of.name}, count as {self.count.name}"

    @property
    def instruction(self) -> tuple[int, int]:
        return OPS["ZIGZAG_REPEAT"], len(self.of.fields)

    def read(self, data: Buffer, at: int, end: int) -> tuple[list[Value], int]:
        count, after = self.count.read(data, at, end)
        if count < 0:
            raise WireError(f"negative count {count}", at, "LENGTH_NEGATIVE")
        if count > end - after:
            raise WireError(f"count {count}, but {left_words(end - after)}", at, "COUNT_TOO_BIG")
        return read_each(self.of.read_values, count, data, after, end)

    def write(self, value: Value) -> bytes:
        assert isinstance(value, list)
        parts = [self.count.write(len(value))]
        for row in value:
            assert isinstance(row, dict)
            parts.append(self.of.write(row))
        return b"".join(parts)


KernelType = Integer | Varint | Bytes | Array
"""The types that the kernel runs. `instruction` is its (operation, argument) for one, `columns` how
many columns it fills."""

Int8 = Integer("int8", 1)
Int16 = Integer("int16", 2)
Int32 = Integer("int32", 4)
Int64 = Integer("int64", 8)
UInt32 = Integer("uint32", 4, signed=False)
ZigZag32 = Varint("varint", 32)
ZigZag64 = Varint("varlong", 64)
UVarint32 = Varint("unsigned varint", 32, signed=False)
COMPACT = CompactLength()
