"""One field of a structure: its name, wire type, description, and the meaning of its bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.layout.wire_types import WireType

# Units of numbers.
MS_UNIT = "ms"
BYTE_UNIT = "byte"  # a position in a file
BYTES_UNIT = "bytes"
OFFSET_UNIT = "offset"


@dataclass(frozen=True, slots=True)
class BitField:
    """Some bits of an integer."""

    name: str
    shift: int
    """The number of the lowest bit."""
    width: int = 1
    symbols: tuple[str, ...] | None = None
    """The names of the values 0, 1, …; None for yes or no."""
    doc: str = ""

    @property
    def value_names(self) -> tuple[str, ...]:
        """The name of each possible value."""
        return tuple(self.symbol(value) for value in range(1 << self.width))

    @property
    def mask(self) -> int:
        """The integer with just these bits set."""
        return ((1 << self.width) - 1) << self.shift

    def extract_value(self, integer: int) -> int:
        """The value of these bits."""
        return (integer & self.mask) >> self.shift

    def symbol(self, value: int) -> str:
        """The name of a value; `unknown-N` for a value without one."""
        if self.symbols is None:
            return "yes" if value else "no"
        return format_symbol(self.symbols, value)


def symbols_from_dict(symbol_by_number: Mapping[int, str]) -> tuple[str, ...]:
    """The names of the numbers 0, 1, …; empty for numbers without a name."""
    return tuple(symbol_by_number.get(number, "") for number in range(max(symbol_by_number) + 1))


def format_symbol(symbols: Sequence[str], number: int) -> str:
    """The name of a number; `unknown-N` for one without a name."""
    symbol = 0 <= number < len(symbols) and symbols[number]
    return symbol or f"unknown-{number}"


@dataclass(frozen=True, slots=True)
class EmbeddedMessage:
    """The message in a bytes field, in which its version precedes it as an int16."""

    layout: Any
    """The Layout of the message."""
    condition_field: str = ""
    """A field of the same or an enclosing message that decides whether the bytes are this message;
    empty if they always are."""
    condition_value: str = ""
    """The value that `condition_field` must have."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a structure."""

    name: str
    type: WireType
    doc: str
    unit: str | None = None
    flags: tuple[BitField, ...] = ()
    """The bits of an attributes field."""
    symbols: tuple[str, ...] | None = None
    """The names of the values 0, 1, …"""
    is_frame_size: bool = False
    """Whether its value is the size in bytes of the rest of the row."""
    none_value: int | None = None
    """The value that means none."""
    since: int = 0
    """The first message version with the field."""
    until: int | None = None
    """The last message version with the field; None for no end."""
    nullable_since: int | None = None
    """The first version in which it may be null."""
    tag: int | None = None
    """Its tag; None for a field that is never tagged."""
    tagged_since: int = 0
    """The first version in which it is a tagged field."""
    embedded_message: EmbeddedMessage | None = None
    """The message that its bytes contain."""
    classic: bool = False
    """Whether its length is never compact, even in flexible versions."""

    def is_in_version(self, version: int) -> bool:
        """Whether a version of the message has the field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def find_symbol(self, value: object) -> str | None:
        """The name of a value; None for one without a name."""
        symbols = self.symbols or ()
        has_symbol = isinstance(value, int) and 0 <= value < len(symbols)
        return (symbols[int(value)] or None) if has_symbol else None  # type: ignore[call-overload]
