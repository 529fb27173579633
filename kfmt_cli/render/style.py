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


def format_grouped(value: int) -> str:
    """A number with spaces between its thousands: 12 345."""
    return f"{value:,}".replace(",", " ")


_BYTE_UNITS = ("kB", "MB", "GB", "TB", "PB")


def format_bytes(n_bytes: int) -> str:
    """A number of bytes to about three digits, in powers of 1000."""
    if n_bytes < 1000:
        return f"{n_bytes} B"
    size, power = n_bytes / 1000, 0
    while size >= 999.5 and power + 1 < len(_BYTE_UNITS):
        size, power = size / 1000, power + 1
    return f"{size:.{0 if size >= 100 else 1}f} {_BYTE_UNITS[power]}"


def format_count(n: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 batch, 2 batches."""
    return f"{format_grouped(n)} {noun if n == 1 else plural or noun + 's'}"


def format_range(first: int, last: int) -> str:
    """An inclusive range of integers, such as offsets: 3–7, or 3 if both are equal."""
    return str(first) if first == last else f"{first}–{last}"


def format_first_ranges(ranges: Sequence[tuple[int, int]], max_ranges: int) -> str:
    """The first ranges, and how many more there are."""
    text = ", ".join(starmap(format_range, ranges[:max_ranges]))
    n_more = len(ranges) - max_ranges
    return f"{text} and {format_count(n_more, 'more range')}" if n_more > 0 else text


def format_hidden_columns(n_hidden: int, option: str = "--wide") -> str:
    """Footer for a table with hidden columns, naming the option that shows them."""
    return f"{format_count(n_hidden, 'column')} hidden; use {option} to see all"


THOUSANDS_SPACE = r"(?<=\d) (?=\d{3}(?!\d))"  # the space between thousands
# A word with the spaces before it; the groups of digits of one number are one word.
_WORD = re.compile(rf"( *)((?:[^ ]|{THOUSANDS_SPACE})+)")
_DRAWING = re.compile(r"[\u2500-\u25ff]")
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[\d;]*m")


def fit_lines(text: str, width: int | None, hanging_indent: int | None = None) -> str:
    """Break lines longer than `width` between words and indent their continuations, by
    `hanging_indent` columns if that is not None. A longer word, such as a path, is never broken.
    Lines of a drawing are not broken either, unless `hanging_indent` is set."""
    return "".join(
        _wrap_line(line, width, hanging_indent) for line in text.splitlines(keepends=True)
    )


def _wrap_line(line: str, width: int | None, hanging_indent: int | None) -> str:
    if width is None or len(_ESCAPE_SEQUENCE.sub("", line.rstrip())) <= width:
        return line
    if hanging_indent is None and _DRAWING.search(line):
        return line
    margin = len(line) - len(line.lstrip(" ")) + COLUMN_GAP
    indent = " " * (margin if hanging_indent is None else hanging_indent)
    wrapped_text, column = "", 0
    for gap, word in _WORD.findall(line.rstrip()):
        word_width = len(_ESCAPE_SEQUENCE.sub("", word))
        if column and column + len(gap) + word_width > width:
            wrapped_text += f"\n{indent}{word}"
            column = len(indent) + word_width
        else:
            wrapped_text += gap + word
            column += len(gap) + word_width
    return wrapped_text + line[len(line.rstrip()) :]


def append_details(name: str, details: str, width: int | None) -> str:
    """The details to append to a name: on the same line, or on the next if they do not fit."""
    fits = width is None or not details or len(name) + len(details) <= width
    return details if fits else f"\n{details}"


def shell_quote(word: str) -> str:
    """A word, quoted for a shell. Characters that could disturb a terminal are escaped in $'…', as
    in bash, zsh and POSIX 2024."""
    if word.isprintable():
        return shlex.quote(word)
    data = os.fsencode(word)
    escaped_chars = (
        chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}" for byte in data
    )
    return f"$'{''.join(escaped_chars)}'"


def shell_quote_path(path: str) -> str:
    """A path quoted for a shell, with ./ before a leading dash so that it is not read as an
    option."""
    return shell_quote(f"./{path}" if path.startswith("-") and path != "-" else path)


def escape_terminal(text: str) -> str:
    """Untrusted text with the characters escaped that could disturb a terminal."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
