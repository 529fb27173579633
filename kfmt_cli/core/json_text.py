"""Single values as JSON; whole tables are written by `render/templates.py`."""

from __future__ import annotations

import json


def json_text(value: object) -> str:
    """A value as JSON that is safe to print: control characters escaped, other text as it is."""
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if plain.isprintable():
        return plain
    return "".join(
        f"\\u{ord(char):04x}" if char == "\x7f" or "\x80" <= char < "\xa0" else char
        for char in plain
    )
