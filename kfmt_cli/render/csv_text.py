"""Single lines of CSV; `render/templates.py` writes whole tables.

Characters in names that could disturb a terminal are escaped, as in tables.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from kfmt_cli.render.style import safe


def csv_line(values: Iterable[object]) -> str:
    """The values as a CSV line; None becomes an empty field."""
    line = io.StringIO()
    shown = (safe(value) if isinstance(value, str) else value for value in values)
    csv.writer(line, lineterminator="\n").writerow(shown)
    return line.getvalue()
