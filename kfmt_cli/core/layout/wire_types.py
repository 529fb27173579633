"""Wire types: the encoding of a value, for the slow reader, the writer and the kernel.

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
    """Bytes that are not a value of the type.

    position: the byte, in the buffer. status: the kernel's name for the error. field_path: the
    names of the fields that contain the value, outermost first.
    """

    def __init__(self, reason: str, position: int, status: str) -> None:
        super().__init__(reason)
        self.position = position
        self.status = status
        self.field_path: tuple[str, ...] = ()

    def prepend_field(self, field_name: str) -> WireError:
        """Prepend a name to the path, and return this error."""
        self.field_path = (field_name, *self.field_path)
        return self


class WireType(Protocol):
    """The interface of a Field's type.

    name: text for messages and docs. size: bytes of a value; None if they vary.
    """

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int | None: ...

    def read(self, data: Buffer, position: int, end: int) -> tuple[Value, int]:
        """The value at byte `position`, and the position after it; raises WireError."""

    def encode(self, value: Value) -> bytes:
        """The inverse of `read`."""


def format_remaining_bytes(n_remaining: int) -> str:
    """Text for how many bytes are left, if a length or a count needs more."""
    return (
        f"only {n_remaining} byte{' is' if n_remaining == 1 else 's are'} left"
        if n_remaining
        else "no bytes are left"
    )


def format_trailing_bytes(n_trailing: int) -> str:
    """Text for how many bytes follow the end."""
    return f"{n_trailing} trailing byte{'s' * (n_trailing != 1)}"


def require_remaining_bytes(n_bytes: int, position: int, end: int) -> None:
    """Raise WireError unless `n_bytes` bytes are left."""
    if n_bytes > end - position:
        needed_text = f"{n_bytes} byte{'s' * (n_bytes != 1)} needed"
        raise WireError(f"{needed_text}, {end - position} left", position, "EXHAUSTED")


def read_consecutive_values(
    read_value: Callable[[Buffer, int, int], tuple[Value, int]],
    n_values: int,
    data: Buffer,
    position: int,
    end: int,
) -> tuple[list[Value], int]:
    """Read `n_values` consecutive values; also returns the position after them. Raises
    WireError."""
    values: list[Value] = []
    for value_index in range(n_values):
        try:
            value, position = read_value(data, position, end)
        except WireError as error:
            raise error.prepend_field(str(value_index)) from None
        values.append(value)
    return values, position


@dataclass(frozen=True, slots=True)
class IntegerWireType:
    """A fixed-size integer."""

    name: str
    size: int
    signed: bool = True
    n_columns: int = 1

    @property
    def instruction(self) -> tuple[int, int]:
        return OPS["INT" if self.signed else "UINT"], self.size

    @property
    def dtype(self) -> str:
        """The code of its NumPy dtype."""
        return f">{'i' if self.signed else 'u'}{self.size}"

    def read(self, data: Buffer, position: int, end: int) -> tuple[int, int]:
        require_remaining_bytes(self.size, position, end)
        return int.from_bytes(
            data[position : position + self.size], "big", signed=self.signed
        ), position + self.size

    def encode(self, value: Value) -> bytes:
        assert isinstance(value, int)
        return value.to_bytes(self.size, "big", signed=self.signed)


@dataclass(frozen=True, slots=True)
class VarintWireType:
    """A variable-size integer of 32 or 64 bits, ZigZag-encoded when signed."""

    name: str
    bits: int
    signed: bool = True
    size: None = None
    n_columns: int = 1

    @property
    def instruction(self) -> tuple[int, int]:
        return OPS["ZIGZAG" if self.signed else "UVARINT"], self.bits

    def read(self, data: Buffer, position: int, end: int) -> tuple[int, int]:
        try:
            unsigned, next_position = varint.decode_uvarint(data, position, end, self.bits)
        except varint.VarintError as error:
            raise WireError(str(error), position, error.status) from None
        return varint.zigzag_decode(unsigned) if self.signed else unsigned, next_position

    def encode(self, value: Value) -> bytes:
        assert isinstance(value, int)
        return varint.encode_uvarint(
            varint.zigzag_encode(value, self.bits) if self.signed else value
        )


@dataclass(frozen=True, slots=True)
class CompactLengthWireType:
    """A length stored plus one as an unsigned varint; 0 means -1, which is null."""

    name: str = "compact length"
    size: None = None

    def read(self, data: Buffer, position: int, end: int) -> tuple[int, int]:
        """The length and the position after it; raises WireError."""
        stored_length, next_position = UVarint32.read(data, position, end)
        return stored_length - 1, next_position

    def encode(self, value: int) -> bytes:
        """The inverse of `read`."""
        return UVarint32.encode(value + 1)


LengthType = IntegerWireType | VarintWireType | CompactLengthWireType
MIN_NULLABLE_LENGTH = -(1 << 63)  # no stored length is smaller


def read_length(
    length_type: LengthType, min_length: int, data: Buffer, position: int, end: int
) -> tuple[int, int]:
    """Read a length and check that it is at least `min_length` and that as many bytes are left.

    Returns it and the position after it; a negative length is null. Raises WireError.
    """
    length, content_start = length_type.read(data, position, end)
    if length < min_length:
        raise WireError(
            f"length {length}, but null is not allowed here", position, "LENGTH_NEGATIVE"
        )
    if length > end - content_start:
        raise WireError(
            f"length {length}, but {format_remaining_bytes(end - content_start)}",
            position,
            "LENGTH_TOO_BIG",
        )
    return length, content_start


@dataclass(frozen=True, slots=True)
class BytesWireType:
    """A length and that many bytes; a negative length is null."""

    length_type: LengthType
    nullable: bool = True
    size: None = None
    n_columns: int = 2

    @property
    def name(self) -> str:
        return f"{'nullable ' if self.nullable else ''}bytes, length as {self.length_type.name}"

    @property
    def instruction(self) -> tuple[int, int]:
        if isinstance(self.length_type, VarintWireType):
            return OPS["ZIGZAG_BYTES"], int(self.nullable)
        if isinstance(self.length_type, IntegerWireType):
            return OPS["BYTES"], self.length_type.size
        raise TypeError("the bulk kernel does not support bytes with a compact length")

    def read(self, data: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
        min_length = MIN_NULLABLE_LENGTH if self.nullable else 0
        length, bytes_start = read_length(self.length_type, min_length, data, position, end)
        if length < 0:
            return None, bytes_start
        return bytes(data[bytes_start : bytes_start + length]), bytes_start + length

    def encode(self, value: Value) -> bytes:
        if value is None:
            return self.length_type.encode(-1)
        assert isinstance(value, bytes)
        return self.length_type.encode(len(value)) + value


@dataclass(frozen=True, slots=True)
class ArrayWireType:
    """A ZigZag count and that many rows of a structure."""

    count_type: VarintWireType
    row_layout: Layout
    size: None = None
    n_columns: int = 2

    @property
    def name(self) -> str:
        return f"array of {self.row_layout.name}, count as {self.count_type.name}"

    @property
    def instruction(self) -> tuple[int, int]:
        return OPS["ZIGZAG_REPEAT"], len(self.row_layout.fields)

    def read(self, data: Buffer, position: int, end: int) -> tuple[list[Value], int]:
        n_rows, rows_start = self.count_type.read(data, position, end)
        if n_rows < 0:
            raise WireError(f"negative count {n_rows}", position, "LENGTH_NEGATIVE")
        if n_rows > end - rows_start:
            raise WireError(
                f"count {n_rows}, but {format_remaining_bytes(end - rows_start)}",
                position,
                "COUNT_TOO_BIG",
            )
        return read_consecutive_values(self.row_layout.read_values, n_rows, data, rows_start, end)

    def encode(self, value: Value) -> bytes:
        assert isinstance(value, list)
        encoded_chunks = [self.count_type.encode(len(value))]
        for row in value:
            assert isinstance(row, dict)
            encoded_chunks.append(self.row_layout.encode_row(row))
        return b"".join(encoded_chunks)


KernelType = IntegerWireType | VarintWireType | BytesWireType | ArrayWireType
"""The types that the kernel decodes. `instruction` is its (operation, argument) for a type,
`n_columns` the number of columns it fills."""

Int8 = IntegerWireType("int8", 1)
Int16 = IntegerWireType("int16", 2)
Int32 = IntegerWireType("int32", 4)
Int64 = IntegerWireType("int64", 8)
UInt32 = IntegerWireType("uint32", 4, signed=False)
ZigZag32 = VarintWireType("varint", 32)
ZigZag64 = VarintWireType("varlong", 64)
UVarint32 = VarintWireType("unsigned varint", 32, signed=False)
COMPACT = CompactLengthWireType()
