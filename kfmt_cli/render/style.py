"""Colours and their meanings; independent of whether there is a terminal."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap

RESET = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Theme:
    """Escape sequences by meaning, all empty without colour."""

    offset: str = ""
    dim: str = ""
    flag: str = ""
    good: str = ""
    bad: str = ""
    warn: str = ""
    bold: str = ""
    reset: str = ""

    def escape_sequence(self, style: str) -> str:
        """The escape sequence of a style; empty for none."""
        return getattr(self, style) if style else ""

    def paint(self, style: str, text: str) -> str:
        """Text in a style; unchanged if the style is empty."""
        sequence = self.escape_sequence(style)
        return f"{sequence}{text}{self.reset}" if sequence else text


NO_COLOUR = Theme()
COLOUR_THEME = Theme(
    offset="\x1b[36m",
    dim="\x1b[2m",
    flag="\x1b[35m",
    good="\x1b[32m",
    bad="\x1b[1;31m",
    warn="\x1b[33m",
    bold="\x1b[1m",
    reset=RESET,
)


COLUMN_GAP = 2  # spaces between two columns of a table


def format_thousands(number: int) -> str:
    """A number with spaces between its thousands: 12 345."""
    return f"{number:,}".replace(",", " ")


_BYTE_UNITS = ("kB", "MB", "GB", "TB", "PB")


def format_bytes(n_bytes: int) -> str:
    """A number of bytes to about three digits, in powers of 1000."""
    if n_bytes < 1000:
        return f"{n_bytes} B"
    scaled_size, unit_index = n_bytes / 1000, 0
    while scaled_size >= 999.5 and unit_index + 1 < len(_BYTE_UNITS):
        scaled_size, unit_index = scaled_size / 1000, unit_index + 1
    return f"{scaled_size:.{0 if scaled_size >= 100 else 1}f} {_BYTE_UNITS[unit_index]}"


def format_count(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 batch, 2 batches."""
    return f"{format_thousands(count)} {noun if count == 1 else plural or noun + 's'}"


def format_range(first: int, last: int) -> str:
    """An inclusive range of integers, such as offsets: 3–7, or 3 if both are equal."""
    return str(first) if first == last else f"{first}–{last}"


def format_first_ranges(ranges: Sequence[tuple[int, int]], max_ranges: int) -> str:
    """The first ranges, and how many more there are."""
    ranges_text = ", ".join(starmap(format_range, ranges[:max_ranges]))
    n_more = len(ranges) - max_ranges
    return f"{ranges_text} and {format_count(n_more, 'more range')}" if n_more > 0 else ranges_text


def format_hidden_columns(n_hidden: int, option: str = "--wide") -> str:
    """Footer for a table with hidden columns, naming the option that shows them."""
    return f"{format_count(n_hidden, 'column')} hidden; use {option} to see all"


THOUSANDS_SPACE_PATTERN = r"(?<=\d) (?=\d{3}(?!\d))"  # the space between thousands
# A word with the spaces before it; the groups of digits of one number are one word.
_WORD_REGEX = re.compile(rf"( *)((?:[^ ]|{THOUSANDS_SPACE_PATTERN})+)")
_DRAWING_REGEX = re.compile(r"[\u2500-\u25ff]")
_ESCAPE_SEQUENCE_REGEX = re.compile(r"\x1b\[[\d;]*m")


def wrap_long_lines(text: str, width: int | None, hanging_indent: int | None = None) -> str:
    """Break lines longer than `width` between words and indent their continuations, by
    `hanging_indent` columns if that is not None. A longer word, such as a path, is never broken.
    Lines of a drawing are not broken either, unless `hanging_indent` is set."""
    return "".join(
        _wrap_line(line, width, hanging_indent) for line in text.splitlines(keepends=True)
    )


def _wrap_line(line: str, width: int | None, hanging_indent: int | None) -> str:
    if width is None or len(_ESCAPE_SEQUENCE_REGEX.sub("", line.rstrip())) <= width:
        return line
    if hanging_indent is None and _DRAWING_REGEX.search(line):
        return line
    indent_columns = len(line) - len(line.lstrip(" ")) + COLUMN_GAP
    indent = " " * (indent_columns if hanging_indent is None else hanging_indent)
    wrapped_text, column = "", 0
    for leading_spaces, word in _WORD_REGEX.findall(line.rstrip()):
        word_width = len(_ESCAPE_SEQUENCE_REGEX.sub("", word))
        if column and column + len(leading_spaces) + word_width > width:
            wrapped_text += f"\n{indent}{word}"
            column = len(indent) + word_width
        else:
            wrapped_text += leading_spaces + word
            column += len(leading_spaces) + word_width
    return wrapped_text + line[len(line.rstrip()) :]


def details_after_name(name: str, details: str, width: int | None) -> str:
    """The details to append to a name: on the same line, or on the next if they do not fit."""
    fits_on_line = width is None or not details or len(name) + len(details) <= width
    return details if fits_on_line else f"\n{details}"


def quote_for_shell(word: str) -> str:
    """A word, quoted for a shell. Characters that could disturb a terminal are escaped in $'…', as
    in bash, zsh and POSIX 2024."""
    if word.isprintable():
        return shlex.quote(word)
    word_bytes = os.fsencode(word)
    escaped_chars = (
        chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}"
        for byte in word_bytes
    )
    return f"$'{''.join(escaped_chars)}'"


def quote_path_for_shell(path: str) -> str:
    """A path quoted for a shell, with ./ before a leading dash so that it is not read as an
    option."""
    return quote_for_shell(f"./{path}" if path.startswith("-") and path != "-" else path)


def escape_unprintable(text: str) -> str:
    """Untrusted text with the characters escaped that could disturb a terminal."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
