"""Regular expressions for the bytes of records, in time that grows only with their length.

Python's `re` backtracks through repetitions and the alternatives of groups: `(a+)+$` takes longer
than anyone waits, and blocks all other threads. So `re` gets only expressions without repetitions
and with few alternatives. RE2 gets the others, rewritten to find what `re` would; an expression
that cannot be rewritten is refused. Without RE2, `re` also gets expressions that repeat a character
or a class at most twice: they take at worst the cube of the length.

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

MAX_RE_REPETITIONS = 2
MAX_ALTERNATIVES = 4  # in groups; each may double the number of attempts
MAX_SHORT_CONTENT_BYTES = 40
_INSTALL_COMMAND = "pip install 'kfmt-cli[regex]'"
# Every token that is not plain may mean something else to RE2, or affect how it is rewritten.
_TOKEN_REGEX = re.compile(
    rb"(?P<high>\\?[\x80-\xff]|\\x[89a-fA-F][0-9a-fA-F])|(?P<escape>\\.)"
    rb"|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<end>\$)|(?P<most>\{(?=,\d*\}))"
    rb"|(?P<flags>\(\?[a-zA-Z]+\))|(?P<open>\((?:\?[a-zA-Z-]*:)?)|(?P<close>\))|(?P<or>\|)"
    rb"|(?P<repeat>[*+{]|(?<!\()\?)|(?P<plain>.)",
    re.DOTALL,
)
_SPACE_ESCAPES = rb"\t\n\v\f\r "
_LITERAL_PREFIX_REGEX = re.compile(rb"(?:\^|\\A)([\w /:@=,;~\"'<>%&#!-]*)(?![?*+{])")


@dataclass(frozen=True, slots=True)
class BytesRegex:
    """A regular expression; `compile_regex` checks it."""

    pattern: bytes

    def matches_anywhere(self, data: bytes) -> bool:
        """Whether it matches anywhere; raises UsageError without the package that it needs."""
        return _compile_pattern(self.pattern).search(data) is not None

    @property
    def literal_prefix(self) -> bytes:
        """The bytes with which all matching content begins; empty if they may vary."""
        match = (
            _LITERAL_PREFIX_REGEX.match(self.pattern)
            if _is_anchored_at_start(self.pattern)
            else None
        )
        return b"" if match is None else match[1]

    def search_function(self, max_bytes: int) -> Callable[[bytes], object]:
        """A function that returns a match, or None, in content of at most `max_bytes` bytes."""
        search: Callable[[bytes], object] = _compile_pattern(
            self.pattern, max_bytes <= MAX_SHORT_CONTENT_BYTES
        ).search
        return search


def compile_regex(text: str) -> BytesRegex:
    """Compile a regular expression for bytes; raises ValueError, and UsageError without the
    package that it needs."""
    regex = BytesRegex(os.fsencode(text))
    try:
        _compile_pattern(regex.pattern)
    except (re.error, OverflowError) as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return regex


@cache
def _compile_pattern(pattern: bytes, is_for_short_content: bool = False) -> Any:
    """The expression as an object with `search`. Raises what `re.compile` raises, ValueError if RE2
    does not support the expression, and UsageError without RE2. is_for_short_content: for content
    of at most `MAX_SHORT_CONTENT_BYTES` bytes."""
    python_regex = re.compile(pattern, re.DOTALL)
    if _is_cheap_for_re(
        pattern,
        MAX_RE_REPETITIONS - 1 + _is_anchored_at_start(pattern) if is_for_short_content else 0,
    ):
        return python_regex
    try:
        import re2
    except ImportError:
        if _is_cheap_for_re(pattern):
            return python_regex
        requirement_text = (
            f"a repeated group, more than {MAX_RE_REPETITIONS} repetitions, or more than "
            f"{MAX_ALTERNATIVES} alternatives in groups need google-re2"
        )
        raise UsageError(
            f"{os.fsdecode(pattern)!r}: {requirement_text}: {_INSTALL_COMMAND}"
        ) from None
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = True
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(_rewrite_for_re2(pattern), options)
    except re2.error as error:
        re2_reason = error.args[0] if error.args else ""
        message = os.fsdecode(re2_reason) if isinstance(re2_reason, bytes) else str(re2_reason)
        limitation_text = f"backreferences, lookaround and the like are {_UNSUPPORTED_MESSAGE}"
        raise ValueError(f"{message}; {limitation_text}") from None


def _is_anchored_at_start(pattern: bytes) -> bool:
    """Whether it can match only at the start."""
    return pattern.startswith((b"^", rb"\A")) and not any(
        token in pattern for token in (b"|", b"(?")
    )


def _is_cheap_for_re(pattern: bytes, max_repetitions: int = MAX_RE_REPETITIONS) -> bool:
    """Whether it repeats few characters and classes, and no group, and has few alternatives."""
    group_names = [token.lastgroup for token in _TOKEN_REGEX.finditer(pattern)]
    repeat_indexes = [
        i for i, group_name in enumerate(group_names) if group_name in ("repeat", "most")
    ]
    n_alternatives = group_names.count("or") if "open" in group_names else 0
    is_within_limits = len(repeat_indexes) <= max_repetitions and n_alternatives <= MAX_ALTERNATIVES
    return is_within_limits and not any(
        i > 0 and group_names[i - 1] == "close" for i in repeat_indexes
    )


def _rewrite_for_re2(pattern: bytes) -> bytes:
    """Rewrite an expression for RE2; raises ValueError if RE2 would not find the same."""
    tokens = list(_TOKEN_REGEX.finditer(pattern))
    kinds_with_m = {token.lastgroup for token in tokens if b"m" in token[0]}
    if "open" in kinds_with_m:
        raise ValueError(f"(?m:…) is {_UNSUPPORTED_MESSAGE}: begin with (?m)")
    is_multiline = "flags" in kinds_with_m
    return b"".join(_rewrite_token_for_re2(tokens, i, is_multiline) for i in range(len(tokens)))


def _rewrite_token_for_re2(
    tokens: Sequence[re.Match[bytes]], token_index: int, is_multiline: bool
) -> bytes:
    token, group_name = tokens[token_index][0], tokens[token_index].lastgroup
    if group_name == "escape":
        if token == rb"\B":
            raise ValueError(rf"\B is {_UNSUPPORTED_MESSAGE}")
        return _RE2_ESCAPE_BY_TOKEN.get(token, token)
    if group_name == "class":
        class_opening = b"[^" if token.startswith(b"[^") else b"["
        class_content = token[len(class_opening) : -1]
        return (
            class_opening
            + _CLASS_TOKEN_REGEX.sub(
                lambda match: _RE2_CLASS_ESCAPE_BY_TOKEN.get(match[0], match[0]), class_content
            )
            + b"]"
        )
    if group_name == "end" and not is_multiline:
        if not _is_last_in_alternatives(tokens, token_index):
            raise ValueError(f"text after $ is {_UNSUPPORTED_MESSAGE}")
        return rb"(?:\n?\z)"  # also before the last line feed
    if group_name == "most":
        return b"{0"
    # Ignoring case applies to ASCII only.
    return b"(?-i:" + _to_hex_escape(token) + b")" if group_name == "high" else token


def _is_last_in_alternatives(tokens: Sequence[re.Match[bytes]], token_index: int) -> bool:
    """Whether a token is the last of its alternative, also in all enclosing groups."""
    group_depth, in_other_alternative = 0, False
    for token in tokens[token_index + 1 :]:
        group_name = token.lastgroup
        if in_other_alternative:
            group_depth += (group_name == "open") - (group_name == "close")
            in_other_alternative = group_depth >= 0
        elif group_name not in ("or", "close"):
            return False
        else:
            group_depth, in_other_alternative = 0, group_name == "or"
    return True


_UNSUPPORTED_MESSAGE = "not supported with repetitions or many alternatives"
_RE2_ESCAPE_BY_TOKEN = {
    rb"\s": b"[" + _SPACE_ESCAPES + b"]",
    rb"\S": b"[^" + _SPACE_ESCAPES + b"]",
    rb"\Z": rb"\z",
}
_CLASS_TOKEN_REGEX = re.compile(rb"\\.|\[", re.DOTALL)
_RE2_CLASS_ESCAPE_BY_TOKEN = {
    rb"\s": _SPACE_ESCAPES,
    rb"\S": rb"\x00-\x08\x0e-\x1f\x21-\xff",
    rb"\b": rb"\x08",
    b"[": rb"\[",
}


def _to_hex_escape(token: bytes) -> bytes:
    return token if token.startswith(rb"\x") else rb"\x%02x" % token[-1]
