"""Regular expressions for the bytes of records, in time that grows only with their length.

Python's `re` tries the ways of a repetition one after another: `(a+)+$` takes longer than anyone
waits, and no other thread runs meanwhile. So it gets only expressions without repetitions, and
RE2 gets the others, written so that it finds what `re` would. Without RE2, `re` gets those that
repeat a character or a class, twice at most: they take at worst the cube of the length.

A call of RE2 costs several times one of `re`. Short content therefore goes to `re` where it takes
at worst the square of the length, and content that lacks what an expression begins with need not
be searched at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from kfmt_cli.errors import UsageError

MOST_SIMPLE = 2  # repetitions
SHORT = 40  # bytes
_EXTRA = "pip install 'kfmt-cli[regex]'"
# An escape, a class, or a character that is not itself; everything else is the same for RE2.
_TOKEN = re.compile(
    rb"(?P<high>\\?[\x80-\xff]|\\x[89a-fA-F][0-9a-fA-F])|(?P<escape>\\.)"
    rb"|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<end>\$)|(?P<most>\{(?=,\d*\}))|(?P<repeat>[*+{]|(?<!\()\?)",
    re.DOTALL,
)
_SPACES = rb"\t\n\v\f\r "
_BEGINNING = re.compile(rb"(?:\^|\\A)([\w /:@=,;~\"'<>%&#!-]*)(?![?*+{])")
_FLAGS = re.compile(rb"\(\?[a-zA-Z]*m")


@dataclass(frozen=True, slots=True)
class Expression:
    """A regular expression; `expression` checks it."""

    text: bytes

    def search(self, data: bytes) -> bool:
        """Whether it is found; raises UsageError without the package that it needs."""
        return _compiled(self.text).search(data) is not None

    @property
    def beginning(self) -> bytes:
        """What content begins with wherever it is found; empty if that may vary."""
        found = _BEGINNING.match(self.text) if _starts(self.text) else None
        return b"" if found is None else found[1]

    def searching(self, longest: int) -> Callable[[bytes], object]:
        """What finds it, or None, in content of at most `longest` bytes."""
        search: Callable[[bytes], object] = _compiled(self.text, longest <= SHORT).search
        return search


def expression(text: str) -> Expression:
    """A regular expression for bytes; raises ValueError, and UsageError without the package that
    it needs."""
    found = Expression(os.fsencode(text))
    try:
        _compiled(found.text)
    except (re.error, OverflowError) as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return found


@cache
def _compiled(text: bytes, is_short: bool = False) -> Any:
    """The expression as an object with `search`; raises as `re.compile` does, ValueError if RE2
    cannot do it, and UsageError without RE2. is_short: for content of `SHORT` bytes at most."""
    known = re.compile(text, re.DOTALL)
    if not _repeats(text) or (is_short and _is_simple(text, MOST_SIMPLE - 1 + _starts(text))):
        return known
    try:
        import re2
    except ImportError:
        if _is_simple(text):
            return known
        words = f"a repeated group, or more than {MOST_SIMPLE} repetitions, need google-re2"
        raise UsageError(f"{os.fsdecode(text)!r}: {words}: {_EXTRA}") from None
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = True
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(_as_re2(text), options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        said = os.fsdecode(reason) if isinstance(reason, bytes) else str(reason)
        words = "backreferences, lookaround and the like are not supported with repetitions"
        raise ValueError(f"{said}; {words}") from None


def _repeats(text: bytes) -> list[int]:
    """Where an expression repeats what is before."""
    found = _TOKEN.finditer(text)
    return [token.start() for token in found if token.lastgroup in ("repeat", "most")]


def _starts(text: bytes) -> bool:
    """Whether it is sought at the start only."""
    return text.startswith((b"^", rb"\A")) and not any(words in text for words in (b"|", b"(?"))


def _is_simple(text: bytes, most: int = MOST_SIMPLE) -> bool:
    """Whether it repeats few characters and classes, and no group."""
    repeats = _repeats(text)
    return len(repeats) <= most and not any(text[at - 1 : at] == b")" for at in repeats)


def _as_re2(text: bytes) -> bytes:
    """An expression as RE2 writes it."""
    is_multiline = _FLAGS.search(text) is not None

    def written(found: re.Match[bytes]) -> bytes:
        token, kind = found[0], found.lastgroup
        if kind == "escape":
            return _ESCAPES.get(token, token)
        if kind == "class":
            inner = token[1:-1].replace(rb"\s", _SPACES)
            return b"[" + re.sub(rb"(?<!\\)\[", rb"\\[", inner) + b"]"
        if kind == "end" and not is_multiline:  # also before the last line feed
            return rb"(?:\n?\z)"
        if kind == "most":
            return b"{0"
        # Ignoring case applies to ASCII only.
        return b"(?-i:" + _hexadecimal(token) + b")" if kind == "high" else token

    return _TOKEN.sub(written, text)


_ESCAPES = {
    rb"\s": b"[" + _SPACES + b"]",
    rb"\S": b"[^" + _SPACES + b"]",
    rb"\Z": rb"\z",
}


def _hexadecimal(token: bytes) -> bytes:
    return token if token.startswith(rb"\x") else rb"\x%02x" % token[-1]
