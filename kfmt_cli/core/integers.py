"""Integers as text: what users type, and what Java's parsers accept in the files of a broker.

Python's `int()` takes more (`1_000`, spaces), refuses more than 4,300 digits with an error of its
own, and `str.isdigit()` is true for `²`, which `int()` rejects.
"""

from __future__ import annotations

import re

_TYPED_INTEGER = re.compile(r"-?[0-9]{1,20}")
_JAVA_INTEGER = re.compile("([+-]?)0*([^\\D\U00010000-\U0010ffff]{1,19})")
_JAVA_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))


def parse_int(text: str) -> int | None:
    """A decimal integer of at most 20 ASCII digits; None for any other text."""
    return int(text) if _TYPED_INTEGER.fullmatch(text) else None


def parse_java_int(text: str, n_bits: int = 32) -> int | None:
    """The number that Java's parseInt (32 bits) or parseLong (64) reads from a text; None if they
    reject it. They accept a plus sign, leading zeros and the decimal digits of any script, except
    digits that are two characters in Java."""
    match = _JAVA_INTEGER.fullmatch(text)
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if -(1 << (n_bits - 1)) <= number < 1 << (n_bits - 1) else None


def java_trim(text: str) -> str:
    """A text as Java's `String.trim` leaves it: without control characters and spaces at its ends,
    but with other white space."""
    return text.strip(_JAVA_TRIMMED)
