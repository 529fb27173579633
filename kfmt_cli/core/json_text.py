"""Single values as JSON; whole tables are written by `render/templates.py`."""

from __future__ import annotations

import json
import re
from typing import Any

# What a terminal acts on, or shows in another order than it is written; and halves of surrogate
# pairs, which are no text.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def json_text(value: object) -> str:
    """A value as JSON that is safe to print: control characters are escaped, other text is as it
    is. Numbers that JSON has not are text: "NaN", "Infinity", "-Infinity"."""
    try:
        plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        plain = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    if plain.isprintable():
        return plain
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", plain)


def _finite(value: Any) -> Any:
    """A value with the numbers that JSON has not as text."""
    if isinstance(value, dict):
        return {key: _finite(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(element) for element in value]
    if isinstance(value, float) and value - value != 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124
    return value
