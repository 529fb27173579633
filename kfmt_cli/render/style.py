"""Colours and their meanings; independent of whether there is a terminal."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass

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

    def code(self, style: str) -> str:
        """The escape sequence of a style; empty for none."""
        return getattr(self, style) if style else ""

    def paint(self, style: str, words: str) -> str:
        """The words in one of the styles, or in none."""
        code = self.code(style)
        return f"{code}{words}{self.reset}" if code else words


PLAIN = Theme()
COLOUR = Theme(
    offset="\x1b[36m",
    dim="\x1b[2m",
    flag="\x1b[35m",
    good="\x1b[32m",
    bad="\x1b[1;31m",
    warn="\x1b[33m",
    bold="\x1b[1m",
    reset=RESET,
)


GAP = 2  # columns between two of a table


def grouped(number: int) -> str:
    """A number with its thousands separated."""
    return f"{number:,}".replace(",", " ")


_POWERS = ("kB", "MB", "GB", "TB", "PB")


def human(number: int) -> str:
    """A number of bytes to about three digits, in powers of 1000."""
    if number < 1000:
        return f"{number} B"
    size, power = number / 1000, 0
    while size >= 999.5 and power + 1 < len(_POWERS):
        size, power = size / 1000, power + 1
    return f"{size:.{0 if size >= 100 else 1}f} {_POWERS[power]}"


def count(number: int, noun: str, nouns: str = "") -> str:
    """A number with its noun: 1 batch, 2 batches."""
    return f"{grouped(number)} {noun if number == 1 else nouns or noun + 's'}"


def range_words(first: int, last: int) -> str:
    """A range of whole numbers, such as offsets: 3–7, or 3 alone."""
    return str(first) if first == last else f"{first}–{last}"


def hidden_words(number: int, option: str = "--wide") -> str:
    """Footer for a table with hidden columns, naming the option that shows them."""
    return f"{count(number, 'column')} hidden; use {option} to see all"


# A word with the spaces before it; a number's groups of digits are one word.
IN_NUMBER = r"(?<=\d) (?=\d{3}(?!\d))"  # the space between thousands
_WORD = re.compile(rf"( *)((?:[^ ]|{IN_NUMBER})+)")
_DRAWN = re.compile(r"[\u2500-\u25ff]")
_ESCAPE = re.compile(r"\x1b\[[\d;]*m")


def fitted(text: str, width: int | None, hanging: int | None = None) -> str:
    """Text whose longer lines are broken between words; later parts are indented, to `hanging` if
    given. A word that is longer, as a path may be, stays whole; so do lines of a drawing, unless
    `hanging` says that they are words."""
    return "".join(_fitted(line, width, hanging) for line in text.splitlines(keepends=True))


def _fitted(line: str, width: int | None, hanging: int | None) -> str:
    if width is None or len(_ESCAPE.sub("", line.rstrip())) <= width:
        return line
    if hanging is None and _DRAWN.search(line):
        return line
    margin = len(line) - len(line.lstrip(" ")) + GAP
    indent = " " * (margin if hanging is None else hanging)
    done, used = "", 0
    for gap, word in _WORD.findall(line.rstrip()):
        size = len(_ESCAPE.sub("", word))
        if used and used + len(gap) + size > width:
            done += f"\n{indent}{word}"
            used = len(indent) + size
        else:
            done += gap + word
            used += len(gap) + size
    return done + line[len(line.rstrip()) :]


def after(name: str, details: str, width: int | None) -> str:
    """Details after a name: on the same line, or on the next if they do not fit."""
    fits = width is None or not details or len(name) + len(details) <= width
    return details if fits else f"\n{details}"


def shell_quoted(words: str) -> str:
    """A word quoted for a shell. Characters that could disturb a terminal are escaped in $'…', as
    in bash, zsh and POSIX 2024."""
    if words.isprintable():
        return shlex.quote(words)
    data = os.fsencode(words)
    inside = (
        chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}" for byte in data
    )
    return f"$'{''.join(inside)}'"


def shell_path(path: str) -> str:
    """A path quoted for a shell, which no command takes for an option."""
    return shell_quoted(f"./{path}" if path.startswith("-") and path != "-" else path)


def safe(words: str) -> str:
    """Words from outside, with characters that could disturb a terminal escaped."""
    if words.isprintable():
        return words
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in words
    )
