"""Single values as JSON; `render/row_templates.py` writes whole tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

# Characters that control a terminal or reorder text, and lone surrogates, which are not text.
_UNSAFE_CHARACTERS = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def parse_json(
    text: str | bytes, object_hook: Callable[[dict[str, Any]], Any] | None = None
) -> Any:
    """The value of a JSON text from a file; raises ValueError, also if it is too deep for Python's
    parser. object_hook: creates the value of each object."""
    try:
        return json.loads(text, object_hook=object_hook)
    except RecursionError:
        raise ValueError("too many levels of arrays and objects") from None


def json_text(value: object) -> str:
    """A value as JSON that is safe to print.

    Only the characters that JSON requires and those of `_UNSAFE_CHARACTERS` are escaped. Numbers
    that JSON lacks become text: "NaN", "Infinity", "-Infinity".
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(
            _replace_non_finite_numbers(value), ensure_ascii=False, separators=(",", ":")
        )
    if text.isprintable():
        return text
    return _UNSAFE_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _replace_non_finite_numbers(value: Any) -> Any:
    """A value with text in place of the numbers that JSON lacks."""
    if isinstance(value, dict):
        return {key: _replace_non_finite_numbers(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_non_finite_numbers(element) for element in value]
    if isinstance(value, float) and value - value != 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124
    return value
