"""Regular expressions for the bytes of records, in time that grows only with their length.

Python's `re` tries the ways of a repetition, and the alternatives of groups, one after another:
`(a+)+$` takes longer than anyone waits, and no other thread runs meanwhile. So it gets only
expressions without repetitions and with few alternatives, and RE2 gets the others, written so that
it finds what `re` would; what cannot be written so is refused. Without RE2, `re` gets those that
repeat a character or a class, twice at most: they take at worst the cube of the length.

A call of RE2 costs several times one of `re`. Short content therefore goes to `re` where it takes
at worst the square of the length, and content that lacks what an expression begins with need not
be searched at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kfmt_cli.errors import UsageError

MOST_SIMPLE = 2  # repetitions
MOST_WAYS = 4  # alternatives in groups; each may double the ways to try
SHORT = 40  # bytes
_EXTRA = "pip install 'kfmt-cli[regex]'"
# Everything that is not plain may mean something else to RE2, or say how it is searched.
_TOKEN = re.compile(
    rb"(?P<high>\\?[\x80-\xff]|\\x[89a-fA-F][0-9a-fA-F])|(?P<escape>\\.)"
    rb"|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<end>\$)|(?P<most>\{(?=,\d*\}))"
    rb"|(?P<flags>\(\?[a-zA-Z]+\))|(?P<open>\((?:\?[a-zA-Z-]*:)?)|(?P<close>\))|(?P<or>\|)"
    rb"|(?P<repeat>[*+{]|(?<!\()\?)|(?P<plain>.)",
    re.DOTALL,
)
_SPACES = rb"\t\n\v\f\r "
_BEGINNING = re.compile(rb"(?:\^|\\A)([\w /:@=,;~\"'<>%&#!-]*)(?![?*+{])")


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
    if _is_simple(text, MOST_SIMPLE - 1 + _starts(text) if is_short else 0):
        return known
    try:
        import re2
    except ImportError:
        if _is_simple(text):
            return known
        words = (
            f"a repeated group, more than {MOST_SIMPLE} repetitions, or more than {MOST_WAYS} "
            f"alternatives in groups need google-re2"
        )
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
        words = f"backreferences, lookaround and the like are {_UNLIKE}"
        raise ValueError(f"{said}; {words}") from None


def _starts(text: bytes) -> bool:
    """Whether it is sought at the start only."""
    return text.startswith((b"^", rb"\A")) and not any(words in text for words in (b"|", b"(?"))


def _is_simple(text: bytes, most: int = MOST_SIMPLE) -> bool:
    """Whether it repeats few characters and classes, and no group, and has few alternatives."""
    kinds = [token.lastgroup for token in _TOKEN.finditer(text)]
    repeats = [i for i, kind in enumerate(kinds) if kind in ("repeat", "most")]
    n_ways = kinds.count("or") if "open" in kinds else 0
    is_few = len(repeats) <= most and n_ways <= MOST_WAYS
    return is_few and not any(kinds[i - 1] == "close" for i in repeats)


def _as_re2(text: bytes) -> bytes:
    """An expression as RE2 writes it; raises ValueError for what RE2 would not find alike."""
    tokens = list(_TOKEN.finditer(text))
    with_m = {token.lastgroup for token in tokens if b"m" in token[0]}
    if "open" in with_m:
        raise ValueError(f"(?m:…) is {_UNLIKE}: begin with (?m)")
    is_multiline = "flags" in with_m
    return b"".join(_written(tokens, i, is_multiline) for i in range(len(tokens)))


def _written(tokens: Sequence[re.Match[bytes]], i: int, is_multiline: bool) -> bytes:
    token, kind = tokens[i][0], tokens[i].lastgroup
    if kind == "escape":
        if token == rb"\B":
            raise ValueError(rf"\B is {_UNLIKE}")
        return _ESCAPES.get(token, token)
    if kind == "class":
        front = b"[^" if token.startswith(b"[^") else b"["
        inner = token[len(front) : -1]
        return front + _IN_CLASS.sub(lambda each: _OF_CLASS.get(each[0], each[0]), inner) + b"]"
    if kind == "end" and not is_multiline:
        if not _is_last(tokens, i):
            raise ValueError(f"text after $ is {_UNLIKE}")
        return rb"(?:\n?\z)"  # also before the last line feed
    if kind == "most":
        return b"{0"
    # Ignoring case applies to ASCII only.
    return b"(?-i:" + _hexadecimal(token) + b")" if kind == "high" else token


def _is_last(tokens: Sequence[re.Match[bytes]], i: int) -> bool:
    """Whether nothing is sought after a token, whatever comes after it in other alternatives."""
    depth, is_other = 0, False
    for token in tokens[i + 1 :]:
        kind = token.lastgroup
        if is_other:
            depth += (kind == "open") - (kind == "close")
            is_other = depth >= 0
        elif kind not in ("or", "close"):
            return False
        else:
            depth, is_other = 0, kind == "or"
    return True


_UNLIKE = "not supported with repetitions or many alternatives"
_ESCAPES = {
    rb"\s": b"[" + _SPACES + b"]",
    rb"\S": b"[^" + _SPACES + b"]",
    rb"\Z": rb"\z",
}
_IN_CLASS = re.compile(rb"\\.|\[", re.DOTALL)
_OF_CLASS = {
    rb"\s": _SPACES,
    rb"\S": rb"\x00-\x08\x0e-\x1f\x21-\xff",
    rb"\b": rb"\x08",
    b"[": rb"\[",
}


def _hexadecimal(token: bytes) -> bytes:
    return token if token.startswith(rb"\x") else rb"\x%02x" % token[-1]
