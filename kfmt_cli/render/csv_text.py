"""Single lines of CSV; `render/row_templates.py` has the templates for the rows of tables.

Characters in names that could disturb a terminal are escaped, as in tables.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from kfmt_cli.core.json_text import json_text
from kfmt_cli.render.style import escape_unprintable


def format_csv_line(values: Iterable[object]) -> str:
    """The values as a CSV line; None becomes an empty field, a list or an object JSON."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(map(_format_csv_value, values))
    return buffer.getvalue()


def _format_csv_value(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"  # as the templates write it
    if value is None or isinstance(value, int | float):
        return value
    return escape_unprintable(value if isinstance(value, str) else json_text(value))
