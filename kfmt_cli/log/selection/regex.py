"""Regular expressions for the bytes of records, in time that grows only with their length.

Python's `re` backtracks through repetitions and the alternatives of groups: `(a+)+$` takes longer
than anyone waits, and no other thread runs meanwhile. So `re` gets only expressions without
repetitions and with few alternatives. RE2 gets the others, rewritten to find what `re` would; an
expression that cannot be rewritten is refused. Without RE2, `re` also gets expressions that repeat
a character or a class at most twice: they take at worst the cube of the length.

A call of RE2 costs several times as much as a call of `re`. Short content therefore goes to `re` if
it takes at worst the square of the length. Content that lacks the literal prefix of an expression
is not searched at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kfmt_cli.errors import UsageError

MAX_REPETITIONS = 2
MAX_ALTERNATIVES = 4  # in groups; each may double the number of attempts
MAX_SHORT_CONTENT_BYTES = 40
_INSTALL_COMMAND = "pip install 'kfmt-cli[regex]'"
# Every token that is not plain may mean something else to RE2, or affect how it is rewritten.
_TOKEN = re.compile(
    rb"(?P<high>\\?[\x80-\xff]|\\x[89a-fA-F][0-9a-fA-F])|(?P<escape>\\.)"
    rb"|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<end>\$)|(?P<most>\{(?=,\d*\}))"
    rb"|(?P<flags>\(\?[a-zA-Z]+\))|(?P<open>\((?:\?[a-zA-Z-]*:)?)|(?P<close>\))|(?P<or>\|)"
    rb"|(?P<repeat>[*+{]|(?<!\()\?)|(?P<plain>.)",
    re.DOTALL,
)
_SPACES = rb"\t\n\v\f\r "
_LITERAL_PREFIX = re.compile(rb"(?:\^|\\A)([\w /:@=,;~\"'<>%&#!-]*)(?![?*+{])")


@dataclass(frozen=True, slots=True)
class BytesRegex:
    """A regular expression; `compile_regex` checks it."""

    pattern: bytes

    def search(self, data: bytes) -> bool:
        """Whether it matches anywhere; raises UsageError without the package that it needs."""
        return _compile(self.pattern).search(data) is not None

    @property
    def literal_prefix(self) -> bytes:
        """The bytes with which all matching content begins; empty if they may vary."""
        match = _LITERAL_PREFIX.match(self.pattern) if _is_anchored(self.pattern) else None
        return b"" if match is None else match[1]

    def search_function(self, max_bytes: int) -> Callable[[bytes], object]:
        """A function that returns a match, or None, in content of at most `max_bytes` bytes."""
        search: Callable[[bytes], object] = _compile(
            self.pattern, max_bytes <= MAX_SHORT_CONTENT_BYTES
        ).search
        return search


def compile_regex(text: str) -> BytesRegex:
    """Compile a regular expression for bytes; raises ValueError, and UsageError without the
    package that it needs."""
    regex = BytesRegex(os.fsencode(text))
    try:
        _compile(regex.pattern)
    except (re.error, OverflowError) as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return regex


@cache
def _compile(pattern: bytes, for_short_content: bool = False) -> Any:
    """The expression as an object with `search`. Raises what `re.compile` raises, ValueError if RE2
    does not support the expression, and UsageError without RE2. for_short_content: for content of
    at most `MAX_SHORT_CONTENT_BYTES` bytes."""
    python_regex = re.compile(pattern, re.DOTALL)
    if _is_cheap(pattern, MAX_REPETITIONS - 1 + _is_anchored(pattern) if for_short_content else 0):
        return python_regex
    try:
        import re2
    except ImportError:
        if _is_cheap(pattern):
            return python_regex
        requirement = (
            f"a repeated group, more than {MAX_REPETITIONS} repetitions, or more than "
            f"{MAX_ALTERNATIVES} alternatives in groups need google-re2"
        )
        raise UsageError(f"{os.fsdecode(pattern)!r}: {requirement}: {_INSTALL_COMMAND}") from None
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = True
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(_to_re2(pattern), options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        message = os.fsdecode(reason) if isinstance(reason, bytes) else str(reason)
        limitation = f"backreferences, lookaround and the like are {_UNSUPPORTED}"
        raise ValueError(f"{message}; {limitation}") from None


def _is_anchored(pattern: bytes) -> bool:
    """Whether it can match only at the start."""
    return pattern.startswith((b"^", rb"\A")) and not any(
        token in pattern for token in (b"|", b"(?")
    )


def _is_cheap(pattern: bytes, max_repetitions: int = MAX_REPETITIONS) -> bool:
    """Whether it repeats few characters and classes, and no group, and has few alternatives."""
    kinds = [token.lastgroup for token in _TOKEN.finditer(pattern)]
    repeat_indexes = [i for i, kind in enumerate(kinds) if kind in ("repeat", "most")]
    n_alternatives = kinds.count("or") if "open" in kinds else 0
    is_within_limits = len(repeat_indexes) <= max_repetitions and n_alternatives <= MAX_ALTERNATIVES
    return is_within_limits and not any(i > 0 and kinds[i - 1] == "close" for i in repeat_indexes)


def _to_re2(pattern: bytes) -> bytes:
    """Rewrite an expression for RE2; raises ValueError if RE2 would not find the same."""
    tokens = list(_TOKEN.finditer(pattern))
    kinds_with_m = {token.lastgroup for token in tokens if b"m" in token[0]}
    if "open" in kinds_with_m:
        raise ValueError(f"(?m:…) is {_UNSUPPORTED}: begin with (?m)")
    is_multiline = "flags" in kinds_with_m
    return b"".join(_token_to_re2(tokens, i, is_multiline) for i in range(len(tokens)))


def _token_to_re2(tokens: Sequence[re.Match[bytes]], token_index: int, is_multiline: bool) -> bytes:
    token, kind = tokens[token_index][0], tokens[token_index].lastgroup
    if kind == "escape":
        if token == rb"\B":
            raise ValueError(rf"\B is {_UNSUPPORTED}")
        return _ESCAPES.get(token, token)
    if kind == "class":
        opening = b"[^" if token.startswith(b"[^") else b"["
        inner = token[len(opening) : -1]
        return (
            opening
            + _CLASS_TOKEN.sub(lambda match: _CLASS_ESCAPES.get(match[0], match[0]), inner)
            + b"]"
        )
    if kind == "end" and not is_multiline:
        if not _ends_every_alternative(tokens, token_index):
            raise ValueError(f"text after $ is {_UNSUPPORTED}")
        return rb"(?:\n?\z)"  # also before the last line feed
    if kind == "most":
        return b"{0"
    # Ignoring case applies to ASCII only.
    return b"(?-i:" + _to_hex_escape(token) + b")" if kind == "high" else token


def _ends_every_alternative(tokens: Sequence[re.Match[bytes]], token_index: int) -> bool:
    """Whether a token is the last of its alternative, also in all enclosing groups."""
    depth, in_other_alternative = 0, False
    for token in tokens[token_index + 1 :]:
        kind = token.lastgroup
        if in_other_alternative:
            depth += (kind == "open") - (kind == "close")
            in_other_alternative = depth >= 0
        elif kind not in ("or", "close"):
            return False
        else:
            depth, in_other_alternative = 0, kind == "or"
    return True


_UNSUPPORTED = "not supported with repetitions or many alternatives"
_ESCAPES = {
    rb"\s": b"[" + _SPACES + b"]",
    rb"\S": b"[^" + _SPACES + b"]",
    rb"\Z": rb"\z",
}
_CLASS_TOKEN = re.compile(rb"\\.|\[", re.DOTALL)
_CLASS_ESCAPES = {
    rb"\s": _SPACES,
    rb"\S": rb"\x00-\x08\x0e-\x1f\x21-\xff",
    rb"\b": rb"\x08",
    b"[": rb"\[",
}


def _to_hex_escape(token: bytes) -> bytes:
    return token if token.startswith(rb"\x") else rb"\x%02x" % token[-1]
