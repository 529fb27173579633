"""One field of a structure: its name, its wire type, its words, and what its bits mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kfmt_cli.core.layout.wire import WireType

# What a number counts.
MILLISECONDS = "ms"
BYTE = "byte"  # a place in a file
BYTES = "bytes"
OFFSET = "offset"


@dataclass(frozen=True, slots=True)
class Bits:
    """Some bits of an integer."""

    name: str
    at: int
    """The lowest."""
    width: int = 1
    symbols: tuple[str, ...] | None = None
    """Names by value, None for yes or no."""
    doc: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """A word for every value that the bits can have."""
        return tuple(self.symbol(value) for value in range(1 << self.width))

    @property
    def mask(self) -> int:
        """The integer with just these bits set."""
        return ((1 << self.width) - 1) << self.at

    def of(self, raw: int) -> int:
        """The value of these bits."""
        return (raw & self.mask) >> self.at

    def symbol(self, value: int) -> str:
        """The name of a value; `unknown-N` for a value without one."""
        if self.symbols is None:
            return "yes" if value else "no"
        return self.symbols[value] if value < len(self.symbols) else f"unknown-{value}"


@dataclass(frozen=True, slots=True)
class Flags:
    """The bits of an attributes field."""

    bits: tuple[Bits, ...]

    def __getitem__(self, name: str) -> Bits:
        return next(bits for bits in self.bits if bits.name == name)


def numbered(names: Mapping[int, str]) -> tuple[str, ...]:
    """Symbols of numbers that do not follow one another; those between have none."""
    return tuple(names.get(number, "") for number in range(max(names) + 1))


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """The message that a field of bytes holds, after its version as an int16."""

    message: Any
    """The Layout of the message."""
    where: str = ""
    """A field next to it, or around it, on whose value it depends."""
    value: str = ""
    """The value that this field must have."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field."""

    name: str
    type: WireType
    doc: str
    unit: str | None = None
    flags: Flags | None = None
    symbols: tuple[str, ...] | None = None
    frames: bool = False
    """Whether its value is the number of bytes that the rest of the row fills."""
    none: int | None = None
    """The value that means that there is none. Of a message that has versions: since, until: those
    that have the field, both included."""
    since: int = 0
    until: int | None = None
    nullable_since: int | None = None
    """The version from which on it may be null."""
    tag: int | None = None
    """Its number among the tagged fields, from version `tagged_since` on."""
    tagged_since: int = 0
    holds: HeldMessage | None = None
    """The message that its bytes are."""
    classic: bool = False
    """It has no compact length in any version."""

    def is_in(self, version: int) -> bool:
        """Whether a version of the message has the field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def symbol(self, value: object) -> str | None:
        """The name of a value, None where it has none."""
        names = self.symbols or ()
        known = isinstance(value, int) and 0 <= value < len(names)
        return (names[int(value)] or None) if known else None  # type: ignore[call-overload]
