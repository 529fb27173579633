"""Single lines of CSV; whole tables are written by `render/templates.py`.

What names hold that could disturb a terminal is escaped, as in tables.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from kfmt_cli.render.style import safe


def csv_line(values: Iterable[object]) -> str:
    """The values as a line of CSV; None is nothing."""
    line = io.StringIO()
    shown = (safe(value) if isinstance(value, str) else value for value in values)
    csv.writer(line, lineterminator="\n").writerow(shown)
    return line.getvalue()
